#include "http/connection.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "http/anthropic.h"
#include "http/json.h"
#include "http/random_id.h"

enum { MAX_UNREAD_INPUT = 64 * 1024, MAX_UNSENT_OUTPUT = 64 * 1024, LINGER_SECONDS = 2 };

enum connection_state {
  HANDSHAKING, /* TLS */
  READING_HEAD,
  READING_BODY,
  HANDLING,
  FLUSHING, /* the last response is on its way out */
  LINGERING /* it is out: input is discarded so that a reset does not overtake the response */
};

struct connection {
  struct connections *connections;
  struct connection *previous, *next;
  struct bufferevent *stream;
  struct event *timer;
  enum connection_state state;
  bool request_started; /* the deadline of the request runs */
  bool advancing;       /* inside advance(): freeing waits for its end */
  bool doomed;
  size_t searched; /* bytes of the head that hold no end */
  struct http_head head;
  struct buffer body;
  struct chunk_decoder chunks;
  size_t body_counted; /* bytes of this body in connections->bodies */
  bool chunked_output, keep_alive;
  bool anthropic; /* errors have that API's shape */
  void (*on_left)(void *owner);
  void *owner;
};

struct connections {
  struct event_base *base;
  struct connections_options options;
  struct connection *first;
  size_t count, bodies;
  bool draining;
};

struct connections *connections_create(struct event_base *base, const struct connections_options *options) {
  struct connections *connections = calloc(1, sizeof *connections);
  if (!connections) return NULL;
  connections->base = base;
  connections->options = *options;
  return connections;
}

size_t connections_count(const struct connections *connections) { return connections->count; }

static struct timeval to_timeval(double seconds) {
  double whole = floor(seconds);
  return (struct timeval){.tv_sec = (time_t)whole, .tv_usec = (suseconds_t)((seconds - whole) * 1e6)};
}

static void arm(struct connection *connection, double seconds) {
  struct timeval time = to_timeval(seconds);
  evtimer_add(connection->timer, &time);
}

static void unlink_connection(struct connection *connection) {
  struct connections *connections = connection->connections;
  if (connection->previous)
    connection->previous->next = connection->next;
  else
    connections->first = connection->next;
  if (connection->next) connection->next->previous = connection->previous;
  connections->count--;
}

static void free_connection(struct connection *connection) {
  if (connection->advancing) {
    connection->doomed = true;
    return;
  }
  struct connections *connections = connection->connections;
  if (connection->on_left) connection->on_left(connection->owner);
  unlink_connection(connection);
  connection_release_body(connection);
  bufferevent_free(connection->stream);
  event_free(connection->timer);
  http_head_free(&connection->head);
  buffer_free(&connection->body);
  free(connection);
  if (connections->options.on_closed) connections->options.on_closed(connections->options.context);
}

void connection_set_owner(struct connection *connection, void (*on_left)(void *owner), void *owner) {
  connection->on_left = on_left;
  connection->owner = owner;
}

void connection_release_body(struct connection *connection) {
  connection->connections->bodies -= connection->body_counted;
  connection->body_counted = 0;
}

void connection_abort(struct connection *connection) {
  connection->on_left = NULL;
  free_connection(connection);
}

static struct evbuffer *output_of(const struct connection *connection) {
  return bufferevent_get_output(connection->stream);
}

static void refuse(struct connection *connection, const struct api_error *error) {
  connection->keep_alive = false;
  connection->state = HANDLING;
  connection_respond_error(connection, error, NULL);
}

static void handle(struct connection *connection) {
  connection->state = HANDLING;
  connection->request_started = false;
  evtimer_del(connection->timer);
  connection->connections->options.on_request(connection->connections->options.context, connection, &connection->head,
                                              &connection->body);
}

/* Adds to the body, within the limits. False after a refusal. */
static bool add_body(struct connection *connection, const char *bytes, size_t length) {
  struct connections *connections = connection->connections;
  struct api_error error;
  if (length > connections->options.max_body - connection->body.length) {
    api_fail(&error, 413, "body_too_large", NULL, "the body is larger than %zu bytes", connections->options.max_body);
  } else if (length > connections->options.max_bodies - connections->bodies) {
    api_fail(&error, 503, "overloaded", NULL, "too many large requests at once");
  } else {
    connections->bodies += length;
    connection->body_counted += length;
    buffer_append(&connection->body, bytes, length);
    if (!buffer_failed(&connection->body)) return true;
    api_fail_memory(&error);
  }
  refuse(connection, &error);
  return false;
}

static void begin_body(struct connection *connection) {
  const struct http_head *head = &connection->head;
  if (head->has_length && head->length > connection->connections->options.max_body) {
    struct api_error error;
    api_fail(&error, 413, "body_too_large", NULL, "the body is larger than %zu bytes",
             connection->connections->options.max_body);
    refuse(connection, &error);
    return;
  }
  connection->chunks = (struct chunk_decoder){0};
  if (!head->chunked && head->length == 0) {
    handle(connection);
    return;
  }
  connection->state = READING_BODY;
  if (head->expect_continue) evbuffer_add_printf(output_of(connection), "HTTP/1.1 100 Continue\r\n\r\n");
}

/* Which API the request is of shows in its first line; refusals of its head need it, too. */
static void note_api(struct connection *connection) {
  char line[64];
  ev_ssize_t length = evbuffer_copyout(bufferevent_get_input(connection->stream), line, sizeof line);
  connection->anthropic = length > 0 && anthropic_asked(line, (size_t)length);
}

/* True if there was enough input to make a step. */
static bool read_head(struct connection *connection) {
  struct evbuffer *input = bufferevent_get_input(connection->stream);
  struct api_error error;
  char start[2];
  /* Who pipelines requests without reading the responses waits: they must not pile up here. */
  if (evbuffer_get_length(output_of(connection)) > MAX_UNSENT_OUTPUT) return false;
  /* RFC 9112, 2.2: empty lines before a request line are skipped. */
  while (connection->searched == 0 && evbuffer_copyout(input, start, 2) == 2 && memcmp(start, "\r\n", 2) == 0)
    evbuffer_drain(input, 2);
  size_t available = evbuffer_get_length(input);
  if (available == 0) return false;
  if (!connection->request_started) {
    connection->request_started = true;
    /* A refusal of this request must not take after the one before. */
    http_head_free(&connection->head);
    connection->head = (struct http_head){0};
    arm(connection, connection->connections->options.request_deadline);
  }
  note_api(connection);
  struct evbuffer_ptr from;
  size_t begin = connection->searched > 3 ? connection->searched - 3 : 0;
  evbuffer_ptr_set(input, &from, begin, EVBUFFER_PTR_SET);
  struct evbuffer_ptr end = evbuffer_search(input, "\r\n\r\n", 4, &from);
  size_t max_head = connection->connections->options.max_head;
  if (end.pos < 0 ? available > max_head : (size_t)end.pos + 4 > max_head) {
    api_fail(&error, 431, "headers_too_large", NULL, "the request line and headers are larger than %zu bytes",
             max_head);
    refuse(connection, &error);
    return true;
  }
  /* A lone CR may be the beginning of an empty line. */
  connection->searched = available > 1 ? available : 0;
  if (end.pos < 0) return false;
  size_t length = (size_t)end.pos + 4;
  const char *bytes = (const char *)evbuffer_pullup(input, (ev_ssize_t)length);
  connection->searched = 0;
  buffer_clear(&connection->body);
  const struct connections_options *options = &connection->connections->options;
  int failed =
      bytes ? http_head_parse(&connection->head, bytes, length, options->max_headers, &error) : api_fail_memory(&error);
  evbuffer_drain(input, length);
  connection->anthropic |= connection->head.anthropic;
  if (!failed) failed = options->on_head(options->context, &connection->head, &error);
  if (failed) {
    refuse(connection, &error);
    return true;
  }
  connection->keep_alive = connection->head.keep_alive;
  begin_body(connection);
  return true;
}

static bool read_body(struct connection *connection) {
  struct evbuffer *input = bufferevent_get_input(connection->stream);
  size_t available = evbuffer_get_contiguous_space(input);
  if (available == 0) return false;
  const char *bytes = (const char *)evbuffer_pullup(input, (ev_ssize_t)available), *data = bytes;
  size_t used = available, length = available;
  bool complete = false;
  if (connection->head.chunked) {
    struct api_error error;
    if (chunk_decode(&connection->chunks, bytes, available, &used, &data, &length, &error)) {
      refuse(connection, &error);
      return true;
    }
    complete = connection->chunks.state == CHUNK_DONE;
  } else {
    uint64_t missing = connection->head.length - connection->body.length;
    if (used > missing) used = length = (size_t)missing;
    complete = length == missing;
  }
  if (!add_body(connection, data, length)) return true;
  evbuffer_drain(input, used);
  if (complete) handle(connection);
  return true;
}

static void advance(struct connection *connection) {
  if (connection->advancing) return;
  connection->advancing = true;
  bool progress = true;
  while (progress && !connection->doomed) {
    switch (connection->state) {
      case READING_HEAD:
        progress = read_head(connection);
        break;
      case READING_BODY:
        progress = read_body(connection);
        break;
      case LINGERING:
        evbuffer_drain(bufferevent_get_input(connection->stream),
                       evbuffer_get_length(bufferevent_get_input(connection->stream)));
        progress = false;
        break;
      default:
        progress = false;
    }
  }
  connection->advancing = false;
  if (connection->doomed) free_connection(connection);
}

static void on_readable(struct bufferevent *stream, void *context) {
  (void)stream;
  advance(context);
}

static void on_flushed(struct bufferevent *stream, void *context) {
  struct connection *connection = context;
  /* TLS tells it later than it was: more may have come since. */
  if (evbuffer_get_length(output_of(connection)) > 0) return;
  if (connection->state == READING_HEAD) {
    advance(connection); /* a pipelined request may have waited for this */
    return;
  }
  if (connection->state != FLUSHING) return;
  if (!(bufferevent_get_enabled(stream) & EV_READ)) {
    free_connection(connection);
    return;
  }
  connection->state = LINGERING;
  tls_close_notify(stream);
  shutdown(bufferevent_getfd(stream), SHUT_WR);
  arm(connection, LINGER_SECONDS);
  advance(connection);
}

/* Closes now, or after what is complete but not yet sent. */
static void close_flushed(struct connection *connection) {
  bool complete = connection->state == READING_HEAD || connection->state == FLUSHING;
  if (!complete || evbuffer_get_length(output_of(connection)) == 0) {
    free_connection(connection);
    return;
  }
  connection->state = FLUSHING;
  connection->keep_alive = false;
  evtimer_del(connection->timer);
  bufferevent_disable(connection->stream, EV_READ);
}

static void on_event(struct bufferevent *stream, short what, void *context) {
  (void)stream;
  struct connection *connection = context;
  if (what & BEV_EVENT_CONNECTED) {
    connection->state = READING_HEAD;
    arm(connection, connection->connections->options.idle_timeout);
    advance(connection);
  } else if (what & (BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT))
    free_connection(connection);
  else if (what & BEV_EVENT_EOF)
    close_flushed(connection);
}

static void on_timer(evutil_socket_t descriptor, short what, void *context) {
  (void)descriptor, (void)what;
  struct connection *connection = context;
  if (!connection->request_started || connection->state > READING_BODY) {
    close_flushed(connection);
    return;
  }
  struct api_error error;
  api_fail(&error, 408, "request_timeout", NULL, "the request was not complete after %g seconds",
           connection->connections->options.request_deadline);
  refuse(connection, &error);
}

static void set_socket_options(int descriptor) {
  int on = 1;
  unsigned patience = 60000; /* milliseconds until a peer that no longer acknowledges counts as gone */
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
}

void connections_accept(struct connections *connections, int descriptor, const struct tls *tls) {
  struct connection *connection = calloc(1, sizeof *connection);
  struct bufferevent *stream = tls ? tls_accept(tls, connections->base, descriptor)
                                   : bufferevent_socket_new(connections->base, descriptor, BEV_OPT_CLOSE_ON_FREE);
  struct event *timer = connection ? evtimer_new(connections->base, on_timer, connection) : NULL;
  if (!connection || !stream || !timer) {
    if (timer) event_free(timer);
    if (stream)
      bufferevent_free(stream);
    else
      close(descriptor);
    free(connection);
    return;
  }
  set_socket_options(descriptor);
  connection->connections = connections;
  connection->stream = stream;
  connection->timer = timer;
  connection->next = connections->first;
  if (connections->first) connections->first->previous = connection;
  connections->first = connection;
  connections->count++;
  bufferevent_setcb(stream, on_readable, on_flushed, on_event, connection);
  bufferevent_setwatermark(stream, EV_READ, 0, MAX_UNREAD_INPUT);
  struct timeval patience = to_timeval(connections->options.write_timeout);
  bufferevent_set_timeouts(stream, NULL, &patience);
  connection->state = tls ? HANDSHAKING : READING_HEAD;
  arm(connection, tls ? connections->options.handshake_deadline : connections->options.idle_timeout);
  bufferevent_enable(stream, EV_READ | EV_WRITE);
}

void connections_drain(struct connections *connections) {
  connections->draining = true;
  for (struct connection *connection = connections->first, *next = NULL; connection; connection = next) {
    next = connection->next;
    connection->keep_alive = false;
    if (connection->state <= READING_BODY) close_flushed(connection);
  }
}

void connections_destroy(struct connections *connections) {
  if (!connections) return;
  while (connections->first) free_connection(connections->first);
  free(connections);
}

static void write_head(struct connection *connection, int status, const char *type, const char *headers) {
  char date[64];
  time_t now = time(NULL);
  struct tm utc;
  gmtime_r(&now, &utc);
  strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  if (connection->connections->draining) connection->keep_alive = false;
  struct evbuffer *output = output_of(connection);
  struct buffer origins = {0};
  cors_write(connection->connections->options.cors, connection->head.origin, &origins);
  evbuffer_add_printf(output, "HTTP/1.1 %d %s\r\nDate: %s\r\n%s%s", status, http_reason(status), date,
                      buffer_text(&origins), headers ? headers : "");
  buffer_free(&origins);
  if (type) evbuffer_add_printf(output, "Content-Type: %s\r\nX-Content-Type-Options: nosniff\r\n", type);
  if (!connection->keep_alive)
    evbuffer_add_printf(output, "Connection: close\r\n");
  else if (connection->head.version == 10)
    evbuffer_add_printf(output, "Connection: keep-alive\r\n");
  if (connection->connections->options.on_response)
    connection->connections->options.on_response(connection->connections->options.context, status);
}

static void finish_response(struct connection *connection) {
  connection->on_left = NULL;
  connection->request_started = false;
  connection_release_body(connection);
  buffer_free(&connection->body);
  if (!connection->keep_alive) {
    connection->state = FLUSHING;
    evtimer_del(connection->timer);
    return;
  }
  connection->state = READING_HEAD;
  arm(connection, connection->connections->options.idle_timeout);
  advance(connection);
}

void connection_respond(struct connection *connection, int status, const char *type, const char *headers,
                        const void *body, size_t length) {
  write_head(connection, status, type, headers);
  struct evbuffer *output = output_of(connection);
  bool has_body = status != 204 && status != 304;
  if (has_body) evbuffer_add_printf(output, "Content-Length: %zu\r\n", length);
  evbuffer_add(output, "\r\n", 2);
  if (has_body && connection->head.method != HTTP_HEAD) evbuffer_add(output, body, length);
  finish_response(connection);
}

void connection_respond_error(struct connection *connection, const struct api_error *error, const char *headers) {
  struct buffer body = {0}, lines = {0};
  if (headers) buffer_append_text(&lines, headers);
  if (error->retry_after) buffer_append_format(&lines, "Retry-After: %d\r\n", error->retry_after);
  if (error->status == 401) buffer_append_text(&lines, "WWW-Authenticate: Bearer realm=\"kaiju\"\r\n");
  char id[40] = "";
  if (connection->anthropic && random_id(id, sizeof id, "req_") == 0)
    buffer_append_format(&lines, "Request-Id: %s\r\n", id);
  json_t *json = connection->anthropic ? anthropic_error_json(error, id[0] ? id : NULL) : api_error_json(error);
  if (!json_append(&body, json)) buffer_clear(&body);
  connection_respond(connection, error->status, "application/json", buffer_text(&lines), buffer_text(&body),
                     body.length);
  buffer_free(&body);
  buffer_free(&lines);
}

void connection_begin_stream(struct connection *connection, const char *type) {
  connection->chunked_output = connection->head.version == 11;
  if (!connection->chunked_output) connection->keep_alive = false;
  write_head(connection, 200, type, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
  evbuffer_add_printf(output_of(connection),
                      connection->chunked_output ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
}

bool connection_write(struct connection *connection, const void *bytes, size_t length) {
  struct evbuffer *output = output_of(connection);
  if (length == 0) return true;
  /* What comes at once may be more than that, however fast the reader is. */
  if (evbuffer_get_length(output) > connection->connections->options.max_output) return false;
  if (connection->chunked_output) evbuffer_add_printf(output, "%zx\r\n", length);
  evbuffer_add(output, bytes, length);
  if (connection->chunked_output) evbuffer_add(output, "\r\n", 2);
  return true;
}

void connection_end_stream(struct connection *connection, bool close) {
  if (connection->chunked_output) evbuffer_add_printf(output_of(connection), "0\r\n\r\n");
  if (close) connection->keep_alive = false;
  finish_response(connection);
}

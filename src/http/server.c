#include "http/server.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "http/access.h"
#include "http/listener.h"
#include "http/router.h"
#include "http/text_calls.h"
#include "text/thought.h"

enum { STOP_SECONDS = 3, LISTENERS = 2 };

struct http_server {
  struct http_limits limits;
  struct model_names *names;
  struct response_store *responses;
  char *fingerprint;
  pthread_t thread;
  int wakeup; /* eventfd */
  atomic_bool stop_asked;

  /* The loop's thread only. */
  struct event_base *base;
  struct evconnlistener *listeners[LISTENERS]; /* the port, the unix socket; NULL without */
  struct listener_path socket_path;
  const struct tls *tls; /* of the port, or NULL */
  struct access access;
  struct event *on_wakeup, *timer; /* the timer ends a pause of listening, or the wait for the last clients */
  struct connections *connections;
  bool stopping, paused;
  struct metrics metrics;
  struct router router;
  struct generation_service generations;
  struct constraint_compiler *constraints; /* the preparer's */
};

static void set_limits(struct http_limits *limits) {
  if (limits->handshake_deadline <= 0) limits->handshake_deadline = 10;
  if (limits->request_deadline <= 0) limits->request_deadline = 60;
  if (limits->idle_timeout <= 0) limits->idle_timeout = 75;
  if (limits->write_timeout <= 0) limits->write_timeout = 60;
  if (limits->comment_interval <= 0) limits->comment_interval = 4;
  if (limits->max_head == 0) limits->max_head = HTTP_DEFAULT_HEAD;
  if (limits->max_headers == 0) limits->max_headers = HTTP_DEFAULT_HEADERS;
  if (limits->max_body == 0) limits->max_body = (size_t)32 << 20;
  if (limits->max_bodies == 0) limits->max_bodies = limits->max_body > SIZE_MAX / 8 ? SIZE_MAX : 8 * limits->max_body;
  if (limits->max_output == 0) limits->max_output = (size_t)4 << 20;
  if (limits->max_connections == 0) limits->max_connections = 1024;
  if (limits->max_responses == 0) limits->max_responses = 1024;
  if (limits->max_response_bytes == 0) limits->max_response_bytes = (size_t)64 << 20;
}

static void wake(void *context) {
  struct http_server *server = context;
  uint64_t one = 1;
  /* It fails only when the counter is full, and then the loop is awake anyway. */
  ssize_t written = write(server->wakeup, &one, sizeof one);
  (void)written;
}

static int on_head(void *context, const struct http_head *head, struct api_error *error) {
  const struct http_server *server = context;
  return access_check(&server->access, head, error);
}

static void on_request(void *context, struct connection *connection, const struct http_head *head,
                       struct buffer *body) {
  struct http_server *server = context;
  router_handle(&server->router, connection, head, body);
}

static void on_response(void *context, int status) {
  struct http_server *server = context;
  metrics_count_response(&server->metrics, status);
}

static void listen_again(struct http_server *server) {
  for (size_t i = 0; i < LISTENERS; i++)
    if (server->listeners[i]) evconnlistener_enable(server->listeners[i]);
}

static void listen_no_more(struct http_server *server) {
  for (size_t i = 0; i < LISTENERS; i++)
    if (server->listeners[i]) evconnlistener_disable(server->listeners[i]);
}

static void on_closed(void *context) {
  struct http_server *server = context;
  if (server->stopping) {
    if (connections_count(server->connections) == 0) event_base_loopbreak(server->base);
  } else if (server->paused && connections_count(server->connections) < server->limits.max_connections) {
    server->paused = false;
    listen_again(server);
  }
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t descriptor, struct sockaddr *address, int length,
                      void *context) {
  (void)address, (void)length;
  struct http_server *server = context;
  bool from_port = listener == server->listeners[0];
  connections_accept(server->connections, descriptor, from_port ? server->tls : NULL);
  if (connections_count(server->connections) < server->limits.max_connections) return;
  server->paused = true;
  listen_no_more(server);
}

/* Out of descriptors or memory: the loop would spin on the pending connection. */
static void on_accept_error(struct evconnlistener *listener, void *context) {
  struct http_server *server = context;
  struct timeval pause = {.tv_usec = 200000};
  (void)listener;
  log_warning("http: cannot accept a connection: %s", strerror(errno));
  listen_no_more(server);
  evtimer_add(server->timer, &pause);
}

static void on_timer(evutil_socket_t descriptor, short what, void *context) {
  (void)descriptor, (void)what;
  struct http_server *server = context;
  if (server->stopping)
    event_base_loopbreak(server->base);
  else if (!server->paused)
    listen_again(server);
}

static void deliver(struct http_server *server) {
  for (struct preparation *done = NULL; (done = preparer_take(server->generations.preparer));)
    if (done->work)
      text_call_done(done);
    else
      generation_prepared(done);
  struct mailbox *mailbox = NULL;
  for (struct choice_run *run = NULL; (run = mailbox_queue_next(server->generations.mailboxes, &mailbox));)
    generation_deliver(run);
}

static void begin_stop(struct http_server *server) {
  struct timeval patience = {.tv_sec = STOP_SECONDS};
  server->stopping = true;
  listen_no_more(server);
  connections_drain(server->connections);
  generations_stop(&server->generations);
  if (connections_count(server->connections) == 0)
    event_base_loopbreak(server->base);
  else
    evtimer_add(server->timer, &patience);
}

static void on_wakeup(evutil_socket_t descriptor, short what, void *context) {
  (void)what;
  struct http_server *server = context;
  uint64_t count = 0;
  ssize_t got = read(descriptor, &count, sizeof count);
  (void)got;
  deliver(server);
  if (atomic_load(&server->stop_asked) && !server->stopping) begin_stop(server);
}

static void *run(void *context) {
  struct http_server *server = context;
  event_base_dispatch(server->base);
  return NULL;
}

static int start_listening(struct http_server *server, size_t index, int descriptor, const char *where,
                           struct kj_error *error) {
  server->listeners[index] = evconnlistener_new(server->base, on_accept, server,
                                                LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, SOMAXCONN, descriptor);
  if (!server->listeners[index]) {
    int reason = errno;
    close(descriptor);
    return kj_fail(error, KJ_NETWORK, "http: cannot listen on %s: %s", where, strerror(reason));
  }
  evconnlistener_set_error_cb(server->listeners[index], on_accept_error);
  return 0;
}

static int listen_on_port(struct http_server *server, const struct http_options *options, uint16_t *port,
                          struct kj_error *error) {
  int descriptor;
  bool loopback;
  int code = listener_tcp(&descriptor, options->host, options->port, port, &loopback, error);
  if (code) return code;
  if (!loopback && !options->keys && !options->insecure) {
    close(descriptor);
    return kj_fail(error, KJ_INVALID,
                   "http: %s can be reached from other machines, and without a key whoever reaches it may use the "
                   "server: give --api-key-file FILE, or --insecure where everybody is trusted",
                   options->host);
  }
  if (!loopback && options->keys && !options->tls)
    log_warning(
        "http: prompts, answers and API keys cross the network readable for all: use --tls-cert and --tls-key, "
        "or a proxy that does");
  return start_listening(server, 0, descriptor, options->host, error);
}

static int listen_on_path(struct http_server *server, const char *path, struct kj_error *error) {
  int descriptor;
  int code = listener_unix(&descriptor, path, &server->socket_path, error);
  return code ? code : start_listening(server, 1, descriptor, path, error);
}

/* Everything but the threads. */
static int build(struct http_server *server, const struct http_options *options, uint16_t *port,
                 struct kj_error *error) {
  server->limits = options->limits;
  set_limits(&server->limits);
  server->tls = options->tls;
  server->access = (struct access){
      .keys = options->keys, .cors = options->cors, .open = options->insecure, .has_page = !options->without_page};
  if (options->fingerprint) server->fingerprint = strdup(options->fingerprint);
  server->base = event_base_new();
  server->wakeup = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (server->wakeup < 0) return kj_fail(error, KJ_IO, "http: eventfd: %s", strerror(errno));
  if (!server->base || !server->fingerprint != !options->fingerprint) return kj_fail_memory(error, "the HTTP server");
  if (model_names_create(&server->names, options->model_name, options->aliases, error))
    return kj_fail_context(error, "http: the names of the model");
  struct connections_options connections = {.handshake_deadline = server->limits.handshake_deadline,
                                            .request_deadline = server->limits.request_deadline,
                                            .idle_timeout = server->limits.idle_timeout,
                                            .write_timeout = server->limits.write_timeout,
                                            .max_head = server->limits.max_head,
                                            .max_headers = server->limits.max_headers,
                                            .max_body = server->limits.max_body,
                                            .max_bodies = server->limits.max_bodies,
                                            .max_output = server->limits.max_output,
                                            .cors = options->cors,
                                            .on_head = on_head,
                                            .on_request = on_request,
                                            .on_response = on_response,
                                            .on_closed = on_closed,
                                            .context = server};
  server->connections = connections_create(server->base, &connections);
  server->on_wakeup = event_new(server->base, server->wakeup, EV_READ | EV_PERSIST, on_wakeup, server);
  server->timer = evtimer_new(server->base, on_timer, server);
  if (!server->limits.no_responses)
    server->responses = response_store_create(server->limits.max_responses, server->limits.max_response_bytes);
  server->generations = (struct generation_service){.base = server->base,
                                                    .engine = options->engine,
                                                    .tokenizer = options->tokenizer,
                                                    .names = server->names,
                                                    .fingerprint = server->fingerprint,
                                                    .responses = server->responses,
                                                    .mailboxes = mailbox_queue_create(wake, server),
                                                    .metrics = &server->metrics,
                                                    .comment_interval = server->limits.comment_interval};
  server->router = (struct router){.engine = options->engine,
                                   .names = server->names,
                                   .created = (int64_t)time(NULL),
                                   .connections = server->connections,
                                   .generations = &server->generations,
                                   .metrics = &server->metrics,
                                   .cors = options->cors,
                                   .has_page = !options->without_page};
  if (!server->connections || !server->on_wakeup || !server->timer || !server->generations.mailboxes ||
      (!server->responses && !server->limits.no_responses) || event_add(server->on_wakeup, NULL) != 0)
    return kj_fail_memory(error, "the HTTP server");
  int code = options->host ? listen_on_port(server, options, port, error) : 0;
  if (!code && options->socket_path) code = listen_on_path(server, options->socket_path, error);
  return code;
}

static void release(struct http_server *server) {
  listener_remove(&server->socket_path);
  for (size_t i = 0; i < LISTENERS; i++)
    if (server->listeners[i]) evconnlistener_free(server->listeners[i]);
  connections_destroy(server->connections); /* whose owners may leave the preparer */
  preparer_destroy(server->generations.preparer);
  constraint_compiler_destroy(server->constraints);
  mailbox_queue_destroy(server->generations.mailboxes);
  if (server->on_wakeup) event_free(server->on_wakeup);
  if (server->timer) event_free(server->timer);
  if (server->base) event_base_free(server->base);
  if (server->wakeup >= 0) close(server->wakeup);
  response_store_free(server->responses);
  model_names_free(server->names);
  free(server->fingerprint);
  free(server);
}

static int start_threads(struct http_server *server, const struct http_options *options, struct kj_error *error) {
  struct preparer_options preparer = {.tokenizer = options->tokenizer,
                                      .chat = options->chat,
                                      .tool_form = options->chat ? tool_form_of(options->chat) : TOOL_FORM_NONE,
                                      .thinks = options->chat && thought_known(options->chat),
                                      .dropped_lines = options->dropped_lines,
                                      .responses = server->responses,
                                      .config = engine_config(options->engine),
                                      .context = engine_context(options->engine),
                                      .wake = wake,
                                      .wake_context = server};
  /* Signals are for the main thread, and SIGPIPE for none: a write to a client that has left just fails. */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int result = constraint_compiler_create(&server->constraints, options->tokenizer, preparer.config, error);
  preparer.constraints = server->constraints;
  if (!result) result = preparer_create(&server->generations.preparer, &preparer, error);
  if (!result && pthread_create(&server->thread, NULL, run, server) != 0)
    result = kj_fail(error, KJ_IO, "http: cannot start a thread");
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return result;
}

int http_server_start(struct http_server **result, const struct http_options *options, uint16_t *port,
                      struct kj_error *error) {
  *result = NULL;
  struct http_server *server = calloc(1, sizeof *server);
  if (!server) return kj_fail_memory(error, "the HTTP server");
  server->wakeup = -1;
  *port = 0;
  int code = build(server, options, port, error);
  if (!code) code = start_threads(server, options, error);
  if (code) {
    release(server);
    return code;
  }
  *result = server;
  return 0;
}

void http_server_stop(struct http_server *server) {
  if (!server) return;
  atomic_store(&server->stop_asked, true);
  wake(server);
  pthread_join(server->thread, NULL);
  release(server);
}

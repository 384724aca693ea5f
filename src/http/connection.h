/* HTTP/1.1 connections on libevent's bufferevents: requests in, responses out, limits and deadlines.
 *
 * libevent's own evhttp answers oversized or malformed requests with HTML pages before any callback, and has no
 * deadline for a request as a whole; here every refusal has the API's error shape and every wait is bounded. Everything
 * runs on the loop's thread. One request of a connection is handled at a time; what a client pipelines waits, unread
 * beyond 64 KiB, as do all requests while 64 KiB of responses wait for their reader.
 *
 * A client that closes its side, also only for writing, before the response is complete has left.
 */
#ifndef KAIJU_HTTP_CONNECTION_H
#define KAIJU_HTTP_CONNECTION_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "http/api_error.h"
#include "http/cors.h"
#include "http/message.h"
#include "http/tls.h"

struct connection;
struct connections;

struct connections_options {
  double handshake_deadline; /* seconds that a client may take to begin TLS */
  double request_deadline;   /* seconds from a request's first byte to its last */
  double idle_timeout;       /* seconds between requests */
  double write_timeout;      /* seconds in which a reader takes nothing */
  size_t max_head;           /* bytes of the request line and headers */
  size_t max_headers;
  size_t max_body;         /* bytes of one body */
  size_t max_bodies;       /* bytes of all bodies that are held at once */
  size_t max_output;       /* bytes that may wait for a slow reader of a stream */
  const struct cors *cors; /* whose lines every response has; or NULL */
  /* The head of a request is complete, its body not yet read. 0, or -1 and an error that refuses it; the connection
   * then closes. */
  int (*on_head)(void *context, const struct http_head *head, struct api_error *error);
  /* A request is complete. The handler responds now or, after connection_set_owner, later. `body` may be moved out. */
  void (*on_request)(void *context, struct connection *connection, const struct http_head *head, struct buffer *body);
  void (*on_response)(void *context, int status); /* for statistics: every response, refusals included */
  void (*on_closed)(void *context);               /* a connection ended */
  void *context;
};

struct connections *connections_create(struct event_base *base, const struct connections_options *options);
/* Takes the descriptor of an accepted client. `tls`: a handshake comes first; or NULL. */
void connections_accept(struct connections *connections, int descriptor, const struct tls *tls);
size_t connections_count(const struct connections *connections);
/* No more requests: connections that wait for one are closed, the others after their response. */
void connections_drain(struct connections *connections);
/* Closes what is open; owners are told. */
void connections_destroy(struct connections *connections);

/* Whom to tell if the client leaves before the response is complete. */
void connection_set_owner(struct connection *connection, void (*on_left)(void *owner), void *owner);
/* The body is no longer held: it stops counting against max_bodies. */
void connection_release_body(struct connection *connection);

/* `headers`: further lines, each ending with CR LF, or NULL. */
void connection_respond(struct connection *connection, int status, const char *type, const char *headers,
                        const void *body, size_t length);
/* In the shape of the API that the request is of: OpenAI's or Anthropic's. */
void connection_respond_error(struct connection *connection, const struct api_error *error, const char *headers);

void connection_begin_stream(struct connection *connection, const char *type);
/* False if the reader is too far behind: the caller then aborts. */
bool connection_write(struct connection *connection, const void *bytes, size_t length);
void connection_end_stream(struct connection *connection, bool close);

/* Closes at once, without telling the owner. */
void connection_abort(struct connection *connection);

#endif

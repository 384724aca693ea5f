/* The HTTP server: one event-loop thread that never waits for inference.
 *
 * Serves the OpenAI API over an engine (docs/api.md). Bodies are parsed and tokenized on a second thread, so that the
 * loop answers /health in the meantime; tokens come back from the engine's thread through a queue that wakes the loop.
 * A client that leaves cancels its request.
 */
#ifndef KAIJU_HTTP_SERVER_H
#define KAIJU_HTTP_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "http/prompt_lines.h"
#include "sched/engine.h"
#include "text/chat.h"
#include "text/tokenizer.h"

struct http_server;

/* Bounds; a field that is 0 has the default in brackets. */
struct http_limits {
  double request_deadline; /* seconds from a request's first byte to its last [60] */
  double idle_timeout;     /* seconds that a connection may wait for the next request [75] */
  double write_timeout;    /* seconds in which a reader takes nothing [60] */
  double comment_interval; /* seconds of silence after which a stream gets a comment [4] */
  size_t max_body;         /* bytes of a body [32 MiB] */
  size_t max_bodies;       /* bytes of all bodies held at once [256 MiB] */
  size_t max_output;       /* bytes that wait for a slow reader of a stream before it is dropped [4 MiB] */
  size_t max_connections;  /* more wait in the listen queue [1024] */
};

struct http_options {
  const char *host;       /* "127.0.0.1" */
  uint16_t port;          /* 0: any */
  const char *model_name; /* as /v1/models reports it */
  struct engine *engine;  /* borrowed, as all below */
  const struct tokenizer *tokenizer;
  const struct chat_template *chat;         /* NULL: chat completions answer 400 */
  const struct prompt_lines *dropped_lines; /* http/prompt_lines.h; or NULL */
  struct http_limits limits;
};

/* Binds and starts the thread; *port is the bound port. The engine may not be ready yet: /health and the API answer
 * 503. */
int http_server_start(struct http_server **server, const struct http_options *options, uint16_t *port,
                      struct kj_error *error);
/* Ends open streams with an error event, closes the sockets and joins the thread. Call it before the engine is
 * destroyed and after engine_run has returned. */
void http_server_stop(struct http_server *server);

#endif

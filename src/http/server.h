/* The HTTP server: one event-loop thread that never waits for inference.
 *
 * Serves the OpenAI API over an engine (docs/api.md). Requests are parsed and checked on the loop's thread, tokens come
 * back from the engine's thread through a queue that wakes the loop. A client that leaves cancels its request.
 */
#ifndef KAIJU_HTTP_SERVER_H
#define KAIJU_HTTP_SERVER_H

#include <stdint.h>

#include "base/error.h"
#include "sched/engine.h"
#include "text/chat.h"
#include "text/tokenizer.h"

struct http_server;

struct http_options {
  const char *host;       /* "127.0.0.1" */
  uint16_t port;          /* 0: any */
  const char *model_name; /* as /v1/models reports it */
  struct engine *engine;  /* borrowed, as all below */
  const struct tokenizer *tokenizer;
  const struct chat_template *chat; /* NULL: chat completions answer 400 */
};

/* Binds and starts the thread; *port is the bound port. The engine may not be ready yet: /health and the API answer
 * 503. */
int http_server_start(struct http_server **server, const struct http_options *options, uint16_t *port,
                      struct kj_error *error);
/* Ends open streams with an error event, closes the sockets and joins the thread. Call it before the engine is
 * destroyed and after engine_run has returned. */
void http_server_stop(struct http_server *server);

#endif

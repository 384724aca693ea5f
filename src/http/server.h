/* The HTTP server: one event-loop thread that never waits for inference.
 *
 * Serves the OpenAI API over an engine (docs/api.md). Bodies are parsed and tokenized on a second thread, so that the
 * loop answers /health in the meantime; tokens come back from the engine's thread through a queue that wakes the loop.
 * A client that leaves cancels its request.
 */
#ifndef KAIJU_HTTP_SERVER_H
#define KAIJU_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "http/api_keys.h"
#include "http/cors.h"
#include "http/prompt_lines.h"
#include "http/tls.h"
#include "sched/engine.h"
#include "text/chat.h"
#include "text/tokenizer.h"

struct http_server;

/* Bounds; a field that is 0 has the default in brackets. */
struct http_limits {
  double handshake_deadline; /* seconds that a client may take to begin TLS [10] */
  double request_deadline;   /* seconds from a request's first byte to its last [60] */
  double idle_timeout;       /* seconds that a connection may wait for the next request [75] */
  double write_timeout;      /* seconds in which a reader takes nothing [60] */
  double comment_interval;   /* seconds of silence after which a stream gets a comment [4] */
  size_t max_head;           /* bytes of the request line and headers [32 KiB] */
  size_t max_headers;        /* [100] */
  size_t max_body;           /* bytes of a body [32 MiB] */
  size_t max_bodies;         /* bytes of all bodies held at once [256 MiB, or 8 bodies of the largest size] */
  size_t max_output;         /* bytes that wait for a slow reader of a stream before it is dropped [4 MiB] */
  size_t max_connections;    /* more wait in the listen queue [1024] */
  bool no_responses;         /* none is kept */
  size_t max_responses;      /* that are kept for previous_response_id (http/response_store.h) [1024] */
  size_t max_response_bytes; /* of them together [64 MiB] */
};

struct http_options {
  const char *host;        /* "127.0.0.1"; NULL: only socket_path */
  uint16_t port;           /* 0: any */
  const char *socket_path; /* of a unix socket (http/listener.h), or NULL */
  const struct tls *tls;   /* of the port; or NULL */
  /* Who is answered (http/access.h). Without keys only a loopback address is listened on, unless `insecure`. */
  const struct api_keys *keys; /* or NULL */
  const struct cors *cors;     /* or NULL */
  bool insecure;
  bool without_page;       /* http/page.h */
  const char *model_name;  /* as /v1/models reports it */
  const char *aliases;     /* "NAME,NAME": further names (http/model_names.h); or NULL */
  const char *fingerprint; /* of what computes the answers, for system_fingerprint; or NULL */
  struct engine *engine;   /* borrowed, as all below */
  const struct tokenizer *tokenizer;
  const struct chat_template *chat;         /* NULL: chat completions answer 400 */
  const struct prompt_lines *dropped_lines; /* http/prompt_lines.h; or NULL */
  struct http_limits limits;
};

/* Binds and starts the thread; *port is the bound port, 0 without a host. The engine may not be ready yet: /health and
 * the API answer 503. */
int http_server_start(struct http_server **server, const struct http_options *options, uint16_t *port,
                      struct kj_error *error);
/* Ends open streams with an error event, closes the sockets and joins the thread. Call it before the engine is
 * destroyed and after engine_run has returned. */
void http_server_stop(struct http_server *server);

#endif

/* Which path and method does what. */
#ifndef KAIJU_HTTP_ROUTER_H
#define KAIJU_HTTP_ROUTER_H

#include "http/connection.h"
#include "http/generation.h"

struct router {
  struct engine *engine;
  const struct model_names *names;
  int64_t created; /* of the model, as /v1/models reports it: the server's start */
  struct connections *connections;
  struct generation_service *generations;
  struct metrics *metrics;
  const struct cors *cors; /* or NULL */
  bool has_page;           /* http/page.h */
};

/* Responds now, or starts a generation that will. */
void router_handle(const struct router *router, struct connection *connection, const struct http_head *head,
                   struct buffer *body);

#endif

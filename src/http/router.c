#include "http/router.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/anthropic.h"
#include "http/cluster_status.h"
#include "http/json.h"
#include "http/openai.h"
#include "http/page.h"
#include "http/responses_calls.h"
#include "http/text_calls.h"

struct call {
  const struct router *router;
  struct connection *connection;
  const struct http_head *head;
  struct buffer *body;
  const char *rest; /* of the path: what is at the route's star and behind it */
};

struct route {
  const char *path; /* a star stands for one part between slashes, at the end for all that is below */
  unsigned methods;
  void (*handle)(struct call *call);
};

static void respond_no_memory(struct call *call) {
  struct api_error error;
  api_fail_memory(&error);
  connection_respond_error(call->connection, &error, NULL);
}

static void respond_json(struct call *call, int status, const char *headers, json_t *value) {
  struct buffer body = {0};
  if (json_append(&body, value)) {
    connection_respond(call->connection, status, "application/json", headers, body.data, body.length);
  } else {
    respond_no_memory(call);
  }
  buffer_free(&body);
}

/* The engine's status, on the heap because it has room for every node. */
static struct engine_status *get_status(const struct router *router) {
  struct engine_status *status = calloc(1, sizeof *status);
  if (status) engine_get_status(router->engine, status);
  return status;
}

/* False, with the reason as an error, unless a token can go round. */
static bool check_ready(const struct router *router, struct api_error *error) {
  struct engine_status *status = get_status(router);
  bool ready = status && status->state == ENGINE_READY;
  if (!status) {
    api_fail_memory(error);
  } else if (!ready) {
    const char *separator = status->reason[0] ? ": " : "";
    api_fail(error, 503, engine_state_name(status->state), NULL, "the engine is %s%s%s",
             engine_state_name(status->state), separator, status->reason);
  }
  free(status);
  return ready;
}

static bool refuse_unready(struct call *call) {
  struct api_error error;
  if (check_ready(call->router, &error)) return false;
  connection_respond_error(call->connection, &error, NULL);
  return true;
}

static void get_health(struct call *call) {
  struct api_error error;
  if (check_ready(call->router, &error)) {
    respond_json(call, 200, NULL, json_pack("{s:s}", "status", "ok"));
    return;
  }
  json_t *body = api_error_json(&error);
  json_object_set_new(body, "status", json_string(error.code));
  char headers[32];
  snprintf(headers, sizeof headers, "Retry-After: %d\r\n", error.retry_after);
  respond_json(call, 503, headers, body);
}

static void get_metrics(struct call *call) {
  struct engine_status *status = get_status(call->router);
  struct buffer text = {0};
  const struct router *router = call->router;
  if (status)
    metrics_write(router->metrics, status, model_names_at(router->names, 0), connections_count(router->connections),
                  &text);
  if (status && !buffer_failed(&text)) {
    connection_respond(call->connection, 200, "text/plain; version=0.0.4; charset=utf-8", NULL, text.data, text.length);
  } else {
    respond_no_memory(call);
  }
  buffer_free(&text);
  free(status);
}

static void get_cluster(struct call *call) {
  struct engine_status *status = get_status(call->router);
  if (status)
    respond_json(call, 200, "Cache-Control: no-store\r\n",
                 cluster_status_json(status, call->router->names, engine_context(call->router->engine)));
  else
    respond_no_memory(call);
  free(status);
}

static json_t *model_json(const struct call *call, const char *name) {
  const struct router *router = call->router;
  uint32_t context = engine_context(router->engine);
  json_t *model = openai_model(name, router->created, context);
  if (call->head->anthropic) anthropic_add_to_model(model, router->created, context);
  return model;
}

static void get_models(struct call *call) {
  if (refuse_unready(call)) return;
  const struct router *router = call->router;
  json_t *models = json_array();
  for (size_t i = 0; i < model_names_count(router->names); i++)
    json_array_append_new(models, model_json(call, model_names_at(router->names, i)));
  json_t *list = json_pack("{s:s, s:o}", "object", "list", "data", models);
  if (call->head->anthropic) anthropic_add_to_models(list);
  respond_json(call, 200, NULL, list);
}

static void get_model(struct call *call) {
  if (refuse_unready(call)) return;
  const struct router *router = call->router;
  char *asked = strdup(call->rest);
  const char *name = asked && http_decode_path(asked) ? model_names_find(router->names, asked) : NULL;
  if (name) {
    respond_json(call, 200, NULL, model_json(call, name));
  } else {
    struct api_error error;
    api_fail(&error, 404, "model_not_found", "model", "there is no model '%.200s' here: this server has '%s'",
             asked ? asked : "", model_names_at(router->names, 0));
    connection_respond_error(call->connection, &error, NULL);
  }
  free(asked);
}

static void generate(struct call *call, enum completion_endpoint endpoint) {
  if (!refuse_unready(call)) generation_start(call->router->generations, call->connection, endpoint, call->body);
}

static void post_chat(struct call *call) { generate(call, ENDPOINT_CHAT); }
static void post_completions(struct call *call) { generate(call, ENDPOINT_COMPLETIONS); }
static void post_messages(struct call *call) { generate(call, ENDPOINT_MESSAGES); }
static void post_responses(struct call *call) { generate(call, ENDPOINT_RESPONSES); }

/* These need no engine: they answer while it is loading too. */
static void work_on_text(struct call *call, preparer_work *work) {
  text_call_start(call->router->generations->preparer, call->connection, work, call->body);
}

static void post_tokenize(struct call *call) { work_on_text(call, text_tokenize); }
static void post_detokenize(struct call *call) { work_on_text(call, text_detokenize); }
static void post_apply_template(struct call *call) { work_on_text(call, text_apply_template); }
static void post_count_tokens(struct call *call) { work_on_text(call, anthropic_count_tokens); }

/* The first `length` bytes of what stands at the route's star; to be freed. NULL without memory. Malformed escapes stay
 * as they are: there is nothing under such an id. */
static char *id_of(const struct call *call, size_t length) {
  char *id = strndup(call->rest, length);
  if (id) http_decode_path(id);
  return id;
}

static void respond_buffer(struct call *call, int failed, struct buffer *answer, const struct api_error *error) {
  if (failed)
    connection_respond_error(call->connection, error, NULL);
  else
    connection_respond(call->connection, 200, "application/json", NULL, answer->data, answer->length);
  buffer_free(answer);
}

static void get_or_delete_response(struct call *call) {
  struct response_store *store = call->router->generations->responses;
  struct buffer answer = {0};
  struct api_error error;
  /* With what is behind a slash, which no id has: there is nothing at such a path. */
  char *id = id_of(call, strlen(call->rest));
  int failed = !id                                 ? api_fail_memory(&error)
               : call->head->method == HTTP_DELETE ? responses_call_delete(store, id, &answer, &error)
                                                   : responses_call_get(store, id, &answer, &error);
  respond_buffer(call, failed, &answer, &error);
  free(id);
}

static void cancel_response(struct call *call) {
  struct api_error error;
  char *id = id_of(call, strcspn(call->rest, "/"));
  if (id)
    responses_call_cancel(call->router->generations->responses, id, &error);
  else
    api_fail_memory(&error);
  connection_respond_error(call->connection, &error, NULL);
  free(id);
}

static void get_input_items(struct call *call) {
  char *id = id_of(call, strcspn(call->rest, "/"));
  struct buffer asked = {0};
  buffer_append_format(&asked, "%s?%s", id ? id : "", call->head->query ? call->head->query : "");
  if (!id || buffer_failed(&asked))
    respond_no_memory(call);
  else
    text_call_start(call->router->generations->preparer, call->connection, responses_list_input, &asked);
  buffer_free(&asked);
  free(id);
}

static void get_page(struct call *call) { page_respond(call->connection, call->head); }

static const struct route routes[] = {
    {"/openapi.json", HTTP_GET | HTTP_HEAD, get_page}, /* without the page too */
    {"/health", HTTP_GET | HTTP_HEAD, get_health},
    {"/metrics", HTTP_GET | HTTP_HEAD, get_metrics},
    {"/cluster", HTTP_GET | HTTP_HEAD, get_cluster}, /* the same for the page */
    {"/v1/models", HTTP_GET | HTTP_HEAD, get_models},
    {"/v1/models/*", HTTP_GET | HTTP_HEAD, get_model},
    {"/v1/chat/completions", HTTP_POST, post_chat},
    {"/v1/completions", HTTP_POST, post_completions},
    {"/v1/messages", HTTP_POST, post_messages},
    {"/v1/messages/count_tokens", HTTP_POST, post_count_tokens},
    {"/v1/responses", HTTP_POST, post_responses},
    {"/v1/responses/*/input_items", HTTP_GET | HTTP_HEAD, get_input_items},
    {"/v1/responses/*/cancel", HTTP_POST, cancel_response},
    {"/v1/responses/*", HTTP_GET | HTTP_HEAD | HTTP_DELETE, get_or_delete_response},
    {"/tokenize", HTTP_POST, post_tokenize},
    {"/detokenize", HTTP_POST, post_detokenize},
    {"/apply-template", HTTP_POST, post_apply_template},
};

/* `rest` is where the star stands in the path. */
static bool matches(const char *pattern, const char *path, const char **rest) {
  const char *star = strchr(pattern, '*');
  if (!star) return strcmp(path, pattern) == 0;
  size_t before = (size_t)(star - pattern);
  if (strncmp(path, pattern, before) != 0) return false;
  *rest = path + before;
  if (!star[1]) return **rest != '\0';
  size_t part = strcspn(*rest, "/");
  return part > 0 && strcmp(*rest + part, star + 1) == 0;
}

static const struct route page_route = {"/", HTTP_GET | HTTP_HEAD, get_page};

static const struct route *find_route(const struct router *router, const char *path, const char **rest) {
  if (router->has_page && page_has(path)) return &page_route;
  for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
    if (matches(routes[i].path, path, rest)) return &routes[i];
  return NULL;
}

static const char *method_list(unsigned methods) {
  if (methods & HTTP_POST) return "POST";
  return methods & HTTP_DELETE ? "GET, HEAD, DELETE" : "GET, HEAD";
}

static void append_allow(struct buffer *lines, unsigned methods) {
  buffer_append_format(lines, "Allow: %s, OPTIONS\r\n", method_list(methods));
}

/* Preflights too. Without an allowed origin, pages of other sites cannot read what is served here. */
static void respond_options(struct call *call, unsigned methods) {
  struct buffer lines = {0};
  append_allow(&lines, methods);
  cors_write_preflight(call->router->cors, call->head->origin, method_list(methods), &lines);
  connection_respond(call->connection, 204, NULL, buffer_text(&lines), NULL, 0);
  buffer_free(&lines);
}

void router_handle(const struct router *router, struct connection *connection, const struct http_head *head,
                   struct buffer *body) {
  struct call call = {.router = router, .connection = connection, .head = head, .body = body};
  const struct route *route = find_route(router, head->path, &call.rest);
  struct api_error error;
  if (head->method == HTTP_OPTIONS && strcmp(head->path, "*") == 0) {
    connection_respond(connection, 204, NULL, "Allow: GET, HEAD, POST, DELETE, OPTIONS\r\n", NULL, 0);
  } else if (!route) {
    api_fail(&error, 404, "not_found", NULL, "there is nothing at '%.200s'", head->path);
    connection_respond_error(connection, &error, NULL);
  } else if (head->method == HTTP_OPTIONS) {
    respond_options(&call, route->methods);
  } else if (!(route->methods & head->method)) {
    api_fail(&error, 405, "method_not_allowed", NULL, "'%.200s' does not take this method: see the Allow header",
             head->path);
    struct buffer lines = {0};
    append_allow(&lines, route->methods);
    connection_respond_error(connection, &error, buffer_text(&lines));
    buffer_free(&lines);
  } else {
    route->handle(&call);
  }
}

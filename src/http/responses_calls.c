#include "http/responses_calls.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/json.h"
#include "http/message.h"
#include "http/responses_history.h"

static int not_found(const char *id, struct api_error *error) {
  return api_fail(error, 404, "response_not_found", "id",
                  "Response with id '%.100s' not found: it was not stored, or has been forgotten since", id);
}

int responses_call_get(struct response_store *store, const char *id, struct buffer *answer, struct api_error *error) {
  struct response_text text = {0};
  bool found = store && response_store_get(store, id, true, false, &text);
  if (found) buffer_append(answer, buffer_text(&text.response), text.response.length);
  bool failed = buffer_failed(&text.response) || buffer_failed(answer);
  response_text_free(&text);
  if (failed) return api_fail_memory(error);
  return found ? 0 : not_found(id, error);
}

int responses_call_delete(struct response_store *store, const char *id, struct buffer *answer,
                          struct api_error *error) {
  if (!store || !response_store_delete(store, id)) return not_found(id, error);
  json_t *value = json_pack("{s:s, s:s, s:b}", "id", id, "object", "response.deleted", "deleted", 1);
  return json_append(answer, value) ? 0 : api_fail_memory(error);
}

int responses_call_cancel(struct response_store *store, const char *id, struct api_error *error) {
  struct response_text text = {0};
  if (!store || !response_store_get(store, id, false, false, &text)) return not_found(id, error);
  return api_fail(error, 400, "unsupported", NULL,
                  "only responses with 'background' can be cancelled: close the "
                  "connection of a request to end it");
}

struct page {
  size_t limit;
  bool ascending;
  char *after; /* or NULL */
};

static int read_field(struct page *page, const char *name, char *value, struct api_error *error) {
  if (strcmp(name, "limit") == 0) {
    char *end = NULL;
    unsigned long limit = strtoul(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || limit < 1 || limit > 100)
      return api_fail(error, 400, "invalid_value", "limit", "'limit' must be between 1 and 100");
    page->limit = limit;
  } else if (strcmp(name, "order") == 0) {
    page->ascending = strcmp(value, "asc") == 0;
    if (!page->ascending && strcmp(value, "desc") != 0)
      return api_fail(error, 400, "invalid_value", "order", "'order' must be 'asc' or 'desc'");
  } else if (strcmp(name, "after") == 0) {
    page->after = value;
  }
  return 0;
}

/* Takes the query apart in place. */
static int read_query(struct page *page, char *query, struct api_error *error) {
  char *rest = NULL;
  for (char *field = strtok_r(query, "&", &rest); field; field = strtok_r(NULL, "&", &rest)) {
    char *value = strchr(field, '=');
    if (!value) continue;
    *value++ = '\0';
    if (!http_decode_path(value))
      return api_fail(error, 400, "invalid_value", field, "'%.60s' is not percent-encoded as it must be", field);
    if (read_field(page, field, value, error)) return -1;
  }
  return 0;
}

static json_t *id_at(const json_t *items, size_t index) {
  json_t *id = json_object_get(json_array_get(items, index), "id");
  return id ? json_incref(id) : json_null();
}

/* The items of the page, of `all` in order. */
static json_t *page_json(const struct page *page, const json_t *all) {
  size_t count = json_array_size(all), first = page->after ? count : 0;
  json_t *data = json_array();
  for (size_t i = 0; page->after && i < count && first == count; i++) {
    const json_t *item = json_array_get(all, page->ascending ? i : count - 1 - i);
    if (strcmp(json_string_value(json_object_get(item, "id")), page->after) == 0) first = i + 1;
  }
  size_t end = count - first > page->limit ? first + page->limit : count;
  for (size_t i = first; i < end; i++)
    json_array_append(data, json_array_get(all, page->ascending ? i : count - 1 - i));
  json_t *first_id = id_at(data, 0), *last_id = end > first ? id_at(data, end - first - 1) : json_null();
  return json_pack("{s:s, s:o, s:o, s:o, s:b}", "object", "list", "data", data, "first_id", first_id, "last_id",
                   last_id, "has_more", end < count);
}

void responses_list_input(const struct preparer_options *options, struct preparation *preparation) {
  struct page page = {.limit = 20};
  struct response_text text = {0};
  struct api_error *error = &preparation->error;
  char *id = strdup(buffer_text(&preparation->body)), *query = id ? strchr(id, '?') : NULL;
  json_t *all = NULL;
  if (query) *query++ = '\0';
  if (!id) {
    api_fail_memory(error);
  } else if (query && read_query(&page, query, error)) {
    /* it is said */
  } else if (!options->responses || !response_store_get(options->responses, id, false, true, &text)) {
    if (buffer_failed(&text.items))
      api_fail_memory(error);
    else
      not_found(id, error);
  } else {
    all = responses_history_list(id, &text, text.input_count);
    if (!all || !json_append(&preparation->answer, page_json(&page, all))) api_fail_memory(error);
  }
  json_decref(all);
  response_text_free(&text);
  free(id);
}

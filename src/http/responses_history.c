#include "http/responses_history.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "http/json.h"

static const char RESPONSE_PREFIX[] = "resp_";
enum { ID_DIGITS = 24 };

void responses_item_id(char id[RESPONSES_MAX_ID], const char *prefix, const char *response_id, size_t index) {
  const char *digits = strchr(response_id, '_');
  snprintf(id, RESPONSES_MAX_ID, "%s%.24s%02zx", prefix, digits ? digits + 1 : response_id, index);
}

static const char *type_of(const json_t *item) {
  const char *type = json_string_value(json_object_get(item, "type"));
  return type ? type : "message";
}

/* The id of an item that came without one, by its place in the conversation. */
static json_t *label(const json_t *item, const char *response_id, size_t index) {
  static const struct {
    const char *type, *prefix;
  } prefixes[] = {{"message", "msg_"},          {"reasoning", "rs_"},
                  {"function_call", "fc_"},     {"function_call_output", "fco_"},
                  {"custom_tool_call", "ctc_"}, {"custom_tool_call_output", "ctco_"}};
  const char *prefix = "item_";
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
    if (strcmp(prefixes[i].type, type_of(item)) == 0) prefix = prefixes[i].prefix;
  return json_sprintf("%s%.24si%zx", prefix, response_id + sizeof RESPONSE_PREFIX - 1, index);
}

/* A copy with content as an array of parts. */
static bool normalize(json_t *item) {
  bool set = json_object_get(item, "type") || json_object_set_new(item, "type", json_string("message")) == 0;
  if (!json_object_get(item, "status") && strcmp(type_of(item), "reasoning") != 0)
    set &= json_object_set_new(item, "status", json_string("completed")) == 0;
  json_t *content = json_object_get(item, "content");
  if (strcmp(type_of(item), "message") != 0 || !json_is_string(content)) return set;
  const char *role = json_string_value(json_object_get(item, "role"));
  bool assistant = role && strcmp(role, "assistant") == 0;
  json_t *part = assistant ? json_pack("{s:s, s:O, s:[]}", "type", "output_text", "text", content, "annotations")
                           : json_pack("{s:s, s:O}", "type", "input_text", "text", content);
  return json_object_set_new(item, "content", json_pack("[o]", part)) == 0 && set;
}

json_t *responses_history_list(const char *response_id, const struct response_text *text, size_t count) {
  json_t *items = json_loadb(buffer_text(&text->items), text->items.length, 0, NULL);
  json_t *list = items ? json_array() : NULL;
  bool failed = !list;
  for (size_t i = 0; i < json_array_size(items) && i < count && !failed; i++) {
    json_t *item = json_array_get(items, i);
    failed = !normalize(item);
    if (!json_is_string(json_object_get(item, "id")))
      failed |= json_object_set_new(item, "id", label(item, response_id, i)) != 0;
    failed |= json_array_append(list, item) != 0;
  }
  json_decref(items);
  if (!failed) return list;
  json_decref(list);
  return NULL;
}

struct history {
  struct response_store *store;
  struct json_budget budget; /* for all conversations of one request */
  json_t *loaded;            /* ids of responses */
  json_t *items;             /* those of their conversations by id */
  json_t *referred;          /* ids that the input has referred to */
  struct api_error *error;
};

static int too_much(struct history *history, const char *path) {
  return api_fail(history->error, 400, "invalid_value", path,
                  "'%s' refers to conversations of more than %d values or more than %d arrays and objects: send what "
                  "is needed of them as 'input'",
                  path, JSON_MAX_VALUES, JSON_MAX_CONTAINERS);
}

/* The items of a stored response, a new array; NULL and the error, with status 0 if there is no such response. */
static json_t *load(struct history *history, const char *response_id, const char *path) {
  struct response_text text = {0};
  json_t *items = NULL;
  history->error->status = 0;
  bool found = history->store && response_store_get(history->store, response_id, false, true, &text);
  if (found && !json_spend(&history->budget, buffer_text(&text.items), text.items.length)) {
    too_much(history, path);
  } else if (found) {
    items = responses_history_list(response_id, &text, SIZE_MAX);
    if (!items) api_fail_memory(history->error);
  } else if (buffer_failed(&text.items)) {
    api_fail_memory(history->error);
  }
  response_text_free(&text);
  return items;
}

/* Remembers a response's items by id. */
static int index_items(struct history *history, const char *response_id, const json_t *items) {
  bool failed = json_object_set_new(history->loaded, response_id, json_true()) != 0;
  size_t i = 0;
  json_t *item = NULL;
  json_array_foreach(items, i, item) {
    const char *id = json_string_value(json_object_get(item, "id"));
    if (id && !json_object_get(history->items, id)) failed |= json_object_set(history->items, id, item) != 0;
  }
  return failed ? api_fail_memory(history->error) : 0;
}

/* The id of the response that an item's id names: false if it names none. */
static bool response_of(const char *item_id, char response_id[RESPONSES_MAX_ID]) {
  const char *digits = strchr(item_id, '_');
  if (!digits || strlen(digits + 1) < ID_DIGITS) return false;
  snprintf(response_id, RESPONSES_MAX_ID, "%s%.24s", RESPONSE_PREFIX, digits + 1);
  return true;
}

/* The item, borrowed; NULL and the error. */
static json_t *resolve(struct history *history, const json_t *reference, size_t index) {
  char path[64], response_id[RESPONSES_MAX_ID];
  snprintf(path, sizeof path, "input[%zu].id", index);
  const char *id = json_string_value(json_object_get(reference, "id"));
  if (!id) {
    api_fail(history->error, 400, "missing_field", path, "'%s' is required: a string", path);
    return NULL;
  }
  /* A reference is short and an item may be long: many to one would be more than any memory. */
  if (json_object_get(history->referred, id)) {
    api_fail(history->error, 400, "duplicate_item", path, "'%s' is '%.100s', which the input has already", path, id);
    return NULL;
  }
  if (json_object_set_new(history->referred, id, json_true()) != 0) {
    api_fail_memory(history->error);
    return NULL;
  }
  json_t *item = json_object_get(history->items, id);
  if (item) return item;
  if (response_of(id, response_id) && !json_object_get(history->loaded, response_id)) {
    json_t *items = load(history, response_id, path);
    if (!items && history->error->status) return NULL;
    int failed = index_items(history, response_id, items);
    json_decref(items);
    if (failed) return NULL;
  }
  item = json_object_get(history->items, id);
  if (!item)
    api_fail(history->error, 400, "item_not_found", path,
             "'%s' is '%.100s': there is no such item in the responses that are kept here, send the item itself", path,
             id);
  return item;
}

static bool is_reference(const json_t *item) {
  const json_t *type = json_object_get(item, "type");
  if (json_is_string(type)) return strcmp(json_string_value(type), "item_reference") == 0;
  return (!type || json_is_null(type)) && json_object_get(item, "id") && !json_object_get(item, "role");
}

static int append_input(struct history *history, json_t *joined, const json_t *input) {
  for (size_t i = 0; i < json_array_size(input); i++) {
    json_t *item = json_array_get(input, i);
    if (is_reference(item)) item = resolve(history, item, i);
    if (!item) return -1;
    if (json_array_append(joined, item) != 0) return api_fail_memory(history->error);
  }
  return 0;
}

json_t *responses_history_join(struct response_store *store, const char *previous, const json_t *input, size_t *known,
                               struct api_error *error) {
  struct history history = {.store = store,
                            .budget = json_budget(),
                            .loaded = json_object(),
                            .items = json_object(),
                            .referred = json_object(),
                            .error = error};
  json_t *joined = NULL;
  int failed = history.loaded && history.items && history.referred ? 0 : api_fail_memory(error);
  if (!failed && previous) {
    joined = load(&history, previous, "previous_response_id");
    if (!joined && error->status == 0)
      api_fail(error, 400, "previous_response_not_found", "previous_response_id",
               "Previous response with id '%.100s' not found: 'previous_response_id' names one that was not stored, or "
               "has been forgotten since. Send the whole conversation as 'input'",
               previous);
    failed = joined ? index_items(&history, previous, joined) : -1;
  } else if (!failed) {
    joined = json_array();
    failed = joined ? 0 : api_fail_memory(error);
  }
  *known = json_array_size(joined);
  if (!failed) failed = append_input(&history, joined, input);
  json_decref(history.loaded);
  json_decref(history.items);
  json_decref(history.referred);
  if (!failed) return joined;
  json_decref(joined);
  return NULL;
}

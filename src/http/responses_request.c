#include "http/responses_request.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/fields.h"
#include "http/json.h"
#include "http/responses_history.h"
#include "http/responses_items.h"
#include "http/responses_tools.h"
#include "http/shared_fields.h"

enum {
  MAX_METADATA = 16,
  PATH = 160,
  /* Of a conversation that is kept: requests that wait hold theirs, and what the model does not read in it costs the
   * client nothing. */
  MAX_KEPT = 8 << 20
};

static void set(struct fields *body, json_t *object, const char *name, json_t *value) {
  if (json_object_set_new(object, name, value) != 0) field_fail_memory(body);
}

/* Besides what all have in common: of the same name and meaning in chat, which checks them. */
static void copy_common(struct fields *body, json_t *chat) {
  static const char *const names[] = {"stop", "parallel_tool_calls"};
  shared_fields_copy(body, chat);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    json_t *value = field_any(body, names[i]);
    if (value) set(body, chat, names[i], json_incref(value));
  }
}

/* What would need more than this server is. */
static void refuse_unsupported(struct fields *body) {
  bool background = false;
  field_boolean(body, "background", &background);
  if (background)
    field_fail(body, "unsupported", "background", "'background' must be false: send the request with 'stream'");
  if (field_any(body, "prompt"))
    field_fail(body, "unsupported", "prompt", "'prompt' is not supported: templates of prompts are not kept here");
  if (field_any(body, "conversation"))
    field_fail(body, "unsupported", "conversation", "'conversation' is not supported: use 'previous_response_id'");
  if (json_array_size(field_any(body, "context_management")) > 0)
    field_fail(body, "unsupported", "context_management", "'context_management' is not supported");
}

static void translate_length(struct fields *body, json_t *chat) {
  int64_t tokens = 0;
  field_integer(body, "max_output_tokens", 1, UINT32_MAX, &tokens);
  if (tokens) set(body, chat, "max_tokens", json_integer(tokens));
}

/* True if the array names the value. */
static bool includes(const json_t *include, const char *wanted) {
  for (size_t i = 0; i < json_array_size(include); i++) {
    const char *value = json_string_value(json_array_get(include, i));
    if (value && strcmp(value, wanted) == 0) return true;
  }
  return false;
}

static void translate_include(struct fields *body, json_t *chat, json_t *mirror) {
  int64_t top = 0;
  const json_t *include = field_value(body, "include", JSON_ARRAY, "an array of strings");
  field_integer(body, "top_logprobs", 0, 20, &top);
  if (top > 0 || includes(include, "message.output_text.logprobs")) {
    set(body, chat, "logprobs", json_true());
    set(body, chat, "top_logprobs", json_integer(top));
  }
  if (includes(include, "reasoning.encrypted_content")) set(body, mirror, "plain_reasoning", json_true());
}

/* text.format to response_format. */
static void translate_text(struct fields *body, json_t *chat) {
  const json_t *text = field_value(body, "text", JSON_OBJECT, "an object");
  struct fields nested = {.object = text, .path = "text", .error = body->error, .failed = body->failed};
  const json_t *format = text ? field_value(&nested, "format", JSON_OBJECT, "an object") : NULL;
  body->failed |= nested.failed;
  if (!format || body->failed) return;
  struct fields fields = {.object = format, .path = "text.format", .error = body->error};
  const char *type = NULL, *name = "schema", *description = NULL;
  bool strict = false;
  field_string(&fields, "type", &type);
  field_string(&fields, "name", &name);
  field_string(&fields, "description", &description);
  field_boolean(&fields, "strict", &strict);
  if (!fields.failed && type && strcmp(type, "json_schema") == 0) {
    json_t *schema = field_any(&fields, "schema");
    if (!schema)
      field_fail(&fields, "missing_field", "text.format.schema", "'text.format.schema' is required: a JSON schema");
    else
      set(&fields, chat, "response_format",
          json_pack("{s:s, s:{s:s, s:s*, s:O, s:b}}", "type", type, "json_schema", "name", name, "description",
                    description, "schema", schema, "strict", strict));
  } else if (!fields.failed && type && (strcmp(type, "text") == 0 || strcmp(type, "json_object") == 0)) {
    set(&fields, chat, "response_format", json_pack("{s:s}", "type", type));
  } else if (!fields.failed) {
    field_fail(&fields, "invalid_value", "text.format.type",
               "'text.format.type' must be 'text', 'json_object' or 'json_schema'");
  }
  body->failed |= fields.failed;
}

static void translate_reasoning(struct fields *body, json_t *chat) {
  const json_t *reasoning = field_value(body, "reasoning", JSON_OBJECT, "an object");
  if (!reasoning) return;
  struct fields nested = {.object = reasoning, .path = "reasoning", .error = body->error};
  const char *effort = NULL;
  field_string(&nested, "effort", &effort);
  body->failed |= nested.failed;
  if (effort) set(body, chat, "reasoning_effort", json_string(effort));
}

static void check_metadata(struct fields *body) {
  json_t *metadata = field_value(body, "metadata", JSON_OBJECT, "an object of strings");
  const char *key = NULL;
  json_t *value = NULL;
  if (json_object_size(metadata) > MAX_METADATA)
    field_fail(body, "invalid_value", "metadata", "'metadata' has more than %d entries", MAX_METADATA);
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value))
      field_fail(body, "invalid_type", "metadata", "'metadata.%.60s' must be a string, not %s", key,
                 json_type_name(value));
  }
}

/* The fields that the response repeats, as they are in effect. */
static json_t *repeat(struct fields *body, bool store) {
  static const char *const names[] = {
      "instructions",     "max_output_tokens", "max_tool_calls",    "previous_response_id",
      "prompt_cache_key", "reasoning",         "safety_identifier", "user",
  };
  json_t *repeated = json_object();
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    json_t *value = field_any(body, names[i]);
    set(body, repeated, names[i], value ? json_incref(value) : json_null());
  }
  json_t *metadata = field_any(body, "metadata"), *tools = field_any(body, "tools");
  json_t *choice = field_any(body, "tool_choice"), *text = field_any(body, "text");
  bool parallel = true;
  int64_t top = 0;
  field_boolean(body, "parallel_tool_calls", &parallel);
  field_integer(body, "top_logprobs", 0, 20, &top);
  set(body, repeated, "metadata", metadata ? json_incref(metadata) : json_object());
  set(body, repeated, "tools", tools ? json_incref(tools) : json_array());
  set(body, repeated, "tool_choice", choice ? json_incref(choice) : json_string("auto"));
  json_t *text_copy = text ? json_copy(text) : json_object();
  if (!field_any(&(struct fields){.object = text_copy, .error = body->error}, "format"))
    set(body, text_copy, "format", json_pack("{s:s}", "type", "text"));
  set(body, repeated, "text", text_copy);
  set(body, repeated, "parallel_tool_calls", json_boolean(parallel));
  set(body, repeated, "top_logprobs", json_integer(top));
  set(body, repeated, "store", json_boolean(store));
  set(body, repeated, "background", json_false());
  set(body, repeated, "service_tier", json_string("default"));
  set(body, repeated, "truncation", json_string("disabled"));
  return repeated;
}

/* The input as an array of items, a new reference; NULL and the error. */
static json_t *input_items(struct fields *body) {
  json_t *input = field_any(body, "input");
  if (json_is_array(input)) return json_incref(input);
  if (json_is_string(input)) {
    json_t *items = json_pack("[{s:s, s:s, s:[{s:s, s:O}]}]", "type", "message", "role", "user", "content", "type",
                              "input_text", "text", input);
    if (!items) field_fail_memory(body);
    return items;
  }
  if (input)
    field_fail(body, "invalid_type", "input", "'input' must be a string or an array of items, not %s",
               json_type_name(input));
  else
    field_fail(body, "missing_field", "input", "'input' is required: a string or an array of items");
  return NULL;
}

/* `keep` leaves false if the conversation is too long to be kept. */
static int translate_conversation(struct fields *body, struct response_store *store, bool *keep, json_t *chat,
                                  json_t *mirror) {
  const char *previous = NULL, *instructions = NULL;
  field_string(body, "previous_response_id", &previous);
  field_string(body, "instructions", &instructions);
  json_t *input = body->failed ? NULL : input_items(body);
  if (!input) return -1;
  size_t known = 0;
  json_t *items = responses_history_join(store, previous, input, &known, body->error);
  json_t *messages = items ? responses_items_translate(items, known, instructions, body->error) : NULL;
  if (!messages) {
    body->failed = true;
  } else if (json_array_size(messages) == 0) {
    field_fail(body, "invalid_value", "input", "'input' is empty: it needs at least one message");
    json_decref(messages);
  } else {
    set(body, chat, "messages", messages);
  }
  if (!body->failed && *keep) {
    char *text = json_dumps(items, JSON_COMPACT);
    *keep = !text || strlen(text) <= MAX_KEPT;
    if (*keep) {
      set(body, mirror, "conversation", text ? json_string(text) : NULL);
      set(body, mirror, "input_count", json_integer((json_int_t)json_array_size(items)));
    }
    free(text);
  }
  json_decref(items);
  json_decref(input);
  return body->failed ? -1 : 0;
}

json_t *responses_request_translate(const json_t *body, struct response_store *store, json_t **mirror,
                                    struct api_error *error) {
  struct fields fields = {.object = body, .path = "", .error = error};
  json_t *chat = json_object();
  *mirror = json_object();
  bool keep = true;
  const char *truncation = "disabled";
  if (!chat || !*mirror) field_fail_memory(&fields);
  refuse_unsupported(&fields);
  field_boolean(&fields, "store", &keep);
  keep &= store != NULL;
  field_string(&fields, "truncation", &truncation);
  if (strcmp(truncation, "disabled") != 0 && strcmp(truncation, "auto") != 0)
    field_fail(&fields, "invalid_value", "truncation", "'truncation' must be 'disabled' or 'auto'");
  check_metadata(&fields);
  field_value(&fields, "stream_options", JSON_OBJECT, "an object");
  if (!fields.failed) copy_common(&fields, chat);
  translate_length(&fields, chat);
  translate_include(&fields, chat, *mirror);
  translate_text(&fields, chat);
  translate_reasoning(&fields, chat);
  if (!fields.failed) responses_tools_translate(&fields, chat);
  if (!fields.failed) translate_conversation(&fields, store, &keep, chat, *mirror);
  if (!fields.failed) set(&fields, *mirror, "response", repeat(&fields, keep));
  if (!fields.failed) return chat;
  json_decref(chat);
  json_decref(*mirror);
  *mirror = NULL;
  return NULL;
}

/* Replaces what chat calls a field by what it is called here, in place: `name` is not longer than `chat_name`. */
static void rename_field(char *text, const char *chat_name, const char *name) {
  size_t from = strlen(chat_name), to = strlen(name);
  for (char *at = text; (at = strstr(at, chat_name)); at += to) {
    for (size_t i = 0; i < to; i++) at[i] = name[i];
    memmove(at + to, at + from, strlen(at + from) + 1);
  }
}

void responses_error_rename(struct api_error *error) {
  static const char *const names[][2] = {{"response_format.json_schema", "text.format"},
                                         {"response_format", "text.format"},
                                         {"tool_choice.function", "tool_choice"}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    rename_field(error->param, names[i][0], names[i][1]);
    rename_field(error->message, names[i][0], names[i][1]);
  }
}

int responses_request_parse(struct completion_request **request, struct response_store *store, const char *body,
                            size_t length, const struct config *config, struct api_error *error) {
  *request = NULL;
  json_t *mirror = NULL, *object = json_decode(body, length, error);
  json_t *chat = object ? responses_request_translate(object, store, &mirror, error) : NULL;
  int failed = chat ? completion_request_from(request, ENDPOINT_RESPONSES, chat, config, error) : -1;
  if (!failed) {
    (*request)->mirror = mirror;
    mirror = NULL;
  } else if (chat) {
    responses_error_rename(error);
  }
  json_decref(mirror);
  json_decref(chat);
  json_decref(object);
  return failed;
}

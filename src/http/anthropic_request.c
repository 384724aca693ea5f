#include "http/anthropic_request.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "http/anthropic_messages.h"
#include "http/anthropic_tools.h"
#include "http/fields.h"
#include "http/request.h"
#include "http/shared_fields.h"

/* Sets a member of `chat`, which is taken over; NULL is memory that ran out. */
static void put(struct fields *fields, json_t *chat, const char *name, json_t *value) {
  if (fields->failed) {
    json_decref(value);
  } else if (json_object_set_new(chat, name, value)) {
    field_fail_memory(fields);
  }
}

static void translate_length(struct fields *fields, json_t *chat, bool needed) {
  int64_t tokens = 0;
  field_integer(fields, "max_tokens", 1, UINT32_MAX, &tokens);
  if (tokens > 0)
    put(fields, chat, "max_tokens", json_integer(tokens));
  else if (needed)
    field_fail(fields, "missing_field", "max_tokens", "'max_tokens' is required: how many tokens the answer may have");
}

static void translate_stops(struct fields *fields, json_t *chat) {
  static const char name[] = "stop_sequences";
  json_t *stops = field_value(fields, name, JSON_ARRAY, "an array of strings");
  if (!stops) return;
  if (json_array_size(stops) > REQUEST_MAX_STOPS)
    field_fail(fields, "invalid_value", name, "'%s' takes at most %d strings", name, REQUEST_MAX_STOPS);
  for (size_t i = 0; i < json_array_size(stops) && !fields->failed; i++) {
    const json_t *stop = json_array_get(stops, i);
    size_t length = json_string_length(stop);
    if (json_is_string(stop) && length > 0 && length <= REQUEST_MAX_STOP_BYTES) continue;
    field_fail(fields, json_is_string(stop) ? "invalid_value" : "invalid_type", name,
               "'%s[%zu]' must be a string of 1 to %d bytes", name, i, REQUEST_MAX_STOP_BYTES);
  }
  put(fields, chat, "stop", json_incref(stops));
}

/* {"type": "enabled", "budget_tokens": …}: a template that knows thoughts knows enable_thinking. What the client says
 * to the template itself wins. */
static void translate_thinking(struct fields *fields, json_t *chat) {
  static const struct {
    const char *type;
    bool thinks;
  } types[] = {{"enabled", true}, {"adaptive", true}, {"between_tools", true}, {"disabled", false}};
  const json_t *thinking = field_value(fields, "thinking", JSON_OBJECT, "an object");
  if (!thinking) return;
  struct fields nested = {.object = thinking, .path = "thinking", .error = fields->error};
  const char *type = NULL;
  int64_t budget = 0;
  field_string(&nested, "type", &type);
  field_integer(&nested, "budget_tokens", 1, UINT32_MAX, &budget);
  fields->failed |= nested.failed;
  if (fields->failed) return;
  size_t at = 0, count = sizeof types / sizeof *types;
  while (at < count && (!type || strcmp(type, types[at].type) != 0)) at++;
  if (at == count) {
    field_fail(fields, type ? "invalid_value" : "missing_field", "thinking.type",
               "'thinking.type' must be enabled, adaptive, between_tools or disabled");
    return;
  }
  json_t *variables = json_pack("{s:b}", "enable_thinking", types[at].thinks);
  json_t *given = json_object_get(chat, "chat_template_kwargs");
  if (!given) {
    put(fields, chat, "chat_template_kwargs", variables);
  } else if (json_is_object(given)) {
    if (json_object_update(variables, given)) {
      json_decref(variables);
      variables = NULL;
    }
    put(fields, chat, "chat_template_kwargs", variables);
  } else {
    json_decref(variables);
  }
}

/* {"type": "json_schema", "schema": …}, which beta versions of the API had as output_format. */
static void translate_format(struct fields *fields, json_t *chat) {
  const json_t *config = field_value(fields, "output_config", JSON_OBJECT, "an object");
  struct fields nested = {.object = config, .path = "output_config", .error = fields->error, .failed = fields->failed};
  const char *effort = NULL;
  field_string(&nested, "effort", &effort);
  if (effort) put(&nested, chat, "reasoning_effort", json_string(effort));
  const json_t *format = field_value(&nested, "format", JSON_OBJECT, "an object");
  fields->failed |= nested.failed;
  const char *path = "output_config.format";
  if (!format) {
    format = field_value(fields, "output_format", JSON_OBJECT, "an object");
    path = "output_format";
  }
  if (!format) return;
  struct fields members = {.object = format, .path = path, .error = fields->error, .failed = fields->failed};
  const char *type = NULL;
  char wrong[160];
  field_string(&members, "type", &type);
  json_t *schema = field_value(&members, "schema", JSON_OBJECT, "an object");
  field_path(&members, type ? "schema" : "type", wrong);
  if (type && strcmp(type, "json_schema") != 0)
    field_fail(&members, "unsupported", path, "'%s.type' must be json_schema", path);
  else if (!type || !schema)
    field_fail(&members, "missing_field", wrong, "'%s' is required: {\"type\": \"json_schema\", \"schema\"}", wrong);
  fields->failed |= members.failed;
  if (fields->failed) return;
  put(fields, chat, "response_format",
      json_pack("{s:s, s:{s:s, s:b, s:O}}", "type", "json_schema", "json_schema", "name", "output", "strict", 1,
                "schema", schema));
}

static void refuse_servers(struct fields *fields) {
  const json_t *servers = field_value(fields, "mcp_servers", JSON_ARRAY, "an array");
  if (json_array_size(servers) > 0)
    field_fail(fields, "unsupported", "mcp_servers",
               "'mcp_servers' are called by Anthropic's service, not here: give the model their tools as 'tools'");
}

/* An answer can be kept to one form, and from its beginning on. */
static void check_forms(struct fields *fields, const json_t *chat, bool continues) {
  const json_t *choice = json_object_get(chat, "tool_choice");
  const char *mode = json_string_value(choice), *other = NULL;
  bool calls = json_is_object(choice) || (mode && strcmp(mode, "required") == 0);
  bool grammar = json_string_length(json_object_get(chat, "grammar")) > 0;
  bool format = json_object_get(chat, "response_format") != NULL;
  if (calls && (format || grammar))
    other = "tool_choice";
  else if (format && grammar)
    other = "grammar";
  if (other)
    field_fail(fields, "invalid_value", other, "'%s' and '%s' both say what the answer must be: it can be one of them",
               other, format ? "output_config.format" : "grammar");
  else if (continues && (calls || format || grammar))
    field_fail(fields, "invalid_value", "messages",
               "an answer that has begun cannot be kept to a form: leave out the assistant's last message");
}

json_t *anthropic_translate(const json_t *object, bool counts, struct api_error *error) {
  struct fields fields = {.object = object, .path = "", .error = error};
  json_t *chat = json_object();
  if (!chat) {
    api_fail_memory(error);
    return NULL;
  }
  shared_fields_copy(&fields, chat);
  translate_length(&fields, chat, !counts);
  translate_stops(&fields, chat);
  translate_thinking(&fields, chat);
  translate_format(&fields, chat);
  refuse_servers(&fields);
  if (!fields.failed) fields.failed = anthropic_tools(object, chat, error) != 0;
  if (!fields.failed) {
    bool continues = false;
    json_t *messages = anthropic_messages(object, &continues, error);
    fields.failed = !messages;
    if (messages) put(&fields, chat, "messages", messages);
    if (continues) put(&fields, chat, "continue_final_message", json_true());
    check_forms(&fields, chat, continues);
  }
  if (!fields.failed) return chat;
  json_decref(chat);
  return NULL;
}

int anthropic_request(struct completion_request **request, const json_t *object, bool counts,
                      const struct config *config, struct api_error *error) {
  *request = NULL;
  json_t *chat = anthropic_translate(object, counts, error);
  if (!chat) return -1;
  int code = completion_request_from(request, ENDPOINT_MESSAGES, chat, config, error);
  json_decref(chat);
  if (code || (*request)->constraint.kind != CONSTRAINT_JSON_SCHEMA) return code;
  /* What is wrong with the schema has its path in this API. */
  bool newest = json_is_object(json_object_get(json_object_get(object, "output_config"), "format"));
  snprintf((*request)->constraint.path, sizeof(*request)->constraint.path, "%s",
           newest ? "output_config.format.schema" : "output_format.schema");
  return 0;
}

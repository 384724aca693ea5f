#include "http/responses_items.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "http/fields.h"
#include "http/responses_tools.h"

enum { PATH = 160 };

struct conversation {
  json_t *messages;
  struct buffer system; /* until another message comes */
  /* What the model has said since: a message once something else comes. */
  struct buffer thought, text;
  bool has_text;
  json_t *calls; /* or NULL */
  struct api_error *error;
};

static int append(struct conversation *conversation, json_t *message) {
  if (json_array_append_new(conversation->messages, message) == 0) return 0;
  return api_fail_memory(conversation->error);
}

static json_t *text_json(const struct buffer *text) {
  return buffer_failed(text) ? NULL : json_stringn(buffer_text(text), text->length);
}

/* Ends the system message. */
static int end_system(struct conversation *conversation) {
  if (!conversation->system.length) return 0;
  int failed =
      append(conversation, json_pack("{s:s, s:o}", "role", "system", "content", text_json(&conversation->system)));
  buffer_clear(&conversation->system);
  return failed;
}

/* Ends the assistant's message. A thought that led to nothing is dropped. */
static int end_turn(struct conversation *conversation) {
  if (end_system(conversation)) return -1;
  int failed = 0;
  if (conversation->has_text || conversation->calls) {
    json_t *thought = conversation->thought.length ? text_json(&conversation->thought) : NULL;
    failed = append(conversation,
                    json_pack("{s:s, s:o, s:o*, s:o*}", "role", "assistant", "content", text_json(&conversation->text),
                              "reasoning_content", thought, "tool_calls", conversation->calls));
    conversation->calls = NULL;
  }
  buffer_clear(&conversation->thought);
  buffer_clear(&conversation->text);
  conversation->has_text = false;
  return failed;
}

static int add_part(const json_t *part, const char *path, struct buffer *text, struct api_error *error) {
  char field[PATH];
  if (!json_is_object(part))
    return api_fail(error, 400, "invalid_type", path, "'%s' must be an object, not %s", path, json_type_name(part));
  const char *type = json_string_value(json_object_get(part, "type"));
  path_join(field, path, ".type");
  if (!type) return api_fail(error, 400, "invalid_type", field, "'%s' must be a string", field);
  bool refusal = strcmp(type, "refusal") == 0;
  if (!refusal && strcmp(type, "input_text") != 0 && strcmp(type, "output_text") != 0 && strcmp(type, "text") != 0)
    return api_fail(error, 400, "unsupported_content", field,
                    "'%s' is '%.100s': this model takes text, that is parts of type 'input_text'", field, type);
  const json_t *value = json_object_get(part, refusal ? "refusal" : "text");
  path_join(field, path, refusal ? ".refusal" : ".text");
  if (!json_is_string(value)) return api_fail(error, 400, "invalid_type", field, "'%s' must be a string", field);
  buffer_append(text, json_string_value(value), json_string_length(value));
  return 0;
}

/* Appends the text of a string or of an array of parts. */
static int add_text(const json_t *item, const char *item_path, const char *name, struct buffer *text,
                    struct api_error *error) {
  char path[PATH];
  snprintf(path, sizeof path, "%.120s.%s", item_path, name);
  const json_t *value = json_object_get(item, name);
  if (!value || json_is_null(value))
    return api_fail(error, 400, "missing_field", path, "'%s' is required: a string or an array of parts", path);
  if (json_is_string(value)) {
    buffer_append(text, json_string_value(value), json_string_length(value));
    return 0;
  }
  if (!json_is_array(value))
    return api_fail(error, 400, "invalid_type", path, "'%s' must be a string or an array of parts, not %s", path,
                    json_type_name(value));
  for (size_t i = 0; i < json_array_size(value); i++) {
    char part[PATH];
    snprintf(part, sizeof part, "%.130s[%zu]", path, i);
    if (add_part(json_array_get(value, i), part, text, error)) return -1;
  }
  return 0;
}

static int required_string(const json_t *item, const char *item_path, const char *name, const char **value,
                           struct api_error *error) {
  char path[PATH];
  snprintf(path, sizeof path, "%.120s.%s", item_path, name);
  *value = json_string_value(json_object_get(item, name));
  if (*value) return 0;
  return api_fail(error, 400, json_object_get(item, name) ? "invalid_type" : "missing_field", path,
                  "'%s' is required: a string", path);
}

static int add_message(struct conversation *conversation, const json_t *item, const char *path) {
  const char *role = NULL;
  struct api_error *error = conversation->error;
  if (required_string(item, path, "role", &role, error)) return -1;
  if (strcmp(role, "assistant") == 0) {
    if (conversation->has_text && !conversation->calls && end_turn(conversation)) return -1;
    conversation->has_text = true;
    return add_text(item, path, "content", &conversation->text, error);
  }
  bool system = strcmp(role, "system") == 0 || strcmp(role, "developer") == 0;
  if (!system && strcmp(role, "user") != 0) {
    char field[PATH];
    path_join(field, path, ".role");
    return api_fail(error, 400, "invalid_value", field,
                    "'%s' is '%.100s': it must be user, assistant, system or developer", field, role);
  }
  bool first = json_array_size(conversation->messages) == 0 && !conversation->has_text && !conversation->calls;
  if (system && first) {
    if (conversation->system.length) buffer_append_text(&conversation->system, "\n\n");
    return add_text(item, path, "content", &conversation->system, error);
  }
  if (end_turn(conversation)) return -1;
  struct buffer text = {0};
  int failed = add_text(item, path, "content", &text, error);
  if (!failed)
    failed =
        append(conversation, json_pack("{s:s, s:o}", "role", system ? "system" : "user", "content", text_json(&text)));
  buffer_free(&text);
  return failed;
}

static int add_call(struct conversation *conversation, const json_t *item, const char *path, bool custom) {
  const char *id = NULL, *name = NULL, *input = NULL;
  struct api_error *error = conversation->error;
  if (required_string(item, path, "call_id", &id, error) || required_string(item, path, "name", &name, error) ||
      required_string(item, path, custom ? "input" : "arguments", &input, error))
    return -1;
  const char *name_space = json_string_value(json_object_get(item, "namespace"));
  json_t *arguments = custom ? json_pack("{s:s}", RESPONSES_CUSTOM_INPUT, input) : json_string(input);
  json_t *call = json_pack("{s:s, s:s, s:{s:o, s:o}}", "id", id, "type", "function", "function", "name",
                           responses_tool_name(name_space, name), "arguments", arguments);
  if (!conversation->calls) conversation->calls = json_array();
  return json_array_append_new(conversation->calls, call) == 0 ? 0 : api_fail_memory(error);
}

static int add_output(struct conversation *conversation, const json_t *item, const char *path) {
  const char *id = NULL;
  if (required_string(item, path, "call_id", &id, conversation->error) || end_turn(conversation)) return -1;
  struct buffer text = {0};
  int failed = add_text(item, path, "output", &text, conversation->error);
  if (!failed)
    failed = append(conversation,
                    json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id", id, "content", text_json(&text)));
  buffer_free(&text);
  return failed;
}

static int add_reasoning(struct conversation *conversation, const json_t *item, const char *path) {
  if ((conversation->has_text || conversation->calls) && end_turn(conversation)) return -1;
  const json_t *content = json_object_get(item, "content");
  size_t before = conversation->thought.length;
  if (content && !json_is_null(content) && !json_is_array(content)) {
    char field[PATH];
    path_join(field, path, ".content");
    return api_fail(conversation->error, 400, "invalid_type", field, "'%s' must be an array of parts, not %s", field,
                    json_type_name(content));
  }
  for (size_t i = 0; i < json_array_size(content); i++) {
    const json_t *text = json_object_get(json_array_get(content, i), "text");
    if (json_is_string(text)) buffer_append(&conversation->thought, json_string_value(text), json_string_length(text));
  }
  const char *sealed = json_string_value(json_object_get(item, "encrypted_content"));
  size_t prefix = strlen(RESPONSES_PLAIN_REASONING);
  if (conversation->thought.length == before && sealed && strncmp(sealed, RESPONSES_PLAIN_REASONING, prefix) == 0)
    buffer_append_text(&conversation->thought, sealed + prefix);
  return 0;
}

/* What other servers' own tools have left in a conversation. */
static bool is_left_out(const char *type) {
  static const char *const types[] = {
      "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "computer_call",
      "mcp_call",        "mcp_list_tools",   "mcp_approval_request",  "tool_search_call",      "tool_search_output",
      "program",         "program_output",
  };
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (strcmp(type, types[i]) == 0) return true;
  return false;
}

static int add_item(struct conversation *conversation, const json_t *item, const char *path) {
  struct api_error *error = conversation->error;
  char field[PATH];
  if (!json_is_object(item))
    return api_fail(error, 400, "invalid_type", path, "'%s' must be an object, not %s", path, json_type_name(item));
  const json_t *value = json_object_get(item, "type");
  path_join(field, path, ".type");
  if (value && !json_is_null(value) && !json_is_string(value))
    return api_fail(error, 400, "invalid_type", field, "'%s' must be a string, not %s", field, json_type_name(value));
  const char *type = json_is_string(value) ? json_string_value(value) : "message";
  if (strcmp(type, "message") == 0) return add_message(conversation, item, path);
  if (strcmp(type, "function_call") == 0) return add_call(conversation, item, path, false);
  if (strcmp(type, "custom_tool_call") == 0) return add_call(conversation, item, path, true);
  if (strcmp(type, "function_call_output") == 0 || strcmp(type, "custom_tool_call_output") == 0)
    return add_output(conversation, item, path);
  if (strcmp(type, "reasoning") == 0) return add_reasoning(conversation, item, path);
  if (is_left_out(type)) return 0;
  return api_fail(error, 400, "unsupported", field, "'%s' is '%.100s': items of this type are not supported", field,
                  type);
}

json_t *responses_items_translate(const json_t *items, size_t known, const char *instructions,
                                  struct api_error *error) {
  struct conversation conversation = {.messages = json_array(), .error = error};
  int failed = conversation.messages ? 0 : api_fail_memory(error);
  if (instructions) buffer_append_text(&conversation.system, instructions);
  for (size_t i = 0; i < json_array_size(items) && !failed; i++) {
    char path[PATH] = "previous_response_id";
    if (i >= known) snprintf(path, sizeof path, "input[%zu]", i - known);
    failed = add_item(&conversation, json_array_get(items, i), path);
  }
  if (!failed) failed = end_turn(&conversation);
  buffer_free(&conversation.system);
  buffer_free(&conversation.thought);
  buffer_free(&conversation.text);
  json_decref(conversation.calls);
  if (!failed) return conversation.messages;
  json_decref(conversation.messages);
  return NULL;
}

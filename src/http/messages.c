#include "http/messages.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "http/fields.h"
#include "http/json.h"

/* Appends the text of one part. */
static int join_part(const json_t *part, const char *path, bool assistant, struct buffer *text,
                     struct api_error *error) {
  char field[160];
  if (!json_is_object(part))
    return api_fail(error, 400, "invalid_type", path, "'%s' must be an object, not %s", path, json_type_name(part));
  const json_t *type = json_object_get(part, "type");
  path_join(field, path, ".type");
  if (!json_is_string(type)) return api_fail(error, 400, "invalid_type", field, "'%s' must be a string", field);
  const char *name = json_string_value(type);
  bool refusal = assistant && strcmp(name, "refusal") == 0;
  if (!refusal && strcmp(name, "text") != 0)
    return api_fail(error, 400, "unsupported_content", field,
                    "'%s' is '%.100s': this model takes text, that is parts of type 'text'", field, name);
  const char *key = refusal ? "refusal" : "text";
  const json_t *value = json_object_get(part, key);
  path_join(field, path, refusal ? ".refusal" : ".text");
  if (!json_is_string(value)) return api_fail(error, 400, "invalid_type", field, "'%s' must be a string", field);
  buffer_append(text, json_string_value(value), json_string_length(value));
  return 0;
}

/* The content as one string; NULL on failure. */
static json_t *join_content(const json_t *content, const char *message_path, bool assistant, struct api_error *error) {
  char path[160];
  path_join(path, message_path, ".content");
  if (json_is_string(content)) return json_incref((json_t *)content);
  if ((!content || json_is_null(content)) && assistant) return json_string("");
  if (!json_is_array(content)) {
    api_fail(error, 400, content ? "invalid_type" : "missing_field", path,
             "'%s' must be a string or an array of parts%s", path, content ? "" : ": it is missing");
    return NULL;
  }
  struct buffer text = {0};
  json_t *joined = NULL;
  for (size_t i = 0; i < json_array_size(content); i++) {
    char part[160];
    snprintf(part, sizeof part, "%.120s[%zu]", path, i);
    if (join_part(json_array_get(content, i), part, assistant, &text, error)) goto done;
  }
  joined = buffer_failed(&text) ? NULL : json_stringn(buffer_text(&text), text.length);
  if (!joined) api_fail_memory(error);
done:
  buffer_free(&text);
  return joined;
}

/* A copy of the call with its arguments as an object where they can be read as one; NULL on failure. */
static json_t *check_call(const json_t *call, const char *path, struct json_budget *budget, struct api_error *error) {
  char field[160];
  path_join(field, path, ".function.name");
  const json_t *function = json_object_get(call, "function");
  if (!json_is_string(json_object_get(function, "name"))) {
    api_fail(error, 400, "invalid_type", field, "'%s' must be a string", field);
    return NULL;
  }
  const json_t *arguments = json_object_get(function, "arguments");
  path_join(field, path, ".function.arguments");
  if (arguments && !json_is_null(arguments) && !json_is_string(arguments) && !json_is_object(arguments)) {
    api_fail(error, 400, "invalid_type", field, "'%s' must be a string or an object, not %s", field,
             json_type_name(arguments));
    return NULL;
  }
  json_t *value = NULL;
  if (!arguments || json_is_null(arguments) || (json_is_string(arguments) && json_string_length(arguments) == 0))
    value = json_object();
  else if (json_is_string(arguments) && json_spend(budget, json_string_value(arguments), json_string_length(arguments)))
    value = json_loadb(json_string_value(arguments), json_string_length(arguments), 0, NULL);
  if (!json_is_object(value)) {
    json_decref(value);
    value = json_incref((json_t *)arguments);
  }
  json_t *copy = json_copy((json_t *)call), *function_copy = json_copy((json_t *)function);
  if (json_object_set_new(function_copy, "arguments", value) != 0) {
    json_decref(function_copy);
    function_copy = NULL;
  }
  if (json_object_set_new(copy, "function", function_copy) == 0) return copy;
  json_decref(copy);
  api_fail_memory(error);
  return NULL;
}

static json_t *check_calls(const json_t *calls, const char *message_path, struct json_budget *budget,
                           struct api_error *error) {
  char path[160];
  path_join(path, message_path, ".tool_calls");
  if (!json_is_array(calls)) {
    api_fail(error, 400, "invalid_type", path, "'%s' must be an array, not %s", path, json_type_name(calls));
    return NULL;
  }
  json_t *result = json_array();
  for (size_t i = 0; i < json_array_size(calls); i++) {
    char call_path[160];
    snprintf(call_path, sizeof call_path, "%.100s[%zu]", path, i);
    json_t *call = check_call(json_array_get(calls, i), call_path, budget, error);
    if (!call || json_array_append_new(result, call) != 0) {
      if (call) api_fail_memory(error);
      json_decref(result);
      return NULL;
    }
  }
  return result;
}

static const char *check_role(const json_t *message, const char *path, struct api_error *error) {
  static const char *const roles[][2] = {
      {"system", "system"}, {"developer", "system"}, {"user", "user"}, {"assistant", "assistant"}, {"tool", "tool"}};
  char field[160];
  path_join(field, path, ".role");
  const json_t *role = json_object_get(message, "role");
  if (!json_is_string(role)) {
    api_fail(error, 400, "invalid_type", field, "'%s' must be a string", field);
    return NULL;
  }
  for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
    if (strcmp(json_string_value(role), roles[i][0]) == 0) return roles[i][1];
  api_fail(error, 400, "invalid_value", field,
           "'%s' is '%.100s': it must be system, developer, user, assistant or tool", field, json_string_value(role));
  return NULL;
}

static json_t *check_message(const json_t *message, const char *path, struct json_budget *budget,
                             struct api_error *error) {
  if (!json_is_object(message)) {
    api_fail(error, 400, "invalid_type", path, "'%s' must be an object, not %s", path, json_type_name(message));
    return NULL;
  }
  const char *role = check_role(message, path, error);
  if (!role) return NULL;
  bool assistant = strcmp(role, "assistant") == 0;
  json_t *content = join_content(json_object_get(message, "content"), path, assistant, error);
  if (!content) return NULL;
  json_t *copy = json_copy((json_t *)message);
  bool stored =
      json_object_set_new(copy, "content", content) == 0 && json_object_set_new(copy, "role", json_string(role)) == 0;
  const json_t *calls = json_object_get(message, "tool_calls");
  if (stored && (!calls || json_is_null(calls) || !assistant)) {
    json_object_del(copy, "tool_calls");
  } else if (stored) {
    json_t *checked = check_calls(calls, path, budget, error);
    if (!checked) {
      json_decref(copy);
      return NULL;
    }
    stored = json_object_set_new(copy, "tool_calls", checked) == 0;
  }
  if (stored) return copy;
  json_decref(copy);
  api_fail_memory(error);
  return NULL;
}

json_t *messages_check(const json_t *messages, struct api_error *error) {
  if (!messages || json_is_null(messages)) {
    api_fail(error, 400, "missing_field", "messages", "'messages' is required: an array of {\"role\", \"content\"}");
    return NULL;
  }
  if (!json_is_array(messages)) {
    api_fail(error, 400, "invalid_type", "messages", "'messages' must be an array, not %s", json_type_name(messages));
    return NULL;
  }
  if (json_array_size(messages) == 0) {
    api_fail(error, 400, "invalid_value", "messages", "'messages' is empty: it needs at least one message");
    return NULL;
  }
  json_t *result = json_array();
  struct json_budget budget = json_budget();
  for (size_t i = 0; i < json_array_size(messages); i++) {
    char path[64];
    snprintf(path, sizeof path, "messages[%zu]", i);
    json_t *message = check_message(json_array_get(messages, i), path, &budget, error);
    if (!message || json_array_append_new(result, message) != 0) {
      if (message) api_fail_memory(error);
      json_decref(result);
      return NULL;
    }
  }
  return result;
}

int tools_check(const json_t *tools, struct api_error *error) {
  for (size_t i = 0; i < json_array_size(tools); i++) {
    const json_t *tool = json_array_get(tools, i);
    const char *type = json_string_value(json_object_get(tool, "type"));
    char path[64];
    snprintf(path, sizeof path, "tools[%zu].type", i);
    if (!type || strcmp(type, "function") != 0)
      return api_fail(error, 400, "invalid_value", path, "'%s' must be 'function'", path);
    snprintf(path, sizeof path, "tools[%zu].function.name", i);
    if (!json_is_string(json_object_get(json_object_get(tool, "function"), "name")))
      return api_fail(error, 400, "invalid_type", path, "'%s' must be a string", path);
  }
  return 0;
}

#include "http/responses_tools.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"

enum { PATH = 160 };

static const char *separator(const char *name_space, const char *name) {
  size_t length = strlen(name_space);
  return (length && name_space[length - 1] == '_') || name[0] == '_' ? "" : "__";
}

json_t *responses_tool_name(const char *name_space, const char *name) {
  if (!name_space) return json_string(name);
  return json_sprintf("%s%s%s", name_space, separator(name_space, name), name);
}

static bool is_joined(const char *called, const char *name_space, const char *name) {
  size_t length = strlen(name_space);
  const char *between = separator(name_space, name);
  return strncmp(called, name_space, length) == 0 && strncmp(called + length, between, strlen(between)) == 0 &&
         strcmp(called + length + strlen(between), name) == 0;
}

static const char *type_of(const json_t *tool) {
  const char *type = json_string_value(json_object_get(tool, "type"));
  return type ? type : "";
}

static bool is_callable(const char *type) { return strcmp(type, "function") == 0 || strcmp(type, "custom") == 0; }

struct responses_tool responses_tool_find(const json_t *tools, const char *called) {
  for (size_t i = 0; i < json_array_size(tools); i++) {
    const json_t *tool = json_array_get(tools, i);
    const char *name = json_string_value(json_object_get(tool, "name"));
    if (!name) continue;
    if (is_callable(type_of(tool)) && strcmp(name, called) == 0)
      return (struct responses_tool){.custom = strcmp(type_of(tool), "custom") == 0, .name = called};
    if (strcmp(type_of(tool), "namespace") != 0 || strncmp(called, name, strlen(name)) != 0) continue;
    const json_t *inner = json_object_get(tool, "tools");
    for (size_t k = 0; k < json_array_size(inner); k++) {
      const json_t *member = json_array_get(inner, k);
      const char *own = json_string_value(json_object_get(member, "name"));
      if (own && is_callable(type_of(member)) && is_joined(called, name, own))
        return (struct responses_tool){
            .custom = strcmp(type_of(member), "custom") == 0, .name = own, .name_space = name};
    }
  }
  return (struct responses_tool){.name = called};
}

/* The description of a custom tool, with what its input must look like; NULL: none. */
static json_t *custom_description(const json_t *tool) {
  const char *description = json_string_value(json_object_get(tool, "description"));
  const json_t *format = json_object_get(tool, "format");
  const char *definition = json_string_value(json_object_get(format, "definition"));
  const char *syntax = json_string_value(json_object_get(format, "syntax"));
  if (!definition) return description ? json_string(description) : NULL;
  return json_sprintf("%s%sThe input must match this %s%sgrammar:\n%s", description ? description : "",
                      description ? "\n\n" : "", syntax ? syntax : "", syntax ? " " : "", definition);
}

static json_t *custom_function(const json_t *tool, json_t *name) {
  return json_pack("{s:o, s:o*, s:{s:s, s:{s:{s:s}}, s:[s], s:b}}", "name", name, "description",
                   custom_description(tool), "parameters", "type", "object", "properties", RESPONSES_CUSTOM_INPUT,
                   "type", "string", "required", RESPONSES_CUSTOM_INPUT, "additionalProperties", 0);
}

static json_t *plain_function(const json_t *tool, json_t *name) {
  static const char *const kept[] = {"description", "parameters", "strict"};
  json_t *function = json_pack("{s:o}", "name", name);
  for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
    json_t *value = json_object_get(tool, kept[i]);
    if (!value || json_is_null(value)) continue;
    if (json_object_set(function, kept[i], value) != 0) {
      json_decref(function);
      return NULL;
    }
  }
  return function;
}

/* Appends the chat tool of a function or custom tool. */
static int add_tool(struct fields *fields, json_t *chat_tools, const char *name_space) {
  const char *name = NULL, *description = NULL;
  field_string(fields, "name", &name);
  field_string(fields, "description", &description);
  field_value(fields, "parameters", JSON_OBJECT, "an object");
  field_value(fields, "format", JSON_OBJECT, "an object");
  if (fields->failed) return -1;
  if (!name || !name[0]) {
    char path[PATH];
    field_path(fields, "name", path);
    field_fail(fields, "missing_field", path, "'%s' is required: the tool's name", path);
    return -1;
  }
  json_t *joined = responses_tool_name(name_space, name);
  bool custom = strcmp(type_of(fields->object), "custom") == 0;
  json_t *function = custom ? custom_function(fields->object, joined) : plain_function(fields->object, joined);
  json_t *tool = json_pack("{s:s, s:o}", "type", "function", "function", function);
  if (json_array_append_new(chat_tools, tool) == 0) return 0;
  field_fail_memory(fields);
  return -1;
}

/* Fills `fields` for the element of an array; -1 if it is no object with a type. */
static int enter(struct fields *fields, const json_t *array, size_t index, const char *array_path, char path[PATH],
                 struct api_error *error) {
  const json_t *element = json_array_get(array, index);
  snprintf(path, PATH, "%.120s[%zu]", array_path, index);
  *fields = (struct fields){.object = element, .path = path, .error = error};
  if (!json_is_object(element))
    return api_fail(error, 400, "invalid_type", path, "'%s' must be an object, not %s", path, json_type_name(element));
  if (type_of(element)[0]) return 0;
  char type_path[PATH];
  path_join(type_path, path, ".type");
  return api_fail(error, 400, "missing_field", type_path, "'%s' is required: a string", type_path);
}

static int add_namespace(struct fields *fields, json_t *chat_tools) {
  const char *name = NULL;
  char path[PATH];
  field_string(fields, "name", &name);
  const json_t *tools = field_value(fields, "tools", JSON_ARRAY, "an array");
  if (fields->failed) return -1;
  field_path(fields, "name", path);
  if (!name || !name[0]) {
    field_fail(fields, "missing_field", path, "'%s' is required: the namespace's name", path);
    return -1;
  }
  field_path(fields, "tools", path);
  for (size_t i = 0; i < json_array_size(tools); i++) {
    struct fields member;
    char member_path[PATH];
    if (enter(&member, tools, i, path, member_path, fields->error)) return -1;
    if (is_callable(type_of(member.object)) && add_tool(&member, chat_tools, name)) return -1;
  }
  return 0;
}

static int add_tools(struct fields *body, const json_t *tools, json_t *chat_tools) {
  for (size_t i = 0; i < json_array_size(tools); i++) {
    struct fields tool;
    char path[PATH];
    if (enter(&tool, tools, i, "tools", path, body->error)) return -1;
    const char *type = type_of(tool.object);
    if (is_callable(type) && add_tool(&tool, chat_tools, NULL)) return -1;
    if (strcmp(type, "namespace") == 0 && add_namespace(&tool, chat_tools)) return -1;
  }
  return 0;
}

/* Leaves the allowed ones; NULL and the error. */
static json_t *filter_tools(struct fields *choice, const json_t *chat_tools) {
  const json_t *allowed = field_value(choice, "tools", JSON_ARRAY, "an array");
  if (choice->failed) return NULL;
  json_t *names = json_object(), *kept = json_array();
  bool failed = !names || !kept;
  for (size_t i = 0; i < json_array_size(allowed) && !failed; i++) {
    const json_t *tool = json_array_get(allowed, i);
    const char *name = json_string_value(json_object_get(tool, "name"));
    const char *name_space = json_string_value(json_object_get(tool, "namespace"));
    if (!name) continue;
    json_t *joined = responses_tool_name(name_space, name);
    failed = json_object_set_new(names, joined ? json_string_value(joined) : "", json_true()) != 0;
    json_decref(joined);
  }
  for (size_t i = 0; i < json_array_size(chat_tools) && !failed; i++) {
    json_t *tool = json_array_get(chat_tools, i);
    const char *name = json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
    if (json_object_get(names, name)) failed = json_array_append(kept, tool) != 0;
  }
  json_decref(names);
  if (!failed) return kept;
  json_decref(kept);
  field_fail_memory(choice);
  return NULL;
}

/* The chat request's tool_choice for an object; may replace the tools. NULL and the error. */
static json_t *translate_choice(struct fields *choice, json_t **chat_tools) {
  const char *type = "", *name = NULL, *mode = "auto", *name_space = NULL;
  field_string(choice, "type", &type);
  field_string(choice, "name", &name);
  field_string(choice, "namespace", &name_space);
  field_string(choice, "mode", &mode);
  if (choice->failed) return NULL;
  if (is_callable(type)) {
    if (name)
      return json_pack("{s:s, s:{s:o}}", "type", "function", "function", "name", responses_tool_name(name_space, name));
    field_fail(choice, "missing_field", "tool_choice.name", "'tool_choice.name' is required: the tool's name");
  } else if (strcmp(type, "allowed_tools") == 0) {
    if (strcmp(mode, "auto") != 0 && strcmp(mode, "required") != 0) {
      field_fail(choice, "invalid_value", "tool_choice.mode", "'tool_choice.mode' must be 'auto' or 'required'");
      return NULL;
    }
    json_t *kept = filter_tools(choice, *chat_tools);
    if (!kept) return NULL;
    json_decref(*chat_tools);
    *chat_tools = kept;
    return json_string(mode);
  } else {
    field_fail(choice, "unsupported", "tool_choice.type",
               "'tool_choice.type' is '%.100s': it must be 'function', 'custom' or 'allowed_tools', tools of other "
               "kinds cannot be called here",
               type);
  }
  return NULL;
}

int responses_tools_translate(struct fields *body, json_t *chat) {
  const json_t *tools = field_value(body, "tools", JSON_ARRAY, "an array");
  json_t *choice = field_any(body, "tool_choice");
  if (body->failed) return -1;
  json_t *chat_tools = json_array();
  bool failed = !chat_tools;
  if (!failed && add_tools(body, tools, chat_tools)) {
    body->failed = true;
    json_decref(chat_tools);
    return -1;
  }
  if (json_is_object(choice)) {
    struct fields nested = {.object = choice, .path = "tool_choice", .error = body->error};
    json_t *translated = translate_choice(&nested, &chat_tools);
    body->failed = nested.failed;
    if (!nested.failed) failed |= json_object_set_new(chat, "tool_choice", translated) != 0;
  } else if (choice) {
    failed |= json_object_set(chat, "tool_choice", choice) != 0;
  }
  if (json_array_size(chat_tools) > 0) failed |= json_object_set(chat, "tools", chat_tools) != 0;
  json_decref(chat_tools);
  if (failed) field_fail_memory(body);
  return body->failed ? -1 : 0;
}

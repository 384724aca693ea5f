#include "http/constraint_fields.h"

#include <stdio.h>
#include <string.h>

void output_constraint_free(struct output_constraint *constraint) {
  json_decref(constraint->value);
  *constraint = (struct output_constraint){0};
}

/* The one constraint of the request; `field` is what asks for it. */
static void set(struct fields *fields, struct output_constraint *constraint, enum constraint_kind kind,
                const char *field, const json_t *value, const char *path) {
  static const char *const KINDS[] = {"", "a JSON object", "a JSON schema", "a grammar", "tool calls"};
  if (fields->failed) return;
  if (constraint->kind != CONSTRAINT_NONE) {
    fields->failed = true;
    api_fail(fields->error, 400, "invalid_value", field,
             "'%s' asks for %s where '%s' asks for %s: an answer can be one of them", field, KINDS[kind],
             constraint->path, KINDS[constraint->kind]);
    return;
  }
  constraint->kind = kind;
  constraint->value = json_incref((json_t *)value);
  snprintf(constraint->path, sizeof constraint->path, "%s", path);
}

static bool is_schema(const json_t *value) { return json_is_object(value) || json_is_boolean(value); }

static void parse_format(struct fields *fields, struct output_constraint *constraint) {
  const json_t *format = field_value(fields, "response_format", JSON_OBJECT, "an object");
  if (!format) return;
  struct fields nested = {.object = format, .path = "response_format", .error = fields->error};
  const char *type = NULL;
  field_string(&nested, "type", &type);
  if (!nested.failed && !type)
    field_fail(&nested, "missing_field", "response_format.type",
               "'response_format.type' is required: text, json_object or json_schema");
  const json_t *described =
      type && strcmp(type, "json_schema") == 0 ? field_value(&nested, "json_schema", JSON_OBJECT, "an object") : NULL;
  const json_t *schema = json_object_get(described, "schema");
  fields->failed |= nested.failed;
  if (nested.failed || strcmp(type, "text") == 0) return;
  if (strcmp(type, "json_object") == 0)
    set(fields, constraint, CONSTRAINT_JSON_OBJECT, "response_format", NULL, "response_format");
  else if (strcmp(type, "json_schema") != 0)
    field_fail(fields, "unsupported", "response_format.type",
               "'response_format.type' must be 'text', 'json_object' or 'json_schema'");
  else if (is_schema(schema))
    set(fields, constraint, CONSTRAINT_JSON_SCHEMA, "response_format", schema, "response_format.json_schema.schema");
  else
    field_fail(fields, schema ? "invalid_type" : "missing_field", "response_format.json_schema.schema",
               "'response_format.json_schema.schema' must be a JSON schema: an object");
}

/* llama.cpp's. */
static void parse_plain(struct fields *fields, struct output_constraint *constraint) {
  const json_t *schema = field_any(fields, "json_schema"), *grammar = field_any(fields, "grammar");
  if (schema && !is_schema(schema))
    field_fail(fields, "invalid_type", "json_schema", "'json_schema' must be a JSON schema: an object");
  else if (schema)
    set(fields, constraint, CONSTRAINT_JSON_SCHEMA, "json_schema", schema, "json_schema");
  if (grammar && !json_is_string(grammar))
    field_fail(fields, "invalid_type", "grammar", "'grammar' must be a string: GBNF");
  else if (json_string_length(grammar) > 0)
    set(fields, constraint, CONSTRAINT_GRAMMAR, "grammar", grammar, "grammar");
}

/* An object with the tools' names, new: there may be many of them and many choices among them. NULL and the error. */
static json_t *names_of(struct fields *fields, const json_t *tools) {
  json_t *names = json_object(), *tool = NULL;
  bool failed = !names;
  size_t index = 0;
  json_array_foreach(tools, index, tool) {
    const char *name = json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
    if (name) failed |= json_object_set_new(names, name, json_true()) != 0;
  }
  if (!failed) return names;
  json_decref(names);
  field_fail_memory(fields);
  return NULL;
}

/* {"type": "function", "function": {"name"}}: appends the name, which must be among those offered. */
static void add_named(struct fields *fields, const char *path, const json_t *offered, json_t *names) {
  if (fields->failed) return;
  const char *type = "function", *name = NULL;
  field_string(fields, "type", &type);
  const json_t *function = field_value(fields, "function", JSON_OBJECT, "an object");
  char function_path[160], name_path[160];
  path_join(function_path, path, ".function");
  path_join(name_path, function_path, ".name");
  struct fields nested = {.object = function, .path = function_path, .error = fields->error, .failed = fields->failed};
  field_string(&nested, "name", &name);
  fields->failed |= nested.failed;
  if (fields->failed) return;
  fields->failed = true;
  if (strcmp(type, "function") != 0 || !name)
    api_fail(fields->error, 400, name ? "invalid_value" : "missing_field", name_path,
             "'%s' must be {\"type\": \"function\", \"function\": {\"name\": …}}", path);
  else if (!json_object_get(offered, name))
    api_fail(fields->error, 400, "invalid_value", name_path, "'%s' is '%.100s': 'tools' has no tool of that name",
             name_path, name);
  else if (json_array_append_new(names, json_string(name)) != 0)
    api_fail_memory(fields->error);
  else
    fields->failed = false;
}

static void parse_named(struct fields *fields, const json_t *choice, const json_t *tools,
                        struct output_constraint *constraint) {
  struct fields nested = {.object = choice, .path = "tool_choice", .error = fields->error};
  json_t *names = json_array(), *offered = names_of(&nested, tools);
  add_named(&nested, "tool_choice", offered, names);
  json_decref(offered);
  fields->failed |= nested.failed;
  set(fields, constraint, CONSTRAINT_TOOL_CALLS, "tool_choice", names, "tool_choice");
  constraint->only_one |= constraint->kind == CONSTRAINT_TOOL_CALLS;
  json_decref(names);
}

/* {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": […]}} */
static void parse_allowed(struct fields *fields, const json_t *choice, const json_t *tools,
                          struct output_constraint *constraint) {
  struct fields outer = {.object = choice, .path = "tool_choice", .error = fields->error};
  const json_t *allowed = field_value(&outer, "allowed_tools", JSON_OBJECT, "an object");
  struct fields nested = {
      .object = allowed, .path = "tool_choice.allowed_tools", .error = fields->error, .failed = outer.failed};
  const char *mode = "auto";
  field_string(&nested, "mode", &mode);
  const json_t *listed = field_value(&nested, "tools", JSON_ARRAY, "an array");
  json_t *names = json_array(), *offered = names_of(&nested, tools), *one = NULL;
  size_t index = 0;
  if (!nested.failed && strcmp(mode, "required") != 0)
    field_fail(&nested, "unsupported", "tool_choice.allowed_tools.mode",
               "'tool_choice.allowed_tools.mode' must be 'required': for 'auto', send the allowed tools alone");
  json_array_foreach(listed, index, one) {
    char path[160];
    snprintf(path, sizeof path, "tool_choice.allowed_tools.tools[%zu]", index);
    struct fields entry = {.object = one, .path = path, .error = fields->error, .failed = nested.failed};
    add_named(&entry, path, offered, names);
    nested.failed |= entry.failed;
  }
  json_decref(offered);
  if (!nested.failed && json_array_size(names) == 0)
    field_fail(&nested, "invalid_value", "tool_choice.allowed_tools.tools",
               "'tool_choice.allowed_tools.tools' needs a tool at least");
  fields->failed |= nested.failed;
  set(fields, constraint, CONSTRAINT_TOOL_CALLS, "tool_choice", names, "tool_choice");
  json_decref(names);
}

static void parse_choice(struct fields *fields, const json_t *tools, struct output_constraint *constraint) {
  const json_t *choice = field_any(fields, "tool_choice");
  const char *mode = json_string_value(choice), *type = json_string_value(json_object_get(choice, "type"));
  if (!choice || fields->failed || (mode && (strcmp(mode, "auto") == 0 || strcmp(mode, "none") == 0))) return;
  if (!(mode && strcmp(mode, "required") == 0) && !json_is_object(choice))
    field_fail(fields, "invalid_value", "tool_choice",
               "'tool_choice' must be 'auto', 'none', 'required' or an object that names a tool");
  else if (json_array_size(tools) == 0)
    field_fail(fields, "invalid_value", "tool_choice", "'tool_choice' wants a call, but there are no 'tools'");
  else if (mode)
    set(fields, constraint, CONSTRAINT_TOOL_CALLS, "tool_choice", NULL, "tool_choice");
  else if (type && strcmp(type, "allowed_tools") == 0)
    parse_allowed(fields, choice, tools, constraint);
  else
    parse_named(fields, choice, tools, constraint);
}

void constraint_fields_parse(struct fields *fields, bool is_chat, const json_t *tools,
                             struct output_constraint *constraint) {
  parse_format(fields, constraint);
  if (!fields->failed) parse_plain(fields, constraint);
  if (is_chat && !fields->failed) parse_choice(fields, tools, constraint);
}

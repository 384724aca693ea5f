#include "http/anthropic_tools.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "http/fields.h"

/* A tool that Anthropic defines and the client runs, in every version whose type begins so. */
struct known_tool {
  const char *type; /* up to the date */
  const char *description;
  const char *schema;
};

#define STRING "{\"type\": \"string\"}"
#define VIEW_RANGE "{\"type\": \"array\", \"items\": {\"type\": \"integer\"}}"

/* https://platform.claude.com/docs/en/agents-and-tools/tool-use/bash-tool, text-editor-tool and memory-tool */
static const struct known_tool known_tools[] = {
    {"bash_", "Runs a command in a bash shell that stays open between calls, and returns its output.",
     "{\"type\": \"object\", \"properties\": {"
     "\"command\": {\"type\": \"string\", \"description\": \"The command; required unless restart is true.\"}, "
     "\"restart\": {\"type\": \"boolean\", \"description\": \"true: start the shell anew.\"}}}"},
    {"text_editor_",
     "Views, creates and edits files. view: the file with line numbers, or a directory's entries; create: a file with "
     "file_text; str_replace: old_str, which must occur exactly once, by new_str; insert: insert_text behind the line "
     "insert_line (0: at the beginning).",
     "{\"type\": \"object\", \"properties\": {"
     "\"command\": {\"type\": \"string\", \"enum\": [\"view\", \"create\", \"str_replace\", \"insert\"]}, "
     "\"path\": {\"type\": \"string\", \"description\": \"The file or directory.\"}, "
     "\"view_range\": " VIEW_RANGE ", \"file_text\": " STRING ", \"old_str\": " STRING ", \"new_str\": " STRING
     ", \"insert_line\": {\"type\": \"integer\"}, \"insert_text\": " STRING
     "}, \"required\": [\"command\", \"path\"]}"},
    {"memory_",
     "Keeps notes in files below /memories from one conversation to the next. Look there first. view: a file with line "
     "numbers, or a directory's entries; create: a file with file_text; str_replace: old_str by new_str; insert: "
     "insert_text behind the line insert_line; delete: path; rename: old_path to new_path.",
     "{\"type\": \"object\", \"properties\": {"
     "\"command\": {\"type\": \"string\", \"enum\": [\"view\", \"create\", \"str_replace\", \"insert\", \"delete\", "
     "\"rename\"]}, "
     "\"path\": {\"type\": \"string\", \"description\": \"/memories, or below it.\"}, "
     "\"view_range\": " VIEW_RANGE ", \"file_text\": " STRING ", \"old_str\": " STRING ", \"new_str\": " STRING
     ", \"insert_line\": {\"type\": \"integer\"}, \"insert_text\": " STRING ", \"old_path\": " STRING
     ", \"new_path\": " STRING "}, \"required\": [\"command\"]}"},
};

static const struct known_tool *find_known(const char *type) {
  for (size_t i = 0; i < sizeof known_tools / sizeof *known_tools; i++)
    if (strncmp(type, known_tools[i].type, strlen(known_tools[i].type)) == 0) return &known_tools[i];
  return NULL;
}

static json_t *function_json(const char *name, json_t *description, json_t *schema) {
  return json_pack("{s:s, s:{s:s, s:o*, s:o}}", "type", "function", "function", "name", name, "description",
                   description, "parameters", schema);
}

static int fail_missing(const struct fields *fields, const char *name, const char *what) {
  char path[160];
  field_path(fields, name, path);
  return api_fail(fields->error, 400, "missing_field", path, "'%s' is required: %s", path, what);
}

/* The tool in OpenAI's form; NULL and an error if it is none. */
static json_t *translate_tool(const json_t *tool, const char *path, struct api_error *error) {
  if (!json_is_object(tool)) {
    api_fail(error, 400, "invalid_type", path, "'%s' must be an object, not %s", path, json_type_name(tool));
    return NULL;
  }
  struct fields fields = {.object = tool, .path = path, .error = error};
  const char *type = "custom", *name = NULL;
  field_string(&fields, "type", &type);
  bool custom = !fields.failed && strcmp(type, "custom") == 0;
  const struct known_tool *known = fields.failed || custom ? NULL : find_known(type);
  if (!fields.failed && !custom && !known) {
    char field[160];
    field_path(&fields, "type", field);
    api_fail(error, 400, "unsupported", field,
             "'%s' is '%.100s': tools that a service runs, or that need pictures, are not available here; leave it out",
             field, type);
    return NULL;
  }
  field_string(&fields, "name", &name);
  json_t *description = custom ? field_value(&fields, "description", JSON_STRING, "a string") : NULL;
  json_t *schema = custom ? field_value(&fields, "input_schema", JSON_OBJECT, "an object") : NULL;
  if (fields.failed) return NULL;
  if (!name || !name[0]) {
    fail_missing(&fields, "name", "a string that is not empty");
    return NULL;
  }
  if (custom && !schema) {
    fail_missing(&fields, "input_schema", "a JSON schema");
    return NULL;
  }
  json_t *result = known ? function_json(name, json_string(known->description), json_loads(known->schema, 0, NULL))
                         : function_json(name, json_incref(description), json_incref(schema));
  if (!result) api_fail_memory(error);
  return result;
}

static bool has_tool(const json_t *tools, const char *name) {
  for (size_t i = 0; i < json_array_size(tools); i++) {
    const json_t *function = json_object_get(json_array_get(tools, i), "function");
    if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0) return true;
  }
  return false;
}

/* OpenAI's value for the choice; NULL and an error if there is none. */
static json_t *translate_choice(struct fields *choice, const json_t *tools) {
  const char *type = NULL, *name = NULL;
  field_string(choice, "type", &type);
  field_string(choice, "name", &name);
  if (choice->failed) return NULL;
  if (!type) {
    fail_missing(choice, "type", "auto, any, tool or none");
    return NULL;
  }
  if (strcmp(type, "auto") == 0 || strcmp(type, "none") == 0) return json_string(type);
  bool named = strcmp(type, "tool") == 0;
  if (!named && strcmp(type, "any") != 0) {
    api_fail(choice->error, 400, "invalid_value", "tool_choice.type",
             "'tool_choice.type' is '%.100s': it must be auto, any, tool or none", type);
  } else if (json_array_size(tools) == 0) {
    api_fail(choice->error, 400, "invalid_value", "tool_choice",
             "'tool_choice' asks for a call, and there are no tools");
  } else if (!named) {
    return json_string("required");
  } else if (!name) {
    fail_missing(choice, "name", "the tool's name");
  } else if (!has_tool(tools, name)) {
    api_fail(choice->error, 400, "invalid_value", "tool_choice.name",
             "'tool_choice.name' is '%.100s', which is none of the tools", name);
  } else {
    return json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", name);
  }
  return NULL;
}

static int add_choice(const json_t *choice, json_t *chat, struct api_error *error) {
  struct fields fields = {.object = choice, .path = "tool_choice", .error = error};
  bool one_call = false;
  field_boolean(&fields, "disable_parallel_tool_use", &one_call);
  json_t *translated = translate_choice(&fields, json_object_get(chat, "tools"));
  if (!translated) return -1;
  int failed = json_object_set_new(chat, "tool_choice", translated);
  if (one_call) failed |= json_object_set_new(chat, "parallel_tool_calls", json_false());
  return failed ? api_fail_memory(error) : 0;
}

int anthropic_tools(const json_t *request, json_t *chat, struct api_error *error) {
  struct fields fields = {.object = request, .path = "", .error = error};
  const json_t *tools = field_value(&fields, "tools", JSON_ARRAY, "an array");
  const json_t *choice = field_value(&fields, "tool_choice", JSON_OBJECT, "an object");
  if (fields.failed) return -1;
  if (json_array_size(tools) > 0) {
    json_t *translated = json_array();
    if (json_object_set_new(chat, "tools", translated)) return api_fail_memory(error);
    for (size_t i = 0; i < json_array_size(tools); i++) {
      char path[64];
      snprintf(path, sizeof path, "tools[%zu]", i);
      json_t *tool = translate_tool(json_array_get(tools, i), path, error);
      if (!tool) return -1;
      if (json_array_append_new(translated, tool)) return api_fail_memory(error);
    }
  }
  return choice ? add_choice(choice, chat, error) : 0;
}

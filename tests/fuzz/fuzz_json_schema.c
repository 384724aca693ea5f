/* A schema, and behind a NUL byte a text: the compiler, strictly and leniently, and the calls of a tool with the schema
 * in both notations. What can be compiled is run over the text. */
// links: grammar
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/json_schema.h"
#include "grammar/tool_grammar.h"

static void compile(const json_t *schema, bool lenient, const char *text, size_t length) {
  struct json_schema_options options = {.lenient = lenient};
  struct grammar_builder *builder = NULL;
  struct grammar *grammar = NULL;
  struct kj_error error = {0};
  char path[JSON_SCHEMA_PATH] = "schema";
  grammar_expression root = 0;
  if (grammar_builder_create(&builder, &error)) abort();
  if (json_schema_compile(builder, schema, &options, path, &root, &error)) {
    if (!error.message[0] || strlen(path) >= JSON_SCHEMA_PATH) abort();
  } else if (!grammar_finish(builder, root, &grammar, &error)) {
    grammar_matches(grammar, text, length);
  } else if (!error.message[0]) {
    abort();
  }
  grammar_release(grammar);
  grammar_builder_free(builder);
}

static void compile_tool(json_t *schema, enum tool_form form, const char *text, size_t length) {
  json_t *tools = json_pack("[{s:{s:s, s:O}}]", "function", "name", "f", "parameters", schema);
  struct tool_grammar_options options = {.form = form, .tools = tools, .thought = THOUGHT_MAY_BE};
  struct grammar *grammar = NULL;
  struct kj_error error = {0};
  /* A tool is never refused for its schema. */
  if (tool_grammar_create(&grammar, &options, &error)) abort();
  grammar_matches(grammar, text, length);
  grammar_release(grammar);
  json_decref(tools);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *bytes = (const char *)data, *end = memchr(bytes, 0, size);
  size_t length = end ? (size_t)(end - bytes) : size;
  const char *text = end ? end + 1 : "";
  size_t text_length = end ? size - length - 1 : 0;
  json_t *schema = json_loadb(bytes, length, JSON_DECODE_ANY, NULL);
  if (!schema) return 0;
  compile(schema, false, text, text_length);
  compile(schema, true, text, text_length);
  compile_tool(schema, TOOL_FORM_JSON, text, text_length);
  compile_tool(schema, TOOL_FORM_XML, text, text_length);
  json_decref(schema);
  return 0;
}

/* Small schemas that ask for much: each is compiled, or refused with a place, in little work. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "grammar/json_schema.h"
#include "grammar/tool_grammar.h"
#include "unit/unit.h"

/* 0 or the code; `matched` gets what grammar_matches says of the text. */
static int compile(const char *schema, const char *text, int *matched, struct kj_error *error) {
  struct json_schema_options options = {0};
  struct grammar_builder *builder = NULL;
  struct grammar *grammar = NULL;
  char path[JSON_SCHEMA_PATH] = "schema";
  grammar_expression root = 0;
  json_t *value = json_loads(schema, JSON_DECODE_ANY, NULL);
  assert_non_null(value);
  assert_int_equal(grammar_builder_create(&builder, error), 0);
  int code = json_schema_compile(builder, value, &options, path, &root, error);
  if (!code) code = grammar_finish(builder, root, &grammar, error);
  if (!code && matched) *matched = grammar_matches(grammar, text, strlen(text));
  grammar_release(grammar);
  grammar_builder_free(builder);
  json_decref(value);
  return code;
}

static void expect_match(const char *schema, const char *text, int expected) {
  struct kj_error error = {0};
  int matched = -2;
  if (compile(schema, text, &matched, &error)) fail_msg("%s", error.message);
  assert_int_equal(matched, expected);
}

static void expect_refusal(const char *schema, enum kj_code code) {
  struct kj_error error = {0};
  assert_int_equal(compile(schema, "", NULL, &error), code);
  assert_non_null(strstr(error.message, "'schema"));
}

static void large_counts_are_counted_not_copied(void **state) {
  (void)state;
  expect_match(
      "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":1000000},\"minItems\":2,"
      "\"maxItems\":10000000}",
      "[\"a\",\"b\"]", 1);
  expect_match("{\"type\":\"string\",\"pattern\":\"^[a-z]+$\",\"maxLength\":100000}", "\"abc\"", 1);
  expect_match("{\"type\":\"array\",\"maxItems\":1e300}", "[]", 1);
  expect_refusal("{\"type\":\"array\",\"minItems\":1e300}", KJ_UNSUPPORTED);
  /* 2 to the power of 32 characters, or none. */
  expect_match("{\"type\":\"string\",\"pattern\":\"^((a{16777216}){256})?$\",\"minLength\":2}", "\"\"", 0);
}

static void recursion_without_an_end_is_refused(void **state) {
  (void)state;
  expect_refusal("{\"$ref\":\"#\"}", KJ_INVALID);
  expect_refusal("{\"allOf\":[{\"$ref\":\"#\"}]}", KJ_INVALID);
  expect_refusal("{\"type\":\"null\",\"anyOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]}", KJ_UNSUPPORTED);
}

/* Thirty unions of two that all hold would be a thousand million branches. */
static void combinations_are_bounded(void **state) {
  (void)state;
  struct buffer schema = {0};
  buffer_append_text(&schema, "{\"type\":\"object\",\"allOf\":[");
  for (int i = 0; i < 30; i++)
    buffer_append_format(&schema, "%s{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]}]}", i ? "," : "", i,
                         i);
  buffer_append_text(&schema, "]}");
  expect_refusal(buffer_text(&schema), KJ_UNSUPPORTED);
  buffer_free(&schema);
  expect_refusal(
      "{\"type\":\"string\",\"pattern\":\"^(?:[a-z]+[0-9]*)*(?:[a-z]+_*)*$\",\"minLength\":3,"
      "\"maxLength\":100000}",
      KJ_UNSUPPORTED);
}

/* A thousand branches times a pattern of thousands of bytes; and values of which each byte can be read in thousands of
 * ways. */
static void patterns_count_as_work(void **state) {
  (void)state;
  struct buffer schema = {0};
  buffer_append_text(&schema, "{\"type\":\"string\",\"pattern\":\"^(");
  for (int i = 0; i < 500; i++) buffer_append_format(&schema, "a%db{2,3}c|", i);
  buffer_append_text(&schema, "d)$\",\"anyOf\":[{}");
  for (int i = 0; i < 40; i++) buffer_append_text(&schema, ",{}");
  buffer_append_text(&schema, "],\"oneOf\":[{}");
  for (int i = 0; i < 40; i++) buffer_append_text(&schema, ",{}");
  buffer_append_text(&schema, "]}");
  expect_refusal(buffer_text(&schema), KJ_UNSUPPORTED);
  buffer_free(&schema);
  buffer_append_text(&schema, "{\"pattern\":\"[ab].{4000}$\",\"enum\":[\"");
  for (uint32_t i = 0, random = 1; i < 10000; i++, random = random * 1664525 + 1013904223)
    buffer_append_text(&schema, random >> 31 ? "a" : "c");
  buffer_append_text(&schema, "\"]}");
  expect_refusal(buffer_text(&schema), KJ_UNSUPPORTED);
  buffer_free(&schema);
  expect_refusal(
      "{\"pattern\":\"^((a{0,900}){0,900}){0,900}$\",\"enum\":["
      "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"]}",
      KJ_UNSUPPORTED);
}

/* A thousand references to the first of sixty that lead to one another. */
static void references_count_as_work(void **state) {
  (void)state;
  struct buffer schema = {0};
  buffer_append_text(&schema, "{\"d\":[{\"type\":\"null\"}");
  for (int i = 0; i < 60; i++) buffer_append_format(&schema, ",{\"$ref\":\"#/d/%d\"}", i);
  buffer_append_text(&schema, "],\"prefixItems\":[{\"$ref\":\"#/d/60\"}");
  for (int i = 0; i < 8000; i++) buffer_append_text(&schema, ",{\"$ref\":\"#/d/60\"}");
  buffer_append_text(&schema, "]}");
  expect_refusal(buffer_text(&schema), KJ_UNSUPPORTED);
  buffer_free(&schema);
}

static void deep_schemas_need_no_stack(void **state) {
  (void)state;
  enum { DEPTH = 1500 };
  struct buffer schema = {0}, text = {0};
  for (int i = 0; i < DEPTH; i++) buffer_append_text(&schema, "{\"type\":\"array\",\"items\":");
  buffer_append_text(&schema, "{\"type\":\"null\"}");
  for (int i = 0; i < DEPTH; i++) buffer_append_text(&schema, "}");
  for (int i = 0; i < 3; i++) buffer_append_text(&text, "[");
  for (int i = 0; i < 3; i++) buffer_append_text(&text, "]");
  expect_match(buffer_text(&schema), buffer_text(&text), 1);
  buffer_free(&schema);
  buffer_free(&text);
}

/* What is refused in an answer's schema narrows nothing in a tool's. */
static void a_tool_is_never_refused_for_its_schema(void **state) {
  (void)state;
  static const char *const SCHEMAS[] = {
      "{\"$ref\":\"#\"}",
      "{\"type\":\"array\"}",
      "{\"properties\":{\"a\":{\"enum\":[]}},\"required\":[\"a\"]}",
      "{\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"(\"}},\"required\":[\"a\",\"b\"]}",
      "{\"properties\":{\"a\":{\"type\":\"null\",\"anyOf\":[{\"$ref\":\"#/properties/a\"},{\"not\":{}}]}}}",
  };
  for (size_t i = 0; i < sizeof SCHEMAS / sizeof *SCHEMAS; i++) {
    for (int form = TOOL_FORM_JSON; form <= TOOL_FORM_XML; form++) {
      json_t *tools =
          json_pack("[{s:{s:s, s:o}}]", "function", "name", "f", "parameters", json_loads(SCHEMAS[i], 0, NULL));
      struct tool_grammar_options options = {.form = (enum tool_form)form, .tools = tools};
      struct grammar *grammar = NULL;
      struct kj_error error = {0};
      if (tool_grammar_create(&grammar, &options, &error)) fail_msg("%s: %s", SCHEMAS[i], error.message);
      assert_int_equal(grammar_matches(grammar, "<tool_call>\n{}", 14), 0);
      grammar_release(grammar);
      json_decref(tools);
    }
  }
}

/* Of two tools the first has a schema that takes all work there is: the other's arguments are any object. */
static void tools_share_the_bound_on_work(void **state) {
  (void)state;
  json_t *branches = json_array(), *all = json_array();
  for (int i = 0; i < 10; i++) json_array_append_new(branches, json_pack("{s:i}", "minLength", i));
  for (int i = 0; i < 8; i++) json_array_append_new(all, json_pack("{s:O}", "anyOf", branches));
  json_t *tools = json_pack("[{s:{s:s,s:{s:{s:{s:s,s:o}}}}},{s:{s:s,s:{s:{s:{s:s}}}}}]", "function", "name", "f",
                            "parameters", "properties", "a", "type", "null", "allOf", all, "function", "name", "g",
                            "parameters", "properties", "a", "type", "null");
  static const char CALL[] = "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"b\": 1}}\n</tool_call>";
  for (int begin = 0; begin < 2; begin++) {
    struct tool_grammar_options options = {.form = TOOL_FORM_JSON, .tools = tools};
    struct grammar *grammar = NULL;
    assert_int_equal(tool_grammar_create(&grammar, &options, NULL), 0);
    assert_int_equal(grammar_matches(grammar, CALL, strlen(CALL)), begin == 0);
    grammar_release(grammar);
    json_array_remove(tools, 0); /* alone it is kept to its schema */
  }
  json_decref(tools);
  json_decref(branches);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(large_counts_are_counted_not_copied),
      cmocka_unit_test(recursion_without_an_end_is_refused),
      cmocka_unit_test(combinations_are_bounded),
      cmocka_unit_test(patterns_count_as_work),
      cmocka_unit_test(references_count_as_work),
      cmocka_unit_test(tools_share_the_bound_on_work),
      cmocka_unit_test(deep_schemas_need_no_stack),
      cmocka_unit_test(a_tool_is_never_refused_for_its_schema),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The types of a tool's parameters, and what text becomes as a value of them (T4). */
#include <jansson.h>

#include "text/json_scanner.h"
#include "text/python_literal.h"
#include "text/tool_schemas.h"
#include "text/tool_value.h"
#include "unit/unit.h"

/* The types of a parameter with this schema, in a tool with these definitions. */
static unsigned types_with(const char *schema, const char *definitions) {
  struct buffer text = {0};
  buffer_append_format(&text,
                       "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
                       "\"properties\":{\"p\":%s,\"other\":{}},\"$defs\":%s}}}]",
                       schema, definitions);
  json_t *tools = json_loads(buffer_text(&text), 0, NULL);
  struct tool_schemas *schemas = NULL;
  if (!tools) fail_msg("%s", buffer_text(&text));
  assert_int_equal(tool_schemas_compile(&schemas, tools, NULL), 0);
  unsigned types = tool_schemas_types(schemas, "f", "p");
  tool_schemas_free(schemas);
  json_decref(tools);
  buffer_free(&text);
  return types;
}

static unsigned types(const char *schema) { return types_with(schema, "{}"); }

static void value(unsigned set, const char *text, const char *expected) {
  struct buffer out = {0};
  tool_value_append(&out, set, text, strlen(text));
  assert_string_equal(buffer_text(&out), expected);
  json_t *parsed = json_loadb(out.data, out.length, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
  assert_non_null(parsed);
  json_decref(parsed);
  buffer_free(&out);
}

static void types_are_read_from_schemas(void **state) {
  (void)state;
  assert_int_equal(types("{\"type\":\"string\"}"), TYPE_STRING);
  assert_int_equal(types("{\"type\":\"integer\",\"minimum\":1}"), TYPE_INTEGER);
  assert_int_equal(types("{\"type\":\"number\"}"), TYPE_NUMBER | TYPE_INTEGER);
  assert_int_equal(types("{\"type\":[\"string\",\"null\"]}"), TYPE_STRING | TYPE_NULL);
  assert_int_equal(types("{\"type\":\"string\",\"nullable\":true}"), TYPE_STRING | TYPE_NULL);
  assert_int_equal(types("{}"), TYPE_ANY);
  assert_int_equal(types("true"), TYPE_ANY);
  assert_int_equal(types("{\"description\":\"x\"}"), TYPE_ANY);
  assert_int_equal(types("{\"properties\":{}}"), TYPE_OBJECT);
  assert_int_equal(types("{\"items\":{\"type\":\"string\"}}"), TYPE_ARRAY);
  assert_int_equal(types("{\"enum\":[\"a\",\"b\",null]}"), TYPE_STRING | TYPE_NULL);
  assert_int_equal(types("{\"enum\":[1,2]}"), TYPE_INTEGER);
  assert_int_equal(types("{\"const\":true}"), TYPE_BOOLEAN);
  assert_int_equal(types("{\"type\":\"string\",\"enum\":[\"1\",\"2\"]}"), TYPE_STRING);
  assert_int_equal(types("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}"), TYPE_INTEGER | TYPE_NULL);
  assert_int_equal(types("{\"oneOf\":[{\"type\":\"string\"},{\"items\":{}}]}"), TYPE_STRING | TYPE_ARRAY);
  assert_int_equal(types("{\"allOf\":[{\"type\":[\"string\",\"integer\"]},{\"type\":\"integer\"}]}"), TYPE_INTEGER);
  /* Nothing fits, or names that are no types: what is written stays a string. */
  assert_int_equal(types("{\"allOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}"), TYPE_STRING);
  assert_int_equal(types("{\"type\":\"text\"}"), TYPE_STRING);
  assert_int_equal(types("false"), TYPE_STRING);
  assert_int_equal(types("{\"type\":7,\"enum\":{},\"anyOf\":3}"), TYPE_ANY);
}

static void references_are_followed(void **state) {
  (void)state;
  const char *definitions =
      "{\"a\":{\"type\":\"integer\"},\"b\":{\"anyOf\":[{\"$ref\":\"#/$defs/a\"},{\"type\":\"null\"}]},"
      "\"x/y~z\":{\"type\":\"array\"},\"loop\":{\"$ref\":\"#/$defs/loop\"},"
      "\"wide\":{\"anyOf\":[{\"$ref\":\"#/$defs/wide\"},{\"$ref\":\"#/$defs/wide\"}]}}";
  assert_int_equal(types_with("{\"$ref\":\"#/$defs/a\"}", definitions), TYPE_INTEGER);
  assert_int_equal(types_with("{\"$ref\":\"#/$defs/b\",\"default\":null}", definitions), TYPE_INTEGER | TYPE_NULL);
  assert_int_equal(types_with("{\"$ref\":\"#/$defs/x~1y~0z\"}", definitions), TYPE_ARRAY);
  assert_int_equal(types_with("{\"$ref\":\"#/$defs/b/anyOf/1\"}", definitions), TYPE_NULL);
  assert_int_equal(types_with("{\"$ref\":\"#\"}", definitions), TYPE_OBJECT);
  static const char *const NOWHERE[] = {
      "#/$defs/loop", "#/$defs/wide", "#/$defs/none", "#/", "#x", "other.json#/a", ""};
  for (size_t i = 0; i < sizeof NOWHERE / sizeof *NOWHERE; i++) {
    char schema[64];
    snprintf(schema, sizeof schema, "{\"$ref\":\"%s\"}", NOWHERE[i]);
    assert_int_equal(types_with(schema, definitions), TYPE_ANY);
  }
}

static void tools_and_parameters_are_known_by_name(void **state) {
  (void)state;
  json_t *tools = json_loads(
      "[{\"function\":{\"name\":\"b\",\"parameters\":{\"properties\":{\"p\":{\"type\":\"integer\"}},"
      "\"additionalProperties\":{\"type\":\"boolean\"}}}},{\"function\":{\"name\":\"a\"}},{\"function\":7},{},3,"
      "{\"function\":{\"name\":\"c\",\"parameters\":{\"$ref\":\"#/$defs/t\",\"$defs\":{\"t\":{\"properties\":{\"q\":"
      "{\"type\":\"null\"}}}}}}}]",
      0, NULL);
  struct tool_schemas *schemas = NULL;
  assert_non_null(tools);
  assert_int_equal(tool_schemas_compile(&schemas, tools, NULL), 0);
  assert_true(tool_schemas_know(schemas, "a") && tool_schemas_know(schemas, "b") && tool_schemas_know(schemas, "c"));
  assert_false(tool_schemas_know(schemas, "d") || tool_schemas_know(schemas, ""));
  assert_true(tool_schemas_know_parameter(schemas, "b", "p"));
  assert_false(tool_schemas_know_parameter(schemas, "b", "q") || tool_schemas_know_parameter(schemas, "a", "p"));
  assert_int_equal(tool_schemas_types(schemas, "b", "p"), TYPE_INTEGER);
  assert_int_equal(tool_schemas_types(schemas, "b", "unnamed"), TYPE_BOOLEAN);
  assert_int_equal(tool_schemas_types(schemas, "a", "unnamed"), TYPE_STRING);
  assert_int_equal(tool_schemas_types(schemas, "d", "p"), TYPE_STRING);
  assert_int_equal(tool_schemas_types(schemas, "c", "q"), TYPE_NULL);
  tool_schemas_free(schemas);
  json_decref(tools);
  assert_int_equal(tool_schemas_compile(&schemas, NULL, NULL), 0);
  assert_false(tool_schemas_know(schemas, "a"));
  tool_schemas_free(schemas);
}

static void t4_values_get_the_type_that_fits(void **state) {
  (void)state;
  const unsigned number = TYPE_NUMBER | TYPE_INTEGER;
  value(TYPE_STRING, "null", "\"null\"");
  value(TYPE_STRING, "5", "\"5\"");
  value(TYPE_STRING, "{\"a\":1}", "\"{\\\"a\\\":1}\"");
  value(TYPE_STRING | TYPE_NULL, "null", "null");
  value(TYPE_STRING | TYPE_NULL, "None", "null");
  value(TYPE_STRING | TYPE_NULL, "nullable", "\"nullable\"");
  value(TYPE_INTEGER, "5", "5");
  value(TYPE_INTEGER, " -12 \n", "-12");
  value(TYPE_INTEGER, "5.0", "5");
  value(TYPE_INTEGER, "1e3", "1000");
  value(TYPE_INTEGER, "123456789012345678901234567890", "123456789012345678901234567890");
  value(number, "5.50", "5.50");
  value(number, "-0.1e-7", "-0.1e-7");
  value(TYPE_BOOLEAN, "true", "true");
  value(TYPE_BOOLEAN, "False", "false");
  value(TYPE_BOOLEAN, "TRUE", "true");
  value(TYPE_BOOLEAN | TYPE_STRING, "TRUE", "\"TRUE\"");
  value(TYPE_BOOLEAN | TYPE_STRING, "True", "true");
  value(TYPE_OBJECT, " {\"a\": [1, {\"b\": null}]} ", "{\"a\": [1, {\"b\": null}]}");
  value(TYPE_ARRAY, "[1, 2]", "[1, 2]");
  value(TYPE_ARRAY | TYPE_STRING, "[\"a\"]", "[\"a\"]");
  value(TYPE_ARRAY | TYPE_STRING, "a.c", "\"a.c\"");
  value(TYPE_STRING | TYPE_INTEGER, "7", "7");
  value(TYPE_ANY, "7", "7");
  value(TYPE_ANY, "seven", "\"seven\"");
  value(TYPE_ANY, "\"quoted\"", "\"\\\"quoted\\\"\"");
  value(TYPE_OBJECT, "{'a': True, 'b': [None, 1.5, 'it\\'s'], 'c': (1,)}",
        "{\"a\":true,\"b\":[null,1.5,\"it's\"],\"c\":[1]}");
}

static void t4_values_that_do_not_fit_become_strings(void **state) {
  (void)state;
  value(TYPE_INTEGER, "5.5", "\"5.5\"");
  value(TYPE_INTEGER, "five", "\"five\"");
  value(TYPE_INTEGER, "", "\"\"");
  value(TYPE_INTEGER, "1e300", "\"1e300\"");
  value(TYPE_INTEGER, "[1]", "\"[1]\"");
  value(TYPE_NUMBER | TYPE_INTEGER, "NaN", "\"NaN\"");
  value(TYPE_NUMBER | TYPE_INTEGER, "05", "\"05\"");
  value(TYPE_NUMBER | TYPE_INTEGER, "1 2", "\"1 2\"");
  value(TYPE_BOOLEAN, "yes", "\"yes\"");
  value(TYPE_BOOLEAN, "1", "\"1\"");
  value(TYPE_NULL, "nil", "\"nil\"");
  value(TYPE_OBJECT, "[1]", "\"[1]\"");
  value(TYPE_ARRAY, "{\"a\":1}", "\"{\\\"a\\\":1}\"");
  value(TYPE_OBJECT, "{\"a\":}", "\"{\\\"a\\\":}\"");
  value(TYPE_OBJECT, "{1: 2}", "\"{1: 2}\"");
  value(TYPE_ARRAY, "(1)", "\"(1)\"");
}

static void python(const char *text, const char *expected) {
  struct buffer out = {0};
  buffer_append_text(&out, "x");
  bool read = python_literal_to_json(text, strlen(text), &out);
  if (read != (expected != NULL)) fail_msg("%s: %s", text, buffer_text(&out));
  assert_string_equal(out.data + 1, read ? expected : "");
  buffer_free(&out);
}

static void literals_of_python_are_read(void **state) {
  (void)state;
  python("{}", "{}");
  python(" [ ] ", "[]");
  python("()", "[]");
  python("{'a': 1, \"b\": -2.5e3,}", "{\"a\":1,\"b\":-2.5e3}");
  python("('a', \"it's\", '\"')", "[\"a\",\"it's\",\"\\\"\"]");
  python("'\\n\\t\\\\\\x41\\u00e9\\U0001f600\\d\\0'", "\"\\n\\t\\\\Aé😀\\\\d\\u0000\"");
  python("[True,False,None,true,null]", "[true,false,null,true,null]");
  static const char *const NONE[] = {"",       "{",      "[1 2]",     "{'a'}",         "{'a': }", "{1: 2}",  "(1)",
                                     "'a",     "'a\nb'", "'\\ud800'", "'\\U00110000'", "'\\xg0'", "b'a'",    "[1, 2",
                                     "f(x)",   "1 + 2",  "[,]",       "{,}",           "True x",  "'a' 'b'", "nan",
                                     "{'a':1", "'\\",    "01",        "{'a':1 'b':2}"};
  for (size_t i = 0; i < sizeof NONE / sizeof *NONE; i++) python(NONE[i], NULL);
  char deep[512];
  memset(deep, '[', 200);
  memset(deep + 200, ']', 200);
  deep[400] = '\0';
  python(deep, NULL);
}

static void json_is_told_from_what_is_none(void **state) {
  (void)state;
  static const char *const WHOLE[] = {
      "{}", " [1 , -0.5e+10,\"\\u00Ff\\n\", true,false,null ] ", "0", "\"\"", "{\"a\":{\"b\":[]}}", "-1", "1e5 "};
  static const char *const NONE[] = {
      "",      "{",    "[1,]", "{,}", "{\"a\"}", "{\"a\":1,}",  "01",    "1.", "-",   "1e", "\"\\x\"", "tru",
      "truex", "[1]]", "1 2",  "'a'", "\"\n\"",  "\"\\u12g4\"", "{a:1}", "[}", "nul", "+1", ".5",      "{\"a\" 1}"};
  for (size_t i = 0; i < sizeof WHOLE / sizeof *WHOLE; i++) {
    assert_true(json_text_whole(WHOLE[i], strlen(WHOLE[i])));
    json_t *parsed = json_loads(WHOLE[i], JSON_DECODE_ANY, NULL);
    assert_non_null(parsed);
    json_decref(parsed);
  }
  for (size_t i = 0; i < sizeof NONE / sizeof *NONE; i++)
    if (json_text_whole(NONE[i], strlen(NONE[i]))) fail_msg("%s", NONE[i]);
  char deep[2 * JSON_SCANNER_DEPTH + 3];
  for (size_t depth = JSON_SCANNER_DEPTH; depth < JSON_SCANNER_DEPTH + 2; depth++) {
    memset(deep, '[', depth);
    memset(deep + depth, ']', depth);
    assert_int_equal(json_text_whole(deep, 2 * depth), depth == JSON_SCANNER_DEPTH);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types_are_read_from_schemas),
      cmocka_unit_test(references_are_followed),
      cmocka_unit_test(tools_and_parameters_are_known_by_name),
      cmocka_unit_test(t4_values_get_the_type_that_fits),
      cmocka_unit_test(t4_values_that_do_not_fit_become_strings),
      cmocka_unit_test(literals_of_python_are_read),
      cmocka_unit_test(json_is_told_from_what_is_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

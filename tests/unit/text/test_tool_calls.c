/* Tool calls in the text of a model: how they are found, and that the cuts of the text do not matter (T1, T2). */
#include "unit/text/tool_check.h"

static const char TOOLS[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"read\", \"parameters\": {\"type\": \"object\", "
    "\"properties\": {"
    "\"path\": {\"type\": \"string\"}, \"lines\": {\"type\": \"integer\"}, \"all\": {\"type\": \"boolean\"}}}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"stop\"}}]";

static json_t *tools;

static int set_up(void **state) {
  (void)state;
  tools = json_loads(TOOLS, 0, NULL);
  return tools ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  json_decref(tools);
  return 0;
}

static void xml(const char *text, const char *expected) {
  tool_expect(&(struct tool_case){TOOL_FORM_XML, tools, false}, text, expected);
}
static void json(const char *text, const char *expected) {
  tool_expect(&(struct tool_case){TOOL_FORM_JSON, tools, false}, text, expected);
}
static void xml_cut(const char *text, const char *expected) {
  tool_expect(&(struct tool_case){TOOL_FORM_XML, tools, true}, text, expected);
}
static void json_cut(const char *text, const char *expected) {
  tool_expect(&(struct tool_case){TOOL_FORM_JSON, tools, true}, text, expected);
}

#define READ(path) "<function=read>\n<parameter=path>\n" path "\n</parameter>\n</function>"
#define BLOCK(call) "<tool_call>\n" call "\n</tool_call>"

static void t1_t2_a_call_as_the_template_writes_it(void **state) {
  (void)state;
  xml(BLOCK(READ("a.c")), "«read {\"path\":\"a.c\"}»");
  json(BLOCK("{\"name\": \"read\", \"arguments\": {\"path\": \"a.c\"}}"), "«read {\"path\": \"a.c\"}»");
}

static void t1_text_before_between_and_behind(void **state) {
  (void)state;
  xml("I look.\n\n" BLOCK(READ("a.c")) "\n", "I look.«read {\"path\":\"a.c\"}»");
  xml("A 漢字 < b.\n" BLOCK(READ("é")) "\nthen\n" BLOCK(READ("b")) "\n\nDone. ",
      "A 漢字 < b.«read {\"path\":\"é\"}»\nthen«read {\"path\":\"b\"}»\n\nDone. ");
  json("I look.\n" BLOCK("{\"name\":\"stop\",\"arguments\":{}}"), "I look.«stop {}»");
  /* What the template writes before a call is one newline: more is the text's own. */
  json("I look.\n\n" BLOCK("{\"name\":\"stop\",\"arguments\":{}}"), "I look.\n«stop {}»");
  json("\n\n" BLOCK("{\"name\":\"stop\",\"arguments\":{}}") "\n", "«stop {}»");
}

static void t1_text_without_calls_stays_as_it_is(void **state) {
  (void)state;
  static const char *const TEXTS[] = {"",
                                      "  \n",
                                      "Hello, world.\n",
                                      "a <b> c < tool_call> <tool_cal",
                                      "<tool_call>",
                                      "<tool_call>\nnothing\n</tool_call>\n",
                                      "<tool_call>\n\n",
                                      "</tool_call> </function>\n",
                                      "Write <function=NAME> in it.",
                                      "x <function=",
                                      "<function=a\nb>",
                                      "<function=>",
                                      "<|im_start|>\n<tool_response>\n{}\n</tool_response>"};
  for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
    xml(TEXTS[i], TEXTS[i]);
    json(TEXTS[i], TEXTS[i]);
    xml_cut(TEXTS[i], TEXTS[i]);
    json_cut(TEXTS[i], TEXTS[i]);
  }
}

static void t1_calls_without_the_block(void **state) {
  (void)state;
  xml(READ("a.c"), "«read {\"path\":\"a.c\"}»");
  xml("I look. " READ("a.c") "\n</tool_call>", "I look.«read {\"path\":\"a.c\"}»");
  xml(READ("a") "\n" READ("b"), "«read {\"path\":\"a\"}»«read {\"path\":\"b\"}»");
  xml("Now:\n<function=unknown_one>\n</function>", "Now:«unknown_one {}»");
  json("Now: " READ("a.c"), "Now: " READ("a.c"));
  json("{\"name\": \"read\", \"arguments\": {\"path\": \"a.c\"}}", "«read {\"path\": \"a.c\"}»");
  json("I look.\n\n{ \"name\" :\"read\", \"arguments\": {}}\n{\"name\":\"stop\"} ok", "I look.\n«read {}»«stop {}» ok");
  json("{\"name\":\"read\"", "«read {}»");
  /* Not of a known tool, not at the beginning of a line, not with its name in front. */
  static const char *const TEXTS[] = {"{\"name\": \"Ada\", \"arguments\": {}}",
                                      "x {\"name\": \"read\"}",
                                      "{\"arguments\": {}, \"name\": \"read\"}",
                                      "{\"name\": 5}",
                                      "{",
                                      "{\"name\": \"rea",
                                      "{}\n{\"names\": \"read\"}"};
  for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
    json(TEXTS[i], TEXTS[i]);
    json_cut(TEXTS[i], TEXTS[i]);
    xml(TEXTS[i], TEXTS[i]);
  }
}

static void t1_several_calls_of_a_block(void **state) {
  (void)state;
  xml(BLOCK(READ("a") "\n" READ("b")), "«read {\"path\":\"a\"}»«read {\"path\":\"b\"}»");
  xml(BLOCK(READ("a")) "\n" BLOCK(READ("b")) BLOCK(READ("c")),
      "«read {\"path\":\"a\"}»«read {\"path\":\"b\"}»«read {\"path\":\"c\"}»");
  json(BLOCK("{\"name\":\"stop\",\"arguments\":{}},\n{\"name\":\"stop\",\"arguments\":{\"a\":[1,{}]}}"),
       "«stop {}»«stop {\"a\":[1,{}]}»");
  json(BLOCK("{\"name\":\"stop\",\"arguments\":{}}") "\n" BLOCK("{\"name\":\"read\",\"arguments\":{}}"),
       "«stop {}»«read {}»");
}

static void either_notation_is_read_in_a_block(void **state) {
  (void)state;
  json(BLOCK(READ("a")), "«read {\"path\":\"a\"}»");
  xml(BLOCK("{\"name\":\"stop\",\"arguments\":{\"a\":1}}"), "«stop {\"a\":1}»");
  xml(BLOCK("<function=read>\n{\"path\": \"a\"}\n</function>"), "«read {\"path\": \"a\"}»");
}

static void calls_of_unknown_tools_and_parameters_are_kept(void **state) {
  (void)state;
  xml(BLOCK("<function=other>\n<parameter=n>\n5\n</parameter>\n</function>"), "«other {\"n\":\"5\"}»");
  xml(BLOCK("<function=read>\n<parameter=new>\n5\n</parameter>\n</function>"), "«read {\"new\":\"5\"}»");
  xml(BLOCK("<function=stop>\n</function>"), "«stop {}»");
  json(BLOCK("{\"name\":\"other\",\"arguments\":{\"n\":5}}"), "«other {\"n\":5}»");
}

static void newlines_of_the_template_are_not_part_of_values(void **state) {
  (void)state;
  xml(BLOCK("<function=read>\n<parameter=path>\n\n  a\n\n\tb \n\n</parameter>\n</function>"),
      "«read {\"path\":\"\\n  a\\n\\n\\tb \\n\"}»");
  xml(BLOCK("<function=read>\n<parameter=path>\n\n</parameter>\n</function>"), "«read {\"path\":\"\"}»");
  xml(BLOCK("<function=read>\n<parameter=path>\n</parameter>\n</function>"), "«read {\"path\":\"\"}»");
  xml(BLOCK("<function=read><parameter=path>a</parameter><parameter=lines>7</parameter></function>"),
      "«read {\"path\":\"a\",\"lines\":7}»");
  xml(BLOCK("<function=read>\n<parameter=path>\n\"\\\x01\r\n</parameter>\n</function>"),
      "«read {\"path\":\"\\\"\\\\\\u0001\\r\"}»");
}

static void tags_within_values_are_part_of_them(void **state) {
  (void)state;
  xml(BLOCK(READ("<b>\n</b>\n<parameter=x>\n</parameter> y\n</function>;\n</tool_call>.")),
      "«read {\"path\":\"<b>\\n</b>\\n<parameter=x>\\n</parameter> y\\n</function>;\\n</tool_call>.\"}»");
  json(BLOCK("{\"name\":\"read\",\"arguments\":{\"path\":\"</tool_call>\\\"{\"}}"),
       "«read {\"path\":\"</tool_call>\\\"{\"}»");
}

static void missing_tags_lose_no_call(void **state) {
  (void)state;
  xml(BLOCK("<function=read>\n<parameter=path>\na\n</function>"), "«read {\"path\":\"a\"}»");
  xml(BLOCK("<function=read>\n<parameter=path>\na\n</parameter>"), "«read {\"path\":\"a\"}»");
  xml(BLOCK("<function=read>\n<parameter=path>\na"), "«read {\"path\":\"a\"}»");
  xml(BLOCK("<function=read>\n<parameter=path>\na\n<parameter=lines>\n3\n</parameter>\n</function>"),
      "«read {\"path\":\"a\",\"lines\":3}»");
  xml("<tool_call>\n<function=read>\n" BLOCK("<function=stop>"), "«read {}»«stop {}»");
  xml(BLOCK("<function=read>\nso:\n<parameter=path>\na\n</parameter>\n</function>"), "«read {\"path\":\"a\"}»");
  xml("<tool_call>\n<function=read>\n<parameter=path>\na", "«read {\"path\":\"a\"}»");
  xml("<tool_call>\n<function=read>\n<parameter=lines>\n5\n", "«read {\"lines\":5}»");
  json("<tool_call>\n{\"name\":\"read\",\"arguments\":{\"path\":\"a\"", "«read {\"path\":\"a\"}»");
  json(BLOCK("{\"name\":\"read\",\"arguments\":{\"path\":[\"a\"]"), "«read {\"path\":[\"a\"]\n}»");
  json(BLOCK("{\"name\":\"read\",\"arguments\":{\"lines\":5}}}"), "«read {\"lines\":5}»");
  json("<tool_call>{\"name\":\"read\"", "«read {}»");
}

static void the_first_of_a_repeated_parameter_counts(void **state) {
  (void)state;
  xml(BLOCK("<function=read>\n<parameter=path>\na\n</parameter>\n<parameter=path>\nb\n</parameter>\n</function>"),
      "«read {\"path\":\"a\"}»");
}

static void json_calls_in_other_orders_and_wrappings(void **state) {
  (void)state;
  json(BLOCK("{\"arguments\":{\"path\":\"a\"},\"id\":7,\"name\":\"read\"}"), "«read {\"path\":\"a\"}»");
  json(BLOCK("{\"name\":\"read\",\"arguments\":\"{\\\"path\\\": 1}\"}"), "«read {\"path\": 1}»");
  json(BLOCK("{\"arguments\":\"{\\\"path\\\": 1}\",\"name\":\"read\"}"), "«read {\"path\": 1}»");
  json(BLOCK("{\"name\":\"read\",\"parameters\":{\"path\":1}}"), "«read {\"path\":1}»");
  json(BLOCK("{\"name\":\"stop\"}"), "«stop {}»");
  json(BLOCK("{\"name\":\"stop\",\"arguments\":null}"), "«stop {}»");
  json(BLOCK("{\"name\":\"stop\",\"arguments\":\"\"}"), "«stop {}»");
  json(BLOCK("{\"name\":\"stop\",\"arguments\": 17 }"), "«stop 17»");
  json(BLOCK("{\"type\":\"function\",\"function\":{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}}"),
       "«read {\"path\":\"a\"}»");
  json(BLOCK("{\"function\":\"read\",\"arguments\":{\"path\":\"a\"}}"), "«read {\"path\":\"a\"}»");
  json(BLOCK("{\"no\":1}"), BLOCK("{\"no\":1}"));
  json(BLOCK("{\"name\":1}"), BLOCK("{\"name\":1}"));
  json(BLOCK("{name: 1}"), BLOCK("{name: 1}"));
}

static void t4_json_that_is_slightly_wrong_is_mended(void **state) {
  (void)state;
  json(BLOCK("{\"name\":\"read\",\"arguments\":{\"path\":\"a\nb\tc\"}}"), "«read {\"path\":\"a\\nb\\tc\"}»");
  json(BLOCK("{\"name\":\"read\",\"arguments\":{\"path\":\"\\d\\.\\\n\"}}"), "«read {\"path\":\"\\\\d\\\\.\\\\\\n\"}»");
}

static void t4_python_in_place_of_json_is_mended(void **state) {
  (void)state;
  json(BLOCK("{\"name\":\"read\",\"arguments\":{'path': 1}}"), "«read {\"path\": 1}»");
  json(BLOCK("{'name': 'read', 'arguments': {'path': 'it\\'s \"a\".c', 'all': True, 'list': [False, None, null]}}"),
       "«read {\"path\": \"it\\u0027s \\\"a\\\".c\", \"all\": true, \"list\": [false, null, null]}»");
  json(BLOCK("{\"arguments\":{'path':'a\nb'},\"name\":\"read\"}"), "«read {\"path\":\"a\\nb\"}»");
  json(BLOCK("{\"name\":\"read\",\"arguments\":{\"path\":\"it's True\"}}"), "«read {\"path\":\"it's True\"}»");
  xml("<tool_call>\n<function=read>\n{'path': None}\n</function>\n</tool_call>", "«read {\"path\": null}»");
}

static void t4_json_that_is_wrong_stays_a_call(void **state) {
  (void)state;
  json(BLOCK("{\"name\":\"read\",\"arguments\":{\"path\": Trve}}"), "«read {\"path\": trve}}\n»");
  json(BLOCK("{\"name\":\"read\",\"arguments\":{path: 1}}"), "«read {path: 1}}\n»");
  json(BLOCK("{\"name\":\"read\",oops}") " x", "«read {}» x");
}

static void a_call_that_was_cut_is_never_valid(void **state) {
  (void)state;
  xml_cut("I look.\n<tool_call>\n<function=re", "I look.\n<tool_call>\n<function=re");
  xml_cut("<tool_call>\n<function=read>", "«read {…");
  xml_cut("<tool_call>\n<function=read>\n<parameter=path>\nrm -rf /tmp", "«read {\"path\":\"rm -rf /tmp…");
  xml_cut("<tool_call>\n<function=read>\n<parameter=path>\na\n</parame", "«read {\"path\":\"a…");
  xml_cut("<tool_call>\n<function=read>\n<parameter=lines>\n12", "«read {…");
  xml_cut("<tool_call>\n<function=read>\n<parameter=lines>\n12\n</parameter>\n", "«read {…");
  xml_cut("<tool_call>\n<function=read>\n<parameter=lines>\n12\n</parameter>\n</fun", "«read {…");
  xml_cut("<tool_call>\n<function=read>\n<parameter=lines>\n12\n</parameter>\n</function>\n", "«read {\"lines\":12}»");
  json_cut("<tool_call>\n{\"name\":\"rea", "<tool_call>\n{\"name\":\"rea");
  json_cut("<tool_call>\n{\"name\":\"read\"", "«read {…");
  json_cut("<tool_call>\n{\"name\":\"read\",\"arguments\":{\"a\":1", "«read {\"a\":1…");
  json_cut("<tool_call>\n{\"name\":\"read\",\"arguments\":{\"a\":1}", "«read {\"a\":1}…");
  json_cut("<tool_call>\n{\"name\":\"read\",\"arguments\":{\"a\":1}}\n</tool", "«read {\"a\":1}»\n</tool");
}

static void much_white_space_is_passed_on(void **state) {
  (void)state;
  char text[4096], expected[4096];
  memset(text, ' ', 3000);
  strcpy(text + 3000, "x");
  tool_expect(&(struct tool_case){TOOL_FORM_XML, tools, false}, text, text);
  snprintf(text, sizeof text, "%1500s%s", "", BLOCK(READ("a")));
  snprintf(expected, sizeof expected, "%1024s%s", "", "«read {\"path\":\"a\"}»");
  tool_expect(&(struct tool_case){TOOL_FORM_XML, tools, false}, text, expected);
}

static void text_is_not_held_back_for_long(void **state) {
  (void)state;
  struct tool_schemas *schemas = NULL;
  struct tool_calls *calls = NULL;
  struct tool_record record = {0};
  assert_int_equal(tool_schemas_compile(&schemas, tools, NULL), 0);
  assert_int_equal(tool_calls_create(&calls, TOOL_FORM_XML, schemas, tool_record_event, &record, NULL), 0);
  static const char *const STEPS[][2] = {{"Hi <", "Hi"},
                                         {"b>", "Hi <b>"},
                                         {"\n<function=read>", "Hi <b>«read "},
                                         {"<parameter=path>\n", "Hi <b>«read {\"path\":\""},
                                         {"some\ntext\n", "Hi <b>«read {\"path\":\"some\\ntext"},
                                         {"</parameter>", "Hi <b>«read {\"path\":\"some\\ntext"},
                                         {"\n</function>", "Hi <b>«read {\"path\":\"some\\ntext\"}»"}};
  for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++) {
    tool_calls_push(calls, STEPS[i][0], strlen(STEPS[i][0]));
    assert_string_equal(buffer_text(&record.text), STEPS[i][1]);
  }
  tool_calls_free(calls);
  tool_schemas_free(schemas);
  buffer_free(&record.text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(t1_t2_a_call_as_the_template_writes_it),
      cmocka_unit_test(t1_text_before_between_and_behind),
      cmocka_unit_test(t1_text_without_calls_stays_as_it_is),
      cmocka_unit_test(t1_calls_without_the_block),
      cmocka_unit_test(t1_several_calls_of_a_block),
      cmocka_unit_test(either_notation_is_read_in_a_block),
      cmocka_unit_test(calls_of_unknown_tools_and_parameters_are_kept),
      cmocka_unit_test(newlines_of_the_template_are_not_part_of_values),
      cmocka_unit_test(tags_within_values_are_part_of_them),
      cmocka_unit_test(missing_tags_lose_no_call),
      cmocka_unit_test(the_first_of_a_repeated_parameter_counts),
      cmocka_unit_test(json_calls_in_other_orders_and_wrappings),
      cmocka_unit_test(t4_json_that_is_slightly_wrong_is_mended),
      cmocka_unit_test(t4_python_in_place_of_json_is_mended),
      cmocka_unit_test(t4_json_that_is_wrong_stays_a_call),
      cmocka_unit_test(a_call_that_was_cut_is_never_valid),
      cmocka_unit_test(much_white_space_is_passed_on),
      cmocka_unit_test(text_is_not_held_back_for_long),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* What expressions give and how values are printed. */
#include "unit/text/template_check.h"

static void values_print_as_python_prints_them(void **state) {
  (void)state;
  expect_text("{{ true }} {{ none }} {{ 1.0 }} {{ 1e16 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ [1, 'a', none] }}", NULL,
              "True None 1.0 1e+16 1e-05 0.30000000000000004 [1, 'a', None]");
  expect_text("{{ {'k': (1,)} }} {{ \"it's\" }} {{ [\"it's\", '\\n'] }}", NULL, "{'k': (1,)} it's [\"it's\", '\\n']");
}

static void arithmetic_is_pythons(void **state) {
  (void)state;
  expect_text("{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ 1 ~ 2 * 3 }}", NULL,
              "-4 2 3.5 1024 0.5 4 16");
  expect_failure("{{ 1 // 0 }}", NULL, KJ_INVALID, "test.jinja line 1: ", "division by zero");
  expect_failure("{{ 9223372036854775807 + 1 }}", NULL, KJ_INVALID, "test.jinja line 1: ", "too large");
}

static void characters_are_counted_not_bytes(void **state) {
  (void)state;
  const char *variables = "{\"s\": \"Gr\\u00fc\\u00dfe \\u6771\\ud83d\\ude00\"}";
  expect_text("{{ s|length }} {{ s[2] }} {{ s[-1] }} {{ s[::-1] }} {{ s.upper() }} {{ s.find('東') }}", variables,
              "8 ü 😀 😀東 eßürG GRÜSSE 東😀 6");
}

static void slices_go_both_ways(void **state) {
  (void)state;
  expect_text("{{ x[1:] }} {{ x[:-1] }} {{ x[::-1] }} {{ x[3:0:-2] }} {{ x[9:] }}", "{\"x\": [0, 1, 2, 3]}",
              "[1, 2, 3] [0, 1, 2] [3, 2, 1, 0] [3, 1] []");
}

static void undefined_is_empty_and_its_members_fail(void **state) {
  (void)state;
  expect_text("[{{ x }}{{ d.x }}{{ x|default('d') }}{{ x|length }}{{ x is defined }}]", "{\"d\": {}}", "[d0False]");
  expect_failure("\n\n{{ x.y }}", NULL, KJ_INVALID, "test.jinja line 3: ", "'x' is undefined");
  expect_failure("{{ d.x.y }}", "{\"d\": {}}", KJ_INVALID, "test.jinja line 1: ", "no attribute 'x'");
}

static void members_and_methods_meet_as_in_python(void **state) {
  (void)state;
  expect_text("{{ d['items'] }} {{ d.items()|list }} {{ d.get('no') }} {{ d.get('no', 1) }}", "{\"d\": {\"items\": 5}}",
              "5 [('items', 5)] None 1");
  expect_text("{{ 'a,b'.split(',') }}{{ ' x '.strip() }}{{ 'ab'.startswith('a') }}", NULL, "['a', 'b']xTrue");
}

static void json_is_written_as_python_writes_it(void **state) {
  (void)state;
  expect_text("{{ d|tojson }}", "{\"d\": {\"a\": [1, 2.0, null, true], \"\\u00fc\": \"<'\\\"\\n\\u0001\"}}",
              "{\"a\": [1, 2.0, null, true], \"ü\": \"<'\\\"\\n\\u0001\"}");
  expect_text("{{ d|tojson(indent=2) }}", "{\"d\": {\"a\": [1], \"b\": {}, \"c\": []}}",
              "{\n  \"a\": [\n    1\n  ],\n  \"b\": {},\n  \"c\": []\n}");
}

static void safe_text_escapes_what_is_added_to_it(void **state) {
  (void)state;
  expect_text("{{ ('<a>'|safe) + '<b>' }} {{ ('<a>'|safe) ~ '<b>' }} {{ '<'|e }}", NULL, "<a>&lt;b&gt; <a><b> &lt;");
}

static void a_generator_is_walked_once(void **state) {
  (void)state;
  expect_text("{% set g = [1, 2]|map('string') %}{{ g|join('-') }}|{{ g|join('-') }}", NULL, "1-2|");
}

static void values_cannot_be_changed(void **state) {
  (void)state;
  expect_failure("{{ x.append(1) }}", "{\"x\": []}", KJ_INVALID, "test.jinja line 1: ", "'append' is not allowed");
}

/* Unicode's Final_Sigma looks past ignorable characters, and is as fast on many of them. */
static void a_sigma_is_final_at_the_end_of_a_word(void **state) {
  (void)state;
  expect_text("{{ 'ΑΣ ΑΣΑ Σ A´Σ A^Σ. AΣ:A'.lower() }}", NULL, "ας ασα σ a´ς a^ς. aσ:a");
  expect_text("{{ ('Σ' * 300000).lower().count('σ') }} {{ ('AΣ.' * 100000).lower().count('ς') }}", NULL, "299999 1");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_print_as_python_prints_them),
      cmocka_unit_test(arithmetic_is_pythons),
      cmocka_unit_test(characters_are_counted_not_bytes),
      cmocka_unit_test(slices_go_both_ways),
      cmocka_unit_test(undefined_is_empty_and_its_members_fail),
      cmocka_unit_test(members_and_methods_meet_as_in_python),
      cmocka_unit_test(json_is_written_as_python_writes_it),
      cmocka_unit_test(safe_text_escapes_what_is_added_to_it),
      cmocka_unit_test(a_generator_is_walked_once),
      cmocka_unit_test(values_cannot_be_changed),
      cmocka_unit_test(a_sigma_is_final_at_the_end_of_a_word),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

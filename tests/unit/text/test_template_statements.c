/* Statements: loops, scopes, macros, white space around tags. */
#include "unit/text/template_check.h"

static void loops_know_where_they_are(void **state) {
  (void)state;
  expect_text(
      "{% for x in 'abc' %}{{ loop.index }}{{ loop.revindex }}{{ loop.previtem }}{{ x }}{{ loop.nextitem }}"
      "{{ '.' if loop.last else ',' }}{% endfor %}",
      NULL, "13ab,22abc,31bc.");
  expect_text("{% for x in [1, 2, 3] if x != 2 %}{{ loop.index }}{{ x }}{{ loop.length }} {% endfor %}", NULL,
              "112 232 ");
  expect_text("{% for x in [] %}a{% else %}none{% endfor %}", NULL, "none");
  expect_text("{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", NULL, "13");
  expect_text("{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", NULL, "1");
}

static void names_set_in_a_loop_end_with_it_but_a_namespace_keeps_them(void **state) {
  (void)state;
  expect_text(
      "{% set a = 0 %}{% set ns = namespace(a=0) %}{% for x in [1, 2] %}{% set a = x %}{% set ns.a = x %}"
      "{% endfor %}{{ a }}{{ ns.a }}",
      NULL, "02");
  expect_text("{% if true %}{% set a = 1 %}{% endif %}{{ a }}", NULL, "1");
  expect_failure("{% set d.a = 1 %}", "{\"d\": {}}", KJ_INVALID, "test.jinja line 1: ", "namespace");
}

static void macros_take_arguments_and_callers(void **state) {
  (void)state;
  expect_text("{% macro m(a, b='B') %}({{ a }}{{ b }}){% endmacro %}{{ m(1) }}{{ m(b=2, a=3) }}", NULL, "(1B)(32)");
  expect_text("{% macro m() %}<{{ caller('x') }}>{% endmacro %}{% call(v) m() %}{{ v }}!{% endcall %}", NULL, "<x!>");
  expect_text("{% macro m(n) %}{{ n }}{{ m(n - 1) if n }}{% endmacro %}{{ m(3) }}", NULL, "3210");
  expect_failure("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", NULL, KJ_INVALID, "test.jinja line 1: ", "at most 1");
  expect_failure("{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", NULL, KJ_INVALID, "test.jinja line 1: ", "'b'");
}

static void blocks_of_text_become_values(void **state) {
  (void)state;
  expect_text("{% set t | upper %}a{{ 1 }}{% endset %}{{ t }}{% filter trim %}  b {% endfilter %}", NULL, "A1b");
  expect_text("{% raw %}{{ x }}{% endraw %}{# {{ y }} #}{% generation %}g{% endgeneration %}", NULL, "{{ x }}g");
}

static void tags_take_their_lines_with_them(void **state) {
  (void)state;
  expect_text("a\n  {% if true %}\n  b\n  {% endif %}\nc\n", NULL, "a\n  b\nc");
  expect_text("a\n  {%- if true -%}\n  b\n  {%- endif %}\nc", NULL, "abc");
  expect_text("a\n  {%+ if true +%}\n b{% endif %}", NULL, "a\n  \n b");
  expect_text("a  {{- 1 -}}\n b\n", NULL, "a1b");
  expect_text("a\r\n{# c #}\r\nb\n\n", NULL, "a\nb\n");
}

static void the_templates_own_exception_is_the_message(void **state) {
  (void)state;
  struct buffer out = {0};
  struct kj_error error = {0};
  assert_int_equal(render_text("x{{ raise_exception('no ' ~ 1) }}", NULL, &out, &error), KJ_INVALID);
  assert_string_equal(error.message, "no 1");
  assert_int_equal(out.length, 0);
  buffer_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loops_know_where_they_are),
      cmocka_unit_test(names_set_in_a_loop_end_with_it_but_a_namespace_keeps_them),
      cmocka_unit_test(macros_take_arguments_and_callers),
      cmocka_unit_test(blocks_of_text_become_values),
      cmocka_unit_test(tags_take_their_lines_with_them),
      cmocka_unit_test(the_templates_own_exception_is_the_message),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

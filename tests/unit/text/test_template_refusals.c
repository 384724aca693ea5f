/* What is refused when a template is compiled, and the bounds of a rendering. */
#include <stdlib.h>

#include "unit/text/template_check.h"

static void what_the_interpreter_lacks_is_refused_with_its_line(void **state) {
  (void)state;
  static const struct {
    const char *source, *reason;
  } CASES[] = {
      {"\n{% if false %}{{ 1|nope }}{% endif %}", "no filter named 'nope'"},
      {"\n{% if false %}{{ 1 is nope }}{% endif %}", "no test named 'nope'"},
      {"\n{{ nope() }}", "no function named 'nope'"},
      {"\n{% nope %}", "unknown tag 'nope'"},
      {"\n{{ [1]|map('nope')|list }}", "no filter named 'nope'"},
      {"\n{{ [1]|selectattr('a', 'nope')|list }}", "no test named 'nope'"},
      {"\n{{ 'a'.encode() }}", "the method 'encode'"},
      {"\n{% include 'x' %}", "unknown tag 'include'"},
      {"\n{% for x in y recursive %}{% endfor %}", "recursive loops"},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    expect_failure(CASES[i].source, NULL, KJ_UNSUPPORTED, "test.jinja line 2: ", CASES[i].reason);
  }
}

static void malformed_templates_are_refused_with_their_line(void **state) {
  (void)state;
  static const struct {
    const char *source, *reason;
  } CASES[] = {
      {"a\n{{ 1 +", "unexpected end of template"},
      {"\n{{ (1 }}", "unexpected '}'"},
      {"\n{% if x %}", "expected 'elif' or 'else'"},
      {"\n{% endif %}", "unknown tag 'endif'"},
      {"\n{{ 'abc }}", "does not end"},
      {"\n{# abc", "missing end of comment"},
      {"\n{% break %}", "outside of a loop"},
      {"\n{{ a b }}", "expected '}}', got 'b'"},
      {"\n{{ '\\ud800' }}", "no character"},
      {"\n{{ 99999999999999999999 }}", "too large"},
      {"\n{{ $ }}", "unexpected character '$'"},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    struct buffer out = {0};
    struct kj_error error = {0};
    int code = render_text(CASES[i].source, NULL, &out, &error);
    assert_true(code == KJ_INVALID || code == KJ_UNSUPPORTED);
    if (strncmp(error.message, "test.jinja line 2: ", 19) != 0 || !strstr(error.message, CASES[i].reason)) {
      fail_msg("%s: message is: %s", CASES[i].source, error.message);
    }
    buffer_free(&out);
  }
}

static void bytes_that_are_no_text_are_refused(void **state) {
  (void)state;
  struct jinja_template *template = NULL;
  struct kj_error error = {0};
  assert_int_equal(jinja_compile(&template, "t", "ab\xff", 3, &error), KJ_INVALID);
  assert_null(template);
  assert_non_null(strstr(error.message, "byte 2"));
}

static void a_template_that_does_not_end_is_stopped(void **state) {
  (void)state;
  expect_failure("{% set r = range(99999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}", NULL, KJ_INVALID,
                 "test.jinja line 1: ", "does not end");
  expect_failure("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", NULL, KJ_INVALID, "test.jinja line 1: ", "deep");
  expect_failure("{{ range(1000000) }}", NULL, KJ_INVALID, "test.jinja line 1: ", "range");
}

static void a_template_that_grows_without_end_is_stopped(void **state) {
  (void)state;
  expect_failure(
      "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", NULL,
      KJ_INVALID, "test.jinja line 1: ", "memory");
  expect_failure("{{ 'x' * 99999999999 }}", NULL, KJ_INVALID, "test.jinja line 1: ", "too long");
  expect_failure("{% for i in range(1000) %}{{ 'x' * 100000 }}{% endfor %}", NULL, KJ_INVALID,
                 "test.jinja line 1: ", "64 MiB");
  expect_failure(
      "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}", NULL,
      KJ_INVALID, "test.jinja line 1: ", "deep");
  static const char *const BUILDERS[] = {
      "{{ ('x' * 1000000).join(['a'] * 1000) }}",
      "{{ ('a' * 1000).replace('a', 'x' * 1000000) }}",
      "{% set s = 'x' * 1000000 %}{{ ('{0}' * 1000).format(s) }}",
  };
  for (size_t i = 0; i < sizeof BUILDERS / sizeof *BUILDERS; i++) {
    expect_failure(BUILDERS[i], NULL, KJ_INVALID, "test.jinja line 1: ", "longer than 256 MiB");
  }
}

/* The lowest bits of the hash (FNV-1a) of the interpreter's mappings after more bytes. */
static uint32_t hash_on(uint32_t hash, const char *bytes) {
  for (; *bytes; bytes++) hash = (hash ^ (unsigned char)*bytes) * 0x1b3u;
  return hash & 0xfffff;
}

enum { LETTERS = 6 };

/* The number to the base 26. */
static void spell(uint32_t number, char letters[LETTERS + 1]) {
  for (int i = 0; i < LETTERS; i++, number /= 26) letters[i] = (char)('a' + number % 26);
  letters[LETTERS] = '\0';
}

/* Two continuations that leave the hash the same, which is returned. */
static uint32_t collide(uint32_t hash, char pair[2][LETTERS + 1]) {
  static uint32_t seen[1 << 20]; /* number + 1 of the letters that led to a hash */
  memset(seen, 0, sizeof seen);
  for (uint32_t number = 0;; number++) {
    spell(number, pair[0]);
    uint32_t result = hash_on(hash, pair[0]);
    if (seen[result]) {
      spell(seen[result] - 1, pair[1]);
      return result;
    }
    seen[result] = number + 1;
  }
}

/* H12: 32768 keys that all hash alike would take half a thousand million comparisons. */
static void h12_keys_that_are_chosen_to_collide_are_stopped(void **state) {
  enum { PAIRS = 15 };
  char pairs[PAIRS][2][LETTERS + 1];
  uint32_t hash = 0x84222325u & 0xfffff;
  struct buffer json = {0};
  (void)state;
  for (int i = 0; i < PAIRS; i++) hash = collide(hash, pairs[i]);
  buffer_append_text(&json, "{\"x\":{");
  for (uint32_t key = 0; key < 1u << PAIRS; key++) {
    buffer_append_text(&json, key ? ",\"" : "\"");
    for (int i = 0; i < PAIRS; i++) buffer_append_text(&json, pairs[i][key >> i & 1]);
    buffer_append_text(&json, "\":0");
  }
  buffer_append_text(&json, "}}");
  expect_failure("{{ x|length }}", buffer_text(&json), KJ_INVALID, "test.jinja line 1: ", "does not end");
  buffer_free(&json);
}

/* `count` times `open`, `middle`, `count` times `close`. */
static char *nested(const char *open, const char *middle, const char *close, size_t count) {
  struct buffer text = {0};
  for (size_t i = 0; i < count; i++) buffer_append_text(&text, open);
  buffer_append_text(&text, middle);
  for (size_t i = 0; i < count; i++) buffer_append_text(&text, close);
  assert_false(buffer_failed(&text));
  return text.data;
}

static void deep_nesting_is_refused_not_followed(void **state) {
  (void)state;
  static const struct {
    const char *before, *open, *middle, *close, *after;
  } CASES[] = {
      {"{{ ", "(", "1", ")", " }}"},           {"{{ ", "not ", "1", "", " }}"},
      {"{{ ", "- ", "1", "", " }}"},           {"", "{% if 1 %}", "x", "{% endif %}", ""},
      {"{{ ", "1 if 1 else ", "1", "", " }}"}, {"{{ ", "1 + ", "1", "", " }}"},
      {"{{ ", "", "x", ".x", " }}"},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    char *middle = nested(CASES[i].open, CASES[i].middle, CASES[i].close, 100000);
    struct buffer source = {0}, out = {0};
    struct kj_error error = {0};
    buffer_append_format(&source, "%s%s%s", CASES[i].before, middle, CASES[i].after);
    assert_int_equal(render_text(buffer_text(&source), NULL, &out, &error), KJ_INVALID);
    assert_non_null(strstr(error.message, "nest"));
    buffer_free(&source);
    buffer_free(&out);
    free(middle);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_the_interpreter_lacks_is_refused_with_its_line),
      cmocka_unit_test(malformed_templates_are_refused_with_their_line),
      cmocka_unit_test(bytes_that_are_no_text_are_refused),
      cmocka_unit_test(a_template_that_does_not_end_is_stopped),
      cmocka_unit_test(a_template_that_grows_without_end_is_stopped),
      cmocka_unit_test(h12_keys_that_are_chosen_to_collide_are_stopped),
      cmocka_unit_test(deep_nesting_is_refused_not_followed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The builder: its expressions' texts, failures that are kept until the end, and sizes that stay within bounds. */
#include "grammar/grammar.h"

#include <stdio.h>

#include "grammar/json_text.h"
#include "unit/grammar/grammar_check.h"

static struct grammar_builder *builder;

static int setup(void **state) {
  (void)state;
  return grammar_builder_create(&builder, NULL);
}

static int teardown(void **state) {
  (void)state;
  grammar_builder_free(builder);
  return 0;
}

static void check(grammar_expression root, const char *const *inside, const char *const *outside) {
  struct grammar *grammar;
  struct kj_error error;
  if (grammar_finish(builder, root, &grammar, &error)) fail_msg("%s", error.message);
  check_texts(grammar, inside, outside);
  grammar_release(grammar);
}

static void refuse(grammar_expression root, enum kj_code code, const char *message) {
  struct grammar *grammar;
  struct kj_error error;
  assert_int_equal(grammar_finish(builder, root, &grammar, &error), code);
  assert_null(grammar);
  if (!strstr(error.message, message)) fail_msg("\"%s\" lacks \"%s\"", error.message, message);
}

static void test_text_until(void **state) {
  (void)state;
  check(grammar_text_until(builder, "aab", 3),
        TEXTS("aab", "aaab", "xaab", "aaxaaab",
              "\xc3\xa9"
              "aab"),
        TEXTS("", "aa", "aabx", "aabaab",
              "\xc3"
              "aab"));
}

static void test_text_without(void **state) {
  (void)state;
  check(grammar_text_without(builder, "\n<", 2), TEXTS("", "<\n", "\n\n", "a<b\n\xe2\x82\xac"),
        TEXTS("\n<", "\n\n<", "a\n<b"));
}

static void test_classes(void **state) {
  (void)state;
  static const struct code_range RANGES[] = {
      {'x', 'z'}, {0xd000, 0xe000}, {'a', 'c'}, {'b', 'd'}, {0x10ffff, 0x10ffff}};
  check(grammar_class(builder, RANGES, 5, false), TEXTS("a", "d", "y", "\xed\x80\x80", "\xf4\x8f\xbf\xbf"),
        TEXTS("e", "\xed\xa0\x80", "\xf4\x8f\xbf\xbe", "ab"));
}

/* Literals of a choice share their beginnings; some end where others go on. */
static void test_a_thousand_literals(void **state) {
  (void)state;
  grammar_expression values[1001];
  for (unsigned i = 0; i < 1000; i++) {
    char text[16];
    snprintf(text, sizeof text, "v%u", i * 7);
    values[i] = grammar_text(builder, text);
  }
  values[1000] = grammar_text(builder, "");
  check(grammar_choice(builder, values, 1001), TEXTS("", "v0", "v7", "v70", "v6993"),
        TEXTS("v", "v1", "v699", "v70007"));
}

static void test_parts_that_match_nothing(void **state) {
  (void)state;
  grammar_expression nothing = grammar_choice(builder, NULL, 0), rule = grammar_rule(builder, "endless");
  grammar_expression endless[] = {grammar_text(builder, "x"), rule};
  grammar_define(builder, rule, grammar_sequence(builder, endless, 2));
  grammar_expression ways[] = {nothing, grammar_text(builder, "a"), rule,
                               grammar_repeat(builder, nothing, 0, GRAMMAR_UNBOUNDED)};
  check(grammar_choice(builder, ways, 4), TEXTS("", "a"), TEXTS("x", "xx"));
}

static void test_an_empty_grammar(void **state) {
  (void)state;
  refuse(grammar_repeat(builder, grammar_class(builder, NULL, 0, false), 1, 3), KJ_INVALID, "no text at all");
}

static void test_an_undefined_rule(void **state) {
  (void)state;
  refuse(grammar_optional(builder, grammar_rule(builder, "later")), KJ_INVALID, "\"later\" is used and not defined");
}

/* The first failure is the one that is told, and nothing after it does harm. */
static void test_the_first_failure_counts(void **state) {
  (void)state;
  grammar_expression bad = grammar_text(builder, "\xff");
  assert_true(grammar_failed(builder));
  grammar_fail(builder, KJ_UNSUPPORTED, "a later one");
  grammar_expression parts[] = {bad, grammar_repeat(builder, bad, 3, 2)};
  refuse(grammar_sequence(builder, parts, 2), KJ_INVALID, "not UTF-8 at byte 0");
}

static void test_bounds_of_repetitions(void **state) {
  (void)state;
  refuse(grammar_repeat(builder, grammar_text(builder, "a"), 0, GRAMMAR_MAX_REPEAT + 1), KJ_UNSUPPORTED,
         "16777217 times");
}

static void test_depth(void **state) {
  (void)state;
  grammar_expression deep = grammar_text(builder, "a");
  for (int i = 0; i < 2000; i++) deep = grammar_optional(builder, deep);
  refuse(deep, KJ_UNSUPPORTED, "more than 1000 deep");
}

/* An expression that is used in many places is compiled once, however it is nested. */
static void test_shared_expressions(void **state) {
  (void)state;
  grammar_expression shared = grammar_text(builder, "ab");
  for (int i = 0; i < 40; i++) {
    grammar_expression parts[] = {shared, grammar_optional(builder, grammar_text(builder, "-")), shared};
    grammar_expression ways[] = {grammar_sequence(builder, parts, 3), grammar_text(builder, "c")};
    shared = grammar_choice(builder, ways, 2);
  }
  check(shared, TEXTS("c"), TEXTS("", "b", "-"));
}

static void test_json_characters(void **state) {
  (void)state;
  check(json_text_characters(builder, 2, 3),
        TEXTS("ab", "\\\"\\u00e9", "\\n\\ud83d\\ude00",
              "\xf0\x9f\x98\x80"
              "a\\\\",
              "\x7f/\\/"),
        TEXTS("a", "abcd", "\"a", "\\x1", "\\ud83d\\ud83d", "\\ud83da", "\\ude00a", "\na", "a\\"));
}

static void test_json_literals(void **state) {
  (void)state;
  check(json_text_literal(builder, "a\"\\\n\x01\xc3\xa9/", 8), TEXTS("a\\\"\\\\\\n\\u0001\xc3\xa9/"),
        TEXTS("a\"\\\n\x01\xc3\xa9/"));
}

static void test_json_classes(void **state) {
  (void)state;
  static const struct code_range RANGES[] = {{'a', 'z'}};
  check(json_text_class(builder, RANGES, 1, true), TEXTS("\\\"", "\\\\", "\\n", "\\u001F", "\\u001f", "A", "\xc3\xa9"),
        TEXTS("a", "\"", "\\", "\n", "\\u0041"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_text_until, setup, teardown),
      cmocka_unit_test_setup_teardown(test_text_without, setup, teardown),
      cmocka_unit_test_setup_teardown(test_classes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_thousand_literals, setup, teardown),
      cmocka_unit_test_setup_teardown(test_parts_that_match_nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(test_an_empty_grammar, setup, teardown),
      cmocka_unit_test_setup_teardown(test_an_undefined_rule, setup, teardown),
      cmocka_unit_test_setup_teardown(test_the_first_failure_counts, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bounds_of_repetitions, setup, teardown),
      cmocka_unit_test_setup_teardown(test_depth, setup, teardown),
      cmocka_unit_test_setup_teardown(test_shared_expressions, setup, teardown),
      cmocka_unit_test_setup_teardown(test_json_characters, setup, teardown),
      cmocka_unit_test_setup_teardown(test_json_literals, setup, teardown),
      cmocka_unit_test_setup_teardown(test_json_classes, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

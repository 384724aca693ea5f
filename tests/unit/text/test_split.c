#include "text/split.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "text/split_syntax.h"
#include "unit/unit.h"

static int join(void *context, const char *piece, size_t length, struct kj_error *error) {
  (void)error;
  buffer_append(context, piece, length);
  buffer_append(context, "|", 1);
  return 0;
}

static void assert_splits(const char *expression, bool literal, const char *text, const char *pieces) {
  struct split_expression *compiled;
  struct splitter *splitter;
  struct kj_error error;
  struct buffer joined = {0};
  assert_int_equal(split_expression_compile(&compiled, expression, strlen(expression), literal, &error), 0);
  assert_int_equal(splitter_create(&splitter, strlen(text), &error), 0);
  assert_int_equal(splitter_run(splitter, &compiled, 1, text, strlen(text), join, &joined, &error), 0);
  assert_string_equal(buffer_text(&joined), pieces);
  buffer_free(&joined);
  splitter_free(splitter);
  split_expression_free(compiled);
}

static void gives_matches_and_what_lies_between(void **state) {
  (void)state;
  assert_splits("\\p{L}+", false, "ab-cd--", "ab|-|cd|--|");
  assert_splits("--", true, "ab--c-d--", "ab|--|c-d|--|");
  assert_splits("\\d{1,3}", false, "1234567", "123|456|7|");
  assert_splits("(?i:'s)", false, "x'S'\u017f", "x|'S|'\u017f|");
  assert_splits("x", false, "", "");
  assert_splits("x*", false, "axb", "a|x|b|");
}

static void takes_white_space_as_unicode_defines_it(void **state) {
  (void)state;
  assert_splits("\\s+", false, "a\xc2\x85\u00a0\u2003b\u180ec", "a|\xc2\x85\u00a0\u2003|b\u180ec|");
  assert_splits("[^\\S\\n]+", false, "a \t\nb", "a| \t|\nb|");
  assert_splits("\\S+", false, " a\u180eb ", " |a\u180eb| |");
}

static void knows_the_letters_of_unicode_16(void **state) {
  (void)state;
  assert_splits("\\p{L}+", false, "+\U0002ebf0\U0001611d+", "+|\U0002ebf0\U0001611d|+|");
  assert_splits("[^\\p{L}\\p{N}]+", false, "\U0002ebf0+\U0001ccf0", "\U0002ebf0|+|\U0001ccf0|");
}

static void refuses_by_name_what_could_mean_something_else(void **state) {
  (void)state;
  static const char *const expressions[] = {
      "^a",        "a$",       "\\w+",        "\\bx",      "\\h",         "\\v",     "\\R",     "\\X",      "\\1",
      "(?<n>a)",   "(?m:.)",   "(?i)a",       "(*ACCEPT)", "[[:alpha:]]", "[a&&b]",  "[a[b]]",  "\\p{Han}", "\\pL",
      "\\p{^L}",   "[\\P{L}]", "a{,3}",       "a{2}+",     "a{2,3}?",     "[\\s-a]", "[+-\\s]", "[]a]",     "[a",
      "\\x{d800}", "\\xff",    "\\x{110000}", "\\u12",     "\\",          "a{",      "\\p{L",   "\\Q",      "\\K"};
  for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
    struct split_expression *compiled;
    struct kj_error error;
    if (split_expression_compile(&compiled, expressions[i], strlen(expressions[i]), false, &error) != KJ_UNSUPPORTED)
      fail_msg("%s is not refused", expressions[i]);
    assert_null(compiled);
    assert_non_null(strstr(error.message, "split expression: "));
  }
}

static void refuses_what_is_no_expression(void **state) {
  (void)state;
  static const char *const expressions[] = {"(a", "a)", "*a", "[b-a]", ""};
  for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
    struct split_expression *compiled;
    struct kj_error error;
    assert_int_equal(split_expression_compile(&compiled, expressions[i], strlen(expressions[i]), false, &error),
                     KJ_INVALID);
    assert_null(compiled);
  }
}

static int run_on_letters(const char *expression, size_t length, struct buffer *joined, struct kj_error *error) {
  struct split_expression *compiled;
  struct splitter *splitter;
  char *text = malloc(length);
  assert_non_null(text);
  memset(text, 'a', length);
  assert_int_equal(split_expression_compile(&compiled, expression, strlen(expression), false, error), 0);
  assert_int_equal(splitter_create(&splitter, length, error), 0);
  int code = splitter_run(splitter, &compiled, 1, text, length, join, joined, error);
  splitter_free(splitter);
  split_expression_free(compiled);
  free(text);
  return code;
}

static void says_so_when_an_expression_takes_too_many_steps(void **state) {
  (void)state;
  struct buffer joined = {0};
  struct kj_error error;
  assert_int_equal(run_on_letters("(a+a+)+[^a]", 64, &joined, &error), KJ_INVALID);
  assert_non_null(strstr(error.message, "limit"));
  buffer_free(&joined);
}

static void goes_on_where_the_fast_engine_runs_out_of_stack(void **state) {
  (void)state;
  enum { LENGTH = 100000 };
  struct buffer joined = {0};
  struct kj_error error;
  assert_int_equal(run_on_letters("(?:a|(b))+", LENGTH, &joined, &error), 0);
  assert_int_equal(joined.length, LENGTH + 1);
  buffer_free(&joined);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_matches_and_what_lies_between),
      cmocka_unit_test(takes_white_space_as_unicode_defines_it),
      cmocka_unit_test(knows_the_letters_of_unicode_16),
      cmocka_unit_test(refuses_by_name_what_could_mean_something_else),
      cmocka_unit_test(refuses_what_is_no_expression),
      cmocka_unit_test(says_so_when_an_expression_takes_too_many_steps),
      cmocka_unit_test(goes_on_where_the_fast_engine_runs_out_of_stack),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

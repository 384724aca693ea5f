/* Regular expressions: the texts they match, as they are and within a JSON string, and what is refused by name. */
#include "grammar/pattern.h"

#include <stdio.h>

#include "unit/grammar/grammar_check.h"

static int compile(const char *pattern, enum pattern_place place, struct grammar **grammar, struct kj_error *error) {
  struct grammar_builder *builder;
  assert_int_equal(grammar_builder_create(&builder, NULL), 0);
  grammar_expression root = pattern_compile(builder, pattern, strlen(pattern), place);
  int code = grammar_finish(builder, root, grammar, error);
  grammar_builder_free(builder);
  return code;
}

static void check(const char *pattern, enum pattern_place place, const char *const *inside,
                  const char *const *outside) {
  struct grammar *grammar;
  struct kj_error error;
  if (compile(pattern, place, &grammar, &error)) fail_msg("%s: %s", pattern, error.message);
  check_texts(grammar, inside, outside);
  grammar_release(grammar);
}

static void in_text(const char *pattern, const char *const *inside, const char *const *outside) {
  check(pattern, PATTERN_IN_TEXT, inside, outside);
}

static void in_json(const char *pattern, const char *const *inside, const char *const *outside) {
  check(pattern, PATTERN_IN_JSON_STRING, inside, outside);
}

static void refuse(const char *pattern, enum kj_code code, const char *message) {
  struct grammar *grammar;
  struct kj_error error;
  assert_int_equal(compile(pattern, PATTERN_IN_TEXT, &grammar, &error), code);
  if (!strstr(error.message, message)) fail_msg("%s: \"%s\" lacks \"%s\"", pattern, error.message, message);
}

static void test_anchors(void **state) {
  (void)state;
  in_text("^ab$", TEXTS("ab"), TEXTS("a", "abc", "xab"));
  in_text("^ab", TEXTS("ab", "ab\nc"), TEXTS("xab", "a"));
  in_text("ab$",
          TEXTS("ab",
                "\xc3\xa9"
                "ab",
                "abab"),
          TEXTS("abx"));
  in_text("ab", TEXTS("ab", "xaby"), TEXTS("a", "axb"));
  in_text("^a|b$", TEXTS("axx", "xxb", "a", "b"), TEXTS("xa", "bx"));
  in_text("", TEXTS("", "anything"), TEXTS("\xff"));
  in_text("^$", TEXTS(""), TEXTS("a"));
}

static void test_quantifiers(void **state) {
  (void)state;
  in_text("^a*b+c?d{2}e{1,}f{0,2}$", TEXTS("bdde", "aabbcddeeff"), TEXTS("dde", "bdeff", "bddefff"));
  in_text("^a*?b+?c??d{2}?$", TEXTS("bdd", "aabcdd"), TEXTS("dd"));
  in_text("^(ab|c){2,3}$", TEXTS("abc", "ccc", "abab"), TEXTS("ab", "cccc"));
  in_text("^\\d{3,100000}$", TEXTS("123", "123456"), TEXTS("12"));
  in_text("^a{,2}b{x$", TEXTS("a{,2}b{x"), TEXTS("aab"));
}

static void test_classes(void **state) {
  (void)state;
  in_text("^[a-c\\d_-]+$", TEXTS("a1-_c"), TEXTS("d", ""));
  in_text("^[^a-c\\s]$", TEXTS("d", "\xe2\x82\xac"), TEXTS("a", " ", "\xe3\x80\x80"));
  in_text("^\\w\\W\\s\\S\\d\\D$", TEXTS("_- x0x"), TEXTS("--\tx0x"));
  in_text("^[]$|^x$", TEXTS("x"), TEXTS("", "]"));
  in_text("^[^]$", TEXTS("\n", "x"), TEXTS(""));
  in_text("^.$", TEXTS("x", "\xf0\x9f\x98\x80"), TEXTS("\n", "\r", "\xe2\x80\xa8", "xx"));
  in_text("^[\\b\\]\\\\^]+$", TEXTS("\b]\\^"), TEXTS("b"));
  in_text("^[\\D5]$", TEXTS("5", "x"), TEXTS("4"));
}

static void test_escapes(void **state) {
  (void)state;
  in_text("^\\t\\n\\v\\f\\r\\x41\\u00e9\\u{1F600}\\ud83d\\ude00\\cJ\\.\\/\\$$",
          TEXTS("\t\n\v\f\rA\xc3\xa9\xf0\x9f\x98\x80\xf0\x9f\x98\x80\n./$"), TEXTS("t"));
}

static void test_groups(void **state) {
  (void)state;
  in_text("^(?:a|(?<name>b(c)))d$", TEXTS("ad", "bcd"), TEXTS("bd", "acd"));
  in_text("^(|a)b$", TEXTS("b", "ab"), TEXTS("a"));
}

/* Characters that JSON escapes come with their shortest escape. */
static void test_within_json(void **state) {
  (void)state;
  in_json("^[\"\\\\\\n]x$", TEXTS("\\\"x", "\\\\x", "\\nx"), TEXTS("\"x", "\\x", "\nx", "nx"));
  in_json("^\\x01\\x1f[\\x0c-\\x0e]$", TEXTS("\\u0001\\u001f\\f", "\\u0001\\u001f\\u000E", "\\u0001\\u001f\\r"),
          TEXTS("\x01\x1f\f"));
  in_json("^a\"b/\xc3\xa9$", TEXTS("a\\\"b/\xc3\xa9"), TEXTS("a\"b/\xc3\xa9"));
  in_json("b", TEXTS("\\u0041\\nb\\\\", "b"), TEXTS("\\", "b\"", "a"));
  in_json("^.$", TEXTS("\\\"", "a", "\\t"), TEXTS("\"", "\\n", "\\"));
}

static void test_refusals(void **state) {
  (void)state;
  refuse("a(?=b)", KJ_UNSUPPORTED, "character 4: lookahead");
  refuse("a(?!b)", KJ_UNSUPPORTED, "lookahead");
  refuse("(?<=b)", KJ_UNSUPPORTED, "lookbehind");
  refuse("(?<!b)", KJ_UNSUPPORTED, "lookbehind");
  refuse("(?i:b)", KJ_UNSUPPORTED, "flags");
  refuse("(a)\\1", KJ_UNSUPPORTED, "backreferences");
  refuse("\\k<a>", KJ_UNSUPPORTED, "backreferences");
  refuse("\\bfoo", KJ_UNSUPPORTED, "word boundaries");
  refuse("\xc3\xa9\\p{L}", KJ_UNSUPPORTED, "properties");
  refuse("(^a)", KJ_UNSUPPORTED, "^ and $");
  refuse("a$b", KJ_UNSUPPORTED, "^ and $");
  refuse("(a", KJ_INVALID, "not closed");
  refuse("a)", KJ_INVALID, "character 2: a )");
  refuse("[a", KJ_INVALID, "not closed");
  refuse("[b-a]", KJ_INVALID, "range");
  refuse("[a-\\d]", KJ_INVALID, "ends with a set");
  refuse("*a", KJ_INVALID, "nothing before");
  refuse("a**", KJ_INVALID, "behind a quantifier");
  refuse("\\q", KJ_INVALID, "does not exist");
  refuse("\\", KJ_INVALID, "does not exist");
  refuse("\\xg", KJ_INVALID, "hexadecimal");
  refuse("\\ud800", KJ_INVALID, "no character");
  refuse("a{3,2}", KJ_INVALID, "not possible");
  refuse("a{99999999}", KJ_UNSUPPORTED, "16777216");
  refuse("\xff", KJ_INVALID, "not UTF-8");
  char deep[600];
  memset(deep, '(', 599);
  deep[599] = 0;
  refuse(deep, KJ_UNSUPPORTED, "200 deep");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_anchors),  cmocka_unit_test(test_quantifiers), cmocka_unit_test(test_classes),
      cmocka_unit_test(test_escapes),  cmocka_unit_test(test_groups),      cmocka_unit_test(test_within_json),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

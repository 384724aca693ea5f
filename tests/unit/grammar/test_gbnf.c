/* GBNF: what is read, and what is refused with its place. */
#include "grammar/gbnf.h"

#include "base/buffer.h"
#include "unit/grammar/grammar_check.h"

static void check(const char *text, const char *const *inside, const char *const *outside) {
  struct grammar *grammar;
  struct kj_error error;
  if (gbnf_compile(text, strlen(text), &grammar, &error)) fail_msg("%s: %s", text, error.message);
  check_texts(grammar, inside, outside);
  grammar_release(grammar);
}

static void refuse(const char *text, enum kj_code code, const char *message) {
  struct grammar *grammar;
  struct kj_error error;
  assert_int_equal(gbnf_compile(text, strlen(text), &grammar, &error), code);
  assert_null(grammar);
  if (!strstr(error.message, message)) fail_msg("%s: \"%s\" lacks \"%s\"", text, error.message, message);
}

static void test_elements(void **state) {
  (void)state;
  check("root ::= \"a\" [b-d] . \"e\"",
        TEXTS("abxe",
              "ad\xe2\x82\xac"
              "e"),
        TEXTS("", "abe", "aexe", "abxef"));
  check("root ::= [^a-c\\n]", TEXTS("d", "\xc3\xa9"), TEXTS("a", "\n", "dd"));
  check("root ::= \"\"", TEXTS(""), TEXTS("a"));
  check("root ::= [a-] | [\\]x]", TEXTS("a", "-", "]", "x"), TEXTS("b", "\\"));
  check("root ::= a | b-2\na ::= \"x\" | b-2 \"y\"\nb-2 ::= [0-9]", TEXTS("x", "7y", "7"), TEXTS("y", "xy"));
}

static void test_escapes(void **state) {
  (void)state;
  check("root ::= \"\\n\\r\\t\\\\\\\"\\[\\]\\x41\\u00e9\\U0001F600\"", TEXTS("\n\r\t\\\"[]A\xc3\xa9\xf0\x9f\x98\x80"),
        TEXTS("n"));
  check("root ::= [\\x00-\\x1F\\u4e00-\\u9fff]", TEXTS("\n", "\xe4\xb8\x80"), TEXTS(" ", "a"));
}

static void test_repetitions(void **state) {
  (void)state;
  check("root ::= \"ab\"* \"c\"+ \"d\"?", TEXTS("c", "ababccd"), TEXTS("", "abab", "abacc", "cdd"));
  check("root ::= [a-z]{3}", TEXTS("abc"), TEXTS("ab", "abcd"));
  check("root ::= \"ab\"{2,}", TEXTS("abab", "ababab"), TEXTS("ab", "aba"));
  check("root ::= \"ab\"{,2} \"c\"{1,3}", TEXTS("c", "abccc", "ababc"), TEXTS("ab", "abababc", "cccc"));
  check("root ::= ([a-c] \"x\"?){ 7 , 100000 }", TEXTS("axbcccaaaax"), TEXTS("axbccc"));
  check("root ::= (\"a\"? \"b\"*)* (\"c\"?){100,100000}", TEXTS("", "abbacc"), TEXTS("ca"));
}

static void test_layout(void **state) {
  (void)state;
  check("# first\n\nroot ::= # a comment\n  \"a\" |\n  ( # within\n \"b\"\n  | \"c\" )  other\r\n\nother ::= \"d\"",
        TEXTS("a", "bd", "cd"), TEXTS("b", "ad"));
  check("a ::= \"x\"\nroot ::= a a", TEXTS("xx"), TEXTS("x"));
}

static void test_recursion(void **state) {
  (void)state;
  check("root ::= \"(\" root* \")\" | item\nitem ::= \"x\" (\",\" item)?", TEXTS("((x)()(x,x))", "x,x,x"),
        TEXTS("((", "(x,)", "x)"));
  /* A call at the end takes no place on the stack, however long the list gets. */
  check("root ::= \"x\" root | \"y\"", TEXTS("y", "xxxxxxxxy"), TEXTS("x"));
}

static void test_faults_have_their_place(void **state) {
  (void)state;
  refuse("", KJ_INVALID, "no rule \"root\"");
  refuse("start ::= \"a\"", KJ_INVALID, "no rule \"root\"");
  refuse("root ::= \"a\"\nroot ::= \"b\"", KJ_INVALID, "line 2, column 1: this rule is defined twice");
  refuse("root ::= \"a\" other", KJ_INVALID, "line 1, column 14: this rule is used and not defined");
  refuse("root ::= \"\xc3\xa9\" ]", KJ_INVALID, "line 1, column 14");
  refuse("root = \"a\"", KJ_INVALID, "line 1, column 6: ::= is missing");
  refuse("root ::= \"a", KJ_INVALID, "ends within a literal");
  refuse("root ::= [a-", KJ_INVALID, "ends within a literal or class");
  refuse("root ::= [z-a]", KJ_INVALID, "column 11: a range");
  refuse("root ::= \"\\q\"", KJ_INVALID, "column 12: an unknown escape");
  refuse("root ::= \"\\xg0\"", KJ_INVALID, "hexadecimal digit");
  refuse("root ::= \"\\ud800\"", KJ_INVALID, "no character of Unicode");
  refuse("root ::= (\"a\"", KJ_INVALID, "column 10: this group is not closed");
  refuse("root ::= \"a\")", KJ_INVALID, "column 13");
  refuse("root ::= \"a\"{3,2}", KJ_INVALID, "maximum is below");
  refuse("root ::= \"a\"{x}", KJ_INVALID, "a number is missing");
  refuse("root ::= \"a\"{99999999999}", KJ_UNSUPPORTED, "more than 16777216 times");
  refuse("root ::= <think> \"a\"", KJ_UNSUPPORTED, "column 10: terms of tokens");
  refuse("root ::= !<[1000]>", KJ_UNSUPPORTED, "terms of tokens");
}

static void test_left_recursion(void **state) {
  (void)state;
  refuse("root ::= root \"a\" | \"b\"", KJ_UNSUPPORTED, "\"root\" is left-recursive");
  refuse("root ::= \"x\"? a \"y\"\na ::= b*\nb ::= [a-c]? a \"z\"", KJ_UNSUPPORTED, "left-recursive");
  refuse("root ::= root", KJ_INVALID, "no text at all");
}

/* Deep and large inputs end with an error, not with the stack or the memory. */
static void test_hostile_sizes(void **state) {
  (void)state;
  static char text[GBNF_MAX_LENGTH + 64];
  memcpy(text, "root ::= ", 9);
  memset(text + 9, '(', 100000);
  text[100009] = 0;
  refuse(text, KJ_UNSUPPORTED, "more than 200 deep");
  memset(text + 9, '.', 400000);
  text[400009] = 0;
  refuse(text, KJ_UNSUPPORTED, "larger than");
  memset(text, ' ', sizeof text - 1);
  text[sizeof text - 1] = 0;
  refuse(text, KJ_UNSUPPORTED, "longer than");
  /* Every rule is used twice by the one before it: no copies. */
  struct buffer rules = {0};
  buffer_append_format(&rules, "root ::= r0\n");
  for (int i = 0; i < 60; i++) buffer_append_format(&rules, "r%d ::= r%d r%d \"x\" | \"y\"\n", i, i + 1, i + 1);
  buffer_append_format(&rules, "r60 ::= \"z\"\n");
  assert_false(buffer_failed(&rules));
  check(buffer_text(&rules), TEXTS("y"), TEXTS("x"));
  buffer_free(&rules);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_elements),       cmocka_unit_test(test_escapes),
      cmocka_unit_test(test_repetitions),    cmocka_unit_test(test_layout),
      cmocka_unit_test(test_recursion),      cmocka_unit_test(test_faults_have_their_place),
      cmocka_unit_test(test_left_recursion), cmocka_unit_test(test_hostile_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

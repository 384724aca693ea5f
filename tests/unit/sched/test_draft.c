/* A draft proposes what followed the occurrence that agrees with the end of the sequence furthest back. */
#include "sched/draft.h"

#include <stdlib.h>

#include "unit/unit.h"

enum { LIMIT = 16 };

/* One token a letter. */
static uint32_t propose(struct draft *draft, const char *text, uint32_t limit, double worth, char *proposal) {
  uint32_t tokens[200], proposed[LIMIT], count = (uint32_t)strlen(text);
  for (uint32_t i = 0; i < count; i++) tokens[i] = (uint32_t)text[i];
  uint32_t length = draft_propose(draft, tokens, count, limit, worth, proposed);
  for (uint32_t i = 0; i < length; i++) proposal[i] = (char)proposed[i];
  proposal[length] = 0;
  return length;
}

static void assert_proposed(const char *text, uint32_t limit, const char *expected) {
  struct draft *draft;
  char proposal[LIMIT + 1];
  assert_int_equal(draft_create(&draft, NULL), 0);
  propose(draft, text, limit, 0, proposal);
  assert_string_equal(proposal, expected);
  draft_free(draft);
}

static void test_what_followed_is_proposed(void **state) {
  (void)state;
  assert_proposed("the quick brown fox. the qu", 5, "ick b");
  assert_proposed("ab?ab", 3, "?ab");
  assert_proposed("abcdefg", 5, "");
  assert_proposed("a", 5, "");
  assert_proposed("", 5, "");
  assert_proposed("abab", 0, "");
}

static void test_one_equal_token_is_no_match(void **state) {
  (void)state;
  assert_proposed("xa1ya2za", 4, "");
}

static void test_longer_run_wins_over_a_later_one(void **state) {
  (void)state;
  assert_proposed("abc1 xbc2 abc", 1, "1");
  assert_proposed("abcd1 xbcd2 abcd", 1, "1");
}

static void test_agreement_beyond_the_run_wins_over_a_later_one(void **state) {
  (void)state;
  assert_proposed("1abcdefA 2abcdefB 3abcdefC 2abcdef", 1, "B");
}

static void test_latest_of_equals_wins(void **state) {
  (void)state;
  assert_proposed("1abcdA 2abcdB 3abcd", 1, "B");
}

static void test_repetition_goes_on_beyond_the_end(void **state) {
  (void)state;
  assert_proposed("xyabcabc", 10, "abcabcabca");
  assert_proposed("-----", 6, "------");
}

static void append_run(uint32_t *tokens, uint32_t *count, uint32_t before, uint32_t length) {
  tokens[(*count)++] = before;
  for (uint32_t i = 0; i < length; i++) tokens[(*count)++] = 1000 + i;
}

/* Where the same long text stands twice, the copy stays with the one it began with. */
static void test_copy_stays_with_its_source(void **state) {
  (void)state;
  enum { LENGTH = 200 };
  struct draft *draft;
  uint32_t tokens[4 * LENGTH], count = 0, proposal[LIMIT];
  assert_int_equal(draft_create(&draft, NULL), 0);
  append_run(tokens, &count, 1, LENGTH);
  append_run(tokens, &count, 2, LENGTH);
  append_run(tokens, &count, 1, LENGTH);
  uint32_t end = count;
  for (count -= LENGTH - 5; count < end; count += 5) draft_propose(draft, tokens, count, 1, 0, proposal);
  assert_int_equal(draft_propose(draft, tokens, end, 1, 0, proposal), 1);
  assert_int_equal(proposal[0], 2);
  draft_free(draft);
}

static void test_fewer_tokens_start_anew(void **state) {
  (void)state;
  struct draft *draft;
  char proposal[LIMIT + 1];
  assert_int_equal(draft_create(&draft, NULL), 0);
  propose(draft, "abcdefgh abcd", 4, 0, proposal);
  assert_string_equal(proposal, "efgh");
  assert_int_equal(propose(draft, "ijklm", 4, 0, proposal), 0);
  propose(draft, "ijklm ijk", 4, 0, proposal);
  assert_string_equal(proposal, "lm i");
  draft_free(draft);
}

/* 20,000 tokens that repeat after 10,000, fed a few at a time: the index grows and forgets nothing. */
static void test_grows_with_the_sequence(void **state) {
  (void)state;
  enum { HALF = 10000 };
  struct draft *draft;
  uint32_t *tokens = calloc(2 * HALF + LIMIT, sizeof *tokens), proposal[LIMIT];
  assert_non_null(tokens);
  assert_int_equal(draft_create(&draft, NULL), 0);
  uint32_t random = 7;
  for (uint32_t i = 0; i < HALF; i++) {
    random = random * 1664525u + 1013904223u;
    tokens[i] = random >> 12;
  }
  memcpy(tokens + HALF, tokens, HALF * sizeof *tokens);
  for (uint32_t count = 1; count < 2 * HALF - LIMIT; count += 1 + count % 7) {
    uint32_t length = draft_propose(draft, tokens, count, LIMIT, 0, proposal);
    if (count < HALF) continue;
    assert_int_equal(length, count < HALF + 2 ? 0 : LIMIT);
    assert_memory_equal(proposal, tokens + count, length * sizeof *proposal);
  }
  draft_free(draft);
  free(tokens);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_followed_is_proposed),
      cmocka_unit_test(test_one_equal_token_is_no_match),
      cmocka_unit_test(test_longer_run_wins_over_a_later_one),
      cmocka_unit_test(test_agreement_beyond_the_run_wins_over_a_later_one),
      cmocka_unit_test(test_latest_of_equals_wins),
      cmocka_unit_test(test_repetition_goes_on_beyond_the_end),
      cmocka_unit_test(test_copy_stays_with_its_source),
      cmocka_unit_test(test_fewer_tokens_start_anew),
      cmocka_unit_test(test_grows_with_the_sequence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

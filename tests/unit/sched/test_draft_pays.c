/* Drafts propose much where they are accepted and next to nothing where they are not. Steps are counted, not timed. */
#include "sched/draft.h"

#include <stdbool.h>
#include <stdio.h>

#include "unit/unit.h"

enum {
  LIMIT = 16,
  LINES = 200,
  MOST_TOKENS = 10000,
};

struct tally {
  uint32_t steps, drafts, proposed, accepted;
};

struct text {
  uint32_t tokens[MOST_TOKENS];
  uint32_t count;
};

static uint32_t next_random(uint64_t *random) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*random >> 33);
}

static void append(struct text *text, uint32_t token) {
  assert_true(text->count < MOST_TOKENS);
  text->tokens[text->count++] = token;
}

/* A line of a program: indentation and punctuation are few tokens, names are many. */
static void append_line(struct text *text, uint64_t *random) {
  append(text, 10 + next_random(random) % 3);
  append(text, 20 + next_random(random) % 8);
  append(text, 100 + next_random(random) % 50);
  append(text, '(');
  append(text, 100 + next_random(random) % 50);
  if (next_random(random) % 2) {
    append(text, ',');
    append(text, 100 + next_random(random) % 50);
  }
  append(text, ')');
  append(text, ';');
  append(text, '\n');
}

/* The model writes text[start … ), whatever is proposed: the loop of an engine. */
static struct tally generate(struct draft *draft, const struct text *text, uint32_t start, double worth) {
  struct tally tally = {0};
  for (uint32_t count = start; count < text->count; tally.steps++) {
    uint32_t proposal[LIMIT], left = text->count - count - 1;
    uint32_t length = draft_propose(draft, text->tokens, count, left < LIMIT ? left : LIMIT, worth, proposal);
    uint32_t accepted = 0;
    while (accepted < length && proposal[accepted] == text->tokens[count + accepted]) accepted++;
    draft_learn(draft, length, accepted);
    tally.drafts += length > 0;
    tally.proposed += length;
    tally.accepted += accepted;
    count += accepted + 1;
  }
  return tally;
}

static struct tally generate_alone(const struct text *text, uint32_t start, double worth) {
  struct draft *draft;
  assert_int_equal(draft_create(&draft, NULL), 0);
  struct tally tally = generate(draft, text, start, worth);
  draft_free(draft);
  return tally;
}

static void print(const char *name, const struct tally *tally, uint32_t tokens) {
  print_message("%s: %u tokens in %u steps; %u drafts, %u tokens proposed, %u accepted\n", name, tokens, tally->steps,
                tally->drafts, tally->proposed, tally->accepted);
}

/* A prompt with a file, then the same file with line 100 replaced by two others. Returns where the output starts. */
static uint32_t rewritten_file(struct text *text) {
  uint64_t random = 1;
  uint32_t lines[LINES + 1];
  text->count = 0;
  for (uint32_t i = 0; i < 40; i++) append(text, 1000 + i);
  for (uint32_t i = 0; i < LINES; i++) {
    lines[i] = text->count;
    append_line(text, &random);
  }
  lines[LINES] = text->count;
  for (uint32_t i = 0; i < 20; i++) append(text, 2000 + i);
  uint32_t start = text->count;
  for (uint32_t i = 0; i < LINES; i++) {
    if (i != 100)
      for (uint32_t j = lines[i]; j < lines[i + 1]; j++) append(text, text->tokens[j]);
    else
      for (uint32_t j = 0; j < 2; j++) append_line(text, &random);
  }
  return start;
}

static void test_rewritten_file_takes_few_steps(void **state) {
  (void)state;
  static struct text text;
  uint32_t start = rewritten_file(&text), tokens = text.count - start;
  for (int i = 0; i < 3; i++) {
    double worth = (double[]){0.05, 0.2, 0.4}[i];
    struct tally tally = generate_alone(&text, start, worth);
    print("rewritten file", &tally, tokens);
    /* LIMIT + 1 tokens a step is the most. */
    assert_true(tally.steps * (LIMIT - 4) < tokens);
    assert_true(tally.accepted * 10 > tally.proposed * 9);
  }
}

/* Of words that all occur many times, in no order. */
static void test_random_text_wastes_almost_nothing(void **state) {
  (void)state;
  static struct text text;
  for (int i = 0; i < 3; i++) {
    uint32_t words = (uint32_t[]){30, 300, 3000}[i];
    uint64_t random = 2;
    text.count = 0;
    while (text.count < 6000) append(&text, next_random(&random) % words);
    struct tally tally = generate_alone(&text, 2000, 0.2);
    print("random text", &tally, 4000);
    assert_true(tally.proposed * 20 < tally.steps);
  }
}

static void test_copy_after_random_text_reaches_the_limit_again(void **state) {
  (void)state;
  static struct text text;
  struct draft *draft;
  uint32_t proposal[LIMIT];
  uint64_t random = 3;
  text.count = 0;
  while (text.count < 3000) append(&text, next_random(&random) % 30);
  assert_int_equal(draft_create(&draft, NULL), 0);
  generate(draft, &text, 1000, 0.3);
  uint32_t start = text.count;
  for (uint32_t i = 0; i < 300; i++) append(&text, text.tokens[1500 + i]);
  struct tally tally = generate(draft, &text, start, 0.3);
  print("copy after random text", &tally, 300);
  assert_true(tally.steps < 300 / 6);
  append(&text, text.tokens[1800]);
  assert_int_equal(draft_propose(draft, text.tokens, text.count, LIMIT, 0.3, proposal), LIMIT);
  draft_free(draft);
}

/* Where the cost of a row is not known yet, no proposal is worth it, but it never will be known without any. */
static void test_probes_when_nothing_is_worth_it(void **state) {
  (void)state;
  static struct text text;
  uint32_t start = rewritten_file(&text);
  struct tally tally = generate_alone(&text, start, 1);
  print("probes alone", &tally, text.count - start);
  assert_true(tally.drafts * 10 > tally.steps);
  assert_true(tally.drafts * 3 < tally.steps);
  assert_true(tally.proposed <= 2 * tally.drafts);
}

static void test_rejection_shortens_at_once_and_acceptance_lengthens_soon(void **state) {
  (void)state;
  struct draft *draft;
  uint32_t tokens[400], proposal[64], lengths[3], count = 0;
  assert_int_equal(draft_create(&draft, NULL), 0);
  for (; count < 50; count++) tokens[count] = count;
  for (uint32_t i = 0; i < 30; i++) tokens[count++] = i;
  lengths[0] = draft_propose(draft, tokens, count, LIMIT, 0.5, proposal);
  draft_learn(draft, lengths[0], 0);
  lengths[1] = draft_propose(draft, tokens, count, LIMIT, 0.5, proposal);
  assert_true(lengths[0] > 0 && lengths[1] < lengths[0]);
  for (int i = 0; i < 4; i++) {
    uint32_t length = draft_propose(draft, tokens, count, LIMIT, 0.5, proposal);
    draft_learn(draft, length, length);
  }
  lengths[2] = draft_propose(draft, tokens, count, LIMIT, 0.5, proposal);
  assert_int_equal(lengths[2], LIMIT);
  draft_free(draft);
}

/* Proposes for a sequence of which the last `agreeing` tokens occurred before; `accepted` of it are. */
static uint32_t propose_behind(struct draft *draft, uint32_t agreeing, uint32_t accepted) {
  uint32_t tokens[200], count = 0, proposal[LIMIT];
  for (; count < 100; count++) tokens[count] = count;
  tokens[count++] = 1000;
  for (uint32_t i = 0; i < agreeing; i++) tokens[count++] = 20 + i;
  uint32_t length = draft_propose(draft, tokens, count, LIMIT, 0.5, proposal);
  for (uint32_t i = 0; i < length; i++) assert_int_equal(proposal[i], 20 + agreeing + i);
  draft_learn(draft, length, accepted < length ? accepted : length);
  return length;
}

static void test_short_agreement_is_judged_apart(void **state) {
  (void)state;
  struct draft *draft;
  assert_int_equal(draft_create(&draft, NULL), 0);
  for (int i = 0; i < 20; i++) propose_behind(draft, 20, LIMIT);
  for (int i = 0; i < 20; i++) propose_behind(draft, 3, 0);
  assert_int_equal(propose_behind(draft, 3, 0), 0);
  assert_int_equal(propose_behind(draft, 20, LIMIT), LIMIT);
  draft_free(draft);
}

/* A draft ends where those before it began to fail, and not earlier. */
static void test_learns_how_far_copies_go(void **state) {
  (void)state;
  struct draft *draft;
  assert_int_equal(draft_create(&draft, NULL), 0);
  for (int i = 0; i < 20; i++) propose_behind(draft, 4, LIMIT);
  assert_int_equal(propose_behind(draft, 4, LIMIT), LIMIT);
  for (int i = 0; i < 20; i++) propose_behind(draft, 4, 12);
  uint32_t length = propose_behind(draft, 4, 12);
  assert_in_range(length, 10, 12);
  draft_free(draft);
}

static void test_proposals_are_deterministic(void **state) {
  (void)state;
  static struct text text;
  uint32_t start = rewritten_file(&text);
  struct tally first = generate_alone(&text, start, 0.2), second = generate_alone(&text, start, 0.2);
  assert_memory_equal(&first, &second, sizeof first);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rewritten_file_takes_few_steps),
      cmocka_unit_test(test_random_text_wastes_almost_nothing),
      cmocka_unit_test(test_copy_after_random_text_reaches_the_limit_again),
      cmocka_unit_test(test_probes_when_nothing_is_worth_it),
      cmocka_unit_test(test_rejection_shortens_at_once_and_acceptance_lengthens_soon),
      cmocka_unit_test(test_short_agreement_is_judged_apart),
      cmocka_unit_test(test_learns_how_far_copies_go),
      cmocka_unit_test(test_proposals_are_deterministic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

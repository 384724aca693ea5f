/* The ledger accepts exactly the spans whose prefix the KV blocks hold. */
#include "stage/ledger.h"

#include <stdbool.h>
#include <stdlib.h>

#include "unit/unit.h"

enum { BLOCKS = 8, LONGEST = 6 * KV_BLOCK };

/* A sequence of the test: tokens, its block table, and spans over it. */
struct text {
  uint32_t tokens[LONGEST];
  uint32_t blocks[BLOCKS];
};

static struct text text_create(uint32_t seed, uint32_t first_block) {
  struct text text;
  for (uint32_t i = 0; i < LONGEST; i++) text.tokens[i] = seed * 1000 + i * i;
  for (uint32_t i = 0; i < BLOCKS; i++) text.blocks[i] = (first_block + i) % BLOCKS;
  return text;
}

static struct span span_of(const struct text *text, uint32_t first, uint32_t count) {
  uint64_t hash = token_hash_start();
  for (uint32_t i = 0; i < first; i++) hash = token_hash_extend(hash, text->tokens[i]);
  return (struct span){.first_position = first,
                       .tokens = count,
                       .outputs = 1,
                       .block_count = (first + count + KV_BLOCK - 1) / KV_BLOCK,
                       .blocks = text->blocks,
                       .token_ids = text->tokens + first,
                       .prefix_hash = hash};
}

static int admit(struct ledger *ledger, const struct span *spans, uint32_t count) {
  struct batch batch = {.span_count = count, .spans = spans};
  struct kj_error error = {0};
  for (uint32_t i = 0; i < count; i++) batch.tokens += spans[i].tokens;
  int code = ledger_admit(ledger, &batch, &error);
  assert_int_equal(code, error.code);
  if (code) assert_true(strlen(error.message) > 10);
  return code;
}

static void assert_admitted(struct ledger *ledger, const struct text *text, uint32_t first, uint32_t count) {
  struct span span = span_of(text, first, count);
  assert_int_equal(admit(ledger, &span, 1), 0);
}

static void assert_refused(struct ledger *ledger, const struct text *text, uint32_t first, uint32_t count) {
  struct span span = span_of(text, first, count);
  assert_int_equal(admit(ledger, &span, 1), KJ_INVALID);
}

static int setup(void **state) { return ledger_create((struct ledger **)state, BLOCKS, NULL); }

static int teardown(void **state) {
  ledger_destroy(*state);
  return 0;
}

static void test_prefixes_in_order(void **state) {
  struct ledger *ledger = *state;
  struct text text = text_create(1, 3);
  uint32_t sizes[] = {1, 1, 61, 1, 1, 64, 127, 1};
  uint32_t done = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; done += sizes[i++])
    assert_admitted(ledger, &text, done, sizes[i]);
  assert_int_equal(done, 257);
}

static void test_skipped_position(void **state) {
  struct ledger *ledger = *state;
  struct text text = text_create(1, 0);
  assert_refused(ledger, &text, 1, 1);
  assert_admitted(ledger, &text, 0, 10);
  assert_refused(ledger, &text, 11, 1);
  assert_refused(ledger, &text, KV_BLOCK, 1);
  assert_admitted(ledger, &text, 10, KV_BLOCK - 10);
  assert_refused(ledger, &text, KV_BLOCK + 1, 1);
  assert_admitted(ledger, &text, KV_BLOCK, 1);
}

static void test_wrong_hash(void **state) {
  struct ledger *ledger = *state;
  struct text text = text_create(1, 0);
  struct span first = span_of(&text, 0, 5);
  first.prefix_hash++;
  assert_int_equal(admit(ledger, &first, 1), KJ_INVALID);
  assert_admitted(ledger, &text, 0, 70);
  struct span next = span_of(&text, 70, 1);
  next.prefix_hash ^= 1;
  assert_int_equal(admit(ledger, &next, 1), KJ_INVALID);
  assert_admitted(ledger, &text, 70, 1);
}

/* Same hash claimed, same length held, but other tokens. */
static void test_other_tokens_in_the_blocks(void **state) {
  struct ledger *ledger = *state;
  struct text text = text_create(1, 0), other = text_create(2, 0);
  assert_admitted(ledger, &other, 0, 100);
  assert_refused(ledger, &text, 100, 1);
  assert_admitted(ledger, &other, 100, 1);
}

static void test_foreign_blocks(void **state) {
  struct ledger *ledger = *state;
  struct text mine = text_create(1, 0), other = text_create(2, 4);
  assert_admitted(ledger, &mine, 0, 2 * KV_BLOCK);
  assert_admitted(ledger, &other, 0, 2 * KV_BLOCK);
  struct text mixed = mine;
  mixed.blocks[1] = other.blocks[1];
  assert_refused(ledger, &mixed, 2 * KV_BLOCK, 1);
  mixed = mine;
  mixed.blocks[0] = mine.blocks[1];
  mixed.blocks[1] = mine.blocks[0];
  assert_refused(ledger, &mixed, 2 * KV_BLOCK, 1);
  mixed = mine;
  mixed.blocks[1] = mine.blocks[0];
  assert_refused(ledger, &mixed, 2 * KV_BLOCK, 1);
  assert_admitted(ledger, &mine, 2 * KV_BLOCK, 1);
}

static void test_tables_that_break_a_rule(void **state) {
  struct ledger *ledger = *state;
  struct text text = text_create(1, 0);
  struct span span = span_of(&text, 0, 0);
  assert_int_equal(admit(ledger, &span, 1), KJ_INVALID);
  span = span_of(&text, 0, KV_BLOCK);
  span.block_count = 2;
  assert_int_equal(admit(ledger, &span, 1), KJ_INVALID);
  span.block_count = 0;
  assert_int_equal(admit(ledger, &span, 1), KJ_INVALID);
  span = span_of(&text, 0, KV_BLOCK + 1);
  span.block_count = 1;
  assert_int_equal(admit(ledger, &span, 1), KJ_INVALID);
  text.blocks[1] = BLOCKS;
  assert_refused(ledger, &text, 0, KV_BLOCK + 1);
  text.blocks[1] = UINT32_MAX;
  assert_refused(ledger, &text, 0, KV_BLOCK + 1);
  span = span_of(&text, 0, 1);
  span.first_position = UINT32_MAX;
  assert_int_equal(admit(ledger, &span, 1), KJ_INVALID);
}

static void test_block_written_twice(void **state) {
  struct ledger *ledger = *state;
  struct text first = text_create(1, 0), second = text_create(2, 1);
  struct span spans[] = {span_of(&first, 0, KV_BLOCK + 1), span_of(&second, 0, 1)};
  assert_int_equal(admit(ledger, spans, 2), KJ_INVALID);
  first.blocks[1] = first.blocks[0];
  assert_refused(ledger, &first, 0, KV_BLOCK + 1);
  second = text_create(2, 4);
  first = text_create(1, 0);
  struct span apart[] = {span_of(&first, 0, KV_BLOCK + 1), span_of(&second, 0, 1)};
  assert_int_equal(admit(ledger, apart, 2), 0);
}

/* Two sequences may share what both only read; nobody may write it in the same batch. */
static void test_block_read_and_written(void **state) {
  struct ledger *ledger = *state;
  struct text text = text_create(1, 0), sharer = text;
  assert_admitted(ledger, &text, 0, 2 * KV_BLOCK);
  sharer.blocks[2] = 5;
  struct span readers[] = {span_of(&text, 2 * KV_BLOCK, 1), span_of(&sharer, 2 * KV_BLOCK, 1)};
  assert_int_equal(admit(ledger, readers, 2), 0);
  struct span writer = span_of(&text, KV_BLOCK + 3, 1), reader = span_of(&sharer, 2 * KV_BLOCK, 1);
  struct span one[] = {writer, reader}, other[] = {reader, writer};
  assert_int_equal(admit(ledger, one, 2), KJ_INVALID);
  assert_int_equal(admit(ledger, other, 2), KJ_INVALID);
  struct text looped = text;
  looped.blocks[2] = looped.blocks[0];
  assert_refused(ledger, &looped, 2 * KV_BLOCK, 1);
  assert_int_equal(admit(ledger, &reader, 1), 0);
}

static void test_tail_is_rewound(void **state) {
  struct ledger *ledger = *state;
  struct text text = text_create(1, 0);
  assert_admitted(ledger, &text, 0, KV_BLOCK + 20);
  struct text draft = text;
  draft.tokens[KV_BLOCK + 10] += 7;
  assert_admitted(ledger, &draft, KV_BLOCK + 10, 2);
  assert_refused(ledger, &draft, KV_BLOCK + 13, 1); /* what lay behind the rewritten positions is gone */
  assert_refused(ledger, &text, KV_BLOCK + 12, 1);
  assert_admitted(ledger, &draft, KV_BLOCK + 12, 1);
  assert_admitted(ledger, &text, KV_BLOCK + 10, 3);
  /* Back into an earlier block: the later one no longer continues it. */
  struct text replay = text;
  replay.tokens[5] += 1;
  assert_admitted(ledger, &replay, 5, KV_BLOCK - 5);
  assert_refused(ledger, &text, KV_BLOCK + 13, 1);
  assert_refused(ledger, &replay, KV_BLOCK + 13, 1);
  assert_admitted(ledger, &replay, KV_BLOCK, 1);
}

static void test_nothing_is_recorded_on_an_error(void **state) {
  struct ledger *ledger = *state;
  struct text good = text_create(1, 0), bad = text_create(2, 4);
  assert_admitted(ledger, &good, 0, 10);
  struct span spans[] = {span_of(&good, 10, 5), span_of(&bad, 3, 1)};
  assert_int_equal(admit(ledger, spans, 2), KJ_INVALID);
  assert_refused(ledger, &good, 15, 1);
  struct span clash[] = {span_of(&good, 10, 5), span_of(&good, 10, 5)};
  assert_int_equal(admit(ledger, clash, 2), KJ_INVALID);
  assert_refused(ledger, &good, 15, 1);
  assert_admitted(ledger, &good, 10, 5);
}

static void test_reset_forgets_everything(void **state) {
  struct ledger *ledger = *state;
  struct text text = text_create(1, 0);
  assert_admitted(ledger, &text, 0, 100);
  ledger_reset(ledger);
  assert_refused(ledger, &text, 100, 1);
  assert_refused(ledger, &text, 10, 1);
  assert_admitted(ledger, &text, 0, 100);
}

static uint64_t hash_before(const struct text *text, uint32_t position) {
  return span_of(text, position, 1).prefix_hash;
}

static void test_full_blocks_are_told_apart(void **state) {
  struct ledger *ledger = *state;
  struct text text = text_create(1, 0), other = text_create(2, 4);
  const uint32_t *second = text.tokens + KV_BLOCK;
  uint64_t hash = hash_before(&text, KV_BLOCK);
  assert_int_equal(ledger_check_block(ledger, 1, hash, second, NULL), KJ_INVALID);
  assert_admitted(ledger, &text, 0, 2 * KV_BLOCK - 1);
  assert_int_equal(ledger_check_block(ledger, 0, token_hash_start(), text.tokens, NULL), 0);
  assert_int_equal(ledger_check_block(ledger, 1, hash, second, NULL), KJ_INVALID); /* not full */
  assert_admitted(ledger, &text, 2 * KV_BLOCK - 1, 1);
  assert_int_equal(ledger_check_block(ledger, 1, hash, second, NULL), 0);
  assert_int_equal(ledger_check_block(ledger, 1, hash + 1, second, NULL), KJ_INVALID);
  assert_int_equal(ledger_check_block(ledger, 1, hash, other.tokens, NULL), KJ_INVALID);
  assert_int_equal(ledger_check_block(ledger, 0, hash, second, NULL), KJ_INVALID);
  assert_int_equal(ledger_check_block(ledger, BLOCKS, hash, second, NULL), KJ_INVALID);
  assert_admitted(ledger, &text, KV_BLOCK + 5, 1); /* its tail is being rewritten */
  assert_int_equal(ledger_check_block(ledger, 1, hash, second, NULL), KJ_INVALID);
}

/* Restored blocks are as good as written ones, and bound by the same rules. */
static void test_restored_blocks(void **state) {
  struct ledger *ledger = *state;
  struct text text = text_create(1, 2), other = text_create(2, 2);
  ledger_restore(ledger, text.blocks[1], hash_before(&text, KV_BLOCK), text.tokens + KV_BLOCK);
  assert_refused(ledger, &text, 2 * KV_BLOCK, 3); /* the first is missing */
  ledger_restore(ledger, text.blocks[0], hash_before(&other, KV_BLOCK), text.tokens);
  assert_refused(ledger, &text, 2 * KV_BLOCK, 3); /* it does not begin a sequence */
  ledger_restore(ledger, text.blocks[0], token_hash_start(), text.tokens);
  assert_admitted(ledger, &text, 2 * KV_BLOCK, 3);
  assert_refused(ledger, &other, 2 * KV_BLOCK, 3);
  assert_int_equal(
      ledger_check_block(ledger, text.blocks[1], hash_before(&text, KV_BLOCK), text.tokens + KV_BLOCK, NULL), 0);
  /* The tail of a restored block may be computed again. */
  assert_admitted(ledger, &text, 2 * KV_BLOCK - 1, 4);
  ledger_reset(ledger);
  assert_refused(ledger, &text, KV_BLOCK, 1);
}

/* Random spans of sequences in blocks of their own, against a plain model of how far each block is filled. */
static void test_random_walk(void **state) {
  struct ledger *ledger = *state;
  enum { SEQUENCES = 2, TABLE = 4, SIZE = TABLE * KV_BLOCK };
  struct text texts[SEQUENCES];
  uint32_t filled[SEQUENCES][TABLE] = {{0}};
  uint32_t random = 12345, admitted = 0, refused = 0;
  for (uint32_t i = 0; i < SEQUENCES; i++) texts[i] = text_create(i + 1, TABLE * i);
  for (int step = 0; step < 20000; step++) {
    random = random * 1664525u + 1013904223u;
    uint32_t which = (random >> 30) % SEQUENCES, first = (random >> 8) % SIZE, longest = SIZE - first;
    uint32_t count = 1 + (random >> 20) % (longest < 80 ? longest : 80);
    bool possible = true;
    for (uint32_t position = 0; position < first; position++)
      possible = possible && filled[which][position / KV_BLOCK] > position % KV_BLOCK;
    struct span span = span_of(&texts[which], first, count);
    assert_int_equal(admit(ledger, &span, 1), possible ? 0 : KJ_INVALID);
    if (possible)
      admitted++;
    else
      refused++;
    for (uint32_t position = first; possible && position < first + count; position++)
      filled[which][position / KV_BLOCK] = position % KV_BLOCK + 1;
  }
  assert_true(admitted > 1000 && refused > 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_prefixes_in_order, setup, teardown),
      cmocka_unit_test_setup_teardown(test_skipped_position, setup, teardown),
      cmocka_unit_test_setup_teardown(test_wrong_hash, setup, teardown),
      cmocka_unit_test_setup_teardown(test_other_tokens_in_the_blocks, setup, teardown),
      cmocka_unit_test_setup_teardown(test_foreign_blocks, setup, teardown),
      cmocka_unit_test_setup_teardown(test_tables_that_break_a_rule, setup, teardown),
      cmocka_unit_test_setup_teardown(test_block_written_twice, setup, teardown),
      cmocka_unit_test_setup_teardown(test_block_read_and_written, setup, teardown),
      cmocka_unit_test_setup_teardown(test_tail_is_rewound, setup, teardown),
      cmocka_unit_test_setup_teardown(test_nothing_is_recorded_on_an_error, setup, teardown),
      cmocka_unit_test_setup_teardown(test_reset_forgets_everything, setup, teardown),
      cmocka_unit_test_setup_teardown(test_full_blocks_are_told_apart, setup, teardown),
      cmocka_unit_test_setup_teardown(test_restored_blocks, setup, teardown),
      cmocka_unit_test_setup_teardown(test_random_walk, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

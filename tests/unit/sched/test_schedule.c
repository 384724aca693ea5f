/* The schedule: who is admitted, what a micro-batch takes, and what becomes of the KV blocks. */
#include "sched/schedule.h"

#include <stdlib.h>

#include "stage/ledger.h"
#include "unit/unit.h"

enum { CHUNK = 32, PARALLEL = 3, BLOCKS = 8 };

static int setup(void **state) {
  struct schedule_limits limits = {.parallel = PARALLEL, .kv_blocks = BLOCKS, .chunk = CHUNK};
  return schedule_create((struct schedule **)state, &limits, NULL);
}

static int teardown(void **state) {
  schedule_destroy(*state);
  return 0;
}

static struct sequence *add(struct schedule *schedule, uint64_t id, uint32_t prompt, uint32_t output) {
  uint32_t tokens[1000];
  assert_true(prompt <= 1000);
  for (uint32_t i = 0; i < prompt; i++) tokens[i] = (uint32_t)id * 1000 + i;
  struct request request = {.tokens = tokens, .token_count = prompt};
  struct sequence *sequence;
  assert_int_equal(sequence_create(&sequence, id, &request, output, NULL), 0);
  schedule_add(schedule, sequence);
  return sequence;
}

static struct micro_batch *next(struct schedule *schedule) {
  struct micro_batch *micro_batch;
  assert_int_equal(schedule_next(schedule, 7, &micro_batch, NULL), 0);
  if (!micro_batch) return NULL;
  uint32_t tokens = 0, outputs = 0;
  assert_int_equal(micro_batch->number, 7);
  assert_true(micro_batch->batch.span_count > 0);
  for (uint32_t i = 0; i < micro_batch->batch.span_count; i++) {
    const struct span *span = &micro_batch->spans[i];
    const struct sequence *sequence = micro_batch->sequences[i];
    assert_ptr_equal(span->token_ids, micro_batch->token_ids + tokens);
    assert_ptr_equal(span->blocks, sequence->blocks);
    assert_int_equal(span->first_position, sequence->computed);
    assert_true(span->tokens > 0);
    assert_memory_equal(span->token_ids, sequence->tokens + span->first_position, span->tokens * sizeof(uint32_t));
    assert_int_equal(span->block_count, (span->first_position + span->tokens + KV_BLOCK - 1) / KV_BLOCK);
    assert_true(span->block_count <= sequence->block_count);
    assert_int_equal(span->outputs, span->first_position + span->tokens == sequence->token_count);
    uint64_t hash = token_hash_start();
    for (uint32_t j = 0; j < span->first_position; j++) hash = token_hash_extend(hash, sequence->tokens[j]);
    assert_true(span->prefix_hash == hash);
    assert_true(sequence->in_flight);
    for (uint32_t j = 0; j < i; j++) assert_ptr_not_equal(micro_batch->sequences[j], sequence);
    tokens += span->tokens;
    outputs += span->outputs;
  }
  assert_int_equal(micro_batch->batch.tokens, tokens);
  assert_int_equal(micro_batch->batch.outputs, outputs);
  assert_true(tokens <= CHUNK);
  return micro_batch;
}

static void complete(struct micro_batch *micro_batch) {
  schedule_complete(micro_batch);
  for (uint32_t i = 0; i < micro_batch->batch.span_count; i++) {
    struct sequence *sequence = micro_batch->sequences[i];
    assert_false(sequence->in_flight);
    if (micro_batch->spans[i].outputs && sequence->token_count < sequence->capacity)
      sequence->tokens[sequence->token_count++] = 5;
  }
  micro_batch_free(micro_batch);
}

static void finish(struct schedule *schedule, struct sequence *sequence) {
  schedule_remove(schedule, sequence);
  sequence_free(sequence);
}

static void assert_counts(struct schedule *schedule, uint32_t running, uint32_t waiting, uint32_t blocks) {
  uint32_t is_running, is_waiting, used;
  schedule_counts(schedule, &is_running, &is_waiting, &used);
  assert_int_equal(is_running, running);
  assert_int_equal(is_waiting, waiting);
  assert_int_equal(used, blocks);
}

static void test_nothing_to_do(void **state) {
  assert_null(next(*state));
  assert_null(schedule_first(*state));
  assert_null(schedule_find(*state, 1));
  assert_counts(*state, 0, 0, 0);
}

/* Places and all blocks that a sequence can ever need are reserved at admission and given back at the end. */
static void test_blocks_are_reserved_and_released(void **state) {
  struct sequence *sequence = add(*state, 1, 60, 4);
  assert_counts(*state, 0, 1, 0);
  assert_null(sequence->blocks);
  struct micro_batch *micro_batch = next(*state);
  assert_counts(*state, 1, 0, 1);
  complete(micro_batch);
  struct sequence *longer = add(*state, 2, 60, 5);
  complete(next(*state));
  assert_counts(*state, 2, 0, 3);
  assert_int_equal(longer->block_count, 2);
  for (int i = 0; i < 2; i++) assert_int_not_equal(longer->blocks[i], sequence->blocks[0]);
  assert_ptr_equal(schedule_find(*state, 2), longer);
  finish(*state, sequence);
  assert_counts(*state, 1, 0, 2);
  finish(*state, longer);
  assert_counts(*state, 0, 0, 0);
}

/* First come, first served: a short one does not overtake a long one that waits for blocks. */
static void test_admission_keeps_the_order(void **state) {
  struct sequence *first = add(*state, 1, 200, 184); /* 6 blocks */
  struct sequence *big = add(*state, 2, 100, 92);    /* 3 blocks */
  struct sequence *small = add(*state, 3, 10, 5);
  complete(next(*state));
  assert_counts(*state, 1, 2, 6);
  assert_int_equal(big->state, SEQUENCE_WAITING);
  assert_int_equal(small->state, SEQUENCE_WAITING);
  finish(*state, first);
  complete(next(*state));
  assert_counts(*state, 2, 0, 4);
  assert_ptr_equal(schedule_first(*state), big);
}

static void test_at_most_so_many_in_parallel(void **state) {
  struct sequence *sequences[PARALLEL + 2];
  for (uint32_t i = 0; i < PARALLEL + 2; i++) sequences[i] = add(*state, i + 1, 3, 5);
  complete(next(*state));
  assert_counts(*state, PARALLEL, 2, PARALLEL);
  finish(*state, sequences[1]);
  complete(next(*state));
  assert_int_equal(sequences[PARALLEL]->state, SEQUENCE_RUNNING);
  assert_int_equal(sequences[PARALLEL + 1]->state, SEQUENCE_WAITING);
  assert_counts(*state, PARALLEL, 1, PARALLEL);
}

/* Tokens that someone waits for come first; what is left of the budget goes to prompts, the oldest first. */
static void test_decoding_comes_before_prefill(void **state) {
  struct sequence *old = add(*state, 1, 100, 10), *decoding = add(*state, 2, 1, 10), *young = add(*state, 3, 40, 10);
  struct micro_batch *micro_batch = next(*state);
  assert_int_equal(micro_batch->batch.span_count, 2);
  assert_ptr_equal(micro_batch->sequences[0], decoding);
  assert_int_equal(micro_batch->spans[0].tokens, 1);
  assert_ptr_equal(micro_batch->sequences[1], old);
  assert_int_equal(micro_batch->spans[1].tokens, CHUNK - 1);
  assert_false(young->in_flight);
  complete(micro_batch);
  assert_int_equal(decoding->token_count, 2);
  for (int i = 0; i < 2; i++) complete(next(*state));
  assert_int_equal(old->computed, 93);
  micro_batch = next(*state);
  assert_int_equal(micro_batch->batch.span_count, 3);
  assert_int_equal(micro_batch->batch.tokens, CHUNK);
  assert_ptr_equal(micro_batch->sequences[1], old);
  assert_int_equal(micro_batch->spans[1].tokens, 7);
  assert_ptr_equal(micro_batch->sequences[2], young);
  assert_int_equal(micro_batch->spans[2].tokens, CHUNK - 8);
  complete(micro_batch);
  assert_int_equal(old->token_count, 101);
}

static void test_in_flight_is_not_taken_twice(void **state) {
  struct sequence *first = add(*state, 1, 100, 10);
  struct micro_batch *one = next(*state);
  assert_null(next(*state));
  struct sequence *second = add(*state, 2, 5, 10);
  struct micro_batch *two = next(*state);
  assert_int_equal(two->batch.span_count, 1);
  assert_ptr_equal(two->sequences[0], second);
  assert_null(next(*state));
  complete(two);
  two = next(*state);
  assert_ptr_equal(two->sequences[0], second);
  assert_int_equal(two->spans[0].first_position, 5);
  complete(one);
  complete(two);
  assert_int_equal(first->computed, CHUNK);
}

static void test_reset_replays_everything(void **state) {
  struct sequence *sequence = add(*state, 1, 40, 30);
  for (int i = 0; i < 5; i++) complete(next(*state));
  assert_int_equal(sequence->token_count, 44);
  assert_int_equal(sequence->computed, 43);
  struct micro_batch *lost = next(*state);
  uint32_t blocks[2];
  memcpy(blocks, sequence->blocks, sizeof blocks);
  schedule_reset(*state);
  micro_batch_free(lost);
  assert_int_equal(sequence->computed, 0);
  assert_int_equal(sequence->token_count, 44);
  assert_memory_equal(blocks, sequence->blocks, sizeof blocks);
  assert_counts(*state, 1, 0, 2);
  struct micro_batch *micro_batch = next(*state);
  assert_int_equal(micro_batch->spans[0].tokens, CHUNK);
  assert_int_equal(micro_batch->batch.outputs, 0);
  complete(micro_batch);
  micro_batch = next(*state);
  assert_int_equal(micro_batch->spans[0].tokens, 44 - CHUNK);
  assert_int_equal(micro_batch->batch.outputs, 1);
  complete(micro_batch);
}

static void test_cancelled_is_not_scheduled(void **state) {
  struct sequence *cancelled = add(*state, 1, 10, 5), *other = add(*state, 2, 10, 5);
  atomic_store(&cancelled->cancelled, true);
  struct micro_batch *micro_batch = next(*state);
  assert_int_equal(micro_batch->batch.span_count, 1);
  assert_ptr_equal(micro_batch->sequences[0], other);
  complete(micro_batch);
  atomic_store(&other->cancelled, true);
  assert_null(next(*state));
  finish(*state, cancelled);
  finish(*state, other);
  assert_counts(*state, 0, 0, 0);
}

static void test_waiting_one_is_removed(void **state) {
  struct sequence *first = add(*state, 1, 400, 100), *second = add(*state, 2, 400, 100), *third = add(*state, 3, 2, 2);
  complete(next(*state));
  assert_counts(*state, 1, 2, 8);
  finish(*state, second);
  assert_counts(*state, 1, 1, 8);
  finish(*state, first);
  complete(next(*state));
  assert_int_equal(third->state, SEQUENCE_RUNNING);
  assert_counts(*state, 1, 0, 1);
}

/* More decoding sequences than a micro-batch has room for: none starves. */
static void test_many_share_a_small_budget(void **state) {
  (void)state;
  struct schedule_limits limits = {.parallel = 40, .kv_blocks = 40, .chunk = CHUNK};
  struct schedule *schedule;
  assert_int_equal(schedule_create(&schedule, &limits, NULL), 0);
  for (uint32_t i = 0; i < 40; i++) add(schedule, i + 1, 1, 20);
  struct micro_batch *one = next(schedule), *two = next(schedule);
  assert_int_equal(one->batch.tokens, CHUNK);
  assert_int_equal(two->batch.tokens, 40 - CHUNK);
  assert_null(next(schedule));
  complete(one);
  complete(two);
  schedule_destroy(schedule);
}

static void test_sequence_copies_the_request(void **state) {
  (void)state;
  uint32_t tokens[] = {1, 2, 3};
  struct logit_bias bias[] = {{4, 5}, {6, 7}};
  struct request request = {.tokens = tokens, .token_count = 3, .sampling = {.bias = bias, .bias_count = 2}};
  struct sequence *sequence;
  assert_int_equal(sequence_create(&sequence, 9, &request, 10, NULL), 0);
  memset(tokens, 0, sizeof tokens);
  memset(bias, 0, sizeof bias);
  assert_int_equal(sequence->tokens[2], 3);
  assert_int_equal(sequence->sampling.bias[1].token, 6);
  assert_int_equal(sequence->capacity, 13);
  sequence_free(sequence);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_nothing_to_do, setup, teardown),
      cmocka_unit_test_setup_teardown(test_blocks_are_reserved_and_released, setup, teardown),
      cmocka_unit_test_setup_teardown(test_admission_keeps_the_order, setup, teardown),
      cmocka_unit_test_setup_teardown(test_at_most_so_many_in_parallel, setup, teardown),
      cmocka_unit_test_setup_teardown(test_decoding_comes_before_prefill, setup, teardown),
      cmocka_unit_test_setup_teardown(test_in_flight_is_not_taken_twice, setup, teardown),
      cmocka_unit_test_setup_teardown(test_reset_replays_everything, setup, teardown),
      cmocka_unit_test_setup_teardown(test_cancelled_is_not_scheduled, setup, teardown),
      cmocka_unit_test_setup_teardown(test_waiting_one_is_removed, setup, teardown),
      cmocka_unit_test(test_many_share_a_small_budget),
      cmocka_unit_test(test_sequence_copies_the_request),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

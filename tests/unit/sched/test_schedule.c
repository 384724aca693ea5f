/* The schedule: who is admitted, what a micro-batch takes, and what becomes of the KV blocks. */
#include "sched/schedule.h"

#include <stdlib.h>

#include "stage/ledger.h"
#include "unit/unit.h"

enum { CHUNK = 128, PARALLEL = 4, BLOCKS = 16, MAX_TOKENS = 2000 };

static const struct schedule_limits usual = {
    .parallel = PARALLEL, .kv_blocks = BLOCKS, .chunk = CHUNK, .micro_batches = 1};

static struct schedule *create(struct schedule_limits limits) {
  struct schedule *schedule;
  assert_int_equal(schedule_create(&schedule, &limits, NULL), 0);
  return schedule;
}

static int setup(void **state) {
  *state = create(usual);
  return 0;
}

static int teardown(void **state) {
  schedule_destroy(*state);
  return 0;
}

/* A request whose tokens are `text`, `text` + 1, … */
static struct sequence *add_text(struct schedule *schedule, uint64_t id, uint32_t text, uint32_t prompt,
                                 uint32_t output) {
  uint32_t tokens[MAX_TOKENS];
  assert_true(prompt <= MAX_TOKENS);
  for (uint32_t i = 0; i < prompt; i++) tokens[i] = text + i;
  struct request request = {.tokens = tokens, .token_count = prompt};
  struct sequence *sequence;
  assert_int_equal(sequence_create(&sequence, id, &request, output, NULL), 0);
  schedule_add(schedule, sequence);
  return sequence;
}

static struct sequence *add(struct schedule *schedule, uint64_t id, uint32_t prompt, uint32_t output) {
  return add_text(schedule, id, (uint32_t)id * 10000, prompt, output);
}

/* Composes a micro-batch and checks all that must hold of any. */
static struct micro_batch *next(struct schedule *schedule) {
  static uint64_t number = 0;
  struct micro_batch *micro_batch;
  struct kj_error error = {0};
  if (schedule_next(schedule, ++number, &micro_batch, &error)) fail_msg("%s", error.message);
  if (!micro_batch) return NULL;
  uint32_t tokens = 0, outputs = 0;
  assert_int_equal(micro_batch->number, number);
  assert_true(micro_batch->batch.span_count > 0);
  for (uint32_t i = 0; i < micro_batch->batch.span_count; i++) {
    const struct span *span = &micro_batch->spans[i];
    const struct sequence *sequence = micro_batch->sequences[i];
    uint32_t known = span->tokens - micro_batch->drafted[i];
    assert_ptr_equal(span->token_ids, micro_batch->token_ids + tokens);
    assert_ptr_equal(span->blocks, sequence->blocks);
    assert_int_equal(span->first_position + known, sequence->launched);
    assert_true(known > 0);
    assert_memory_equal(span->token_ids, sequence->tokens + span->first_position, known * sizeof(uint32_t));
    assert_int_equal(span->block_count, (span->first_position + span->tokens + KV_BLOCK - 1) / KV_BLOCK);
    assert_true(span->block_count <= sequence->block_count && sequence->block_count <= sequence->block_limit);
    bool in_scored_prompt = sequence->score_prompt && span->first_position + 1 < sequence->prompt_count;
    if (in_scored_prompt)
      assert_int_equal(span->outputs, span->tokens);
    else
      assert_int_equal(span->outputs > 0, sequence->launched == sequence->token_count);
    uint64_t hash = token_hash_start();
    for (uint32_t j = 0; j < span->first_position; j++) hash = token_hash_extend(hash, sequence->tokens[j]);
    assert_true(span->prefix_hash == hash);
    assert_true(sequence->in_flight > 0);
    for (uint32_t j = 0; j < i; j++) assert_ptr_not_equal(micro_batch->sequences[j], sequence);
    tokens += span->tokens;
    outputs += span->outputs;
  }
  assert_int_equal(micro_batch->batch.tokens, tokens);
  assert_int_equal(micro_batch->batch.outputs, outputs);
  assert_true(tokens <= CHUNK);
  return micro_batch;
}

/* The micro-batch comes back; the model says `text` plus the position. */
static void complete_with(struct schedule *schedule, struct micro_batch *micro_batch, uint32_t text) {
  schedule_complete(schedule, micro_batch);
  for (uint32_t i = 0; i < micro_batch->batch.span_count; i++) {
    struct sequence *sequence = micro_batch->sequences[i];
    const struct span *span = &micro_batch->spans[i];
    uint32_t drafted = micro_batch->drafted[i];
    if (sequence->launched < sequence->prompt_count) continue; /* rows that are only scored */
    for (uint32_t row = 0; row < 1 + drafted && span->outputs > 0 && sequence->token_count < sequence->capacity;
         row++) {
      uint32_t token = text + sequence->token_count;
      sequence->tokens[sequence->token_count++] = token;
      bool confirmed = row < drafted && span->token_ids[span->tokens - drafted + row] == token;
      if (confirmed && sequence->token_count < sequence->capacity) {
        schedule_accept(schedule, sequence);
        continue;
      }
      schedule_learn(sequence, drafted, row);
      break;
    }
  }
  micro_batch_free(micro_batch);
}

static void complete(struct schedule *schedule, struct micro_batch *micro_batch) {
  assert_non_null(micro_batch);
  complete_with(schedule, micro_batch, 5);
}

static const struct span *span_of(const struct micro_batch *micro_batch, const struct sequence *sequence) {
  for (uint32_t i = 0; i < micro_batch->batch.span_count; i++)
    if (micro_batch->sequences[i] == sequence) return &micro_batch->spans[i];
  return NULL;
}

static void finish(struct schedule *schedule, struct sequence *sequence) {
  schedule_remove(schedule, sequence);
  sequence_free(sequence);
}

static void assert_counts(struct schedule *schedule, uint32_t running, uint32_t waiting, uint32_t used,
                          uint32_t cached) {
  struct schedule_counts counts;
  schedule_count(schedule, &counts);
  assert_int_equal(counts.running, running);
  assert_int_equal(counts.waiting, waiting);
  assert_int_equal(counts.blocks_used, used);
  assert_int_equal(counts.blocks_cached, cached);
}

static void test_nothing_to_do(void **state) {
  assert_null(next(*state));
  assert_null(schedule_first(*state));
  assert_counts(*state, 0, 0, 0, 0);
}

/* Blocks are taken as tokens are launched; full ones stay in the cache when the sequence is gone, others do not. */
static void test_blocks_follow_the_tokens(void **state) {
  struct sequence *sequence = add(*state, 1, 60, 100);
  assert_counts(*state, 0, 1, 0, 0);
  complete(*state, next(*state));
  assert_counts(*state, 1, 0, 1, 0);
  for (int i = 0; i < 5; i++) complete(*state, next(*state));
  assert_int_equal(sequence->computed, 65);
  assert_counts(*state, 1, 0, 2, 0);
  finish(*state, sequence);
  assert_counts(*state, 0, 0, 0, 1);
}

/* First come, first served: a short one does not overtake a long one that waits for blocks. */
static void test_admission_keeps_the_order(void **state) {
  struct sequence *first = add(*state, 1, 100, 600); /* 11 blocks in the end */
  struct sequence *big = add(*state, 2, 100, 300);   /* 7 blocks */
  struct sequence *small = add(*state, 3, 10, 5);
  complete(*state, next(*state));
  assert_counts(*state, 1, 2, 2, 0);
  assert_int_equal(big->state, SEQUENCE_WAITING);
  assert_int_equal(small->state, SEQUENCE_WAITING);
  finish(*state, first);
  complete(*state, next(*state));
  assert_int_equal(big->state, SEQUENCE_RUNNING);
  assert_int_equal(small->state, SEQUENCE_RUNNING);
  assert_ptr_equal(schedule_first(*state), big);
}

static void test_at_most_so_many_in_parallel(void **state) {
  struct sequence *sequences[PARALLEL + 2];
  for (uint32_t i = 0; i < PARALLEL + 2; i++) sequences[i] = add(*state, i + 1, 3, 5);
  complete(*state, next(*state));
  assert_counts(*state, PARALLEL, 2, PARALLEL, 0);
  finish(*state, sequences[1]);
  complete(*state, next(*state));
  assert_int_equal(sequences[PARALLEL]->state, SEQUENCE_RUNNING);
  assert_int_equal(sequences[PARALLEL + 1]->state, SEQUENCE_WAITING);
}

/* C10: sequences that fill the pool to its last block: what is promised is there, whatever the cache holds. */
static void test_promises_are_kept_to_the_last_block(void **state) {
  for (uint64_t id = 1; id <= 20; id++) {
    struct sequence *a = add(*state, 10 * id, 100, 4 * KV_BLOCK - 100);
    struct sequence *b = add(*state, 10 * id + 1, 300, 12 * KV_BLOCK - 300);
    struct sequence *late = add(*state, 10 * id + 2, 5, 5);
    while (a->token_count < a->capacity || b->token_count < b->capacity) {
      complete(*state, next(*state));
      assert_int_equal(late->state, SEQUENCE_WAITING);
      if (a->token_count == a->capacity && b->token_count < b->capacity) break;
    }
    finish(*state, a);
    while (b->token_count < b->capacity) complete(*state, next(*state));
    finish(*state, b);
    finish(*state, late);
    struct schedule_counts counts;
    schedule_count(*state, &counts);
    assert_int_equal(counts.blocks_used, 0);
  }
}

/* Tokens that someone waits for come first; of the rest, half goes to the oldest prompt and half to the shortest. */
static void test_decoding_comes_before_prefill(void **state) {
  struct sequence *old = add(*state, 1, 400, 10), *decoding = add(*state, 2, 1, 10);
  struct sequence *long_one = add(*state, 3, 200, 10), *short_one = add(*state, 4, 40, 10);
  struct micro_batch *micro_batch = next(*state);
  assert_ptr_equal(micro_batch->sequences[0], decoding);
  assert_int_equal(span_of(micro_batch, old)->tokens, 64);
  assert_int_equal(span_of(micro_batch, short_one)->tokens, 40);
  assert_int_equal(span_of(micro_batch, long_one)->tokens, 23);
  complete(*state, micro_batch);
  assert_int_equal(short_one->token_count, 41);
}

/* What the short ones leave goes to the oldest. */
static void test_nothing_of_the_budget_is_lost(void **state) {
  struct sequence *old = add(*state, 1, 400, 10), *short_one = add(*state, 2, 10, 10);
  struct micro_batch *micro_batch = next(*state);
  assert_int_equal(span_of(micro_batch, short_one)->tokens, 10);
  assert_int_equal(span_of(micro_batch, old)->tokens, 96); /* whole panels */
  complete(*state, micro_batch);
  micro_batch = next(*state);
  assert_int_equal(span_of(micro_batch, short_one)->tokens, 1);
  complete(*state, micro_batch);
}

/* C14: chunks of one prompt follow each other without waiting for the first to come back. */
static void test_chunks_of_one_prompt_overlap(void **state) {
  struct sequence *sequence = add(*state, 1, 300, 10);
  struct micro_batch *one = next(*state), *two = next(*state), *three = next(*state);
  assert_int_equal(one->spans[0].tokens, CHUNK);
  assert_int_equal(two->spans[0].first_position, CHUNK);
  assert_int_equal(three->spans[0].first_position, 2 * CHUNK);
  assert_int_equal(three->spans[0].outputs, 1);
  assert_null(next(*state));
  assert_int_equal(sequence->in_flight, 3);
  complete(*state, one);
  assert_int_equal(sequence->computed, CHUNK);
  assert_null(next(*state));
  complete(*state, two);
  complete(*state, three);
  assert_int_equal(sequence->token_count, 301);
  complete(*state, next(*state));
}

/* C13: sequences that decode are dealt into as many micro-batches as there are stages, and stay so. */
static void test_decoding_is_dealt_into_groups(void **state) {
  (void)state;
  struct schedule_limits limits = usual;
  limits.micro_batches = 2;
  struct schedule *schedule = create(limits);
  for (uint64_t id = 1; id <= 4; id++) add(schedule, id, 1, 50);
  struct micro_batch *one = next(schedule), *two = next(schedule);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(one->batch.span_count, 2);
    assert_int_equal(two->batch.span_count, 2);
    assert_null(next(schedule));
    complete(schedule, one);
    one = two;
    two = next(schedule);
  }
  complete(schedule, one);
  complete(schedule, two);
  schedule_destroy(schedule);
}

/* Those that have waited longest go first, so that none starves however few fit. */
static void test_turns_are_taken(void **state) {
  (void)state;
  struct schedule_limits limits = {.parallel = 9, .kv_blocks = 9, .chunk = 4, .micro_batches = 1};
  struct schedule *schedule = create(limits);
  struct sequence *sequences[9];
  for (uint64_t id = 1; id <= 9; id++) sequences[id - 1] = add(schedule, id, 1, 60);
  for (int i = 0; i < 90; i++) complete(schedule, next(schedule));
  for (int i = 0; i < 9; i++) assert_in_range(sequences[i]->token_count, 40, 42);
  schedule_destroy(schedule);
}

/* The full blocks of what was computed serve whoever begins with the same tokens, up to the first difference. */
static void test_prefixes_are_shared(void **state) {
  struct sequence *first = add_text(*state, 1, 1000, 150, 10);
  while (first->token_count < first->capacity) complete(*state, next(*state));
  struct sequence *same = add_text(*state, 2, 1000, 150, 10), *shorter = add_text(*state, 3, 1000, 70, 10),
                  *whole = add_text(*state, 4, 1000, 128, 10);
  struct micro_batch *micro_batch = next(*state);
  assert_int_equal(same->cached, 128);
  assert_int_equal(shorter->cached, 64);
  assert_int_equal(whole->cached, 64); /* one token at least must be computed */
  for (int i = 0; i < 2; i++) assert_int_equal(same->blocks[i], first->blocks[i]);
  assert_int_equal(span_of(micro_batch, same)->first_position, 128);
  assert_int_equal(span_of(micro_batch, whole)->first_position, 64);
  complete(*state, micro_batch);
  assert_int_equal(whole->kept, 2);
  assert_int_equal(whole->blocks[1], first->blocks[1]); /* computed twice, kept once */
  struct sequence *sequences[] = {first, same, shorter, whole};
  for (int i = 0; i < 4; i++) finish(*state, sequences[i]);
  assert_counts(*state, 0, 0, 0, 2);
}

/* T7: the next turn of a chat finds what was sampled, too. */
static void test_the_answer_is_cached(void **state) {
  struct sequence *first = add(*state, 1, 50, 100);
  while (first->token_count < first->capacity) complete(*state, next(*state));
  struct request request = {.tokens = first->tokens, .token_count = 145};
  struct sequence *second;
  assert_int_equal(sequence_create(&second, 2, &request, 10, NULL), 0);
  schedule_add(*state, second);
  finish(*state, first);
  complete(*state, next(*state));
  assert_int_equal(second->cached, 128);
}

static void test_a_request_may_ignore_the_cache(void **state) {
  struct sequence *first = add_text(*state, 1, 1000, 150, 3);
  while (first->token_count < first->capacity) complete(*state, next(*state));
  struct sequence *second = add_text(*state, 2, 1000, 150, 3);
  second->ignore_cache = true;
  struct micro_batch *micro_batch = next(*state);
  assert_int_equal(span_of(micro_batch, second)->first_position, 0);
  complete(*state, micro_batch);
  assert_int_equal(second->cached, 0);
  assert_int_equal(second->blocks[0], first->blocks[0]);
}

/* Requests with one prompt that come together: one computes, the others wait for its blocks and share them. */
static void test_same_prompts_together_are_computed_once(void **state) {
  struct sequence *sequences[3];
  for (uint64_t id = 1; id <= 3; id++) sequences[id - 1] = add_text(*state, id, 1000, 400, 5);
  uint32_t tokens = 0;
  while (sequences[0]->token_count == 400 || sequences[1]->token_count == 400 || sequences[2]->token_count == 400) {
    struct micro_batch *micro_batch = next(*state);
    assert_non_null(micro_batch);
    tokens += micro_batch->batch.tokens;
    complete(*state, micro_batch);
  }
  assert_in_range(tokens, 400, 400 + 2 * 16 + 20); /* 384 shared, the rest of 16 each, some output */
  assert_int_equal(sequences[2]->cached, 384);
}

/* The one that computes for all leaves: another one takes over. */
static void test_the_leader_of_a_prompt_leaves(void **state) {
  struct sequence *first = add_text(*state, 1, 1000, 400, 5), *second = add_text(*state, 2, 1000, 400, 5);
  struct micro_batch *one = next(*state);
  assert_null(span_of(one, second));
  atomic_store(&first->cancelled, true);
  struct micro_batch *two = next(*state);
  assert_int_equal(span_of(two, second)->first_position, 0);
  complete(*state, one);
  finish(*state, first);
  complete(*state, two);
  while (second->token_count < second->capacity) complete(*state, next(*state));
}

static void observe_cheap_rows(struct schedule *schedule) {
  for (uint32_t i = 0; i < 50; i++) {
    struct span span = {.tokens = 1 + i % 8};
    struct micro_batch observed = {.batch = {.span_count = 1, .tokens = span.tokens, .spans = &span}};
    schedule_observe(schedule, &observed, 1 + 0.001 * span.tokens);
  }
}

/* However much is drafted, a prompt gets its part of every micro-batch. */
static void test_drafts_leave_room_for_prompts(void **state) {
  (void)state;
  struct schedule_limits limits = usual;
  limits.draft = 16;
  limits.chunk = PARALLEL;
  struct schedule *schedule = create(limits);
  observe_cheap_rows(schedule);
  struct sequence *decoding = add_text(schedule, 1, 5, 100, 200);
  for (uint32_t i = 60; i < 100; i++) decoding->tokens[i] = 5 + i - 60; /* and so the model goes on */
  while (decoding->launched < decoding->prompt_count) complete_with(schedule, next(schedule), 5 - 60);
  struct sequence *prompt = add(schedule, 2, 50, 1);
  uint32_t drafted = 0;
  while (prompt->launched < prompt->prompt_count) {
    uint32_t before = prompt->launched;
    struct micro_batch *micro_batch = next(schedule);
    assert_non_null(span_of(micro_batch, decoding));
    drafted += micro_batch->drafted[span_of(micro_batch, decoding) - micro_batch->spans];
    assert_true(prompt->launched > before);
    complete_with(schedule, micro_batch, 5 - 60);
  }
  assert_true(drafted > 0);
  schedule_destroy(schedule);
}

/* Every row of a prompt that is scored is wanted, also where another prompt has computed the same tokens. */
static void test_scored_prompts_are_computed_whole(void **state) {
  struct sequence *first = add(*state, 1, 70, 3);
  while (first->token_count < first->capacity) complete(*state, next(*state));
  finish(*state, first);
  struct sequence *scored = add(*state, 2, 70, 3);
  scored->score_prompt = scored->ignore_cache = true;
  uint32_t rows = 0;
  while (scored->token_count == scored->prompt_count) {
    struct micro_batch *micro_batch = next(*state);
    rows += span_of(micro_batch, scored)->outputs;
    complete(*state, micro_batch);
  }
  assert_int_equal(rows, 70);
  assert_int_equal(scored->cached, 0);
  struct micro_batch *decoding = next(*state);
  assert_int_equal(span_of(decoding, scored)->outputs, 1);
  complete(*state, decoding);
}

/* A text that repeats itself is drafted; all that is accepted comes in one micro-batch; what is not is computed anew.
 */
static void test_drafts(void **state) {
  (void)state;
  struct schedule_limits limits = usual;
  limits.draft = 8;
  struct schedule *schedule = create(limits);
  observe_cheap_rows(schedule);
  struct sequence *sequence = add_text(schedule, 1, 5, 100, 200);       /* the model counts on: 105, 106 … */
  for (uint32_t i = 60; i < 100; i++) sequence->tokens[i] = 5 + i - 60; /* … as it did at the start */
  uint32_t steps = 0, drafted = 0;
  while (sequence->token_count < sequence->capacity) {
    struct micro_batch *micro_batch = next(schedule);
    assert_non_null(micro_batch);
    drafted += micro_batch->drafted[0];
    assert_true(micro_batch->drafted[0] <= 8);
    /* The model repeats: position p has the token of p - 60. */
    complete_with(schedule, micro_batch, 5 - 60);
    steps++;
    assert_true(sequence->computed < sequence->token_count);
  }
  for (uint32_t i = 100; i < sequence->token_count; i++) assert_int_equal(sequence->tokens[i], 5 - 60 + i);
  assert_true(drafted > 0);
  assert_true(steps < 200);
  finish(schedule, sequence);
  schedule_destroy(schedule);
}

static void test_reset_replays_everything(void **state) {
  struct sequence *sequence = add(*state, 1, 100, 30), *other = add_text(*state, 2, 10000, 100, 30);
  for (int i = 0; i < 5; i++) complete(*state, next(*state));
  uint32_t known = sequence->token_count;
  assert_true(known > 100);
  assert_int_equal(other->cached, 64);
  struct micro_batch *lost = next(*state);
  schedule_reset(*state);
  micro_batch_free(lost);
  assert_counts(*state, 0, 2, 0, 0);
  assert_int_equal(sequence->token_count, known);
  struct micro_batch *micro_batch = next(*state);
  assert_int_equal(micro_batch->batch.span_count, 1); /* the other one waits for the beginning that both have */
  assert_int_equal(micro_batch->spans[0].first_position, 0);
  assert_int_equal(micro_batch->spans[0].tokens, known);
  assert_int_equal(micro_batch->batch.outputs, 1);
  complete(*state, micro_batch);
  assert_int_equal(sequence->token_count, known + 1);
  complete(*state, next(*state));
  assert_int_equal(other->cached, 64);
}

static void test_cancelled_is_not_scheduled(void **state) {
  struct sequence *cancelled = add(*state, 1, 10, 5), *other = add(*state, 2, 10, 5);
  atomic_store(&cancelled->cancelled, true);
  struct micro_batch *micro_batch = next(*state);
  assert_int_equal(micro_batch->batch.span_count, 1);
  assert_ptr_equal(micro_batch->sequences[0], other);
  complete(*state, micro_batch);
  atomic_store(&other->cancelled, true);
  assert_null(next(*state));
  finish(*state, cancelled);
  finish(*state, other);
  assert_counts(*state, 0, 0, 0, 0);
}

static void test_waiting_one_is_removed(void **state) {
  struct sequence *first = add(*state, 1, 400, 600), *second = add(*state, 2, 400, 600), *third = add(*state, 3, 2, 2);
  complete(*state, next(*state));
  finish(*state, second);
  assert_int_equal(third->state, SEQUENCE_WAITING);
  finish(*state, first);
  complete(*state, next(*state));
  assert_int_equal(third->state, SEQUENCE_RUNNING);
}

/* A micro-batch that could not be computed: its sequences fail, and are not scheduled again. */
static void test_abandoned(void **state) {
  struct sequence *first = add(*state, 1, 300, 5);
  struct micro_batch *one = next(*state), *two = next(*state);
  struct kj_error error;
  kj_fail(&error, KJ_INTERNAL, "out of step");
  schedule_abandon(two, &error);
  micro_batch_free(two);
  assert_int_equal(first->in_flight, 1);
  assert_string_equal(first->failure->message, "out of step");
  assert_null(next(*state));
  complete(*state, one);
  assert_int_equal(first->in_flight, 0);
  finish(*state, first);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_nothing_to_do),
      TEST(test_blocks_follow_the_tokens),
      TEST(test_admission_keeps_the_order),
      TEST(test_at_most_so_many_in_parallel),
      TEST(test_promises_are_kept_to_the_last_block),
      TEST(test_decoding_comes_before_prefill),
      TEST(test_nothing_of_the_budget_is_lost),
      TEST(test_chunks_of_one_prompt_overlap),
      cmocka_unit_test(test_decoding_is_dealt_into_groups),
      cmocka_unit_test(test_turns_are_taken),
      TEST(test_prefixes_are_shared),
      TEST(test_the_answer_is_cached),
      TEST(test_a_request_may_ignore_the_cache),
      TEST(test_same_prompts_together_are_computed_once),
      TEST(test_the_leader_of_a_prompt_leaves),
      cmocka_unit_test(test_drafts_leave_room_for_prompts),
      cmocka_unit_test(test_drafts),
      cmocka_unit_test_setup_teardown(test_scored_prompts_are_computed_whole, setup, teardown),
      TEST(test_reset_replays_everything),
      TEST(test_cancelled_is_not_scheduled),
      TEST(test_waiting_one_is_removed),
      TEST(test_abandoned),
      cmocka_unit_test(test_sequence_copies_the_request),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Prefill chunks shrink as the context grows, so that they take about equal time. */
#include <math.h>

#include "sched/cost.h"
#include "unit/unit.h"

static const double ROW = 0.0004, CONTEXT = 4e-8; /* seconds of a row, and more for each token of its context */

static double seconds_of(uint32_t position, uint32_t tokens) {
  return tokens * (ROW + CONTEXT * (position + tokens / 2.0));
}

static void observe(struct cost_model *model, uint32_t position, uint32_t tokens, double seconds) {
  const struct span span = {.first_position = position, .tokens = tokens};
  const struct batch batch = {.span_count = 1, .tokens = tokens, .spans = &span};
  cost_observe(model, &batch, seconds);
}

/* A prompt's chunks, as they come back; noise is a share of their time, up and down by turns. */
static void prefill(struct cost_model *model, uint32_t prompt, uint32_t most, double noise) {
  uint32_t number = 0;
  for (uint32_t position = 0, tokens; position < prompt; position += tokens, number++) {
    tokens = cost_chunk(model, position, most);
    observe(model, position, tokens, seconds_of(position, tokens) * (1 + (number % 2 ? noise : -noise)));
  }
}

static void test_chunks_are_full_while_nothing_is_known(void **state) {
  (void)state;
  struct cost_model model = {0};
  assert_int_equal(cost_chunk(&model, 0, 500), 500);
  assert_int_equal(cost_chunk(&model, 30000, 500), 500);
  observe(&model, 0, 512, 1);
  assert_int_equal(cost_chunk(&model, 30000, 500), 500);
}

static void test_chunks_are_full_when_context_never_differed_or_costs_nothing(void **state) {
  (void)state;
  struct cost_model model = {0};
  for (int i = 0; i < 100; i++) observe(&model, 0, 512, 0.2);
  assert_int_equal(cost_chunk(&model, 30000, 512), 512);
  for (uint32_t i = 0; i < 100; i++) observe(&model, i * 100, 512, 0.2);
  assert_int_equal(cost_chunk(&model, 30000, 512), 512);
  for (uint32_t i = 0; i < 100; i++) observe(&model, i * 100, 512, 0.2 - 0.001 * i);
  assert_int_equal(cost_chunk(&model, 30000, 512), 512);
}

static void test_chunks_take_equal_time(void **state) {
  (void)state;
  struct cost_model model = {0};
  for (int i = 0; i < 20; i++) prefill(&model, 16000, 512, 0);
  assert_int_equal(cost_chunk(&model, 0, 512), 512);
  for (uint32_t most = 256; most <= 1024; most += 100)
    for (uint32_t position = 0; position <= 32000; position += 500) {
      uint32_t tokens = cost_chunk(&model, position, most);
      assert_true(tokens <= most);
      if (tokens > 64) assert_true(seconds_of(position, tokens) <= 1.1 * seconds_of(0, most));
      if (tokens < most) assert_true(seconds_of(position, tokens + 32) >= 0.98 * seconds_of(0, most));
    }
}

static void test_chunks_never_grow_with_the_position_and_have_whole_units(void **state) {
  (void)state;
  struct cost_model model = {0};
  for (int i = 0; i < 20; i++) prefill(&model, 16000, 512, 0);
  for (uint32_t most = 1; most <= 700; most++) {
    uint32_t last = most;
    assert_int_equal(cost_chunk(&model, 0, most), most);
    for (uint32_t position = 0; position < 3000000; position = position * 2 + 64) {
      uint32_t tokens = cost_chunk(&model, position, most);
      assert_true(tokens <= last);
      assert_true(tokens == most || tokens % 32 == 0);
      assert_true(tokens >= (most < KV_BLOCK ? most : KV_BLOCK));
      last = tokens;
    }
    if (most >= KV_BLOCK + 32) assert_int_equal(last, KV_BLOCK);
  }
}

static void test_one_long_prompt_is_enough_to_learn(void **state) {
  (void)state;
  struct cost_model model = {0};
  prefill(&model, 8000, 512, 0);
  uint32_t tokens = cost_chunk(&model, 8000, 512);
  assert_true(tokens < 512);
  assert_true(seconds_of(8000, tokens) < 1.25 * seconds_of(0, 512));
  assert_true(seconds_of(8000, tokens + 32) > 0.98 * seconds_of(0, 512));
}

static void test_noise_does_not_shrink_chunks(void **state) {
  (void)state;
  struct cost_model model = {0};
  for (int i = 0; i < 20; i++) {
    prefill(&model, 8000, 512, 0.1);
    for (uint32_t position = 0; position < 8000; position += 500) {
      uint32_t tokens = cost_chunk(&model, position, 512);
      assert_true(seconds_of(position, tokens + 32) >= 0.9 * seconds_of(0, 512));
    }
  }
  assert_true(cost_chunk(&model, 8000, 512) < 512);
}

/* Nothing is the context's, but the times scatter: half of the lines rise. */
static void test_rise_that_noise_explains_counts_as_none(void **state) {
  (void)state;
  enum { RUNS = 200 };
  uint32_t random = 1, shrunk = 0;
  for (int run = 0; run < RUNS; run++) {
    struct cost_model model = {0};
    for (uint32_t i = 0; i < 16; i++) {
      random = random * 1664525u + 1013904223u;
      observe(&model, i * 512, 512, 0.2 * (0.8 + 0.4 * (random >> 8) / (1 << 24)));
    }
    shrunk += cost_chunk(&model, 8000, 512) < 512;
  }
  print_message("%u of %d noisy lines shrank the chunks\n", shrunk, RUNS);
  assert_true(shrunk < RUNS / 5);
}

/* Nearly all the cost is the context's, so that the quadratic term decides. */
static void test_chunks_take_equal_time_when_context_outweighs_the_rows(void **state) {
  (void)state;
  struct cost_model model = {0};
  const double row = 1, context = 0.02;
  for (uint32_t i = 0; i < 1000; i++) {
    uint32_t position = i % 20 * 100;
    observe(&model, position, 512, 512 * (row + context * (position + 256)));
  }
  double target = 1024 * (row + context * 512);
  for (uint32_t position = 0; position < 4000; position += 50) {
    uint32_t tokens = cost_chunk(&model, position, 1024);
    assert_true(tokens * (row + context * (position + tokens / 2.0)) <= 1.06 * target);
    if (tokens == 1024) continue;
    tokens += 32;
    assert_true(tokens * (row + context * (position + tokens / 2.0)) >= 0.94 * target);
  }
}

/* A micro-batch of several sequences has the mean context of all its rows. */
static void test_context_is_that_of_all_rows(void **state) {
  (void)state;
  struct cost_model model = {0};
  const struct span spans[2] = {{.first_position = 1000, .tokens = 1}, {.first_position = 0, .tokens = 99}};
  const struct batch batch = {.span_count = 2, .tokens = 100, .spans = spans};
  cost_observe(&model, &batch, 3);
  assert_true(fabs(model.prefill.x - (1000.5 + 99 * 49.5) / 100) < 1e-9);
  assert_true(fabs(model.prefill.y - 0.03) < 1e-12);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chunks_are_full_while_nothing_is_known),
      cmocka_unit_test(test_chunks_are_full_when_context_never_differed_or_costs_nothing),
      cmocka_unit_test(test_chunks_take_equal_time),
      cmocka_unit_test(test_chunks_never_grow_with_the_position_and_have_whole_units),
      cmocka_unit_test(test_one_long_prompt_is_enough_to_learn),
      cmocka_unit_test(test_noise_does_not_shrink_chunks),
      cmocka_unit_test(test_rise_that_noise_explains_counts_as_none),
      cmocka_unit_test(test_chunks_take_equal_time_when_context_outweighs_the_rows),
      cmocka_unit_test(test_context_is_that_of_all_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The share that a row more costs in decode is learned, and never looks smaller than what was seen allows. */
#include "sched/cost.h"

#include <math.h>

#include "unit/unit.h"

/* What a micro-batch of so many rows took. */
static void observe(struct cost_model *model, uint32_t rows, double seconds) {
  const struct span span = {.first_position = 100, .tokens = rows, .outputs = rows};
  const struct batch batch = {.span_count = 1, .tokens = rows, .outputs = rows, .spans = &span};
  cost_observe(model, &batch, seconds);
}

static double share_of(double step, double rate, double rows) { return rate * rows / (step + rate * rows); }

/* -1…1, the same ones each time. */
static double noise(uint32_t *random) {
  *random = *random * 1664525u + 1013904223u;
  return (double)(*random >> 8) / (1 << 23) - 1;
}

static void assert_near(double value, double expected, double tolerance) {
  if (!(fabs(value - expected) <= tolerance)) fail_msg("%g is not %g ± %g", value, expected, tolerance);
}

static void test_share_is_1_while_nothing_is_known(void **state) {
  (void)state;
  struct cost_model model = {0};
  assert_true(cost_row_share(&model, 1) == 1);
  observe(&model, 1, 0.010);
  observe(&model, 9, 0.011);
  assert_true(cost_row_share(&model, 1) == 1);
}

static void test_share_is_1_when_rows_never_differed(void **state) {
  (void)state;
  struct cost_model model = {0};
  for (int i = 0; i < 1000; i++) observe(&model, 3, 0.0123);
  assert_true(cost_row_share(&model, 1) == 1);
  assert_true(cost_row_share(&model, 3) == 1);
}

static void test_exact_line_is_approached_from_above(void **state) {
  (void)state;
  struct cost_model model = {0};
  double last = 1;
  for (int i = 0; i < 400; i++) {
    uint32_t rows = i % 5 == 4 ? 3 : 1; /* one sequence with a probe now and then */
    observe(&model, rows, 0.020 + 0.001 * rows);
    double share = cost_row_share(&model, 1);
    assert_true(share >= share_of(0.020, 0.001, 1) && share <= 1);
    if (i == 4) assert_in_range(share * 100, 20, 60); /* cautious after the first probe */
    if (i % 50 == 49) {
      assert_true(share <= last + 1e-3);
      last = share;
    }
  }
  assert_near(last, share_of(0.020, 0.001, 1), 0.03);
}

static void test_share_grows_with_the_rows(void **state) {
  (void)state;
  struct cost_model model = {0};
  for (uint32_t i = 0; i < 400; i++) observe(&model, 1 + i % 16, 0.020 + 0.001 * (1 + i % 16));
  double last = 0;
  for (uint32_t rows = 1; rows <= 40; rows++) {
    double share = cost_row_share(&model, rows);
    assert_near(share, share_of(0.020, 0.001, rows), 0.05);
    assert_true(share > last && share < 1);
    last = share;
  }
}

static void test_share_is_1_where_rows_are_all_the_cost(void **state) {
  (void)state;
  struct cost_model model = {0};
  for (uint32_t i = 0; i < 400; i++) observe(&model, 1 + i % 16, 0.001 * (1 + i % 16));
  assert_near(cost_row_share(&model, 1), 1, 0.01);
  for (uint32_t i = 0; i < 400; i++) observe(&model, 1 + i % 16, 0.001 * (1 + i % 16) - 0.0005);
  assert_true(cost_row_share(&model, 4) == 1);
}

static void test_falling_cost_counts_as_none_a_row(void **state) {
  (void)state;
  struct cost_model model = {0};
  for (uint32_t i = 0; i < 400; i++) observe(&model, 1 + i % 16, 0.020 - 0.001 * (1 + i % 16));
  assert_in_range(cost_row_share(&model, 1) * 1000, 1, 30);
}

static void test_noise_is_averaged_and_makes_cautious(void **state) {
  (void)state;
  uint32_t random = 1, below = 0, loud_above_quiet = 0;
  enum { RUNS = 200 };
  for (int run = 0; run < RUNS; run++) {
    struct cost_model quiet = {0}, loud = {0};
    for (int i = 0; i < 300; i++) {
      uint32_t rows = i % 10 == 9 ? 3 : 1;
      double seconds = 0.020 + 0.002 * rows, part = noise(&random);
      observe(&quiet, rows, seconds * (1 + 0.02 * part));
      observe(&loud, rows, seconds * (1 + 0.2 * part));
    }
    below += cost_row_share(&loud, 1) < share_of(0.020, 0.002, 1);
    loud_above_quiet += cost_row_share(&loud, 1) > cost_row_share(&quiet, 1);
    assert_near(cost_row_share(&quiet, 1), share_of(0.020, 0.002, 1), 0.06);
  }
  print_message("%u of %d noisy estimates are below the truth\n", below, RUNS);
  assert_true(below < RUNS / 10);
  assert_true(loud_above_quiet > RUNS * 3 / 4);
}

static void test_new_costs_replace_old_ones(void **state) {
  (void)state;
  struct cost_model model = {0};
  for (uint32_t i = 0; i < 400; i++) observe(&model, 1 + i % 8, 0.020 + 0.001 * (1 + i % 8));
  for (uint32_t i = 0; i < 1000; i++) observe(&model, 1 + i % 8, 0.040 + 0.020 * (1 + i % 8));
  assert_near(cost_row_share(&model, 1), share_of(0.040, 0.020, 1), 0.05);
}

static void test_moments_of_interruption_and_nonsense_change_little(void **state) {
  (void)state;
  struct cost_model model = {0}, same;
  for (uint32_t i = 0; i < 400; i++) observe(&model, 1 + i % 8, 0.020 + 0.001 * (1 + i % 8));
  same = model;
  observe(&model, 3, 0);
  observe(&model, 3, -1);
  observe(&model, 3, NAN);
  observe(&model, 3, INFINITY);
  observe(&model, 0, 1);
  assert_memory_equal(&model, &same, sizeof model);
  double before = cost_row_share(&model, 1);
  observe(&model, 8, 10);
  assert_near(cost_row_share(&model, 1), before, 0.15);
}

/* Nothing but one row was seen before: what more rows cost is believed. */
static void test_first_large_batch_is_no_interruption(void **state) {
  (void)state;
  struct cost_model model = {0};
  for (int i = 0; i < 100; i++) observe(&model, 1, 0.010);
  for (int i = 0; i < 5; i++) observe(&model, 17, 0.005 + 0.005 * 17);
  assert_true(cost_row_share(&model, 1) >= share_of(0.005, 0.005, 1) - 0.01);
}

static void test_prefill_teaches_nothing_about_decode(void **state) {
  (void)state;
  struct cost_model model = {0};
  for (uint32_t i = 0; i < 100; i++) observe(&model, COST_LARGE_SPAN + i, 0.020 + 0.001 * i);
  assert_true(cost_row_share(&model, 1) == 1);
  assert_true(model.decode.weight == 0);
  observe(&model, COST_LARGE_SPAN - 1, 0.020);
  assert_true(model.decode.weight == 1);
}

static void test_many_short_spans_are_decode(void **state) {
  (void)state;
  struct cost_model model = {0};
  struct span spans[8];
  for (int i = 0; i < 8; i++) spans[i] = (struct span){.first_position = 1000, .tokens = 17};
  const struct batch batch = {.span_count = 8, .tokens = 8 * 17, .spans = spans};
  cost_observe(&model, &batch, 0.1);
  assert_true(model.decode.weight == 1 && model.decode.x == 8 * 17);
  assert_true(model.prefill.weight == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_share_is_1_while_nothing_is_known),
      cmocka_unit_test(test_share_is_1_when_rows_never_differed),
      cmocka_unit_test(test_exact_line_is_approached_from_above),
      cmocka_unit_test(test_share_grows_with_the_rows),
      cmocka_unit_test(test_share_is_1_where_rows_are_all_the_cost),
      cmocka_unit_test(test_falling_cost_counts_as_none_a_row),
      cmocka_unit_test(test_noise_is_averaged_and_makes_cautious),
      cmocka_unit_test(test_new_costs_replace_old_ones),
      cmocka_unit_test(test_moments_of_interruption_and_nonsense_change_little),
      cmocka_unit_test(test_first_large_batch_is_no_interruption),
      cmocka_unit_test(test_prefill_teaches_nothing_about_decode),
      cmocka_unit_test(test_many_short_spans_are_decode),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Buckets of a histogram: their bounds, and where a value is counted. */
#include "base/histogram.h"

#include <math.h>

#include "unit/unit.h"

static uint64_t total(const struct histogram *histogram) {
  uint64_t sum = 0;
  for (unsigned i = 0; i <= HISTOGRAM_BUCKETS; i++) sum += histogram->counts[i];
  return sum;
}

static void bounds_are_1_2_and_a_half_and_5_times_powers_of_ten(void **state) {
  (void)state;
  static const double steps[] = {1, 2.5, 5};
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
    double expected = steps[i % 3] * pow(10, (int)(i / 3) - 4);
    assert_true(fabs(histogram_bound(i) - expected) <= 1e-12 * expected);
  }
  assert_true(histogram_bound(0) == 1e-4 && histogram_bound(HISTOGRAM_BUCKETS - 1) == 1000);
}

/* A bound belongs to the bucket that it ends, as Prometheus' le says. */
static void a_value_counts_in_the_bucket_that_ends_at_or_after_it(void **state) {
  (void)state;
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
    struct histogram histogram = {0};
    histogram_observe(&histogram, histogram_bound(i));
    assert_int_equal(histogram.counts[i], 1);
    histogram_observe(&histogram, nextafter(histogram_bound(i), INFINITY));
    assert_int_equal(histogram.counts[i + 1], 1);
    assert_int_equal(total(&histogram), 2);
  }
}

static void the_ends_take_what_is_beyond(void **state) {
  (void)state;
  struct histogram histogram = {0};
  histogram_observe(&histogram, 0);
  histogram_observe(&histogram, -1);
  assert_int_equal(histogram.counts[0], 2);
  histogram_observe(&histogram, 1e9);
  histogram_observe(&histogram, INFINITY);
  assert_int_equal(histogram.counts[HISTOGRAM_BUCKETS], 2);
  assert_int_equal(total(&histogram), 4);
}

static void the_sum_is_that_of_the_values(void **state) {
  (void)state;
  struct histogram histogram = {0};
  for (int i = 1; i <= 100; i++) histogram_observe(&histogram, i);
  assert_true(histogram.sum == 5050);
  assert_int_equal(total(&histogram), 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bounds_are_1_2_and_a_half_and_5_times_powers_of_ten),
      cmocka_unit_test(a_value_counts_in_the_bucket_that_ends_at_or_after_it),
      cmocka_unit_test(the_ends_take_what_is_beyond),
      cmocka_unit_test(the_sum_is_that_of_the_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

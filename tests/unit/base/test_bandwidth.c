#include <math.h>

#include "base/bandwidth.h"
#include "unit/unit.h"

static void any_size_and_thread_count_gives_a_rate(void **state) {
  (void)state;
  const size_t counts[] = {1, 2, 3};
  const size_t sizes[] = {0, 1, 64, 1000, 1 << 20, (4 << 20) + 13};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    struct threads *pool;
    assert_int_equal(threads_create(&pool, counts[i], NULL), 0);
    for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
      double rate = bandwidth_measure(pool, sizes[j]);
      assert_true(isfinite(rate) && rate > 0);
    }
    threads_destroy(pool);
  }
}

static void more_than_can_be_allocated_gives_zero(void **state) {
  (void)state;
  struct threads *pool;
  assert_int_equal(threads_create(&pool, 2, NULL), 0);
  assert_true(bandwidth_measure(pool, SIZE_MAX) == 0);
  assert_true(bandwidth_measure(pool, SIZE_MAX / 2) == 0);
  threads_destroy(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_size_and_thread_count_gives_a_rate),
      cmocka_unit_test(more_than_can_be_allocated_gives_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

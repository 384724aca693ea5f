#include "base/threads.h"
#include "unit/unit.h"

enum { TASKS = 1000 };

static void count_task(void *context, size_t task) { ((unsigned char *)context)[task]++; }

static void every_task_runs_once(void **state) {
  (void)state;
  const size_t counts[] = {1, 2, 3, 8};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    struct threads *pool;
    assert_int_equal(threads_create(&pool, counts[i], NULL), 0);
    assert_int_equal(threads_count(pool), counts[i]);
    for (int round = 0; round < 200; round++) {
      unsigned char runs[TASKS] = {0};
      size_t tasks = (size_t)(round * 7 % TASKS);
      threads_run(pool, tasks, count_task, runs);
      for (size_t task = 0; task < TASKS; task++) assert_int_equal(runs[task], task < tasks);
    }
    threads_destroy(pool);
  }
}

static void an_absurd_count_is_refused(void **state) {
  (void)state;
  struct threads *pool;
  struct kj_error error;
  assert_int_equal(threads_create(&pool, 100000, &error), KJ_INVALID);
  assert_non_null(strstr(error.message, "100000"));
  assert_null(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_task_runs_once),
      cmocka_unit_test(an_absurd_count_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

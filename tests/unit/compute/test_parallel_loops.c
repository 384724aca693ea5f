/* A parallel loop does every item once, and no two of its workers have the same number at a time. */
#include "compute/cpu/engine.h"
#include "unit/compute/support.h"

enum { ITEMS_MAX = 1000, THREADS_MAX = 9, WORTH_IT = 1 << 30 };

struct seen {
  atomic_uint items[ITEMS_MAX];
  atomic_uint busy[THREADS_MAX];
  atomic_uint wrong;
  size_t slots;
};

static void see_item(void *context, size_t item, size_t slot) {
  struct seen *seen = context;
  if (slot >= seen->slots || atomic_exchange(&seen->busy[slot], 1) != 0) {
    atomic_fetch_add(&seen->wrong, 1);
    return;
  }
  atomic_fetch_add(&seen->items[item], 1);
  /* Some items take longer, so that workers come to help each other. */
  if (item % 7 == 0) usleep(20);
  atomic_store(&seen->busy[slot], 0);
}

static void check_loop(struct cpu_backend *backend, size_t items, uint64_t work) {
  struct seen *seen = calloc(1, sizeof *seen);
  assert_non_null(seen);
  seen->slots = backend->thread_count;
  parallel(backend, items, work, see_item, seen);
  assert_int_equal(atomic_load(&seen->wrong), 0);
  for (size_t item = 0; item < ITEMS_MAX; item++) assert_int_equal(atomic_load(&seen->items[item]), item < items);
  free(seen);
}

static void every_item_is_done_once(void **state) {
  (void)state;
  const size_t threads[] = {1, 2, 3, THREADS_MAX}, items[] = {0, 1, 2, 3, 8, 10, 100, 101, ITEMS_MAX};
  for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
    struct test_engine engine = test_engine_create("reference", threads[t], 1, 32);
    for (int round = 0; round < 20; round++)
      for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        check_loop(cpu_backend_of(engine.backend), items[i], WORTH_IT);
        check_loop(cpu_backend_of(engine.backend), items[i], 1);
      }
    test_engine_destroy(&engine);
  }
}

/* Whole panels of rows where there are activations enough for them, else sixteens; at most the maximum, whatever the
 * number of threads. */
static void ranges_are_what_kernels_take(void **state) {
  (void)state;
  enum { PANEL = 32, ENOUGH = 10 };
  for (size_t threads = 1; threads <= THREADS_MAX; threads++) {
    struct test_engine engine = test_engine_create("reference", threads, 1, 32);
    struct cpu_backend *backend = cpu_backend_of(engine.backend);
    struct cpu_kernels kernels = *backend->kernels;
    kernels.panel_rows = PANEL;
    kernels.panel_activations = ENOUGH;
    backend->kernels = &kernels;
    for (size_t rows = 1; rows < 5000; rows += 37)
      for (size_t maximum = RANGE_MINIMUM; maximum <= 512; maximum += RANGE_MINIMUM) {
        const size_t range = parallel_range(backend, rows, ENOUGH - 1, maximum);
        assert_in_range(range, RANGE_MINIMUM, maximum);
        assert_int_equal(range % RANGE_MINIMUM, 0);
        const size_t panels = parallel_range(backend, rows, ENOUGH, maximum);
        assert_in_range(panels, RANGE_MINIMUM, maximum);
        assert_int_equal(panels % (maximum < PANEL ? RANGE_MINIMUM : PANEL), 0);
      }
    /* Enough rows for four items a thread: as few as the panels allow. */
    assert_int_equal(parallel_range(backend, 4 * threads * 40, ENOUGH, 512), 2 * PANEL);
    assert_int_equal(parallel_range(backend, 4 * threads * 40, 1, 512), 3 * RANGE_MINIMUM);
    assert_int_equal(parallel_range(backend, 4 * threads * 40, ENOUGH, 48), PANEL);
    test_engine_destroy(&engine);
  }
}

/* The figures that a range depends on are there in every table. */
static void kernels_say_what_they_take(void **state) {
  (void)state;
  const struct cpu_kernels *(*const tables[])(void) = {cpu_kernels_reference, cpu_kernels_avx2, cpu_kernels_avxvnni,
                                                       cpu_kernels_avx512,    cpu_kernels_neon, cpu_kernels_neon_i8mm};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    const struct cpu_kernels *kernels = tables[i]();
    if (!kernels) continue;
    assert_int_equal(kernels->panel_rows % RANGE_MINIMUM, 0);
    assert_in_range(kernels->panel_rows, RANGE_MINIMUM, PANEL_ROWS_MAX);
    assert_in_range(kernels->panel_activations, 1, COLUMN_BLOCK);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_item_is_done_once),
      cmocka_unit_test(ranges_are_what_kernels_take),
      cmocka_unit_test(kernels_say_what_they_take),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

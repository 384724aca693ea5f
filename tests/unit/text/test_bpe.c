#include "text/bpe.h"

#include <stdbool.h>
#include <stdlib.h>

#include "unit/unit.h"

static struct merges *make(size_t count, uint32_t (*list)[3]) {
  struct merges *merges;
  struct kj_error error;
  assert_int_equal(merges_create(&merges, count, &error), 0);
  for (size_t i = 0; i < count; i++) merges_add(merges, list[i][0], list[i][1], list[i][2]);
  return merges;
}

/* The definition: again and again the leftmost pair of the lowest rank, over the whole piece. */
static size_t merge_slowly(size_t merge_count, uint32_t (*list)[3], uint32_t *ids, size_t count) {
  for (;;) {
    size_t best = merge_count, at = 0;
    for (size_t i = 0; i + 1 < count; i++) {
      for (size_t rank = 0; rank < best; rank++) {
        if (list[rank][0] != ids[i] || list[rank][1] != ids[i + 1]) continue;
        best = rank;
        at = i;
      }
    }
    if (best == merge_count) return count;
    ids[at] = list[best][2];
    memmove(ids + at + 1, ids + at + 2, (count - at - 2) * sizeof *ids);
    count--;
  }
}

static uint32_t next_random(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

static void agrees_with_the_definition(void **state) {
  (void)state;
  enum { LETTERS = 3, MERGES = 20, LENGTH = 40 };
  uint32_t seed = 1;
  struct merge_scratch scratch = {0};
  for (int round = 0; round < 3000; round++) {
    uint32_t list[MERGES][3];
    for (uint32_t i = 0; i < MERGES; i++) { /* of tokens that are there already; no pair twice */
      bool again;
      do {
        list[i][0] = next_random(&seed) % (LETTERS + i);
        list[i][1] = next_random(&seed) % (LETTERS + i);
        again = false;
        for (uint32_t j = 0; j < i; j++) again |= list[j][0] == list[i][0] && list[j][1] == list[i][1];
      } while (again);
      list[i][2] = LETTERS + i;
    }
    struct merges *merges = make(MERGES, list);
    uint32_t fast[LENGTH], slow[LENGTH];
    size_t count = next_random(&seed) % (LENGTH + 1), slow_count;
    for (size_t i = 0; i < count; i++) fast[i] = slow[i] = next_random(&seed) % LETTERS;
    slow_count = merge_slowly(MERGES, list, slow, count);
    struct kj_error error;
    assert_int_equal(merges_apply(merges, &scratch, fast, &count, &error), 0);
    assert_int_equal(count, slow_count);
    if (count) assert_memory_equal(fast, slow, count * sizeof *fast);
    merges_free(merges);
  }
  merge_scratch_free(&scratch);
}

static void takes_the_last_of_equal_pairs(void **state) {
  (void)state;
  struct merges *merges = make(3, (uint32_t[][3]){{1, 2, 10}, {2, 3, 11}, {1, 2, 12}});
  struct merge_scratch scratch = {0};
  struct kj_error error;
  uint32_t ids[] = {1, 2, 3}, pair[] = {1, 2};
  size_t count = 3;
  assert_int_equal(merges_apply(merges, &scratch, ids, &count, &error), 0);
  assert_int_equal(count, 2);
  assert_int_equal(ids[1], 11);
  count = 2;
  assert_int_equal(merges_apply(merges, &scratch, pair, &count, &error), 0);
  assert_int_equal(count, 1);
  assert_int_equal(pair[0], 12);
  merge_scratch_free(&scratch);
  merges_free(merges);
}

static void halves_a_million_equal_symbols_again_and_again(void **state) {
  (void)state;
  enum { LEVELS = 20, LENGTH = 1 << LEVELS };
  uint32_t list[LEVELS][3];
  for (uint32_t i = 0; i < LEVELS; i++) memcpy(list[i], (uint32_t[]){i, i, i + 1}, sizeof list[i]);
  struct merges *merges = make(LEVELS, list);
  struct merge_scratch scratch = {0};
  struct kj_error error;
  uint32_t *ids = calloc(LENGTH, sizeof *ids);
  size_t count = LENGTH - 1;
  assert_non_null(ids);
  assert_int_equal(merges_apply(merges, &scratch, ids, &count, &error), 0);
  assert_int_equal(count, LEVELS);
  for (uint32_t i = 0; i < LEVELS; i++) assert_int_equal(ids[i], LEVELS - 1 - i);
  free(ids);
  merge_scratch_free(&scratch);
  merges_free(merges);
}

static void leaves_alone_what_has_no_pair(void **state) {
  (void)state;
  struct merges *merges = make(0, NULL);
  struct merge_scratch scratch = {0};
  struct kj_error error;
  uint32_t ids[] = {5, 6};
  for (size_t length = 0; length < 3; length++) {
    size_t count = length;
    assert_int_equal(merges_apply(merges, &scratch, ids, &count, &error), 0);
    assert_int_equal(count, length);
  }
  merge_scratch_free(&scratch);
  merges_free(merges);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(agrees_with_the_definition),
      cmocka_unit_test(takes_the_last_of_equal_pairs),
      cmocka_unit_test(halves_a_million_equal_symbols_again_and_again),
      cmocka_unit_test(leaves_alone_what_has_no_pair),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

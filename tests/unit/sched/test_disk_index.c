/* The index finds what all stages have said to have, and nothing else; it asks for as much as the smallest disk holds.
 */
#include "sched/disk_index.h"

#include <stdlib.h>

#include "link/message.h"
#include "unit/unit.h"

static struct block_key key_of(uint32_t number) {
  struct block_key key = block_key_start();
  memcpy(key.bytes + 3, &number, sizeof number);
  return key;
}

static struct disk_index *create(uint32_t stages) {
  struct disk_index *index;
  assert_int_equal(disk_index_create(&index, stages, NULL), 0);
  return index;
}

/* The stage has the blocks first … end - 1. */
static void add(struct disk_index *index, uint32_t stage, uint32_t capacity, uint32_t first, uint32_t end) {
  struct block_key keys[400];
  for (uint32_t i = first; i < end; i++) keys[i - first] = key_of(i);
  assert_int_equal(disk_index_add(index, stage, capacity, keys, end - first, NULL), 0);
}

static bool find(struct disk_index *index, uint32_t number) {
  struct block_key key = key_of(number);
  return disk_index_find(index, &key);
}

static bool want(struct disk_index *index, uint32_t number, struct block_key *drops, uint32_t *count) {
  struct block_key key = key_of(number);
  return disk_index_want(index, &key, drops, count);
}

static bool want_without_drops(struct disk_index *index, uint32_t number) {
  struct block_key drops[DISK_INDEX_MOST_DROPS];
  uint32_t count;
  bool answer = want(index, number, drops, &count);
  assert_int_equal(count, 0);
  return answer;
}

static void test_found_on_all_stages_only(void **state) {
  (void)state;
  struct disk_index *index = create(3);
  add(index, 0, 100, 0, 10);
  add(index, 1, 100, 5, 15);
  add(index, 2, 100, 0, 8);
  assert_false(find(index, 6)); /* not ready */
  assert_false(want_without_drops(index, 50));
  assert_int_equal(disk_index_ready(index), 3);
  for (uint32_t i = 0; i < 20; i++) assert_int_equal(find(index, i), i >= 5 && i < 8);
  assert_int_equal(disk_index_count(index), 3);
  /* What was missing comes. */
  add(index, 2, 100, 8, 9);
  assert_true(find(index, 8));
  assert_int_equal(disk_index_count(index), 4);
  struct block_key key = key_of(8);
  disk_index_remove(index, &key);
  disk_index_remove(index, &key);
  assert_false(find(index, 8));
  assert_int_equal(disk_index_count(index), 3);
  disk_index_begin(index);
  disk_index_ready(index);
  for (uint32_t i = 0; i < 20; i++) assert_false(find(index, i));
  assert_int_equal(disk_index_count(index), 0);
  disk_index_destroy(index);
}

static void test_a_stage_that_keeps_nothing(void **state) {
  (void)state;
  struct disk_index *index = create(3);
  add(index, 0, 100, 0, 10);
  add(index, 2, 100, 0, 10);
  assert_int_equal(disk_index_ready(index), 1);
  assert_false(find(index, 3));
  assert_false(want_without_drops(index, 30));
  assert_int_equal(disk_index_capacity(index), 0);
  /* A lead without layers is no such stage. */
  disk_index_begin(index);
  disk_index_exempt(index, 0);
  add(index, 1, 100, 0, 10);
  add(index, 2, 100, 5, 10);
  assert_int_equal(disk_index_ready(index), 3);
  for (uint32_t i = 0; i < 10; i++) assert_int_equal(find(index, i), i >= 5);
  assert_int_equal(disk_index_count(index), 5);
  /* The most stages. */
  disk_index_destroy(index);
  index = create(MESSAGE_MAX_STAGES);
  for (uint32_t i = 0; i < MESSAGE_MAX_STAGES - 1; i++) add(index, i, 9, 0, 1);
  assert_int_equal(disk_index_ready(index), MESSAGE_MAX_STAGES - 1);
  add(index, MESSAGE_MAX_STAGES - 1, 9, 0, 1);
  assert_int_equal(disk_index_ready(index), MESSAGE_MAX_STAGES);
  assert_true(find(index, 0));
  disk_index_destroy(index);
}

static void test_wanted_once_and_found_once_reported(void **state) {
  (void)state;
  struct disk_index *index = create(2);
  add(index, 0, 100, 0, 1);
  add(index, 1, 100, 0, 1);
  disk_index_ready(index);
  assert_false(want_without_drops(index, 0)); /* all have it */
  assert_true(want_without_drops(index, 7));
  assert_false(find(index, 7)); /* asked for is not there */
  add(index, 1, 100, 7, 8);
  assert_false(find(index, 7));
  assert_true(want_without_drops(index, 7)); /* one stage may have dropped it: asked for again */
  add(index, 0, 100, 7, 8);
  assert_true(find(index, 7));
  assert_false(want_without_drops(index, 7));
  disk_index_destroy(index);
}

static void test_longest_unused_is_dropped(void **state) {
  (void)state;
  struct block_key drops[DISK_INDEX_MOST_DROPS], expected;
  uint32_t count;
  struct disk_index *index = create(2);
  add(index, 0, 6, 0, 6);
  add(index, 1, 5, 0, 5); /* 5 is not everywhere; 5 fit everywhere */
  disk_index_ready(index);
  assert_int_equal(disk_index_capacity(index), 5);
  assert_true(find(index, 0));
  /* Two must go: the one that helps nobody, then the longest unused. */
  assert_true(want(index, 100, drops, &count));
  assert_int_equal(count, 2);
  expected = key_of(5);
  assert_memory_equal(&drops[0], &expected, sizeof expected);
  expected = key_of(1);
  assert_memory_equal(&drops[1], &expected, sizeof expected);
  assert_false(find(index, 1));
  assert_true(want(index, 101, drops, &count));
  assert_int_equal(count, 1);
  expected = key_of(2);
  assert_memory_equal(&drops[0], &expected, sizeof expected);
  assert_true(find(index, 0));
  disk_index_destroy(index);
}

/* That a block was written can be heard of after it had to go again: the orders to drop it are on their way. */
static void test_late_news_of_a_dropped_block(void **state) {
  (void)state;
  struct block_key drops[DISK_INDEX_MOST_DROPS], expected = key_of(0);
  uint32_t count;
  struct disk_index *index = create(2);
  add(index, 0, 1, 0, 0);
  add(index, 1, 1, 0, 0);
  disk_index_ready(index);
  assert_true(want_without_drops(index, 0));
  assert_true(want(index, 1, drops, &count));
  assert_int_equal(count, 1);
  assert_memory_equal(&drops[0], &expected, sizeof expected);
  add(index, 0, 1, 0, 1);
  add(index, 1, 1, 0, 1);
  assert_false(find(index, 0));
  assert_int_equal(disk_index_count(index), 0);
  disk_index_destroy(index);
}

static void test_stages_with_different_blocks_converge(void **state) {
  (void)state;
  struct block_key drops[DISK_INDEX_MOST_DROPS];
  uint32_t count, dropped = 0, tries = 0, random = 3;
  struct disk_index *index = create(2);
  add(index, 0, 100, 0, 100);
  add(index, 1, 100, 90, 190);
  disk_index_ready(index);
  assert_int_equal(disk_index_count(index), 10);
  bool wanted;
  do {
    wanted = want(index, 1000, drops, &count);
    assert_true(count > 0 && count <= DISK_INDEX_MOST_DROPS);
    dropped += count;
    tries++;
  } while (!wanted);
  assert_int_equal(dropped, 91);
  assert_int_equal(tries, 6);
  assert_int_equal(disk_index_count(index), 10); /* what both have stays the longest */
  /* From there on as a cache, against a plain model: never more than fit, and what was dropped is not found. */
  bool there[300] = {false};
  disk_index_begin(index);
  add(index, 0, 50, 0, 0);
  add(index, 1, 70, 0, 0);
  disk_index_ready(index);
  uint32_t kept = 0;
  for (int step = 0; step < 20000; step++) {
    random = random * 1664525u + 1013904223u;
    uint32_t number = (random >> 9) % 300;
    assert_int_equal(find(index, number), there[number]);
    if (random >> 30 || there[number]) continue;
    wanted = want(index, number, drops, &count);
    assert_true(wanted);
    for (uint32_t i = 0; i < count; i++) {
      uint32_t gone;
      memcpy(&gone, drops[i].bytes + 3, sizeof gone);
      assert_true(there[gone]);
      there[gone] = false;
      kept--;
    }
    add(index, 0, 50, number, number + 1);
    add(index, 1, 70, number, number + 1);
    there[number] = true;
    assert_true(++kept <= 50);
    assert_int_equal(disk_index_count(index), kept);
  }
  assert_int_equal(kept, 50);
  disk_index_destroy(index);
}

static void test_stages_that_cannot_be(void **state) {
  (void)state;
  struct disk_index *index;
  assert_int_equal(disk_index_create(&index, 0, NULL), KJ_INVALID);
  assert_int_equal(disk_index_create(&index, MESSAGE_MAX_STAGES + 1, NULL), KJ_INVALID);
  assert_null(index);
  index = create(2);
  struct block_key key = key_of(1);
  assert_int_equal(disk_index_add(index, 2, 5, &key, 1, NULL), KJ_INVALID);
  disk_index_destroy(index);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_found_on_all_stages_only),
      cmocka_unit_test(test_a_stage_that_keeps_nothing),
      cmocka_unit_test(test_wanted_once_and_found_once_reported),
      cmocka_unit_test(test_longest_unused_is_dropped),
      cmocka_unit_test(test_late_news_of_a_dropped_block),
      cmocka_unit_test(test_stages_with_different_blocks_converge),
      cmocka_unit_test(test_stages_that_cannot_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

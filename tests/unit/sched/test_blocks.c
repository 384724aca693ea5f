/* The allocator of KV blocks: every block is free or somebody's. */
#include "sched/blocks.h"

#include "unit/unit.h"

enum { COUNT = 20 };

static void test_takes_all_or_none(void **state) {
  (void)state;
  struct block_allocator *allocator;
  uint32_t ids[COUNT + 1], more[COUNT];
  assert_int_equal(blocks_create(&allocator, COUNT, NULL), 0);
  assert_int_equal(blocks_total(allocator), COUNT);
  assert_int_equal(blocks_free(allocator), COUNT);
  assert_false(blocks_take(allocator, COUNT + 1, ids));
  assert_int_equal(blocks_free(allocator), COUNT);
  assert_true(blocks_take(allocator, 0, ids));
  assert_true(blocks_take(allocator, 15, ids));
  assert_false(blocks_take(allocator, 6, more));
  assert_int_equal(blocks_free(allocator), 5);
  assert_true(blocks_take(allocator, 5, ids + 15));
  assert_int_equal(blocks_free(allocator), 0);
  uint32_t seen = 0;
  for (int i = 0; i < COUNT; i++) {
    assert_true(ids[i] < COUNT);
    seen |= 1u << ids[i];
  }
  assert_int_equal(seen, (1u << COUNT) - 1);
  for (int i = 0; i < COUNT; i++) blocks_release(allocator, ids[i]);
  assert_int_equal(blocks_free(allocator), COUNT);
  assert_true(blocks_take(allocator, COUNT, ids));
  blocks_destroy(allocator);
}

static void test_shared_block_is_free_after_its_last_release(void **state) {
  (void)state;
  struct block_allocator *allocator;
  uint32_t id, other;
  assert_int_equal(blocks_create(&allocator, 1, NULL), 0);
  assert_true(blocks_take(allocator, 1, &id));
  blocks_share(allocator, id);
  blocks_share(allocator, id);
  blocks_release(allocator, id);
  blocks_release(allocator, id);
  assert_false(blocks_take(allocator, 1, &other));
  blocks_release(allocator, id);
  assert_true(blocks_take(allocator, 1, &other));
  assert_int_equal(other, id);
  blocks_release(allocator, other);
  assert_int_equal(blocks_free(allocator), 1);
  blocks_destroy(allocator);
}

/* Takes, shares and releases at random, against reference counts of the test's own. */
static void test_random_walk(void **state) {
  (void)state;
  struct block_allocator *allocator;
  uint32_t references[COUNT] = {0}, used = 0, random = 1;
  assert_int_equal(blocks_create(&allocator, COUNT, NULL), 0);
  for (int step = 0; step < 100000; step++) {
    random = random * 1664525u + 1013904223u;
    uint32_t id = (random >> 8) % COUNT, ids[COUNT], count = (random >> 16) % 7;
    switch (random >> 30) {
      case 0:
        assert_int_equal(blocks_take(allocator, count, ids), count <= COUNT - used);
        for (uint32_t i = 0; i < count && count <= COUNT - used; i++) assert_int_equal(references[ids[i]]++, 0);
        if (count <= COUNT - used) used += count;
        break;
      case 1:
        if (references[id] > 0 && references[id]++) blocks_share(allocator, id);
        break;
      default:
        if (references[id] == 0) break;
        blocks_release(allocator, id);
        if (--references[id] == 0) used--;
    }
    assert_int_equal(blocks_free(allocator), COUNT - used);
    assert_int_equal(blocks_references(allocator, id), references[id]);
  }
  blocks_destroy(allocator);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_takes_all_or_none),
      cmocka_unit_test(test_shared_block_is_free_after_its_last_release),
      cmocka_unit_test(test_random_walk),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The prefix cache shares what it holds, keeps what is used and gives up what was used longest ago. */
#include "sched/prefix.h"

#include "unit/unit.h"

enum { COUNT = 8, DEPTH = 4 };

struct fixture {
  struct block_allocator *blocks;
  struct prefix_cache *cache;
};

static int set_up(void **state) {
  static struct fixture fixture;
  *state = &fixture;
  return blocks_create(&fixture.blocks, COUNT, NULL) || prefix_create(&fixture.cache, fixture.blocks, NULL);
}

/* By then every test has given back its references. */
static int tear_down(void **state) {
  struct fixture *fixture = *state;
  prefix_destroy(fixture->cache);
  uint32_t free_blocks = blocks_free(fixture->blocks);
  blocks_destroy(fixture->blocks);
  return free_blocks != COUNT;
}

/* Tokens of a path whose blocks differ in the last token only. */
static void spell(uint32_t tokens[DEPTH * KV_BLOCK], const char *path) {
  memset(tokens, 0, DEPTH * KV_BLOCK * sizeof *tokens);
  for (uint32_t i = 0; path[i]; i++) tokens[(i + 1) * KV_BLOCK - 1] = (uint32_t)path[i];
}

/* What a sequence does with its prompt; returns how many of its blocks it found. */
static uint32_t run(struct prefix_cache *cache, const char *path, uint32_t *blocks) {
  uint32_t tokens[DEPTH * KV_BLOCK], count = (uint32_t)strlen(path);
  spell(tokens, path);
  uint32_t found = prefix_share(cache, tokens, blocks, 0, count);
  assert_true(prefix_take(cache, count - found, blocks + found));
  for (uint32_t i = found; i < count; i++) prefix_keep(cache, tokens, blocks, i);
  return found;
}

static void release(struct prefix_cache *cache, const uint32_t *blocks, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) prefix_release(cache, blocks[i]);
}

/* Held blocks of the path, without a lasting reference. It makes them the last used. */
static uint32_t held(struct prefix_cache *cache, const char *path) {
  uint32_t tokens[DEPTH * KV_BLOCK], blocks[DEPTH];
  spell(tokens, path);
  uint32_t found = prefix_share(cache, tokens, blocks, 0, (uint32_t)strlen(path));
  release(cache, blocks, found);
  return found;
}

static void test_second_turn_shares_the_first(void **state) {
  struct fixture *fixture = *state;
  uint32_t first[DEPTH], second[DEPTH];
  assert_int_equal(run(fixture->cache, "ab", first), 0);
  assert_int_equal(prefix_idle(fixture->cache), 0);
  assert_int_equal(run(fixture->cache, "abc", second), 2);
  assert_memory_equal(first, second, 2 * sizeof *first);
  assert_int_equal(blocks_references(fixture->blocks, first[0]), 3);
  release(fixture->cache, first, 2);
  assert_int_equal(prefix_idle(fixture->cache), 0);
  release(fixture->cache, second, 3);
  assert_int_equal(prefix_idle(fixture->cache), 3);
  assert_int_equal(blocks_free(fixture->blocks), COUNT - 3);
}

static void test_same_block_behind_another_is_another(void **state) {
  struct fixture *fixture = *state;
  uint32_t first[DEPTH], second[DEPTH];
  run(fixture->cache, "ab", first);
  assert_int_equal(run(fixture->cache, "bb", second), 0);
  assert_int_equal(held(fixture->cache, "bba"), 2);
  assert_int_equal(held(fixture->cache, "ba"), 1);
  release(fixture->cache, first, 2);
  release(fixture->cache, second, 2);
}

static void test_share_goes_on_behind_a_held_block(void **state) {
  struct fixture *fixture = *state;
  uint32_t tokens[DEPTH * KV_BLOCK], blocks[DEPTH], more[DEPTH];
  run(fixture->cache, "abcd", blocks);
  spell(tokens, "abcd");
  assert_int_equal(prefix_share(fixture->cache, tokens, more, 0, 1), 1);
  assert_int_equal(prefix_share(fixture->cache, tokens, more, 1, 3), 3);
  assert_memory_equal(blocks, more, 3 * sizeof *blocks);
  release(fixture->cache, more, 3);
  /* Nothing is known of what follows a block that is not held. */
  assert_true(prefix_take(fixture->cache, 1, more));
  assert_int_equal(prefix_share(fixture->cache, tokens, more, 1, 3), 1);
  prefix_release(fixture->cache, more[0]);
  release(fixture->cache, blocks, 4);
}

static void test_duplicate_is_replaced(void **state) {
  struct fixture *fixture = *state;
  uint32_t tokens[DEPTH * KV_BLOCK], first[DEPTH], second[DEPTH];
  spell(tokens, "ab");
  assert_true(prefix_take(fixture->cache, 2, first));
  assert_true(prefix_take(fixture->cache, 2, second));
  for (uint32_t i = 0; i < 2; i++) {
    prefix_keep(fixture->cache, tokens, first, i);
    prefix_keep(fixture->cache, tokens, second, i);
    prefix_keep(fixture->cache, tokens, second, i);
  }
  assert_memory_equal(first, second, 2 * sizeof *first);
  assert_int_equal(blocks_free(fixture->blocks), COUNT - 2);
  release(fixture->cache, first, 2);
  assert_int_equal(prefix_idle(fixture->cache), 0);
  release(fixture->cache, second, 2);
}

static void test_not_kept_without_its_predecessor(void **state) {
  struct fixture *fixture = *state;
  uint32_t tokens[DEPTH * KV_BLOCK], blocks[DEPTH];
  spell(tokens, "ab");
  assert_true(prefix_take(fixture->cache, 2, blocks));
  prefix_keep(fixture->cache, tokens, blocks, 1);
  release(fixture->cache, blocks, 2);
  assert_int_equal(blocks_free(fixture->blocks), COUNT);
}

static void test_longest_unused_goes_first_from_its_end(void **state) {
  struct fixture *fixture = *state;
  uint32_t blocks[DEPTH], taken[COUNT];
  run(fixture->cache, "abc", blocks);
  release(fixture->cache, blocks, 3);
  run(fixture->cache, "xyz", blocks);
  release(fixture->cache, blocks, 3);
  assert_true(prefix_take(fixture->cache, 3, taken)); /* two are free */
  assert_int_equal(held(fixture->cache, "xyz"), 3);
  assert_int_equal(held(fixture->cache, "abc"), 2);
  assert_true(prefix_take(fixture->cache, 2, taken + 3)); /* "xyz" is the older one now */
  assert_int_equal(held(fixture->cache, "abc"), 2);
  assert_int_equal(held(fixture->cache, "xyz"), 1);
  release(fixture->cache, taken, 5);
}

static void test_predecessors_of_a_used_block_stay(void **state) {
  struct fixture *fixture = *state;
  uint32_t blocks[DEPTH], taken[COUNT];
  run(fixture->cache, "abc", blocks);
  release(fixture->cache, blocks, 2);
  assert_int_equal(prefix_idle(fixture->cache), 0);
  assert_false(prefix_take(fixture->cache, COUNT - 2, taken));
  prefix_release(fixture->cache, blocks[2]);
  assert_int_equal(prefix_idle(fixture->cache), 3);
  assert_true(prefix_take(fixture->cache, COUNT - 1, taken));
  assert_int_equal(held(fixture->cache, "abc"), 1);
  release(fixture->cache, taken, COUNT - 1);
}

static void test_take_changes_nothing_when_there_is_too_little(void **state) {
  struct fixture *fixture = *state;
  uint32_t idle[DEPTH], used[DEPTH], taken[COUNT];
  run(fixture->cache, "abc", idle);
  release(fixture->cache, idle, 3);
  run(fixture->cache, "xy", used);
  assert_false(prefix_take(fixture->cache, COUNT - 1, taken));
  assert_int_equal(blocks_free(fixture->blocks), COUNT - 5);
  assert_int_equal(held(fixture->cache, "abc"), 3);
  assert_true(prefix_take(fixture->cache, COUNT - 2, taken));
  assert_int_equal(prefix_idle(fixture->cache), 0);
  for (uint32_t i = 0; i < COUNT - 2; i++) assert_true(taken[i] != used[0] && taken[i] != used[1]);
  release(fixture->cache, taken, COUNT - 2);
  release(fixture->cache, used, 2);
}

static void test_clear_leaves_sequences_their_blocks(void **state) {
  struct fixture *fixture = *state;
  uint32_t tokens[DEPTH * KV_BLOCK], blocks[DEPTH], idle[DEPTH];
  run(fixture->cache, "xyz", idle);
  release(fixture->cache, idle, 3);
  run(fixture->cache, "ab", blocks);
  prefix_clear(fixture->cache);
  assert_int_equal(blocks_free(fixture->blocks), COUNT - 2);
  assert_int_equal(prefix_idle(fixture->cache), 0);
  assert_int_equal(held(fixture->cache, "ab"), 0);
  assert_int_equal(held(fixture->cache, "xyz"), 0);
  /* The sequence computes them anew. */
  spell(tokens, "ab");
  for (uint32_t i = 0; i < 2; i++) prefix_keep(fixture->cache, tokens, blocks, i);
  assert_int_equal(held(fixture->cache, "ab"), 2);
  release(fixture->cache, blocks, 2);
  assert_int_equal(prefix_idle(fixture->cache), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_second_turn_shares_the_first, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_same_block_behind_another_is_another, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_share_goes_on_behind_a_held_block, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_duplicate_is_replaced, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_not_kept_without_its_predecessor, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_longest_unused_goes_first_from_its_end, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_predecessors_of_a_used_block_stay, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_take_changes_nothing_when_there_is_too_little, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_clear_leaves_sequences_their_blocks, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

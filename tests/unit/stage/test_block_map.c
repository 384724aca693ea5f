/* The table of block keys against a plain list, with keys that crowd into the same slots. */
#include "stage/block_map.h"

#include <stdlib.h>

#include "unit/unit.h"

enum { KEYS = 600 };

/* Few different first bytes, so that runs of full slots are long and wrap around. */
static struct block_key key_of(uint32_t number) {
  struct block_key key = block_key_start();
  uint64_t home = number % 7 == 0 ? UINT64_MAX - number % 3 : number % 11;
  memcpy(key.bytes, &home, sizeof home);
  memcpy(key.bytes + 8, &number, sizeof number);
  return key;
}

static void test_puts_finds_and_removes(void **state) {
  (void)state;
  struct block_map map = {0};
  uint32_t places[KEYS], count = 0, random = 1;
  for (uint32_t i = 0; i < KEYS; i++) places[i] = BLOCK_MAP_NONE;
  struct block_key key = key_of(0);
  assert_int_equal(block_map_find(&map, &key), BLOCK_MAP_NONE);
  block_map_remove(&map, &key);
  for (uint32_t step = 0; step < 20000; step++) {
    random = random * 1664525u + 1013904223u;
    uint32_t number = (random >> 8) % KEYS;
    key = key_of(number);
    if ((random >> 28) < 8) {
      count += places[number] == BLOCK_MAP_NONE;
      places[number] = step;
      assert_int_equal(block_map_put(&map, &key, step, NULL), 0);
    } else {
      count -= places[number] != BLOCK_MAP_NONE;
      places[number] = BLOCK_MAP_NONE;
      block_map_remove(&map, &key);
    }
    assert_int_equal(map.count, count);
    for (uint32_t i = step % 10; i < KEYS; i += 10) {
      key = key_of(i);
      assert_int_equal(block_map_find(&map, &key), places[i]);
    }
  }
  assert_true(count > KEYS / 4);
  block_map_clear(&map);
  assert_int_equal(map.count, 0);
  for (uint32_t i = 0; i < KEYS; i++) {
    key = key_of(i);
    assert_int_equal(block_map_find(&map, &key), BLOCK_MAP_NONE);
  }
  block_map_free(&map);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_puts_finds_and_removes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

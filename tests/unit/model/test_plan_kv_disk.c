/* Copies of KV blocks that wait to be written are part of the plan. */
#include "unit/model/plan_fixture.h"

static void copies_count_where_there_are_layers(void **state) {
  (void)state;
  struct fixture *fixture = fixture_create(6, 3);
  const uint32_t split[] = {0, 2, 4};
  struct plan *without, *with;
  assert_int_equal(fixture_plan_split(fixture, split, 3, &without), 0);
  fixture->request.kv_disk = true;
  assert_int_equal(fixture_plan_split(fixture, split, 3, &with), 0);
  /* A block of all layers: layers, K and V, heads, head_dim, f16. */
  uint64_t copies = plan_store_bytes((uint64_t)6 * 2 * 2 * 16 * 2 * KV_BLOCK);
  assert_true(copies > PLAN_KV_QUEUE_BYTES);
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(with->stages[i].working - without->stages[i].working, i == 0 ? 0 : copies);
  plan_free(with);
  plan_free(without);
  free(fixture);
}

static void large_blocks_wait_two_at_a_time(void **state) {
  (void)state;
  uint64_t small = plan_store_bytes(1000), large = plan_store_bytes((uint64_t)100 << 20);
  assert_true(small >= PLAN_KV_QUEUE_BYTES + 1000 && small < PLAN_KV_QUEUE_BYTES + 10000);
  assert_true(large >= (uint64_t)300 << 20 && large < (uint64_t)301 << 20);
  assert_true(plan_store_bytes(UINT64_MAX) == UINT64_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copies_count_where_there_are_layers),
      cmocka_unit_test(large_blocks_wait_two_at_a_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

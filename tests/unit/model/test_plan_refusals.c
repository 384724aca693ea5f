#include "unit/model/plan_fixture.h"

/* The plan is refused with this code, and the message says all of `parts`, separated by '|'. */
static void assert_refused(struct fixture *fixture, int expected, const char *parts) {
  char copy[400];
  struct plan *plan = (struct plan *)fixture;
  assert_int_equal(fixture_plan(fixture, &plan), expected);
  assert_int_equal(fixture->error.code, expected);
  assert_null(plan);
  snprintf(copy, sizeof copy, "%s", parts);
  for (char *rest = copy, *part; (part = strsep(&rest, "|"));)
    if (!strstr(fixture->error.message, part)) fail_msg("\"%s\" is not in: %s", part, fixture->error.message);
}

static void refuse_split(uint32_t layers, size_t nodes, const uint32_t *split, size_t count, const char *parts) {
  struct fixture *fixture = fixture_create(layers, nodes);
  fixture->request.split = split;
  fixture->request.split_count = count;
  assert_refused(fixture, KJ_INVALID, parts);
  free(fixture);
}

static void C2_split_that_does_not_cover_the_layers(void **state) {
  (void)state;
  refuse_split(62, 2, (const uint32_t[]){42, 19}, 2, "layer 61 on no node");
  refuse_split(62, 2, (const uint32_t[]){20, 20}, 2, "layers 40-61 on no node");
  refuse_split(62, 2, (const uint32_t[]){42, 21}, 2, "\"n1\"|layers 42-62|62 layers");
  refuse_split(62, 2, (const uint32_t[]){63, 1}, 2, "\"n0\"|layers 0-62");
  refuse_split(62, 2, (const uint32_t[]){4294967295u, 4294967295u}, 2, "layers 0-4294967294");
  refuse_split(62, 2, (const uint32_t[]){62, 0}, 2, "node 2|\"n1\"|no layer");
  refuse_split(62, 3, (const uint32_t[]){31, 0, 31}, 3, "node 2|before layer 31");
  refuse_split(62, 3, (const uint32_t[]){42, 20}, 2, "2 parts for 3 nodes|\"n2\"");
  refuse_split(62, 2, (const uint32_t[]){22, 20, 20}, 3, "3 parts for 2 nodes|layers 42-61");
  refuse_split(62, 2, (const uint32_t[]){42, 20, 0}, 3, "3 parts for 2 nodes");
  refuse_split(62, 1, (const uint32_t[]){0}, 1, "layers 0-61 on no node");
}

static void C2_split_that_is_no_list_of_numbers(void **state) {
  (void)state;
  static const char *const wrong[] = {"",
                                      "-1,63",
                                      "20,-42",
                                      "20,",
                                      ",42",
                                      "20,,42",
                                      "20;42",
                                      "20,x",
                                      "20.5",
                                      " 20",
                                      "0x10",
                                      "4294967296",
                                      "99999999999999999999",
                                      "+4",
                                      "1e2"};
  uint32_t split[PLAN_MAX_NODES];
  size_t count;
  struct kj_error error;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_int_equal(plan_parse_split(wrong[i], split, &count, &error), KJ_INVALID);
    assert_non_null(strstr(error.message, "is not a number of layers"));
  }
  char many[2 * PLAN_MAX_NODES + 2];
  for (int i = 0; i <= PLAN_MAX_NODES; i++)
    memcpy(many + 2 * i, i < PLAN_MAX_NODES ? "1," : "1", i < PLAN_MAX_NODES ? 3 : 2);
  assert_int_equal(plan_parse_split(many, split, &count, &error), KJ_INVALID);
  many[2 * PLAN_MAX_NODES - 1] = 0;
  assert_int_equal(plan_parse_split(many, split, &count, &error), 0);
  assert_int_equal(count, PLAN_MAX_NODES);
  assert_int_equal(plan_parse_split("20,42", split, &count, &error), 0);
  assert_int_equal(count, 2);
  assert_int_equal(split[0], 20);
  assert_int_equal(split[1], 42);
}

static void C2_same_node_twice_and_other_wrong_nodes(void **state) {
  (void)state;
  struct fixture *fixture = fixture_create(8, 3);
  snprintf(fixture->nodes[2].name, sizeof fixture->nodes[2].name, "n0");
  assert_refused(fixture, KJ_INVALID, "\"n0\" is given twice|node 1|node 3");
  fixture->nodes[2].name[0] = 0;
  assert_refused(fixture, KJ_INVALID, "node 3 has no name");
  snprintf(fixture->nodes[2].name, sizeof fixture->nodes[2].name, "n2");
  fixture->nodes[1].bandwidth = -1;
  assert_refused(fixture, KJ_INVALID, "\"n1\"");
  fixture->nodes[1].bandwidth = 0;
  fixture->request.node_count = 0;
  assert_refused(fixture, KJ_INVALID, "0 nodes");
  fixture->request.node_count = PLAN_MAX_NODES + 1;
  assert_refused(fixture, KJ_INVALID, "65 nodes");
  free(fixture);

  fixture = fixture_create(2, 4);
  assert_refused(fixture, KJ_INVALID, "4 nodes for layers 0-1");
  free(fixture);
}

static void load_that_no_model_can_have(void **state) {
  (void)state;
  struct fixture *fixture = fixture_create(8, 1);
  fixture->request.parallel = 0;
  assert_refused(fixture, KJ_INVALID, "0 parallel");
  fixture->request.parallel = 1;
  fixture->request.context = 4097;
  assert_refused(fixture, KJ_INVALID, "4097|4096");
  fixture->request.context = 4096;
  fixture->request.max_batch_tokens = UINT32_MAX;
  assert_refused(fixture, KJ_INVALID, "micro-batches");
  fixture->request.max_batch_tokens = 0;
  fixture->request.parallel = UINT32_MAX;
  assert_refused(fixture, KJ_INVALID, "KV blocks");
  fixture->request.parallel = 1;
  fixture->layer_bytes[3] = UINT64_MAX;
  assert_refused(fixture, KJ_MEMORY, "4 EB");
  fixture->layer_bytes[3] = 1;
  fixture->config.hidden = UINT32_MAX;
  fixture->config.query_heads = fixture->config.head_dim = UINT32_MAX;
  assert_refused(fixture, KJ_MEMORY, "4 EB");
  free(fixture);
}

/* Ceilings of 3:2:1 that are just large enough for a split of 3:2:1, then too small by a byte on one node. */
static void C9_ceilings_to_the_byte(void **state) {
  (void)state;
  struct plan *plan;
  struct kj_error error;
  const uint32_t split[] = {30, 20, 10};
  for (size_t tight = 0; tight < 3; tight++) {
    struct fixture *fixture = fixture_create(60, 3);
    assert_int_equal(fixture_plan_split(fixture, split, 3, &plan), 0);
    for (size_t i = 0; i < 3; i++) fixture->nodes[i].memory = plan->stages[i].peak;
    plan_free(plan);

    assert_int_equal(fixture_plan_split(fixture, split, 3, &plan), 0);
    assert_int_equal(plan_check_memory(plan, &error), 0);
    plan_free(plan);
    assert_int_equal(fixture_plan(fixture, &plan), 0);
    assert_int_equal(plan_check_memory(plan, &error), 0);
    for (size_t i = 0; i < 3; i++) assert_int_equal(plan->stages[i].layer_count, split[i]);
    plan_free(plan);

    uint64_t need = fixture->nodes[tight].memory--;
    for (int automatic = 0; automatic < 2; automatic++) {
      assert_int_equal(automatic ? fixture_plan(fixture, &plan) : fixture_plan_split(fixture, split, 3, &plan), 0);
      assert_int_equal(plan_check_memory(plan, &error), KJ_MEMORY);
      for (size_t i = 0; i < 3; i++) {
        char have[64];
        snprintf(have, sizeof have, "has %llu B", (unsigned long long)fixture->nodes[i].memory);
        assert_non_null(strstr(error.message, have));
      }
      char text[64];
      snprintf(text, sizeof text, "n%zu needs %llu B", tight, (unsigned long long)need);
      if (!automatic) assert_non_null(strstr(error.message, text));
      plan_free(plan);
    }
    free(fixture);
  }
}

static void C9_context_that_makes_kv_too_large(void **state) {
  (void)state;
  struct plan *plan;
  struct kj_error error;
  struct fixture *fixture = fixture_create(12, 2);
  fixture->request.context = 64;
  assert_int_equal(fixture_plan(fixture, &plan), 0);
  for (size_t i = 0; i < 2; i++) fixture->nodes[i].memory = plan->stages[i].peak;
  plan_free(plan);
  fixture->request.context = 65;
  assert_int_equal(fixture_plan(fixture, &plan), 0);
  assert_int_equal(plan_check_memory(plan, &error), KJ_MEMORY);
  assert_non_null(strstr(error.message, "n0 needs"));
  assert_non_null(strstr(error.message, "n1 needs"));
  plan_free(plan);
  free(fixture);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(C2_split_that_does_not_cover_the_layers),
      cmocka_unit_test(C2_split_that_is_no_list_of_numbers),
      cmocka_unit_test(C2_same_node_twice_and_other_wrong_nodes),
      cmocka_unit_test(load_that_no_model_can_have),
      cmocka_unit_test(C9_ceilings_to_the_byte),
      cmocka_unit_test(C9_context_that_makes_kv_too_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

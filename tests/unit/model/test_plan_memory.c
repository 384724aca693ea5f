#include "compute/backend.h"
#include "unit/model/plan_fixture.h"

static void peak_is_the_sum_of_its_parts(void **state) {
  (void)state;
  struct plan *plan;
  struct fixture *fixture = fixture_create(6, 3);
  const uint32_t split[] = {1, 2, 3};
  fixture->request.context = 1000;
  fixture->request.parallel = 3;
  fixture->request.max_batch_tokens = 100;
  fixture->nodes[1].threads = 2;
  assert_int_equal(fixture_plan_split(fixture, split, 3, &plan), 0);

  assert_int_equal(plan->kv_blocks, 3 * 16);
  assert_int_equal(plan->kv_bytes_per_token, 6 * 2 * 2 * 16 * 2); /* layers, K and V, heads, head_dim, f16 */
  assert_int_equal(plan->total_weights, 6256128);
  assert_int_equal(plan->smallest_layer, 1000000);
  assert_int_equal(plan->largest_layer, 1000000);
  /* Residual stream, normed, added; queries, attended; keys, values; router logits. */
  uint64_t activations = 100 * 4 * (3 * 64 + 2 * 64 + 2 * 32 + 8);
  uint64_t head = 4 * (100 * 64 + (8 + 8 + 5) * 1000);
  /* Three micro-batches and one more in flight, and two copies. */
  uint64_t hidden = 6 * 100 * 64 * 4, ledger = (uint64_t)plan->kv_blocks * PLAN_LEDGER_BLOCK_BYTES;
  assert_int_equal(plan_activation_bytes(&fixture->config, 100), activations);
  assert_int_equal(plan_head_bytes(&fixture->config, 100), head);
  for (size_t i = 0; i < 3; i++) {
    const struct plan_stage *stage = &plan->stages[i];
    size_t threads = i == 1 ? 2 : 64;
    uint64_t scratch = backend_cpu_scratch_bytes(threads, 100, 64);
    uint64_t routing = backend_cpu_routing_bytes(threads, 100, 64, 100, 8, 2);
    uint64_t weights = (i + 1) * 1000000 + (i == 0 ? 256128 : 0);
    assert_int_equal(stage->weights, weights);
    assert_int_equal(stage->kv, (i + 1) * 3 * 16 * 64 * (2 * 2 * 16 * 2));
    assert_int_equal(stage->working, scratch + routing + activations + ledger + hidden + (i == 0 ? head : 0));
    uint64_t mapped = stage->weights + stage->kv + stage->working;
    assert_int_equal(stage->runtime, PLAN_RUNTIME_BYTES + (mapped + 4095) / 4096 * 8);
    assert_int_equal(stage->peak, stage->weights + stage->kv + stage->working + stage->runtime);
    assert_int_equal(stage->holds_head, i == 0);
  }
  plan_free(plan);
  free(fixture);
}

/* 2 of 8 experts; on the lead also norm, head and a row of the embedding, or with tied embeddings all of it. */
static void a_token_reads_only_the_chosen_experts(void **state) {
  (void)state;
  struct plan *plan;
  struct fixture *fixture = fixture_create(4, 2);
  const uint32_t split[] = {1, 3};
  uint64_t layer = 250000 + 750000 / 4;
  assert_int_equal(fixture_plan_split(fixture, split, 2, &plan), 0);
  assert_int_equal(plan->stages[0].bytes_per_token, layer + 128 + 128000 + 128);
  assert_int_equal(plan->stages[1].bytes_per_token, 3 * layer);
  plan_free(plan);
  fixture->sizes.head_bytes = 0;
  fixture->expert_bytes[2] = 0;
  assert_int_equal(fixture_plan_split(fixture, split, 2, &plan), 0);
  assert_int_equal(plan->stages[0].bytes_per_token, layer + 128 + 128000);
  assert_int_equal(plan->stages[0].weights, 1000000 + 128128);
  assert_int_equal(plan->stages[1].bytes_per_token, 2 * layer + 1000000);
  plan_free(plan);
  free(fixture);
}

/* 8 · (1 - (6/8)^rows) of 8 experts, which sixty-fourths of 64 bytes give exactly; the rest of a layer, norm and head
 * once; a row of the embedding for each. What one sequence reads stays what it was. */
static void a_step_reads_the_experts_of_all_its_rows(void **state) {
  (void)state;
  struct plan *plan;
  struct fixture *fixture = fixture_create(4, 2);
  const uint32_t split[] = {1, 3};
  for (uint32_t i = 0; i < 4; i++) fixture->expert_bytes[i] = 640000;
  fixture->request.parallel = 6;
  uint64_t token = 360000 + 640000 / 4, step = 360000 + 640000 / 64 * (64 - 27);
  assert_int_equal(fixture_plan_split(fixture, split, 2, &plan), 0);
  assert_int_equal(plan->step_rows, 3);
  assert_int_equal(plan->stages[0].bytes_per_token, token + 128 + 128000 + 128);
  assert_int_equal(plan->stages[1].bytes_per_token, 3 * token);
  assert_int_equal(plan->stages[0].bytes_per_step, step + 128 + 128000 + 3 * 128);
  assert_int_equal(plan->stages[1].bytes_per_step, 3 * step);
  plan_free(plan);
  /* More rows than anything else: all of everything, and no more. */
  fixture->request.parallel = 4000000;
  fixture->request.kv_tokens = 4096;
  fixture->request.micro_batches = 1;
  assert_int_equal(fixture_plan_split(fixture, split, 2, &plan), 0);
  assert_int_equal(plan->step_rows, 4000000);
  assert_int_equal(plan->stages[0].bytes_per_step, plan->stages[0].weights);
  assert_int_equal(plan->stages[1].bytes_per_step, plan->stages[1].weights);
  plan_free(plan);
  /* One sequence's step is its token, also where experts do not divide evenly. */
  fixture->expert_bytes[1] = 640003;
  fixture->request.parallel = 2;
  fixture->request.micro_batches = 2;
  assert_int_equal(fixture_plan_split(fixture, split, 2, &plan), 0);
  for (size_t i = 0; i < 2; i++) assert_int_equal(plan->stages[i].bytes_per_step, plan->stages[i].bytes_per_token);
  plan_free(plan);
  /* A dense model and tied embeddings: the same for any number of rows. */
  fixture->config.experts = fixture->config.experts_per_token = 0;
  fixture->sizes.head_bytes = 0;
  fixture->request.micro_batches = 1;
  assert_int_equal(fixture_plan_split(fixture, split, 2, &plan), 0);
  assert_int_equal(plan->step_rows, 2);
  for (size_t i = 0; i < 2; i++) assert_int_equal(plan->stages[i].bytes_per_step, plan->stages[i].bytes_per_token);
  plan_free(plan);
  free(fixture);
}

static void head_on_last_is_held_but_not_read(void **state) {
  (void)state;
  struct plan *plan, *alone;
  struct fixture *fixture = fixture_create(4, 2);
  const uint32_t split[] = {2, 2};
  fixture->request.head_on_last = true;
  assert_int_equal(fixture_plan_split(fixture, split, 2, &plan), 0);
  assert_true(plan->stages[0].holds_head && plan->stages[1].holds_head);
  assert_int_equal(plan->stages[0].weights, plan->stages[1].weights);
  assert_true(plan->stages[0].bytes_per_token > plan->stages[1].bytes_per_token);
  plan_free(plan);
  /* With one node the last is the lead: nothing is counted twice. */
  fixture->request.node_count = 1;
  assert_int_equal(fixture_plan(fixture, &plan), 0);
  fixture->request.head_on_last = false;
  assert_int_equal(fixture_plan(fixture, &alone), 0);
  assert_int_equal(plan->stages[0].peak, alone->stages[0].peak);
  plan_free(plan);
  plan_free(alone);
  free(fixture);
}

static void context_defaults_to_the_models_maximum(void **state) {
  (void)state;
  struct plan *plan;
  struct fixture *fixture = fixture_create(4, 1);
  assert_int_equal(fixture_plan(fixture, &plan), 0);
  assert_int_equal(plan->context, 4096);
  assert_int_equal(plan->kv_blocks, 64);
  plan_free(plan);
  free(fixture);
}

static void longest_input_of_a_matrix(void **state) {
  (void)state;
  struct fixture *fixture = fixture_create(4, 1);
  struct config *config = &fixture->config;
  assert_int_equal(plan_max_columns(config), 64);
  config->expert_intermediate = 96;
  assert_int_equal(plan_max_columns(config), 96);
  config->query_heads = 8;
  assert_int_equal(plan_max_columns(config), 128);
  config->intermediate = 512;
  assert_int_equal(plan_max_columns(config), 512);
  free(fixture);
}

static void sizes_and_nodes_as_people_write_them(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t bytes;
  } right[] = {{"256GB", 256000000000u},
               {"1", 1},
               {"17B", 17},
               {"1.5TB", 1500000000000u},
               {"512MiB", 536870912},
               {"2kib", 2048},
               {"0.5KB", 500},
               {"3 GiB", 3221225472u},
               {"1.0000001GB", 1000000100},
               {"9223372036854775807", INT64_MAX}};
  static const char *const wrong[] = {"",
                                      "GB",
                                      "-1GB",
                                      "0",
                                      "0GB",
                                      "1XB",
                                      "1GBs",
                                      "1.GB",
                                      ".5GB",
                                      "1e9",
                                      "inf",
                                      "nan",
                                      "0x10",
                                      "1G",
                                      "1iB",
                                      "9223372036854775808",
                                      "99999999999999999999",
                                      "20000PB"};
  uint64_t bytes;
  for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
    assert_int_equal(plan_parse_size(right[i].text, &bytes, NULL), 0);
    assert_int_equal(bytes, right[i].bytes);
  }
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    if (plan_parse_size(wrong[i], &bytes, NULL) != KJ_INVALID) fail_msg("\"%s\" is taken for a size", wrong[i]);

  struct plan_node node;
  assert_int_equal(plan_parse_node("m3-ultra=256GB,800GB/s", &node, NULL), 0);
  assert_string_equal(node.name, "m3-ultra");
  assert_int_equal(node.memory, 256000000000u);
  assert_true(node.bandwidth == 800e9);
  assert_int_equal(plan_parse_node("a=b=1GB", &node, NULL), 0);
  assert_string_equal(node.name, "a=b");
  assert_true(node.bandwidth == 0);
  static const char *const wrong_nodes[] = {"",          "a",          "=1GB",     "a=",          "a=x",
                                            "a=1GB,",    "a=1GB,fast", "a=1GB,/s", "a=1GB,1GB/h", "a=1GB,1GB,1GB",
                                            "a\x01=1GB", "\xc3=1GB"};
  for (size_t i = 0; i < sizeof wrong_nodes / sizeof *wrong_nodes; i++)
    if (plan_parse_node(wrong_nodes[i], &node, NULL) != KJ_INVALID)
      fail_msg("\"%s\" is taken for a node", wrong_nodes[i]);
  char long_name[160];
  snprintf(long_name, sizeof long_name, "%0128d=1GB", 1);
  assert_int_equal(plan_parse_node(long_name, &node, NULL), KJ_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(peak_is_the_sum_of_its_parts),
      cmocka_unit_test(a_token_reads_only_the_chosen_experts),
      cmocka_unit_test(a_step_reads_the_experts_of_all_its_rows),
      cmocka_unit_test(head_on_last_is_held_but_not_read),
      cmocka_unit_test(context_defaults_to_the_models_maximum),
      cmocka_unit_test(longest_input_of_a_matrix),
      cmocka_unit_test(sizes_and_nodes_as_people_write_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

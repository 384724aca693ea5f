#include <math.h>

#include "unit/model/plan_fixture.h"

/* Each layer on exactly one node, in order, and no node but the lead without a layer. */
static void assert_covers(const struct plan *plan, uint32_t layers, size_t nodes) {
  uint32_t next = 0;
  assert_int_equal(plan->stage_count, nodes);
  for (size_t i = 0; i < nodes; i++) {
    assert_int_equal(plan->stages[i].first_layer, next);
    assert_true(i == 0 || plan->stages[i].layer_count > 0);
    next += plan->stages[i].layer_count;
  }
  assert_int_equal(next, layers);
}

static void C1_automatic_split_covers_every_layer_once(void **state) {
  (void)state;
  for (uint32_t layers = 1; layers <= 100; layers++)
    for (size_t nodes = 1; nodes <= 8; nodes++)
      for (int uneven = 0; uneven < 2; uneven++) {
        struct fixture *fixture = fixture_create(layers, nodes);
        struct plan *plan;
        for (size_t i = 0; i < nodes && uneven; i++) {
          fixture->nodes[i].bandwidth = 1e9 * (double)(1 + i * 3 % 5);
          fixture->nodes[i].memory = 1000000000 + 50000000 * (i % 3);
          fixture->layer_bytes[i * 7 % layers] += 2000000;
        }
        int code = fixture_plan(fixture, &plan);
        if (nodes - 1 > layers) {
          assert_int_equal(code, KJ_INVALID);
          assert_null(plan);
        } else {
          assert_int_equal(code, 0);
          assert_covers(plan, layers, nodes);
          assert_int_equal(plan_check_memory(plan, NULL), 0);
        }
        plan_free(plan);
        free(fixture);
      }
}

/* Splits that are right: even, with the rest on the first nodes; and uneven, all that is left on one node. */
static void C1_explicit_split_is_kept(void **state) {
  (void)state;
  for (uint32_t layers = 1; layers <= 100; layers++)
    for (size_t nodes = 1; nodes <= 8 && nodes <= layers; nodes++)
      for (size_t big = 0; big <= nodes; big++) {
        struct fixture *fixture = fixture_create(layers, nodes);
        struct plan *plan;
        uint32_t split[8];
        for (size_t i = 0; i < nodes; i++) {
          split[i] = big == nodes ? layers / (uint32_t)nodes + (i < layers % nodes) : 1;
          if (i == big) split[i] = layers - (uint32_t)nodes + 1;
        }
        assert_int_equal(fixture_plan_split(fixture, split, nodes, &plan), 0);
        assert_covers(plan, layers, nodes);
        for (size_t i = 0; i < nodes; i++) assert_int_equal(plan->stages[i].layer_count, split[i]);
        plan_free(plan);
        free(fixture);
      }
}

static void lead_may_hold_no_layer(void **state) {
  (void)state;
  struct fixture *fixture = fixture_create(6, 3);
  struct plan *plan;
  uint32_t split[] = {0, 2, 4};
  assert_int_equal(fixture_plan_split(fixture, split, 3, &plan), 0);
  assert_covers(plan, 6, 3);
  assert_int_equal(plan->stages[0].weights, 256128);
  assert_int_equal(plan->stages[0].kv, 0);
  plan_free(plan);
  free(fixture);
}

/* A node without a bandwidth is taken for as slow as the slowest one. */
static void unknown_bandwidth_is_the_slowest(void **state) {
  (void)state;
  struct fixture *fixture = fixture_create(60, 3);
  struct plan *plan;
  fixture->sizes.embedding_bytes = fixture->sizes.head_bytes = fixture->sizes.norm_bytes = 0;
  fixture->nodes[0].bandwidth = 4e9;
  fixture->nodes[2].bandwidth = 1e9;
  assert_int_equal(fixture_plan(fixture, &plan), 0);
  assert_int_equal(plan->stages[0].layer_count, 40);
  assert_int_equal(plan->stages[1].layer_count, 10);
  assert_int_equal(plan->stages[2].layer_count, 10);
  plan_free(plan);
  free(fixture);
}

struct optimum {
  double time, share;
  bool fits;
};

static void judge(const struct plan *plan, struct optimum *split) {
  *split = (struct optimum){.fits = true};
  for (size_t i = 0; i < plan->stage_count; i++) {
    const struct plan_node *node = &plan->nodes[i];
    double time = (double)plan->stages[i].bytes_per_step / (node->bandwidth > 0 ? node->bandwidth : 1);
    double share = (double)plan->stages[i].peak / (node->memory ? (double)node->memory : 0x1p64);
    if (time > split->time) split->time = time;
    if (share > split->share) split->share = share;
    if (node->memory && plan->stages[i].peak > node->memory) split->fits = false;
  }
}

/* Tries every split from node `node` on, through plans with an explicit split. */
static void try_all(struct fixture *fixture, uint32_t *split, size_t node, uint32_t left, struct optimum *best) {
  size_t nodes = fixture->request.node_count;
  if (node + 1 == nodes) {
    if (node > 0 && left == 0) return;
    struct plan *plan;
    struct optimum found;
    split[node] = left;
    assert_int_equal(fixture_plan_split(fixture, split, nodes, &plan), 0);
    judge(plan, &found);
    plan_free(plan);
    bool better = found.fits != best->fits                 ? found.fits
                  : found.fits && found.time != best->time ? found.time < best->time
                                                           : found.share < best->share;
    if (better) *best = found;
    return;
  }
  for (uint32_t count = node ? 1 : 0; count <= left; count++) {
    split[node] = count;
    try_all(fixture, split, node + 1, left - count, best);
  }
}

static uint32_t random_below(uint64_t *state, uint32_t limit) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((*state >> 33) % limit);
}

static void C1_automatic_split_equals_brute_force(void **state) {
  (void)state;
  uint64_t random = 1;
  unsigned fitting = 0, exceeding = 0, several = 0;
  for (int round = 0; round < 1500; round++) {
    uint32_t layers = 1 + random_below(&random, 9);
    size_t nodes = 1 + random_below(&random, layers < 4 ? layers : 4);
    bool timed = random_below(&random, 2);
    struct fixture *fixture = fixture_create(layers, nodes);
    for (uint32_t i = 0; i < layers; i++) {
      fixture->layer_bytes[i] = 1000000 * (1 + random_below(&random, 300));
      fixture->expert_bytes[i] = fixture->layer_bytes[i] / 4 * random_below(&random, 4);
    }
    for (size_t i = 0; i < nodes; i++) {
      if (timed) fixture->nodes[i].bandwidth = 1e8 * (1 + random_below(&random, 8));
      if (random_below(&random, 4)) fixture->nodes[i].memory = 290000000 + 10000000u * random_below(&random, 160);
    }
    fixture->request.parallel = 1 + random_below(&random, 9);
    fixture->request.micro_batches = random_below(&random, 4);
    uint32_t split[4];
    struct optimum best = {.time = INFINITY, .share = INFINITY}, found;
    struct plan *plan;
    try_all(fixture, split, 0, layers, &best);
    assert_int_equal(fixture_plan(fixture, &plan), 0);
    assert_covers(plan, layers, nodes);
    judge(plan, &found);
    assert_int_equal(found.fits, best.fits);
    if (found.fits) assert_true(found.time == best.time);
    assert_true(found.share == best.share);
    assert_int_equal(plan_check_memory(plan, NULL), found.fits ? 0 : KJ_MEMORY);
    several += plan->step_rows > 1;
    fitting += found.fits;
    exceeding += !found.fits;
    plan_free(plan);
    free(fixture);
  }
  assert_true(fitting > 300 && exceeding > 100 && several > 500);
}

/* The first layers and the ends of Qwen3-Coder-30B-A3B on two nodes: what a single sequence reads would leave the lead,
 * which has the large output head, one layer of eight, and its node nearly all of the work of four sequences. */
static void what_several_sequences_read_is_balanced(void **state) {
  (void)state;
  const uint64_t attention = 11000000, experts = 128 * (uint64_t)2654208;
  struct fixture *fixture = fixture_create(8, 2);
  struct plan *plan;
  fixture->config.experts = 128;
  fixture->config.experts_per_token = 8;
  fixture->sizes.embedding_bytes = fixture->sizes.head_bytes = 170000000;
  for (uint32_t i = 0; i < 8; i++) {
    fixture->layer_bytes[i] = attention + experts;
    fixture->expert_bytes[i] = experts;
  }
  const struct {
    uint32_t parallel, micro_batches, rows, lead_layers;
  } cases[] = {{1, 0, 1, 1}, {2, 0, 1, 1},  {4, 0, 2, 2}, {5, 0, 3, 3},    {4, 4, 1, 1},
               {4, 1, 4, 3}, {16, 2, 8, 3}, {3, 8, 1, 1}, {400, 1, 400, 4}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture->request.parallel = cases[i].parallel;
    fixture->request.micro_batches = cases[i].micro_batches;
    assert_int_equal(fixture_plan(fixture, &plan), 0);
    assert_int_equal(plan->step_rows, cases[i].rows);
    assert_int_equal(plan->stages[0].layer_count, cases[i].lead_layers);
    plan_free(plan);
  }
  free(fixture);
}

/* Stages that are filled greedily up to just under the optimum need more nodes than there are: nothing is faster. */
static void a_thousand_layers_over_64_nodes(void **state) {
  (void)state;
  uint64_t random = 7;
  struct fixture *fixture = fixture_create(1000, PLAN_MAX_NODES);
  struct plan *plan;
  struct optimum found;
  for (uint32_t i = 0; i < 1000; i++) {
    fixture->layer_bytes[i] = 1 + random_below(&random, 1u << 30);
    fixture->expert_bytes[i] = 0;
  }
  assert_int_equal(fixture_plan(fixture, &plan), 0);
  assert_covers(plan, 1000, PLAN_MAX_NODES);
  judge(plan, &found);
  uint64_t filled = plan->stages[0].bytes_per_step;
  for (uint32_t i = 0; i < plan->stages[0].layer_count; i++) filled -= fixture->layer_bytes[i];
  unsigned nodes = 1;
  for (uint32_t i = 0; i < 1000; i++) {
    filled += fixture->layer_bytes[i];
    if ((double)filled < found.time) continue;
    nodes++;
    filled = fixture->layer_bytes[i];
  }
  assert_true(nodes > PLAN_MAX_NODES);
  plan_free(plan);
  free(fixture);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(C1_automatic_split_covers_every_layer_once),
      cmocka_unit_test(C1_explicit_split_is_kept),
      cmocka_unit_test(lead_may_hold_no_layer),
      cmocka_unit_test(unknown_bandwidth_is_the_slowest),
      cmocka_unit_test(C1_automatic_split_equals_brute_force),
      cmocka_unit_test(what_several_sequences_read_is_balanced),
      cmocka_unit_test(a_thousand_layers_over_64_nodes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <stdio.h>
#include <stdlib.h>

#include "model/plan.h"
#include "stage/stage.h"
#include "unit/unit.h"

/* What a stage and a head ask of the engine, counted. */
struct counters {
  const struct backend_operations *engine;
  uint64_t tensors, routing, kv;
  uint64_t threads, rows, columns;
};
static struct counters counters;

static int count_tensor(struct backend *backend, size_t rows, size_t columns, struct tensor **tensor,
                        struct kj_error *error) {
  counters.tensors += rows * columns * sizeof(float);
  return counters.engine->tensor_create(backend, rows, columns, tensor, error);
}

static int count_routing(struct backend *backend, size_t rows, uint32_t experts, uint32_t chosen,
                         struct routing **routing, struct kj_error *error) {
  counters.routing +=
      backend_cpu_routing_bytes(counters.threads, counters.rows, counters.columns, rows, experts, chosen);
  return counters.engine->routing_create(backend, rows, experts, chosen, routing, error);
}

static int count_kv(struct backend *backend, uint32_t layers, uint32_t blocks, struct attention_shape shape,
                    struct kv_pool **pool, struct kj_error *error) {
  counters.kv += layers * blocks * backend_kv_block_bytes(shape);
  return counters.engine->kv_create(backend, layers, blocks, shape, pool, error);
}

static void C9_plan_bounds_what_a_stage_allocates(void **state) {
  (void)state;
  enum { ROWS = 48, THREADS = 2 };
  struct kj_error error;
  struct checkpoint *checkpoint;
  struct threads *threads;
  struct backend *backend;
  assert_int_equal(checkpoint_open(&checkpoint, KAIJU_SOURCE_DIR "/models/kaiju-mini", &error), 0);
  const struct config *config = checkpoint_config(checkpoint);
  const struct plan_node nodes[] = {{.name = "a", .threads = THREADS}, {.name = "b", .threads = THREADS}};
  const uint32_t split[] = {5, 7};
  struct plan_request request = {.nodes = nodes,
                                 .node_count = 2,
                                 .split = split,
                                 .split_count = 2,
                                 .context = 300,
                                 .parallel = 3,
                                 .max_batch_tokens = ROWS};
  struct plan *plan;
  assert_int_equal(plan_make(&plan, checkpoint, &request, &error), 0);

  assert_int_equal(threads_create(&threads, THREADS, &error), 0);
  assert_int_equal(backend_cpu_create(&backend, "auto", threads, ROWS, plan_max_columns(config), &error), 0);
  struct backend_operations operations = *backend->operations;
  operations.tensor_create = count_tensor;
  operations.routing_create = count_routing;
  operations.kv_create = count_kv;
  counters = (struct counters){
      .engine = backend->operations, .threads = THREADS, .rows = ROWS, .columns = plan_max_columns(config)};
  backend->operations = &operations;

  uint64_t scratch = backend_cpu_scratch_bytes(THREADS, ROWS, plan_max_columns(config));
  for (size_t i = 0; i < 2; i++) {
    counters.tensors = counters.routing = counters.kv = 0;
    struct stage_options options = {.checkpoint = checkpoint,
                                    .backend = backend,
                                    .first_layer = plan->stages[i].first_layer,
                                    .layer_count = plan->stages[i].layer_count,
                                    .kv_blocks = plan->kv_blocks,
                                    .max_batch_tokens = ROWS};
    struct stage *stage;
    struct head *head = NULL;
    assert_int_equal(stage_open(&stage, &options, &error), 0);
    assert_true(counters.tensors > 0 && counters.tensors <= plan_activation_bytes(config, ROWS));
    assert_int_equal(counters.kv, plan->stages[i].kv);
    if (i == 0) assert_int_equal(head_open(&head, checkpoint, backend, ROWS, &error), 0);
    uint64_t counted = scratch + counters.tensors + counters.routing;
    assert_true(counted <= plan->stages[i].working);
    /* Nor is the bound a wild guess: the rest are hidden states on their way, the sampler's tables and the ledger. */
    assert_true(counted > plan->stages[i].working / 2);
    stage_close(stage);
    head_close(head);
  }

  backend->operations = counters.engine;
  backend->operations->destroy(backend);
  threads_destroy(threads);
  plan_free(plan);
  checkpoint_close(checkpoint);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(C9_plan_bounds_what_a_stage_allocates)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

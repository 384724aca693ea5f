/* Plans of models that exist only as sizes. */
#ifndef KAIJU_TESTS_MODEL_PLAN_FIXTURE_H
#define KAIJU_TESTS_MODEL_PLAN_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

#include "model/plan.h"
#include "unit/unit.h"

struct fixture {
  struct config config;
  struct checkpoint_sizes sizes;
  uint64_t layer_bytes[CONFIG_MAX_LAYERS], expert_bytes[CONFIG_MAX_LAYERS];
  struct plan_node nodes[PLAN_MAX_NODES + 1];
  struct plan_request request;
  struct kj_error error;
};

/* A small sparse model of `layers` layers of 1 MB, three quarters of it experts, and `nodes` nodes "n0", "n1"… */
static inline struct fixture *fixture_create(uint32_t layers, size_t nodes) {
  struct fixture *fixture = calloc(1, sizeof *fixture);
  assert_non_null(fixture);
  struct config *config = &fixture->config;
  config->layers = layers;
  config->hidden = 64;
  config->vocabulary = 1000;
  config->query_heads = 4;
  config->kv_heads = 2;
  config->head_dim = 16;
  config->experts = 8;
  config->experts_per_token = 2;
  config->expert_intermediate = 32;
  config->max_positions = 4096;
  struct checkpoint_sizes *sizes = &fixture->sizes;
  sizes->layers = layers;
  sizes->layer_bytes = fixture->layer_bytes;
  sizes->expert_bytes = fixture->expert_bytes;
  sizes->embedding_bytes = 128000;
  sizes->norm_bytes = 128;
  sizes->head_bytes = 128000;
  sizes->total_bytes = 256128;
  for (uint32_t i = 0; i < layers; i++) {
    config->layer_is_sparse[i] = true;
    sizes->layer_bytes[i] = 1000000;
    sizes->expert_bytes[i] = 750000;
    sizes->total_bytes += 1000000;
  }
  for (size_t i = 0; i < nodes; i++) snprintf(fixture->nodes[i].name, sizeof fixture->nodes[i].name, "n%zu", i);
  fixture->request = (struct plan_request){.nodes = fixture->nodes, .node_count = nodes, .parallel = 1};
  return fixture;
}

static inline int fixture_plan(struct fixture *fixture, struct plan **plan) {
  memset(&fixture->error, 0, sizeof fixture->error);
  return plan_from_sizes(plan, &fixture->config, &fixture->sizes, &fixture->request, &fixture->error);
}

static inline int fixture_plan_split(struct fixture *fixture, const uint32_t *split, size_t count, struct plan **plan) {
  fixture->request.split = split;
  fixture->request.split_count = count;
  int code = fixture_plan(fixture, plan);
  fixture->request.split = NULL;
  return code;
}

#endif

/* The split of a model's layers over nodes, with exact peak memory, before a weight is read.
 *
 * Peak of a node = its weights + its KV pool + activations and scratch + (on the lead) embedding, final norm, head and
 * logits + a fixed runtime allowance. The automatic split minimises the time of the slowest stage, a stage's time being
 * the bytes that a decode step reads from it divided by the node's bandwidth, under every node's memory ceiling; among
 * equal ones it takes the smallest largest share of ceiling. All sizes in bytes; GB in text means 10⁹.
 */
#ifndef KAIJU_MODEL_PLAN_H
#define KAIJU_MODEL_PLAN_H

#include <stdio.h>

#include "base/error.h"
#include "model/checkpoint.h"

enum { PLAN_MAX_NODES = 64 };

struct plan_node {
  char name[64];
  uint64_t memory;  /* ceiling; 0: unknown, not checked */
  double bandwidth; /* bytes a second; 0: all equal */
  uint32_t threads; /* for the scratch memory; 0: 64 is assumed */
};

struct plan_request {
  const struct plan_node *nodes; /* nodes[0] is the lead */
  size_t node_count;
  const uint32_t *split; /* layers of each node, or NULL: automatic. A lead may have 0, another node not. */
  size_t split_count;
  uint32_t context;  /* tokens of one sequence; 0: the model's own maximum */
  uint32_t parallel; /* sequences at once */
  uint32_t max_batch_tokens;
  bool head_on_last; /* also the last node holds embedding and head, as the ancestor's ranks did */
};

struct plan_stage {
  uint32_t first_layer, layer_count;
  uint64_t weights, kv, working, runtime, peak; /* weights include embedding, norm and head where held */
  uint64_t bytes_per_token;                     /* weights that one decode step of one sequence reads */
  bool holds_head;
  char **shards;
  size_t shard_count;
};

struct plan {
  uint32_t context, parallel, kv_blocks; /* blocks of a node's pool: parallel · ceil(context / KV_BLOCK) */
  uint64_t kv_bytes_per_token;           /* of all layers */
  uint64_t total_weights;
  size_t stage_count;
  struct plan_stage stages[PLAN_MAX_NODES];
  struct plan_node nodes[PLAN_MAX_NODES];
};

/* KJ_INVALID for a split that does not cover each layer exactly once (the message names the range), KJ_MEMORY where a
 * node's peak exceeds its ceiling (with need and have for every node). */
int plan_make(struct plan **plan, struct checkpoint *checkpoint, const struct plan_request *request,
              struct kj_error *error);
void plan_free(struct plan *plan);

/* "20,42" → layers of each node. KJ_INVALID for anything that is not a list of numbers. */
int plan_parse_split(const char *text, uint32_t *split, size_t *count, struct kj_error *error);
/* "NAME=256GB[,800GB/s]" with suffixes B, KB, MB, GB, TB (powers of ten) and KiB… (of two). */
int plan_parse_node(const char *text, struct plan_node *node, struct kj_error *error);
/* "256GB" → bytes. */
int plan_parse_size(const char *text, uint64_t *bytes, struct kj_error *error);

/* A table with a bar a node, for a person; and the same as JSON. */
void plan_print(const struct plan *plan, FILE *file);
int plan_print_json(const struct plan *plan, FILE *file, struct kj_error *error);

#endif

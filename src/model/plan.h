/* The split of a model's layers over nodes, with exact peak memory, before a weight is read.
 *
 * Peak of a node = its weights (on the lead also embedding, final norm and head)
 *                + its KV pool for each of its layers: parallel · ceil(context / KV_BLOCK) blocks, or as asked for
 *                + its working set: the engine's scratch memory, the stage's activations and ledger, hidden states of
 *                  the micro-batches in flight, received, computed and sent, on the lead logits and the sampler's
 * tables
 *                + the runtime: PLAN_RUNTIME_BYTES, and 8 bytes of page table for every 4-KiB page of the above.
 *
 * The automatic split minimises the time of the slowest stage, a stage's time being the bytes of weights that a decode
 * step reads from it divided by the node's bandwidth, under every node's memory ceiling; among equal ones it takes the
 * smallest largest share of ceiling. The result is the true optimum.
 *
 * A decode step is that of a full micro-batch, rows = ceil(parallel / micro_batches) sequences: a single sequence has
 * its stages work one after the other, so that their division does not matter to it, but micro-batches that follow each
 * other wait for the slowest stage. Attention, router and the lead's head are read once for all rows; a sparse layer
 * reads experts · (1 - (1 - experts_per_token / experts)^rows) of its experts, their expected number if the rows choose
 * independently.
 *
 * All sizes in bytes; GB in text means 10⁹, KiB 1024.
 */
#ifndef KAIJU_MODEL_PLAN_H
#define KAIJU_MODEL_PLAN_H

#include <stdio.h>

#include "base/error.h"
#include "compute/batch.h"
#include "model/checkpoint.h"

enum {
  PLAN_MAX_NODES = 64,
  PLAN_MAX_MICRO_BATCHES = 128,
  PLAN_MAX_IN_FLIGHT = PLAN_MAX_MICRO_BATCHES + 1,
  PLAN_DEFAULT_BATCH_TOKENS = 512,
  PLAN_DEFAULT_THREADS = 64,
  /* What a process needs besides its model: the program and its libraries, tokenizer, HTTP, message buffers,
   * allocator slack. An allowance, not a measurement: it is meant to be generous. */
  PLAN_RUNTIME_BYTES = 256 << 20,
};

struct plan_node {
  char name[128];   /* not empty, unique */
  uint64_t memory;  /* ceiling; 0: unknown, not checked */
  double bandwidth; /* bytes a second; 0: as the slowest node that has one */
  uint32_t threads; /* for the scratch memory; 0: PLAN_DEFAULT_THREADS */
};

struct plan_request {
  const struct plan_node *nodes; /* nodes[0] is the lead */
  size_t node_count;
  const uint32_t *split; /* layers of each node, or NULL: automatic. A lead may have 0, another node not. */
  size_t split_count;
  uint32_t context;          /* tokens of one sequence; 0: the model's own maximum, which it may not exceed */
  uint32_t parallel;         /* sequences at once, at least 1 */
  uint32_t kv_tokens;        /* of the KV pool, at least one context; 0: parallel · context */
  uint32_t micro_batches;    /* that sequences are dealt into; 0: one for each stage */
  uint32_t max_batch_tokens; /* rows of a micro-batch; 0: PLAN_DEFAULT_BATCH_TOKENS */
  bool kv_disk;              /* KV blocks are kept on disk: copies of some wait to be written */
  bool head_on_last;         /* also the last node holds embedding, norm and head (it does not compute with them) */
};

struct plan_stage {
  uint32_t first_layer, layer_count;
  uint64_t weights, kv, working, runtime, peak; /* weights include embedding, norm and head where held */
  uint64_t bytes_per_token;                     /* weights that a decode step of one sequence reads */
  uint64_t bytes_per_step;                      /* that one of plan.step_rows sequences reads */
  bool holds_head;
  char **shards; /* NULL in a plan from sizes alone */
  size_t shard_count;
};

struct plan {
  uint32_t layers;
  uint32_t context, parallel, kv_blocks;  /* blocks of a node's pool */
  uint32_t micro_batches;                 /* in flight at most: one more, if there are several stages */
  uint32_t step_rows;                     /* sequences of a full micro-batch's decode step */
  uint64_t kv_bytes_per_token;            /* of all layers */
  uint64_t total_weights;                 /* of the checkpoint, each tensor once */
  uint64_t smallest_layer, largest_layer; /* bytes of weights */
  size_t shard_count;                     /* different shard files that the stages need; 0 from sizes alone */
  size_t stage_count;
  struct plan_stage stages[PLAN_MAX_NODES];
  struct plan_node nodes[PLAN_MAX_NODES];
};

/* KJ_INVALID for a split that does not cover each layer exactly once (the message names the range) and for a request
 * that breaks a rule above, KJ_MEMORY where a node's peak exceeds its ceiling (with need and have for every node). */
int plan_make(struct plan **plan, struct checkpoint *checkpoint, const struct plan_request *request,
              struct kj_error *error);
/* The same, but ceilings that are exceeded are no error: peak > memory shows them, and plan_check_memory tells. Where
 * no automatic split fits, it is the one with the smallest largest share of ceiling. */
int plan_estimate(struct plan **plan, struct checkpoint *checkpoint, const struct plan_request *request,
                  struct kj_error *error);
/* The same from a config and sizes alone. sizes->layers is the number of layers. */
int plan_from_sizes(struct plan **plan, const struct config *config, const struct checkpoint_sizes *sizes,
                    const struct plan_request *request, struct kj_error *error);
int plan_check_memory(const struct plan *plan, struct kj_error *error);
void plan_free(struct plan *plan);

/* Bytes of a stage's tensors for micro-batches of up to that many tokens: f32 rows of the residual stream and its
 * normed and added copies [hidden], queries and attention output [query_heads · head_dim], keys and values
 * [kv_heads · head_dim], a dense layer's gate and up [intermediate], a sparse one's router logits [experts]. Together
 * with backend_cpu_routing_bytes, PLAN_LEDGER_BLOCK_BYTES for each KV block and the pool itself, an upper bound of what
 * stage_open allocates. */
uint64_t plan_activation_bytes(const struct config *config, uint32_t max_batch_tokens);
enum { PLAN_LEDGER_BLOCK_BYTES = KV_BLOCK * 4 + 32 };
/* Most bytes of memory that keeping KV blocks on disk takes, `block_bytes` being those of a block of the stage's
 * layers: copies that wait to be written, PLAN_KV_QUEUE_BYTES or two blocks if these are larger, and one that was read.
 */
uint64_t plan_store_bytes(uint64_t block_bytes);
enum { PLAN_KV_QUEUE_BYTES = 64 << 20 };
/* Bytes of the lead's ends of the model: embedded rows [hidden], and rows [vocabulary] of 4-byte numbers: two tiles of
 * PLAN_LOGIT_ROWS logits, and PLAN_SAMPLER_ROWS tables of the sampler. */
uint64_t plan_head_bytes(const struct config *config, uint32_t max_batch_tokens);
/* KV blocks of a pool for such a request: `kv_tokens` as there. UINT64_MAX where that exceeds 64 bits. */
uint64_t plan_pool_blocks(uint32_t context, uint32_t parallel, uint32_t kv_tokens);
/* Micro-batches that may be in flight: one more than running sequences are dealt into, so that no stage waits for the
 * lead to have sampled; on a single node one. */
uint32_t plan_in_flight(size_t stage_count, uint32_t micro_batches);
enum { PLAN_LOGIT_ROWS = 8, PLAN_SAMPLER_ROWS = 5 };
/* No matrix of the model has a longer input: max_columns of backend_cpu_create. */
uint32_t plan_max_columns(const struct config *config);

/* "20,42" → layers of each node, split[PLAN_MAX_NODES]. KJ_INVALID for anything that is not a list of numbers. */
int plan_parse_split(const char *text, uint32_t *split, size_t *count, struct kj_error *error);
/* "NAME=256GB[,800GB/s]" with suffixes B, KB, MB, GB, TB (powers of ten) and KiB… (of two), fractions allowed. The
 * bandwidth may end in "/s". */
int plan_parse_node(const char *text, struct plan_node *node, struct kj_error *error);
/* "256GB", "1.5TiB", "1000000" → bytes, at least 1. */
int plan_parse_size(const char *text, uint64_t *bytes, struct kj_error *error);

/* A table with a bar a node, for a person; and the same as JSON. */
void plan_print(const struct plan *plan, FILE *file);
int plan_print_json(const struct plan *plan, FILE *file, struct kj_error *error);

#endif

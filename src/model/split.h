/* The best division of a row of layers into contiguous stages.
 *
 * Stage i of `node_count` holds layers first…end-1; the stages follow each other in order and cover all layers. Node 0
 * may hold none, every other node holds at least one. Two costs of a stage matter, both of which only grow with its
 * range: its time (bytes read in a decode step / bandwidth) and its peak memory. The arithmetic of both is defined here
 * once, so that a plan shows exactly what the search compared.
 *
 * Internal to model/plan.c; its tests use it too.
 */
#ifndef KAIJU_MODEL_SPLIT_H
#define KAIJU_MODEL_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct split_node {
  uint64_t memory;                 /* ceiling; 0: none */
  double bandwidth;                /* > 0 */
  uint64_t head_weights;           /* held besides layers */
  uint64_t head_read;              /* read in a step besides layers */
  uint64_t working, stage_working; /* the latter only where the node has a layer */
};

struct split_problem {
  uint32_t layers;
  size_t node_count;
  const uint64_t *weights_before; /* [layers + 1] bytes of the layers before this one */
  const uint64_t *read_before;    /* [layers + 1] of these, what a decode step reads */
  uint64_t kv_bytes_per_layer;
  uint64_t runtime;
  const struct split_node *nodes;
};

uint64_t split_weights(const struct split_problem *problem, size_t node, uint32_t first, uint32_t end);
uint64_t split_read(const struct split_problem *problem, size_t node, uint32_t first, uint32_t end);
uint64_t split_working(const struct split_problem *problem, size_t node, uint32_t first, uint32_t end);
uint64_t split_runtime(const struct split_problem *problem, size_t node, uint32_t first, uint32_t end);
uint64_t split_peak(const struct split_problem *problem, size_t node, uint32_t first, uint32_t end);
double split_time(const struct split_problem *problem, size_t node, uint32_t first, uint32_t end);
/* Peak / ceiling. A node without a ceiling counts as having 2⁶⁴ bytes, so that such nodes too are filled evenly. */
double split_share(const struct split_problem *problem, size_t node, uint32_t first, uint32_t end);

enum split_result {
  SPLIT_FITS,     /* the fastest split under the ceilings; among equals the smallest largest share */
  SPLIT_EXCEEDS,  /* none fits: the one with the smallest largest share */
  SPLIT_NO_MEMORY /* for the search's own tables */
};

/* Fills counts[node_count] with the layers of each node. node_count - 1 ≤ layers. */
enum split_result split_best(const struct split_problem *problem, uint32_t *counts);

#endif

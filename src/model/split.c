#include "model/split.h"

#include <math.h>
#include <stdlib.h>

enum { PAGE_BYTES = 4096, PAGE_TABLE_ENTRY_BYTES = 8 };

uint64_t split_weights(const struct split_problem *problem, size_t node, uint32_t first, uint32_t end) {
  return problem->nodes[node].head_weights + problem->weights_before[end] - problem->weights_before[first];
}

uint64_t split_read(const struct split_problem *problem, size_t node, uint32_t first, uint32_t end) {
  return problem->nodes[node].head_read + problem->read_before[end] - problem->read_before[first];
}

uint64_t split_working(const struct split_problem *problem, size_t node, uint32_t first, uint32_t end) {
  return problem->nodes[node].working + (end > first ? problem->nodes[node].stage_working : 0);
}

uint64_t split_runtime(const struct split_problem *problem, size_t node, uint32_t first, uint32_t end) {
  uint64_t mapped = split_weights(problem, node, first, end) + (uint64_t)(end - first) * problem->kv_bytes_per_layer +
                    split_working(problem, node, first, end);
  uint64_t pages = (mapped + PAGE_BYTES - 1) / PAGE_BYTES;
  return problem->runtime + pages * PAGE_TABLE_ENTRY_BYTES;
}

uint64_t split_peak(const struct split_problem *problem, size_t node, uint32_t first, uint32_t end) {
  return split_weights(problem, node, first, end) + (uint64_t)(end - first) * problem->kv_bytes_per_layer +
         split_working(problem, node, first, end) + split_runtime(problem, node, first, end);
}

double split_time(const struct split_problem *problem, size_t node, uint32_t first, uint32_t end) {
  return (double)split_read(problem, node, first, end) / problem->nodes[node].bandwidth;
}

double split_share(const struct split_problem *problem, size_t node, uint32_t first, uint32_t end) {
  double ceiling = problem->nodes[node].memory ? (double)problem->nodes[node].memory : 0x1p64;
  return (double)split_peak(problem, node, first, end) / ceiling;
}

/* What a search minimises, and which stages it allows. */
struct objective {
  bool minimise_share; /* otherwise: time */
  bool ceilings;       /* no stage above its ceiling */
  double time_limit;   /* no stage slower than this */
};

/* Tables of one search: [node_count][layers + 1], by the end of the node's range. */
struct tables {
  double *worst;   /* the largest cost of the stages up to this node, as small as it can be; INFINITY: impossible */
  uint32_t *first; /* where this node's range begins then */
};

static bool allowed(const struct split_problem *problem, const struct objective *objective, size_t node, uint32_t first,
                    uint32_t end) {
  uint64_t memory = problem->nodes[node].memory;
  if (objective->ceilings && memory && split_peak(problem, node, first, end) > memory) return false;
  return split_time(problem, node, first, end) <= objective->time_limit;
}

static double cost(const struct split_problem *problem, const struct objective *objective, size_t node, uint32_t first,
                   uint32_t end) {
  return objective->minimise_share ? split_share(problem, node, first, end) : split_time(problem, node, first, end);
}

/* The best beginning of node's range that ends at `end`. Costs grow as the range grows downwards, so the walk ends at
 * the first range that is not allowed or alone costs no less than the best so far. */
static void extend(const struct split_problem *problem, const struct objective *objective, struct tables *tables,
                   size_t node, uint32_t end) {
  size_t width = (size_t)problem->layers + 1;
  const double *before = &tables->worst[(node - 1) * width];
  double best = INFINITY;
  uint32_t best_first = 0;
  for (uint32_t first = end; first-- > 0;) {
    if (!allowed(problem, objective, node, first, end)) break;
    double worst = cost(problem, objective, node, first, end);
    if (worst >= best) break;
    if (before[first] > worst) worst = before[first];
    if (worst < best) {
      best = worst;
      best_first = first;
    }
  }
  tables->worst[node * width + end] = best;
  tables->first[node * width + end] = best_first;
}

/* Fills the tables and returns the smallest possible largest cost, INFINITY if no division is allowed. */
static double search(const struct split_problem *problem, const struct objective *objective, struct tables *tables) {
  size_t width = (size_t)problem->layers + 1;
  for (uint32_t end = 0; end < width; end++) {
    bool possible = allowed(problem, objective, 0, 0, end);
    tables->worst[end] = possible ? cost(problem, objective, 0, 0, end) : INFINITY;
    tables->first[end] = 0;
  }
  for (size_t node = 1; node < problem->node_count; node++)
    for (uint32_t end = 0; end < width; end++) extend(problem, objective, tables, node, end);
  return tables->worst[problem->node_count * width - 1];
}

enum split_result split_best(const struct split_problem *problem, uint32_t *counts) {
  size_t width = (size_t)problem->layers + 1;
  enum split_result result = SPLIT_NO_MEMORY;
  struct tables tables = {calloc(problem->node_count * width, sizeof(double)),
                          calloc(problem->node_count * width, sizeof(uint32_t))};
  if (!tables.worst || !tables.first) goto done;

  struct objective fastest = {.ceilings = true, .time_limit = INFINITY};
  double time = search(problem, &fastest, &tables);
  /* A second search, because the fastest split with the least share need not begin with the fastest beginning. */
  result = isinf(time) ? SPLIT_EXCEEDS : SPLIT_FITS;
  struct objective evenest = {.minimise_share = true, .ceilings = result == SPLIT_FITS, .time_limit = time};
  search(problem, &evenest, &tables);
  uint32_t end = problem->layers;
  for (size_t node = problem->node_count; node-- > 0;) {
    uint32_t first = node ? tables.first[node * width + end] : 0;
    counts[node] = end - first;
    end = first;
  }

done:
  free(tables.worst);
  free(tables.first);
  return result;
}

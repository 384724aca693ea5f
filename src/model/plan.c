#include "model/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/checked.h"
#include "compute/backend.h"
#include "model/split.h"

enum { MAX_BATCH_TOKENS = 1 << 20, MAX_THREADS = 4096 };

/* Sums that may leave 64 bits end at UINT64_MAX, which no ceiling and no sanity check lets through. */
static uint64_t add(uint64_t a, uint64_t b) {
  uint64_t sum;
  return checked_add(a, b, &sum) ? sum : UINT64_MAX;
}

static uint64_t multiply(uint64_t a, uint64_t b) {
  uint64_t product;
  return checked_multiply(a, b, &product) ? product : UINT64_MAX;
}

static bool has_layers(const struct config *config, bool sparse) {
  for (uint32_t i = 0; i < config->layers; i++)
    if (config->layer_is_sparse[i] == sparse) return true;
  return false;
}

uint64_t plan_activation_bytes(const struct config *config, uint32_t max_batch_tokens) {
  uint64_t columns = multiply(3, config->hidden);
  columns = add(columns, multiply(2, multiply(config->query_heads, config->head_dim)));
  columns = add(columns, multiply(2, multiply(config->kv_heads, config->head_dim)));
  if (has_layers(config, false)) columns = add(columns, multiply(2, config->intermediate));
  if (has_layers(config, true)) columns = add(columns, config->experts);
  return multiply(columns, multiply(max_batch_tokens, sizeof(float)));
}

uint64_t plan_store_bytes(uint64_t block_bytes) {
  enum { HEADERS = 1024 }; /* what a copy has besides: header, checksum, place in the queue */
  uint64_t copy = add(block_bytes, HEADERS), two = multiply(2, copy);
  return add(two > PLAN_KV_QUEUE_BYTES ? two : PLAN_KV_QUEUE_BYTES, copy);
}

uint64_t plan_head_bytes(const struct config *config, uint32_t max_batch_tokens) {
  uint32_t rows = max_batch_tokens < PLAN_LOGIT_ROWS ? PLAN_LOGIT_ROWS : max_batch_tokens;
  uint64_t logits = multiply(2 * PLAN_LOGIT_ROWS + PLAN_SAMPLER_ROWS, config->vocabulary);
  return multiply(add(multiply(rows, config->hidden), logits), sizeof(float));
}

uint32_t plan_max_columns(const struct config *config) {
  uint64_t columns = (uint64_t)config->query_heads * config->head_dim;
  if (config->hidden > columns) columns = config->hidden;
  if (config->intermediate > columns) columns = config->intermediate;
  if (config->expert_intermediate > columns) columns = config->expert_intermediate;
  return columns > UINT32_MAX ? UINT32_MAX : (uint32_t)columns;
}

static int check_nodes(const struct plan_request *request, struct kj_error *error) {
  if (request->node_count < 1 || request->node_count > PLAN_MAX_NODES)
    return kj_fail(error, KJ_INVALID, "%zu nodes: a plan is for 1 to %d", request->node_count, PLAN_MAX_NODES);
  for (size_t i = 0; i < request->node_count; i++) {
    const struct plan_node *node = &request->nodes[i];
    if (!node->name[0]) return kj_fail(error, KJ_INVALID, "node %zu has no name", i + 1);
    for (size_t other = 0; other < i; other++)
      if (!strcmp(node->name, request->nodes[other].name))
        return kj_fail(error, KJ_INVALID, "node \"%s\" is given twice (as node %zu and node %zu)", node->name,
                       other + 1, i + 1);
    if (!(node->bandwidth >= 0) || node->bandwidth > 1e18)
      return kj_fail(error, KJ_INVALID, "node \"%s\": %g bytes a second is no bandwidth", node->name, node->bandwidth);
    if (node->threads > MAX_THREADS)
      return kj_fail(error, KJ_INVALID, "node \"%s\": %" PRIu32 " threads; at most %d are possible", node->name,
                     node->threads, MAX_THREADS);
  }
  return 0;
}

static int check_load(const struct config *config, const struct plan_request *request, struct kj_error *error) {
  if (request->context > config->max_positions)
    return kj_fail(error, KJ_INVALID, "a context of %" PRIu32 " tokens: the model is made for at most %" PRIu32,
                   request->context, config->max_positions);
  if (!request->parallel) return kj_fail(error, KJ_INVALID, "0 parallel sequences: at least 1 is needed");
  if (request->micro_batches > PLAN_MAX_MICRO_BATCHES)
    return kj_fail(error, KJ_INVALID, "%" PRIu32 " micro-batches: at most %d are possible", request->micro_batches,
                   (int)PLAN_MAX_MICRO_BATCHES);
  if (request->max_batch_tokens > MAX_BATCH_TOKENS)
    return kj_fail(error, KJ_INVALID, "micro-batches of %" PRIu32 " tokens: at most %d are possible",
                   request->max_batch_tokens, MAX_BATCH_TOKENS);
  return 0;
}

/* "layer 3" or "layers 3-7" */
static const char *range_text(char *text, size_t size, uint64_t first, uint64_t last) {
  if (first == last)
    snprintf(text, size, "layer %" PRIu64, first);
  else
    snprintf(text, size, "layers %" PRIu64 "-%" PRIu64, first, last);
  return text;
}

/* Every layer on exactly one node, and no node but the lead without one. */
static int check_split(uint32_t layers, const struct plan_request *request, struct kj_error *error) {
  char range[64];
  uint64_t end = 0;
  if (!request->split) {
    if (request->node_count - 1 > layers)
      return kj_fail(error, KJ_INVALID, "%zu nodes for %s: each node but the first needs at least one",
                     request->node_count, range_text(range, sizeof range, 0, (uint64_t)layers - 1));
    return 0;
  }
  for (size_t i = 0; i < request->split_count; i++) {
    bool known = i < request->node_count;
    const char *name = known ? request->nodes[i].name : "?";
    if (!known)
      return kj_fail(error, KJ_INVALID, "the split has %zu parts for %zu nodes: %s would be on no node",
                     request->split_count, request->node_count,
                     range_text(range, sizeof range, end, end + request->split[i] - (request->split[i] > 0)));
    if (i > 0 && request->split[i] == 0)
      return kj_fail(error, KJ_INVALID,
                     "the split gives node %zu (\"%s\") no layer, before layer %" PRIu64
                     ": only the first node may hold none",
                     i + 1, name, end);
    if (end + request->split[i] > layers)
      return kj_fail(error, KJ_INVALID,
                     "the split gives node %zu (\"%s\") %s, but the model has %" PRIu32 " layers (0-%" PRIu32 ")",
                     i + 1, name, range_text(range, sizeof range, end, end + request->split[i] - 1), layers,
                     layers - 1);
    end += request->split[i];
  }
  if (end < layers)
    return kj_fail(error, KJ_INVALID, "the split leaves %s on no node: it counts %" PRIu64 " of %" PRIu32 " layers",
                   range_text(range, sizeof range, end, (uint64_t)layers - 1), end, layers);
  if (request->split_count < request->node_count)
    return kj_fail(error, KJ_INVALID,
                   "the split has %zu parts for %zu nodes: no layer is left for node %zu (\"%s\") after layer %" PRIu32,
                   request->split_count, request->node_count, request->split_count + 1,
                   request->nodes[request->split_count].name, layers - 1);
  return 0;
}

/* What split.h works on, and the memory behind it. */
struct costs {
  struct split_problem problem;
  struct split_node nodes[PLAN_MAX_NODES];
  uint64_t *weights_before, *read_before;
  uint64_t *token_read_before, token_head_read; /* as read_before and the lead's head_read, for a single sequence */
};

static void costs_free(struct costs *costs) {
  free(costs->weights_before);
  free(costs->read_before);
  free(costs->token_read_before);
}

/* By squaring: multiplications alone, so that every machine finds the same split. */
static double power(double base, uint32_t exponent) {
  double result = 1;
  for (; exponent; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

/* The expected bytes of the experts that `rows` rows choose. */
static uint64_t chosen_bytes(const struct config *config, uint64_t expert_bytes, uint32_t rows) {
  uint64_t each = expert_bytes / config->experts, rest = expert_bytes % config->experts;
  if (rows == 1) return each * config->experts_per_token + rest * config->experts_per_token / config->experts;
  double left_out = power(1 - (double)config->experts_per_token / config->experts, rows);
  return expert_bytes - (uint64_t)((double)expert_bytes * left_out);
}

/* A decode step reads all of a layer but only the chosen ones of its experts. */
static uint64_t layer_read_bytes(const struct config *config, uint64_t layer_bytes, uint64_t expert_bytes,
                                 uint32_t rows) {
  if (!config->experts || expert_bytes > layer_bytes) return layer_bytes;
  return layer_bytes - expert_bytes + chosen_bytes(config, expert_bytes, rows);
}

/* With tied embeddings the head is the embedding, and all of it is read; else a row of the embedding for each. */
static uint64_t head_read_bytes(const struct config *config, const struct checkpoint_sizes *sizes, uint32_t rows) {
  if (!sizes->head_bytes) return add(sizes->norm_bytes, sizes->embedding_bytes);
  uint64_t read = add(sizes->norm_bytes, sizes->head_bytes);
  if (!config->vocabulary) return read;
  uint64_t embedded = multiply(sizes->embedding_bytes / config->vocabulary, rows);
  return add(read, embedded < sizes->embedding_bytes ? embedded : sizes->embedding_bytes);
}

static int costs_layers(struct costs *costs, const struct config *config, const struct checkpoint_sizes *sizes,
                        uint32_t rows, struct kj_error *error) {
  costs->weights_before = calloc((size_t)sizes->layers + 1, sizeof(uint64_t));
  costs->read_before = calloc((size_t)sizes->layers + 1, sizeof(uint64_t));
  costs->token_read_before = calloc((size_t)sizes->layers + 1, sizeof(uint64_t));
  if (!costs->weights_before || !costs->read_before || !costs->token_read_before)
    return kj_fail_memory(error, "a plan");
  for (uint32_t i = 0; i < sizes->layers; i++) {
    uint64_t bytes = sizes->layer_bytes[i], experts = sizes->expert_bytes[i];
    costs->weights_before[i + 1] = add(costs->weights_before[i], bytes);
    costs->read_before[i + 1] = add(costs->read_before[i], layer_read_bytes(config, bytes, experts, rows));
    costs->token_read_before[i + 1] = add(costs->token_read_before[i], layer_read_bytes(config, bytes, experts, 1));
  }
  costs->token_head_read = head_read_bytes(config, sizes, 1);
  return 0;
}

uint32_t plan_in_flight(size_t stage_count, uint32_t micro_batches) { return stage_count > 1 ? micro_batches + 1 : 1; }

/* Working set of node i. Hidden states of all micro-batches in flight, which may lie at one node, and two copies of
 * one: the rows that are computed with, and the segments that take them on. */
static void costs_working(struct split_node *cost, const struct plan *plan, size_t i, const struct config *config,
                          uint32_t rows) {
  uint32_t threads = plan->nodes[i].threads ? plan->nodes[i].threads : PLAN_DEFAULT_THREADS;
  uint32_t columns = plan_max_columns(config);
  uint64_t hidden = multiply(rows, multiply(config->hidden, sizeof(float)));
  cost->working =
      add(backend_cpu_scratch_bytes(threads, rows, columns),
          multiply(plan->stage_count > 1 ? plan_in_flight(plan->stage_count, plan->micro_batches) + 2 : 1, hidden));
  if (i == 0) cost->working = add(cost->working, plan_head_bytes(config, rows));
  cost->stage_working =
      add(plan_activation_bytes(config, rows), multiply(plan->kv_blocks, (uint64_t)PLAN_LEDGER_BLOCK_BYTES));
  if (has_layers(config, true))
    cost->stage_working =
        add(cost->stage_working,
            backend_cpu_routing_bytes(threads, rows, columns, rows, config->experts, config->experts_per_token));
}

/* What counts for nodes that have none. */
static double slowest_bandwidth(const struct plan *plan) {
  double slowest = 0;
  for (size_t i = 0; i < plan->stage_count; i++) {
    double bandwidth = plan->nodes[i].bandwidth;
    if (bandwidth > 0 && (slowest == 0 || bandwidth < slowest)) slowest = bandwidth;
  }
  return slowest > 0 ? slowest : 1;
}

static void costs_nodes(struct costs *costs, const struct plan *plan, const struct config *config,
                        const struct checkpoint_sizes *sizes, const struct plan_request *request) {
  uint32_t rows = request->max_batch_tokens ? request->max_batch_tokens : PLAN_DEFAULT_BATCH_TOKENS;
  double slowest = slowest_bandwidth(plan);
  uint64_t head_weights = add(add(sizes->embedding_bytes, sizes->norm_bytes), sizes->head_bytes);
  for (size_t i = 0; i < plan->stage_count; i++) {
    const struct plan_node *node = &plan->nodes[i];
    struct split_node *cost = &costs->nodes[i];
    cost->memory = node->memory;
    cost->bandwidth = node->bandwidth > 0 ? node->bandwidth : slowest;
    cost->head_weights = plan->stages[i].holds_head ? head_weights : 0;
    cost->head_read = i == 0 ? head_read_bytes(config, sizes, plan->step_rows) : 0;
    costs_working(cost, plan, i, config, rows);
    if (request->kv_disk) /* the stage may have all layers */
      cost->stage_working =
          add(cost->stage_working, plan_store_bytes(multiply(plan->kv_bytes_per_token, (uint64_t)KV_BLOCK)));
  }
}

/* Below this limit no sum of the search can overflow. */
static int check_total(const struct costs *costs, struct kj_error *error) {
  const struct split_problem *problem = &costs->problem;
  /* Everything that is mapped counts twice, which leaves room for its page tables. */
  uint64_t total = multiply(2, multiply(problem->kv_bytes_per_layer, problem->layers));
  total = add(total, multiply(2, problem->weights_before[problem->layers]));
  for (size_t i = 0; i < problem->node_count; i++) {
    total = add(total, multiply(2, costs->nodes[i].head_weights));
    total = add(total, add(costs->nodes[i].head_read, problem->runtime));
    total = add(total, multiply(2, add(costs->nodes[i].working, costs->nodes[i].stage_working)));
  }
  if (total >> 62) return kj_fail(error, KJ_MEMORY, "this model, context and number of sequences need over 4 EB");
  return 0;
}

uint64_t plan_pool_blocks(uint32_t context, uint32_t parallel, uint32_t kv_tokens) {
  return kv_tokens ? kv_blocks_for(kv_tokens) : multiply(parallel, kv_blocks_for(context));
}

static int plan_pool(struct plan *plan, struct costs *costs, const struct config *config,
                     const struct plan_request *request, struct kj_error *error) {
  plan->context = request->context ? request->context : config->max_positions;
  plan->parallel = request->parallel;
  plan->micro_batches = request->micro_batches ? request->micro_batches : (uint32_t)plan->stage_count;
  plan->step_rows = (plan->parallel - 1) / plan->micro_batches + 1;
  uint64_t blocks = plan_pool_blocks(plan->context, plan->parallel, request->kv_tokens);
  if (blocks < kv_blocks_for(plan->context))
    return kj_fail(error, KJ_INVALID,
                   "a KV pool of %" PRIu32 " tokens cannot hold one sequence of %" PRIu32
                   " tokens: enlarge the pool or lower the context",
                   request->kv_tokens, plan->context);
  if (blocks > UINT32_MAX)
    return kj_fail(error, KJ_INVALID,
                   "%" PRIu32 " sequences of %" PRIu32 " tokens need %" PRIu64 " KV blocks: too many", plan->parallel,
                   plan->context, blocks);
  plan->kv_blocks = (uint32_t)blocks;
  struct attention_shape shape = {config->query_heads, config->kv_heads, config->head_dim, 1};
  uint64_t block_bytes = backend_kv_block_bytes(shape);
  plan->kv_bytes_per_token = multiply(plan->layers, block_bytes) / KV_BLOCK;
  costs->problem.kv_bytes_per_layer = multiply(blocks, block_bytes);
  return 0;
}

static void plan_stages(struct plan *plan, const struct costs *costs, const uint32_t *counts) {
  const struct split_problem *problem = &costs->problem;
  uint32_t first = 0;
  for (size_t i = 0; i < plan->stage_count; i++) {
    struct plan_stage *stage = &plan->stages[i];
    uint32_t end = first + counts[i];
    stage->first_layer = first;
    stage->layer_count = counts[i];
    stage->weights = split_weights(problem, i, first, end);
    stage->kv = counts[i] * problem->kv_bytes_per_layer;
    stage->working = split_working(problem, i, first, end);
    stage->runtime = split_runtime(problem, i, first, end);
    stage->peak = split_peak(problem, i, first, end);
    stage->bytes_per_token =
        (i == 0 ? costs->token_head_read : 0) + costs->token_read_before[end] - costs->token_read_before[first];
    stage->bytes_per_step = split_read(problem, i, first, end);
    first = end;
  }
}

static void plan_totals(struct plan *plan, const struct checkpoint_sizes *sizes) {
  plan->total_weights = sizes->total_bytes;
  plan->smallest_layer = UINT64_MAX;
  for (uint32_t i = 0; i < sizes->layers; i++) {
    if (sizes->layer_bytes[i] < plan->smallest_layer) plan->smallest_layer = sizes->layer_bytes[i];
    if (sizes->layer_bytes[i] > plan->largest_layer) plan->largest_layer = sizes->layer_bytes[i];
  }
}

int plan_from_sizes(struct plan **result, const struct config *config, const struct checkpoint_sizes *sizes,
                    const struct plan_request *request, struct kj_error *error) {
  int code;
  struct costs costs = {0};
  uint32_t counts[PLAN_MAX_NODES];
  struct plan *plan = calloc(1, sizeof *plan);
  *result = NULL;
  if (!plan) return kj_fail_memory(error, "a plan");
  if (!sizes->layers) {
    code = kj_fail(error, KJ_INVALID, "the model has no layers");
    goto done;
  }
  if ((code = check_nodes(request, error)) || (code = check_load(config, request, error)) ||
      (code = check_split(sizes->layers, request, error)))
    goto done;

  plan->layers = sizes->layers;
  plan->stage_count = request->node_count;
  for (size_t i = 0; i < plan->stage_count; i++) {
    plan->nodes[i] = request->nodes[i];
    plan->stages[i].holds_head = i == 0 || (request->head_on_last && i == plan->stage_count - 1);
  }
  plan_totals(plan, sizes);
  if ((code = plan_pool(plan, &costs, config, request, error)) ||
      (code = costs_layers(&costs, config, sizes, plan->step_rows, error)))
    goto done;
  costs_nodes(&costs, plan, config, sizes, request);
  costs.problem.layers = plan->layers;
  costs.problem.node_count = plan->stage_count;
  costs.problem.weights_before = costs.weights_before;
  costs.problem.read_before = costs.read_before;
  costs.problem.runtime = PLAN_RUNTIME_BYTES;
  costs.problem.nodes = costs.nodes;
  if ((code = check_total(&costs, error))) goto done;

  if (request->split) {
    memcpy(counts, request->split, plan->stage_count * sizeof *counts);
  } else if (split_best(&costs.problem, counts) == SPLIT_NO_MEMORY) {
    code = kj_fail_memory(error, "the search for a split");
    goto done;
  }
  plan_stages(plan, &costs, counts);
  *result = plan;
  plan = NULL;

done:
  costs_free(&costs);
  plan_free(plan);
  return code;
}

static void append_need(struct buffer *text, const struct plan *plan, size_t i) {
  const struct plan_stage *stage = &plan->stages[i];
  uint64_t memory = plan->nodes[i].memory;
  buffer_append_format(text, "%s%s needs %" PRIu64 " B (%.1f GB)", text->length ? "; " : "", plan->nodes[i].name,
                       stage->peak, (double)stage->peak * 1e-9);
  if (!memory)
    buffer_append_text(text, ", has no ceiling");
  else
    buffer_append_format(text, "%s has %" PRIu64 " B (%.1f GB)", stage->peak > memory ? " but" : ",", memory,
                         (double)memory * 1e-9);
}

int plan_check_memory(const struct plan *plan, struct kj_error *error) {
  struct buffer text = {0};
  size_t exceeded = 0;
  for (size_t i = 0; i < plan->stage_count; i++)
    if (plan->nodes[i].memory && plan->stages[i].peak > plan->nodes[i].memory) {
      append_need(&text, plan, i);
      exceeded++;
    }
  if (!exceeded) return 0;
  for (size_t i = 0; i < plan->stage_count; i++)
    if (!plan->nodes[i].memory || plan->stages[i].peak <= plan->nodes[i].memory) append_need(&text, plan, i);
  int code = kj_fail(error, KJ_MEMORY, "the plan does not fit on %zu of %zu nodes: %s", exceeded, plan->stage_count,
                     buffer_text(&text));
  buffer_free(&text);
  return code;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int count_shards(struct plan *plan, struct kj_error *error) {
  size_t total = 0, copied = 0;
  for (size_t i = 0; i < plan->stage_count; i++) total += plan->stages[i].shard_count;
  char **names = calloc(total ? total : 1, sizeof *names);
  if (!names) return kj_fail_memory(error, "names of shards");
  for (size_t i = 0; i < plan->stage_count; i++)
    for (size_t j = 0; j < plan->stages[i].shard_count; j++) names[copied++] = plan->stages[i].shards[j];
  qsort(names, total, sizeof *names, compare_names);
  for (size_t i = 0; i < total; i++) plan->shard_count += i == 0 || strcmp(names[i - 1], names[i]) != 0;
  free(names);
  return 0;
}

int plan_estimate(struct plan **result, struct checkpoint *checkpoint, const struct plan_request *request,
                  struct kj_error *error) {
  struct checkpoint_sizes sizes = {0};
  struct plan *plan = NULL;
  *result = NULL;
  int code = checkpoint_sizes(checkpoint, &sizes, error);
  if (code) goto done;
  if ((code = plan_from_sizes(&plan, checkpoint_config(checkpoint), &sizes, request, error))) goto done;
  for (size_t i = 0; i < plan->stage_count; i++) {
    struct plan_stage *stage = &plan->stages[i];
    if ((code = checkpoint_shards(checkpoint, stage->first_layer, stage->layer_count, stage->holds_head, &stage->shards,
                                  &stage->shard_count, error)))
      goto done;
    qsort(stage->shards, stage->shard_count, sizeof *stage->shards, compare_names);
  }
  if ((code = count_shards(plan, error))) goto done;
  *result = plan;
  plan = NULL;

done:
  checkpoint_sizes_free(&sizes);
  plan_free(plan);
  return code;
}

int plan_make(struct plan **result, struct checkpoint *checkpoint, const struct plan_request *request,
              struct kj_error *error) {
  int code = plan_estimate(result, checkpoint, request, error);
  if (code || !(code = plan_check_memory(*result, error))) return code;
  plan_free(*result);
  *result = NULL;
  return code;
}

void plan_free(struct plan *plan) {
  if (!plan) return;
  for (size_t i = 0; i < plan->stage_count; i++)
    if (plan->stages[i].shards) checkpoint_names_free(plan->stages[i].shards, plan->stages[i].shard_count);
  free(plan);
}

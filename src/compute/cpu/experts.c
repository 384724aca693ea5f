/* Mixture of experts: routing, and the experts' feed-forward networks with the tokens grouped by expert, so that a
 * weight is read once for all tokens of a tile that need it.
 *
 * An entry is a (token, rank) pair of a tile: number token · chosen + rank. The inner activations of every entry lie in
 * scratch memory. The last step cuts the output columns into ranges: an item computes its range for every entry and
 * adds them up in order of rank, so that no partial results wait in memory.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cpu/engine.h"

enum {
  INNER_SCRATCH = 64 << 20, /* bytes of inner activations at most, if one token does not need more */
  OUTPUT_RANGE = 32,        /* output columns of an item at most, with as many entries as a tile can have */
  PARTIAL_MINIMUM = 16384   /* products of a worker that are kept at least: few entries may have longer ranges */
};

struct routing {
  size_t rows;
  uint32_t experts, chosen;
  uint32_t *ids; /* [rows][chosen] */
  float *shares; /* [rows][chosen] */

  size_t tile_rows;     /* tokens whose entries fit into the scratch memory below, whatever the model */
  float *probabilities; /* [threads][experts] */
  uint32_t *starts;     /* [experts + 1]; see group_entries */
  uint32_t *entries;    /* [tile entries], by expert */
  uint32_t *active;     /* [experts] those with entries */
  unsigned char *inner; /* [inner_bytes]: gate, up and the quantized result of every entry */
  size_t inner_bytes;
  float *partial; /* [threads][partial_size]: [entries][output columns of the item] */
  size_t partial_size;
};

/* Bytes of an entry's inner activations. */
static uint64_t entry_bytes(uint64_t columns) {
  uint64_t floats = (columns * sizeof(float) + CPU_ALIGNMENT - 1) / CPU_ALIGNMENT * CPU_ALIGNMENT;
  return 2 * floats + activation_largest(columns);
}

/* Sets the pointers of `routing` into the carver's memory; its sizes must be set already. */
static void carve_routing(struct routing *routing, struct carver *carver, size_t threads, size_t max_rows,
                          size_t max_columns) {
  uint64_t pairs = (uint64_t)routing->rows * routing->chosen;
  size_t tile = max_rows < TILE_ROWS ? max_rows : TILE_ROWS;
  routing->tile_rows = routing->rows < tile ? routing->rows : tile;
  uint64_t tile_entries = (uint64_t)routing->tile_rows * routing->chosen;
  uint64_t one_token = routing->chosen * entry_bytes(max_columns);
  uint64_t wanted = routing->tile_rows * one_token;
  uint64_t limit = one_token > INNER_SCRATCH ? one_token : INNER_SCRATCH;
  routing->inner_bytes = (size_t)(wanted < limit ? wanted : limit);
  routing->ids = carve(carver, pairs, sizeof(uint32_t));
  routing->shares = carve(carver, pairs, sizeof(float));
  routing->probabilities = carve(carver, (uint64_t)threads * routing->experts, sizeof(float));
  routing->starts = carve(carver, (uint64_t)routing->experts + 1, sizeof(uint32_t));
  routing->entries = carve(carver, tile_entries, sizeof(uint32_t));
  routing->active = carve(carver, routing->experts, sizeof(uint32_t));
  routing->inner = carve(carver, routing->inner_bytes, 1);
  uint64_t partial_size = tile_entries * OUTPUT_RANGE;
  if (partial_size < PARTIAL_MINIMUM) partial_size = PARTIAL_MINIMUM;
  routing->partial_size = (size_t)partial_size;
  routing->partial = carve(carver, partial_size, threads * sizeof(float));
}

uint64_t backend_cpu_routing_bytes(size_t threads, size_t max_rows, size_t max_columns, size_t rows, uint32_t experts,
                                   uint32_t chosen) {
  if (max_columns > UINT32_MAX || rows > UINT32_MAX / (chosen > 0 ? chosen : 1)) return UINT64_MAX;
  struct routing routing = {.rows = rows, .experts = experts, .chosen = chosen};
  struct carver carver = {0};
  carve_routing(&routing, &carver, threads, max_rows, max_columns);
  return carver.overflow ? UINT64_MAX : carver.used;
}

int cpu_routing_create(struct backend *base, size_t rows, uint32_t experts, uint32_t chosen, struct routing **result,
                       struct kj_error *error) {
  struct cpu_backend *backend = cpu_backend_of(base);
  *result = NULL;
  if (chosen == 0 || chosen > experts)
    return kj_fail(error, KJ_INVALID, "%u experts a token cannot be chosen from %u", chosen, experts);
  if (rows > UINT32_MAX / chosen)
    return kj_fail(error, KJ_MEMORY, "a micro-batch of %zu tokens with %u experts each is too large", rows, chosen);
  uint64_t bytes =
      backend_cpu_routing_bytes(backend->thread_count, backend->max_rows, backend->max_columns, rows, experts, chosen);
  struct routing *routing = calloc(1, sizeof *routing);
  if (!routing) return kj_fail_memory(error, "the routing of experts");
  void *memory;
  int code = allocate_aligned(&memory, bytes, "the routing of experts", error);
  if (code) {
    free(routing);
    return code;
  }
  *routing = (struct routing){.rows = rows, .experts = experts, .chosen = chosen};
  struct carver carver = {.memory = memory};
  carve_routing(routing, &carver, backend->thread_count, backend->max_rows, backend->max_columns);
  *result = routing;
  return 0;
}

void cpu_routing_destroy(struct backend *backend, struct routing *routing) {
  (void)backend;
  if (!routing) return;
  free(routing->ids); /* the first piece of the one allocation */
  free(routing);
}

struct route_job {
  struct cpu_backend *backend;
  struct routing *routing;
  const struct tensor *logits;
  bool renormalise;
};

static void route_item(void *context, size_t row, size_t slot) {
  const struct route_job *job = context;
  struct routing *routing = job->routing;
  float *probabilities = routing->probabilities + slot * routing->experts;
  uint32_t *ids = routing->ids + row * routing->chosen;
  float *shares = routing->shares + row * routing->chosen;
  memcpy(probabilities, tensor_row(job->logits, row), routing->experts * sizeof(float));
  job->backend->kernels->softmax(probabilities, routing->experts);
  float sum = 0.0f;
  for (uint32_t rank = 0; rank < routing->chosen; rank++) {
    /* Taken experts are marked with -1; a NaN counts as less than any probability but more than a taken one. */
    uint32_t best = 0;
    float best_value = -2.0f;
    for (uint32_t e = 0; e < routing->experts; e++) {
      float value = probabilities[e] == probabilities[e] ? probabilities[e] : -0.5f;
      if (value > best_value) {
        best_value = value;
        best = e;
      }
    }
    ids[rank] = best;
    shares[rank] = probabilities[best];
    sum = sum + shares[rank];
    probabilities[best] = -1.0f;
  }
  if (job->renormalise)
    for (uint32_t rank = 0; rank < routing->chosen; rank++) shares[rank] = shares[rank] / sum;
}

void cpu_route(struct backend *base, struct routing *routing, const struct tensor *logits, size_t rows,
               bool renormalise) {
  struct route_job job = {cpu_backend_of(base), routing, logits, renormalise};
  uint64_t work = (uint64_t)rows * routing->experts * (1 + routing->chosen);
  parallel(cpu_backend_of(base), rows, work, route_item, &job);
}

/* One tile of tokens on its way through the experts. */
struct ffn_job {
  struct cpu_backend *backend;
  const struct routing *routing;
  struct tensor *out;
  const struct tensor *x;
  const struct matrix *gate, *up, *down;
  size_t first_row, rows;
  size_t inner_columns;
  size_t entry_count, entry_stride; /* entry_stride in bytes */
  size_t active_count;
  size_t range;              /* weight rows of an item */
  const struct matrix *kind; /* the matrices that are being multiplied take the same activations as this one */
};

static float *gate_of(const struct ffn_job *job, size_t entry) {
  return (float *)(void *)(job->routing->inner + entry * job->entry_stride);
}

static float *up_of(const struct ffn_job *job, size_t entry) {
  size_t floats = (job->inner_columns * sizeof(float) + CPU_ALIGNMENT - 1) / CPU_ALIGNMENT * CPU_ALIGNMENT;
  return (float *)(void *)(job->routing->inner + entry * job->entry_stride + floats);
}

static void *quantized_of(const struct ffn_job *job, size_t entry) {
  size_t floats = (job->inner_columns * sizeof(float) + CPU_ALIGNMENT - 1) / CPU_ALIGNMENT * CPU_ALIGNMENT;
  return job->routing->inner + entry * job->entry_stride + 2 * floats;
}

/* Sorts the tile's entries by expert, those of an expert in rising order: the ones of expert e are entries[starts[e]]
 * up to entries[starts[e + 1]] (excluded); active lists the experts that have any. */
static void group_entries(struct ffn_job *job) {
  const struct routing *routing = job->routing;
  const uint32_t *ids = routing->ids + job->first_row * routing->chosen;
  uint32_t *starts = routing->starts;
  memset(starts, 0, (routing->experts + 1) * sizeof *starts);
  for (size_t entry = 0; entry < job->entry_count; entry++) starts[ids[entry] + 1]++;
  job->active_count = 0;
  for (uint32_t e = 0; e < routing->experts; e++) {
    if (starts[e + 1] > 0) routing->active[job->active_count++] = e;
    starts[e + 1] += starts[e];
  }
  /* Now starts[e + 1] is the end of e. Filling from the back lets it fall to e's start, one place too high. */
  for (size_t entry = job->entry_count; entry-- > 0;) routing->entries[--starts[ids[entry] + 1]] = (uint32_t)entry;
  memmove(starts, starts + 1, routing->experts * sizeof *starts);
  starts[routing->experts] = (uint32_t)job->entry_count;
}

/* On average; of those that have any. */
static size_t entries_an_expert(const struct ffn_job *job) { return job->entry_count / job->active_count; }

static const struct matrix *gate_or_up(const struct ffn_job *job, size_t index) {
  uint32_t expert = job->routing->active[index / 2];
  return index % 2 == 0 ? &job->gate[expert] : &job->up[expert];
}

/* Rows of gate or up of one active expert, for all its entries. */
static void inner_item(void *context, size_t item, size_t slot) {
  const struct ffn_job *job = context;
  const struct routing *routing = job->routing;
  size_t ranges = (job->inner_columns + job->range - 1) / job->range;
  size_t index = item / ranges, first = item % ranges * job->range;
  size_t rows = job->inner_columns - first < job->range ? job->inner_columns - first : job->range;
  const struct matrix *matrix = gate_or_up(job, index);
  if (!same_activation(matrix, job->kind)) return;
  uint32_t expert = routing->active[index / 2];
  uint32_t end = routing->starts[expert + 1];
  for (uint32_t next = routing->starts[expert]; next < end;) {
    struct column_block block;
    for (block.count = 0; block.count < COLUMN_BLOCK && next < end; block.count++, next++) {
      uint32_t entry = routing->entries[next];
      size_t token = entry / routing->chosen;
      block.quantized[block.count] = job->backend->activations + token * job->backend->activation_stride;
      block.plain[block.count] = tensor_row(job->x, job->first_row + token);
      block.outs[block.count] = (index % 2 == 0 ? gate_of(job, entry) : up_of(job, entry)) + first;
    }
    multiply_block(job->backend, slot, matrix, first, rows, &block);
  }
}

/* Multiplies gate and up, once for every form of activation that occurs among them: usually there is one. */
static void multiply_inner(struct ffn_job *job) {
  size_t matrices = 2 * job->active_count;
  job->range = parallel_range(job->backend, matrices * job->inner_columns, entries_an_expert(job), RANGE_MAXIMUM);
  size_t items = matrices * ((job->inner_columns + job->range - 1) / job->range);
  for (size_t index = 0; index < matrices; index++) {
    bool done = false;
    job->kind = gate_or_up(job, index);
    for (size_t i = 0; i < index && !done; i++) done = same_activation(gate_or_up(job, i), job->kind);
    if (done) continue;
    quantize_rows(job->backend, job->x, job->first_row, job->rows, job->kind);
    parallel(job->backend, items, (uint64_t)matrices * job->inner_columns * job->x->columns, inner_item, job);
  }
}

static void activate_item(void *context, size_t entry, size_t slot) {
  const struct ffn_job *job = context;
  const struct routing *routing = job->routing;
  (void)slot;
  const struct matrix *down = &job->down[routing->ids[job->first_row * routing->chosen + entry]];
  job->backend->kernels->silu_multiply(gate_of(job, entry), up_of(job, entry), job->inner_columns);
  if (down->format == MATRIX_AFFINE)
    job->backend->kernels->quantize(quantized_of(job, entry), gate_of(job, entry), activation_layout_for(down));
}

/* A range of the output's columns for every token of the tile. */
static void output_item(void *context, size_t item, size_t slot) {
  const struct ffn_job *job = context;
  const struct routing *routing = job->routing;
  float *partial = routing->partial + slot * routing->partial_size;
  size_t first = item * job->range;
  size_t rows = job->out->columns - first < job->range ? job->out->columns - first : job->range;
  for (size_t a = 0; a < job->active_count; a++) {
    uint32_t expert = routing->active[a], end = routing->starts[expert + 1];
    for (uint32_t next = routing->starts[expert]; next < end;) {
      struct column_block block;
      for (block.count = 0; block.count < COLUMN_BLOCK && next < end; block.count++, next++) {
        uint32_t entry = routing->entries[next];
        block.quantized[block.count] = quantized_of(job, entry);
        block.plain[block.count] = gate_of(job, entry);
        block.outs[block.count] = partial + (size_t)entry * job->range;
      }
      multiply_block(job->backend, slot, &job->down[expert], first, rows, &block);
    }
  }
  for (size_t t = 0; t < job->rows; t++) {
    float *out = tensor_row(job->out, job->first_row + t) + first;
    const float *shares = routing->shares + (job->first_row + t) * routing->chosen;
    memset(out, 0, rows * sizeof *out);
    for (size_t rank = 0; rank < routing->chosen; rank++)
      job->backend->kernels->accumulate(out, partial + (t * routing->chosen + rank) * job->range, shares[rank], rows);
  }
}

void cpu_expert_ffn(struct backend *base, struct tensor *out, const struct tensor *x, const struct routing *routing,
                    const struct matrix *gate, const struct matrix *up, const struct matrix *down, size_t rows) {
  struct cpu_backend *backend = cpu_backend_of(base);
  struct ffn_job job = {.backend = backend,
                        .routing = routing,
                        .out = out,
                        .x = x,
                        .gate = gate,
                        .up = up,
                        .down = down,
                        .inner_columns = gate->rows};
  job.entry_stride = (size_t)entry_bytes(job.inner_columns);
  size_t tile = routing->inner_bytes / (routing->chosen * job.entry_stride);
  if (tile > routing->tile_rows) tile = routing->tile_rows;
  for (; job.first_row < rows; job.first_row += job.rows) {
    job.rows = rows - job.first_row < tile ? rows - job.first_row : tile;
    job.entry_count = job.rows * routing->chosen;
    group_entries(&job);
    multiply_inner(&job);
    parallel(backend, job.entry_count, (uint64_t)job.entry_count * job.inner_columns, activate_item, &job);
    job.range = parallel_range(backend, out->columns, entries_an_expert(&job),
                               routing->partial_size / job.entry_count / RANGE_MINIMUM * RANGE_MINIMUM);
    parallel(backend, (out->columns + job.range - 1) / job.range,
             (uint64_t)job.entry_count * job.inner_columns * out->columns, output_item, &job);
  }
}

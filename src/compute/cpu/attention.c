/* The KV pool and attention over it.
 *
 * Per layer and block the pool keeps keys [kv_heads][head_dim][KV_BLOCK] and values [kv_heads][KV_BLOCK][head_dim],
 * f16. Keys lie with positions innermost, so that scores of neighbouring positions are computed side by side.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "compute/cpu/engine.h"

enum { TILE_QUERIES = 128 }; /* queries that meet a KV block at a time, while it is in the cache */

struct kv_pool {
  struct attention_shape shape;
  uint32_t layers, blocks;
  size_t head_numbers;  /* of the keys, and again of the values, of a head in a block */
  size_t block_numbers; /* of a block of a layer */
  uint16_t *data;
};

uint64_t backend_kv_block_bytes(struct attention_shape shape) {
  return (uint64_t)shape.kv_heads * shape.head_dim * KV_BLOCK * 2 * sizeof(uint16_t);
}

static int check_shape(struct attention_shape shape, struct kj_error *error) {
  if (shape.head_dim == 0 || shape.head_dim % 16 != 0 || shape.head_dim > ATTENTION_MAX_HEAD_DIM)
    return kj_fail(error, KJ_UNSUPPORTED, "head_dim %u: the CPU engine computes with multiples of 16 up to %d",
                   shape.head_dim, ATTENTION_MAX_HEAD_DIM);
  if (shape.kv_heads == 0 || shape.query_heads == 0 || shape.query_heads % shape.kv_heads != 0)
    return kj_fail(error, KJ_UNSUPPORTED, "%u query heads cannot be shared out among %u key-value heads",
                   shape.query_heads, shape.kv_heads);
  return 0;
}

int cpu_kv_create(struct backend *backend, uint32_t layers, uint32_t blocks, struct attention_shape shape,
                  struct kv_pool **result, struct kj_error *error) {
  (void)backend;
  *result = NULL;
  int code = check_shape(shape, error);
  if (code) return code;
  uint64_t head_numbers = (uint64_t)shape.head_dim * KV_BLOCK, block_numbers, bytes;
  if (!checked_multiply(2 * head_numbers, shape.kv_heads, &block_numbers) ||
      !checked_multiply(block_numbers * sizeof(uint16_t), (uint64_t)layers * blocks, &bytes))
    return kj_fail(error, KJ_MEMORY, "a KV pool of %u layers and %u blocks exceeds 64 bits", layers, blocks);
  struct kv_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return kj_fail_memory(error, "the KV pool");
  *pool = (struct kv_pool){shape, layers, blocks, (size_t)head_numbers, (size_t)block_numbers, NULL};
  void *memory;
  code = allocate_aligned(&memory, bytes, "the KV pool", error);
  if (code) {
    free(pool);
    return code;
  }
  pool->data = memory;
  *result = pool;
  return 0;
}

void cpu_kv_destroy(struct backend *backend, struct kv_pool *pool) {
  (void)backend;
  if (!pool) return;
  free(pool->data);
  free(pool);
}

static uint16_t *keys_of(const struct kv_pool *pool, uint32_t layer, uint32_t block, size_t kv_head) {
  return pool->data + ((size_t)layer * pool->blocks + block) * pool->block_numbers + kv_head * pool->head_numbers;
}

static uint16_t *values_of(const struct kv_pool *pool, uint32_t layer, uint32_t block, size_t kv_head) {
  return keys_of(pool, layer, block, pool->shape.kv_heads + kv_head);
}

/* The pool's own layout, on a little-endian machine, is the one of the copy. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "kv_export and kv_import copy f16 numbers as they lie in memory"
#endif

void cpu_kv_export(struct backend *backend, const struct kv_pool *pool, uint32_t block, uint8_t *bytes) {
  (void)backend;
  size_t size = pool->block_numbers * sizeof *pool->data;
  for (uint32_t layer = 0; layer < pool->layers; layer++)
    memcpy(bytes + layer * size, keys_of(pool, layer, block, 0), size);
}

void cpu_kv_import(struct backend *backend, struct kv_pool *pool, uint32_t block, const uint8_t *bytes) {
  (void)backend;
  size_t size = pool->block_numbers * sizeof *pool->data;
  for (uint32_t layer = 0; layer < pool->layers; layer++)
    memcpy(keys_of(pool, layer, block, 0), bytes + layer * size, size);
}

struct write_job {
  const struct cpu_kernels *kernels;
  struct kv_pool *pool;
  uint32_t layer;
  const struct tensor *k, *v;
  const struct batch *batch;
};

/* All rows of one head, so that no two threads write to neighbouring positions of the keys. */
static void write_item(void *context, size_t kv_head, size_t slot) {
  const struct write_job *job = context;
  (void)slot;
  size_t head_dim = job->pool->shape.head_dim, row = 0;
  uint16_t key[ATTENTION_MAX_HEAD_DIM];
  for (uint32_t s = 0; s < job->batch->span_count; s++) {
    const struct span *span = &job->batch->spans[s];
    for (uint32_t t = 0; t < span->tokens; t++, row++) {
      uint32_t position = span->first_position + t, place = position % KV_BLOCK;
      uint32_t block = span->blocks[position / KV_BLOCK];
      uint16_t *keys = keys_of(job->pool, job->layer, block, kv_head);
      job->kernels->to_f16(key, tensor_row(job->k, row) + kv_head * head_dim, head_dim);
      for (size_t d = 0; d < head_dim; d++) keys[d * KV_BLOCK + place] = key[d];
      job->kernels->to_f16(values_of(job->pool, job->layer, block, kv_head) + place * head_dim,
                           tensor_row(job->v, row) + kv_head * head_dim, head_dim);
    }
  }
}

void cpu_kv_write(struct backend *base, struct kv_pool *pool, uint32_t layer, const struct tensor *k,
                  const struct tensor *v, const struct batch *batch) {
  struct write_job job = {cpu_backend_of(base)->kernels, pool, layer, k, v, batch};
  parallel(cpu_backend_of(base), pool->shape.kv_heads, (uint64_t)batch->tokens * k->columns * 4, write_item, &job);
}

/* An item is some rows of a span × some query heads that share a key-value head. */
struct attention_job {
  const struct cpu_kernels *kernels;
  struct tensor *out;
  const struct tensor *q;
  const struct kv_pool *pool;
  uint32_t layer;
  const struct batch *batch;
  size_t heads;      /* query heads of an item */
  size_t head_parts; /* items that share a key-value head */
  size_t rows;       /* rows of an item */
};

struct attention_item {
  const struct span *span;
  size_t span_row;              /* the span's first row in the batch */
  uint32_t first_token, tokens; /* of the span */
  size_t kv_head, first_head, heads;
};

static size_t items_of_span(const struct attention_job *job, const struct span *span) {
  return (span->tokens + job->rows - 1) / job->rows * job->pool->shape.kv_heads * job->head_parts;
}

static struct attention_item find_item(const struct attention_job *job, size_t index) {
  const struct span *span = job->batch->spans;
  size_t span_row = 0;
  for (; index >= items_of_span(job, span); span++) {
    index -= items_of_span(job, span);
    span_row += span->tokens;
  }
  size_t group = job->pool->shape.query_heads / job->pool->shape.kv_heads;
  size_t part = index % job->head_parts;
  size_t kv_head = index / job->head_parts % job->pool->shape.kv_heads;
  size_t first_token = index / job->head_parts / job->pool->shape.kv_heads * job->rows;
  size_t tokens = span->tokens - first_token < job->rows ? span->tokens - first_token : job->rows;
  size_t skipped = part * job->heads;
  return (struct attention_item){span,
                                 span_row,
                                 (uint32_t)first_token,
                                 (uint32_t)tokens,
                                 kv_head,
                                 kv_head * group + skipped,
                                 group - skipped < job->heads ? group - skipped : job->heads};
}

/* The kernel fetches a block's values while it works on its keys; the keys must come before. */
static void prefetch_keys(const uint16_t *keys, size_t numbers) {
  const size_t line = CPU_ALIGNMENT / sizeof *keys;
  for (size_t i = 0; i < numbers; i += line) __builtin_prefetch(keys + i);
}

static void attention_item(void *context, size_t index, size_t slot) {
  const struct attention_job *job = context;
  struct attention_item item = find_item(job, index);
  struct attention_query queries[TILE_QUERIES];
  size_t head_dim = job->pool->shape.head_dim, count = item.tokens * item.heads;
  (void)slot;
  for (size_t i = 0; i < count; i++) {
    size_t row = item.span_row + item.first_token + i / item.heads;
    size_t offset = (item.first_head + i % item.heads) * head_dim;
    queries[i] = (struct attention_query){
        .query = tensor_row(job->q, row) + offset, .out = tensor_row(job->out, row) + offset, .max = -INFINITY};
    for (size_t d = 0; d < head_dim; d++) queries[i].out[d] = 0.0f;
  }
  uint32_t first_position = item.span->first_position + item.first_token;
  uint32_t last_position = first_position + item.tokens - 1;
  for (uint32_t b = 0; b <= last_position / KV_BLOCK; b++) {
    /* The block's first position is not seen by the rows before it. */
    uint32_t block_position = b * KV_BLOCK;
    size_t first = block_position > first_position ? (block_position - first_position) * item.heads : 0;
    for (size_t i = first; i < count; i++) {
      uint32_t seen = first_position + (uint32_t)(i / item.heads) + 1 - block_position;
      queries[i].positions = seen < KV_BLOCK ? seen : KV_BLOCK;
    }
    uint32_t block = item.span->blocks[b];
    if (b < last_position / KV_BLOCK)
      prefetch_keys(keys_of(job->pool, job->layer, item.span->blocks[b + 1], item.kv_head), job->pool->head_numbers);
    job->kernels->attention_block(queries + first, count - first, keys_of(job->pool, job->layer, block, item.kv_head),
                                  values_of(job->pool, job->layer, block, item.kv_head), head_dim,
                                  job->pool->shape.scale);
  }
  for (size_t i = 0; i < count; i++)
    for (size_t d = 0; d < head_dim; d++) queries[i].out[d] = queries[i].out[d] / queries[i].sum;
}

/* All query heads of a key-value head share an item, so that the block is read once, unless that leaves threads idle.
 */
static void choose_items(struct attention_job *job, size_t threads) {
  size_t group = job->pool->shape.query_heads / job->pool->shape.kv_heads;
  size_t parts = 1;
  while (parts < group && (size_t)job->batch->tokens * job->pool->shape.kv_heads * parts < threads) parts++;
  job->heads = (group + parts - 1) / parts;
  if (job->heads > TILE_QUERIES) job->heads = TILE_QUERIES;
  job->head_parts = (group + job->heads - 1) / job->heads;
  job->rows = TILE_QUERIES / job->heads;
}

void cpu_attention(struct backend *base, struct tensor *out, const struct tensor *q, struct kv_pool *pool,
                   uint32_t layer, const struct batch *batch) {
  struct cpu_backend *backend = cpu_backend_of(base);
  struct attention_job job = {
      .kernels = backend->kernels, .out = out, .q = q, .pool = pool, .layer = layer, .batch = batch};
  uint64_t work = 0;
  size_t items = 0;
  choose_items(&job, backend->thread_count);
  for (uint32_t s = 0; s < batch->span_count; s++) {
    const struct span *span = &batch->spans[s];
    items += items_of_span(&job, span);
    work += (uint64_t)span->tokens * q->columns * (span->first_position + span->tokens);
  }
  parallel(backend, items, work, attention_item, &job);
}

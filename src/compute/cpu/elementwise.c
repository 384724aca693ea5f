/* The operations that treat every row by itself: embedding, norm, rotation, activation function, residual. */
#include <math.h>
#include <string.h>

#include "compute/cpu/engine.h"
#include "compute/number.h"
#include "compute/rope.h"

struct embed_job {
  struct tensor *out;
  const struct matrix *embedding;
  const uint32_t *token_ids;
};

static void embed_item(void *context, size_t t, size_t slot) {
  const struct embed_job *job = context;
  const struct matrix *matrix = job->embedding;
  (void)slot;
  float *out = tensor_row(job->out, t);
  size_t row = job->token_ids[t];
  const unsigned char *data = (const unsigned char *)matrix->data + row * matrix_row_bytes(matrix);
  if (matrix->format == MATRIX_PLAIN) {
    for (size_t i = 0; i < matrix->columns; i++) out[i] = number_at(matrix->type, data, i);
    return;
  }
  size_t groups = matrix->columns / matrix->group;
  for (size_t g = 0; g < groups; g++) {
    float scale = number_at(matrix->type, matrix->scales, row * groups + g);
    float bias = number_at(matrix->type, matrix->biases, row * groups + g);
    for (size_t i = g * matrix->group; i < (g + 1) * matrix->group; i++) {
      unsigned q = matrix->bits == 8 ? data[i] : data[i / 2] >> (i % 2 * 4) & 15;
      out[i] = fmaf(scale, (float)q, bias);
    }
  }
}

/* out = scale · q + bias with one rounding. */
void cpu_embed(struct backend *base, struct tensor *out, const struct matrix *embedding, const uint32_t *token_ids,
               size_t rows) {
  struct embed_job job = {out, embedding, token_ids};
  parallel(cpu_backend_of(base), rows, (uint64_t)rows * embedding->columns, embed_item, &job);
}

struct norm_job {
  const struct cpu_kernels *kernels;
  struct tensor *out;
  const struct tensor *x;
  const struct matrix *weight;
  uint32_t parts;
  float epsilon;
};

static void norm_item(void *context, size_t row, size_t slot) {
  const struct norm_job *job = context;
  (void)slot;
  for (size_t part = 0; part < job->parts; part++) {
    size_t offset = part * job->weight->columns;
    job->kernels->rms_norm(tensor_row(job->out, row) + offset, tensor_row(job->x, row) + offset, job->weight->data,
                           job->weight->type, job->weight->columns, job->epsilon);
  }
}

void cpu_rms_norm(struct backend *base, struct tensor *out, const struct tensor *x, const struct matrix *weight,
                  size_t rows, uint32_t parts, float epsilon) {
  struct norm_job job = {cpu_backend_of(base)->kernels, out, x, weight, parts, epsilon};
  parallel(cpu_backend_of(base), rows, (uint64_t)rows * parts * weight->columns, norm_item, &job);
}

struct rotate_job {
  struct cpu_backend *backend;
  struct tensor *x;
  const struct rope *rope;
  uint32_t heads;
  const struct batch *batch;
};

static uint32_t position_of(const struct batch *batch, size_t row) {
  const struct span *span = batch->spans;
  for (; row >= span->tokens; span++) row -= span->tokens;
  return span->first_position + (uint32_t)row;
}

static void rotate_item(void *context, size_t row, size_t slot) {
  const struct rotate_job *job = context;
  struct rope_cache *cache = &job->backend->rope;
  (void)slot;
  float *cosine = cache->cosine + row * ROPE_MAX_PAIRS, *sine = cache->sine + row * ROPE_MAX_PAIRS;
  uint32_t position = position_of(job->batch, row);
  if (cache->positions[row] != position) {
    cache->positions[row] = position;
    for (uint32_t i = 0; i < job->rope->pairs; i++)
      rope_cosine_sine(position, job->rope->inverse_frequency[i], job->rope->attention_factor, &cosine[i], &sine[i]);
  }
  size_t head_dim = job->x->columns / job->heads;
  for (size_t head = 0; head < job->heads; head++)
    job->backend->kernels->rotate(tensor_row(job->x, row) + head * head_dim, cosine, sine, job->rope->pairs);
}

static bool cache_is_of(const struct rope_cache *cache, const struct rope *rope) {
  return cache->pairs == rope->pairs && cache->attention_factor == rope->attention_factor &&
         memcmp(cache->inverse_frequency, rope->inverse_frequency, rope->pairs * sizeof(float)) == 0;
}

void cpu_rotate(struct backend *base, struct tensor *x, const struct rope *rope, uint32_t heads,
                const struct batch *batch) {
  struct cpu_backend *backend = cpu_backend_of(base);
  struct rope_cache *cache = &backend->rope;
  if (!cache_is_of(cache, rope)) {
    cache->pairs = rope->pairs;
    cache->attention_factor = rope->attention_factor;
    memcpy(cache->inverse_frequency, rope->inverse_frequency, rope->pairs * sizeof(float));
    for (size_t row = 0; row < backend->max_rows; row++) cache->positions[row] = ROPE_NO_POSITION;
  }
  struct rotate_job job = {backend, x, rope, heads, batch};
  parallel(backend, batch->tokens, (uint64_t)batch->tokens * x->columns, rotate_item, &job);
}

struct pair_job {
  const struct cpu_kernels *kernels;
  struct tensor *x;
  const struct tensor *y;
};

static void silu_item(void *context, size_t row, size_t slot) {
  const struct pair_job *job = context;
  (void)slot;
  job->kernels->silu_multiply(tensor_row(job->x, row), tensor_row(job->y, row), job->x->columns);
}

void cpu_silu_multiply(struct backend *base, struct tensor *gate, const struct tensor *up, size_t rows) {
  struct pair_job job = {cpu_backend_of(base)->kernels, gate, up};
  parallel(cpu_backend_of(base), rows, (uint64_t)rows * gate->columns, silu_item, &job);
}

static void add_item(void *context, size_t row, size_t slot) {
  const struct pair_job *job = context;
  (void)slot;
  float *x = tensor_row(job->x, row);
  const float *y = tensor_row(job->y, row);
  for (size_t i = 0; i < job->x->columns; i++) x[i] = x[i] + y[i];
}

void cpu_add(struct backend *base, struct tensor *x, const struct tensor *y, size_t rows) {
  struct pair_job job = {cpu_backend_of(base)->kernels, x, y};
  parallel(cpu_backend_of(base), rows, (uint64_t)rows * x->columns, add_item, &job);
}

#include "compute/cpu/engine.h"

uint64_t activation_largest(uint64_t max_columns) {
  uint64_t largest = 0;
  for (uint32_t bits = 4; bits <= 8; bits += 4) {
    uint64_t columns = (max_columns + 127) / 128 * 128;
    uint64_t bytes = activation_row_bytes((struct activation_layout){columns, bits, ACTIVATION_GROUP});
    if (bytes > largest) largest = bytes;
  }
  return largest;
}

bool same_activation(const struct matrix *a, const struct matrix *b) {
  if (a->format != b->format) return false;
  return a->format == MATRIX_PLAIN || (a->bits == b->bits && a->group == b->group);
}

void multiply_block(const struct cpu_backend *backend, size_t slot, const struct matrix *matrix, size_t first_row,
                    size_t rows, const struct column_block *block) {
  if (matrix->format == MATRIX_AFFINE)
    backend->kernels->matmul_affine(matrix, first_row, rows, block->quantized, block->outs, block->count,
                                    backend->kernel_scratch + slot * backend->kernel_scratch_stride);
  else
    backend->kernels->matmul_plain(matrix, first_row, rows, block->plain, block->outs, block->count);
}

struct quantize_job {
  struct cpu_backend *backend;
  const struct tensor *x;
  size_t first_row;
  struct activation_layout layout;
};

static void quantize_item(void *context, size_t row, size_t slot) {
  const struct quantize_job *job = context;
  (void)slot;
  job->backend->kernels->quantize(job->backend->activations + row * job->backend->activation_stride,
                                  tensor_row(job->x, job->first_row + row), job->layout);
}

void quantize_rows(struct cpu_backend *backend, const struct tensor *x, size_t first_row, size_t rows,
                   const struct matrix *matrix) {
  if (matrix->format != MATRIX_AFFINE) return;
  struct quantize_job job = {backend, x, first_row, activation_layout_for(matrix)};
  parallel(backend, rows, (uint64_t)rows * matrix->columns, quantize_item, &job);
}

/* Those of `count` matrices that take the same activations as the one at `kind`, over rows first_row … of x. */
struct matmul_job {
  struct cpu_backend *backend;
  struct tensor *const *outs;
  const struct tensor *x;
  const struct matrix *const *weights;
  size_t kind, count;
  size_t first_row, rows;
  size_t range; /* weight rows of an item */
};

static size_t ranges_of(const struct matmul_job *job, size_t i) {
  if (!same_activation(job->weights[i], job->weights[job->kind])) return 0;
  return (job->weights[i]->rows + job->range - 1) / job->range;
}

static void matmul_item(void *context, size_t item, size_t slot) {
  const struct matmul_job *job = context;
  size_t i = job->kind;
  while (item >= ranges_of(job, i)) item -= ranges_of(job, i++);
  const struct matrix *matrix = job->weights[i];
  size_t first = item * job->range;
  size_t rows = matrix->rows - first < job->range ? matrix->rows - first : job->range;
  for (size_t column = 0; column < job->rows; column += COLUMN_BLOCK) {
    struct column_block block;
    block.count = job->rows - column < COLUMN_BLOCK ? job->rows - column : COLUMN_BLOCK;
    for (size_t c = 0; c < block.count; c++) {
      block.quantized[c] = job->backend->activations + (column + c) * job->backend->activation_stride;
      block.plain[c] = tensor_row(job->x, job->first_row + column + c);
      block.outs[c] = tensor_row(job->outs[i], job->first_row + column + c) + first;
    }
    multiply_block(job->backend, slot, matrix, first, rows, &block);
  }
}

void cpu_matmul(struct backend *base, struct tensor *const *outs, const struct tensor *x,
                const struct matrix *const *weights, size_t count, size_t rows) {
  struct cpu_backend *backend = cpu_backend_of(base);
  for (size_t first = 0; first < rows; first += backend->tile_rows) {
    size_t tile = rows - first < backend->tile_rows ? rows - first : backend->tile_rows;
    for (size_t kind = 0; kind < count; kind++) {
      bool done = false;
      size_t weight_rows = 0, items = 0;
      for (size_t i = 0; i < kind; i++) done = done || same_activation(weights[i], weights[kind]);
      if (done) continue;
      for (size_t i = kind; i < count; i++)
        if (same_activation(weights[i], weights[kind])) weight_rows += weights[i]->rows;
      struct matmul_job job = {backend, outs, x,
                               weights, kind, count,
                               first,   tile, parallel_range(backend, weight_rows, tile, RANGE_MAXIMUM)};
      for (size_t i = kind; i < count; i++) items += ranges_of(&job, i);
      quantize_rows(backend, x, first, tile, weights[kind]);
      parallel(backend, items, (uint64_t)weight_rows * weights[kind]->columns, matmul_item, &job);
    }
  }
}

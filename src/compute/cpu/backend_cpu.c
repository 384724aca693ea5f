#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "compute/cpu/dispatch.h"
#include "compute/cpu/engine.h"

enum { WARM_PIECE = 4 << 20, SMALLEST_PAGE = 4096 };

static void destroy(struct backend *base) {
  if (!base) return;
  struct cpu_backend *backend = cpu_backend_of(base);
  free(backend->scratch);
  free(backend);
}

static const char *describe(const struct backend *base) { return ((const struct cpu_backend *)base)->description; }

/* The specification, which all instruction sets equal (compute/cpu/kernels.h). */
static const char *arithmetic(const struct backend *base) {
  (void)base;
  return "cpu 1";
}

static int check_matrix(const struct backend *base, const struct matrix *matrix, struct kj_error *error) {
  const struct cpu_backend *backend = (const struct cpu_backend *)base;
  if (matrix->rows == 0 || matrix->columns == 0 || matrix->columns > backend->max_columns)
    return kj_fail(error, KJ_UNSUPPORTED, "a matrix of %u rows and %u columns: the engine was set up for 1…%zu columns",
                   matrix->rows, matrix->columns, backend->max_columns);
  if (matrix->type != NUMBER_F32 && matrix->type != NUMBER_F16 && matrix->type != NUMBER_BF16)
    return kj_fail(error, KJ_UNSUPPORTED, "numbers of type %d are not implemented", (int)matrix->type);
  if (matrix->format == MATRIX_PLAIN) return 0;
  if (matrix->format != MATRIX_AFFINE)
    return kj_fail(error, KJ_UNSUPPORTED, "matrix format %d is not implemented", (int)matrix->format);
  if (matrix->bits != 4 && matrix->bits != 8)
    return kj_fail(error, KJ_UNSUPPORTED, "affine quantization at %u bits is not implemented (4 and 8 are)",
                   matrix->bits);
  if (matrix->group != 32 && matrix->group != 64 && matrix->group != 128)
    return kj_fail(error, KJ_UNSUPPORTED, "quantization groups of %u are not implemented (32, 64 and 128 are)",
                   matrix->group);
  if (matrix->columns % matrix->group != 0)
    return kj_fail(error, KJ_UNSUPPORTED, "%u columns are not a multiple of the quantization group of %u",
                   matrix->columns, matrix->group);
  return 0;
}

struct warm_job {
  const unsigned char *bytes;
  size_t count;
};

/* Has the kernel map a range of pages, which reads in those that are not in memory: many times faster than a fault for
 * every few pages where they are. Since Linux 5.14. */
static bool populate(const unsigned char *bytes, size_t count) {
  size_t offset = (uintptr_t)bytes % (size_t)sysconf(_SC_PAGESIZE);
  return madvise((void *)((uintptr_t)bytes - offset), offset + count, MADV_POPULATE_READ) == 0;
}

static void warm_item(void *context, size_t item, size_t slot) {
  const struct warm_job *job = context;
  (void)slot;
  const unsigned char *piece = job->bytes + item * WARM_PIECE;
  size_t count = job->count - item * WARM_PIECE;
  if (count > WARM_PIECE) count = WARM_PIECE;
  if (populate(piece, count)) return;
  for (size_t at = 0; at < count; at += SMALLEST_PAGE) (void)*(const volatile unsigned char *)(piece + at);
  (void)*(const volatile unsigned char *)(piece + count - 1);
}

static void warm(struct cpu_backend *backend, const void *bytes, size_t count) {
  struct warm_job job = {bytes, count};
  if (count > 0) parallel(backend, (count + WARM_PIECE - 1) / WARM_PIECE, count, warm_item, &job);
}

static void warm_matrix(struct backend *base, const struct matrix *matrix) {
  struct cpu_backend *backend = cpu_backend_of(base);
  size_t data = (size_t)matrix->rows * matrix_row_bytes(matrix);
  warm(backend, matrix->data, data);
  if (matrix->format != MATRIX_AFFINE) return;
  warm(backend, matrix->scales, (matrix_bytes(matrix) - data) / 2);
  warm(backend, matrix->biases, (matrix_bytes(matrix) - data) / 2);
}

static int tensor_create(struct backend *base, size_t rows, size_t columns, struct tensor **result,
                         struct kj_error *error) {
  (void)base;
  *result = NULL;
  uint64_t numbers, bytes;
  if (!checked_multiply(rows, columns, &numbers) || !checked_multiply(numbers, sizeof(float), &bytes))
    return kj_fail(error, KJ_MEMORY, "activations of %zu rows and %zu columns exceed 64 bits", rows, columns);
  struct tensor *tensor = calloc(1, sizeof *tensor);
  if (!tensor) return kj_fail_memory(error, "activations");
  void *memory;
  int code = allocate_aligned(&memory, bytes, "activations", error);
  if (code) {
    free(tensor);
    return code;
  }
  memset(memory, 0, (size_t)bytes);
  *tensor = (struct tensor){rows, columns, memory};
  *result = tensor;
  return 0;
}

static void tensor_destroy(struct backend *base, struct tensor *tensor) {
  (void)base;
  if (!tensor) return;
  free(tensor->values);
  free(tensor);
}

static void upload(struct backend *base, struct tensor *tensor, size_t first_row, size_t rows, const float *values) {
  (void)base;
  memcpy(tensor_row(tensor, first_row), values, rows * tensor->columns * sizeof *values);
}

static void download(struct backend *base, const struct tensor *tensor, size_t first_row, size_t rows, float *values) {
  (void)base;
  memcpy(values, tensor_row(tensor, first_row), rows * tensor->columns * sizeof *values);
}

/* Every operation is done when it returns. */
static void finish(struct backend *base) { (void)base; }

static const struct backend_operations operations = {
    .destroy = destroy,
    .describe = describe,
    .arithmetic = arithmetic,
    .check_matrix = check_matrix,
    .warm_matrix = warm_matrix,
    .tensor_create = tensor_create,
    .tensor_destroy = tensor_destroy,
    .upload = upload,
    .download = download,
    .routing_create = cpu_routing_create,
    .routing_destroy = cpu_routing_destroy,
    .kv_create = cpu_kv_create,
    .kv_destroy = cpu_kv_destroy,
    .kv_export = cpu_kv_export,
    .kv_import = cpu_kv_import,
    .embed = cpu_embed,
    .rms_norm = cpu_rms_norm,
    .matmul = cpu_matmul,
    .rotate = cpu_rotate,
    .kv_write = cpu_kv_write,
    .attention = cpu_attention,
    .route = cpu_route,
    .expert_ffn = cpu_expert_ffn,
    .silu_multiply = cpu_silu_multiply,
    .add = cpu_add,
    .finish = finish,
};

/* Sets the sizes and pointers of `backend` that depend on max_rows and max_columns. */
static void carve_scratch(struct cpu_backend *backend, struct carver *carver) {
  backend->kernel_scratch_stride = (size_t)kernel_scratch_bytes((backend->max_columns + 31) / 32 * 32);
  backend->kernel_scratch = carve(carver, backend->thread_count, backend->kernel_scratch_stride);
  backend->tile_rows = backend->max_rows < TILE_ROWS ? backend->max_rows : TILE_ROWS;
  backend->shares = carve(carver, backend->thread_count, sizeof *backend->shares);
  backend->activation_stride = (size_t)activation_largest(backend->max_columns);
  backend->activations = carve(carver, backend->tile_rows, backend->activation_stride);
  backend->rope.positions = carve(carver, backend->max_rows, sizeof *backend->rope.positions);
  backend->rope.cosine = carve(carver, backend->max_rows, ROPE_MAX_PAIRS * sizeof(float));
  backend->rope.sine = carve(carver, backend->max_rows, ROPE_MAX_PAIRS * sizeof(float));
}

uint64_t backend_cpu_scratch_bytes(size_t threads, size_t max_rows, size_t max_columns) {
  if (max_columns > UINT32_MAX) return UINT64_MAX;
  struct cpu_backend backend = {.thread_count = threads, .max_rows = max_rows, .max_columns = max_columns};
  struct carver carver = {0};
  carve_scratch(&backend, &carver);
  return carver.overflow ? UINT64_MAX : carver.used;
}

int backend_cpu_create(struct backend **result, const char *isa, struct threads *threads, size_t max_rows,
                       size_t max_columns, struct kj_error *error) {
  *result = NULL;
  const struct cpu_kernels *kernels;
  int code = cpu_kernels_choose(&kernels, isa, error);
  if (code) return code;
  if (max_rows == 0 || max_columns == 0)
    return kj_fail(error, KJ_INVALID, "an engine for %zu rows and %zu columns cannot compute", max_rows, max_columns);
  struct cpu_backend *backend = calloc(1, sizeof *backend);
  if (!backend) return kj_fail_memory(error, "the CPU engine");
  code = allocate_aligned(&backend->scratch, backend_cpu_scratch_bytes(threads_count(threads), max_rows, max_columns),
                          "the CPU engine's scratch memory", error);
  if (code) {
    free(backend);
    return code;
  }
  backend->base.operations = &operations;
  backend->kernels = kernels;
  backend->threads = threads;
  backend->thread_count = threads_count(threads);
  backend->max_rows = max_rows;
  backend->max_columns = max_columns;
  struct carver carver = {.memory = backend->scratch};
  carve_scratch(backend, &carver);
  snprintf(backend->description, sizeof backend->description, "cpu %s, %zu thread%s", kernels->name,
           backend->thread_count, backend->thread_count == 1 ? "" : "s");
  *result = &backend->base;
  return 0;
}

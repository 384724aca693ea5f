/* What the tests of compute/ share: seeded random numbers, matrices whose last byte lies before an unreadable page, and
 * comparison to the bit.
 */
#ifndef KAIJU_TESTS_COMPUTE_SUPPORT_H
#define KAIJU_TESTS_COMPUTE_SUPPORT_H

#include "unit/unit.h"
/* unit.h must come first. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/threads.h"
#include "compute/backend.h"
#include "compute/cpu/dispatch.h"
#include "compute/cpu/kernels.h"
#include "compute/number.h"

#if defined(KAIJU_AVXVNNI_EVEX)
const struct cpu_kernels *cpu_kernels_avxvnni_evex(void);
#endif

/* The tables of this CPU, the reference first, and the one that only tests have. */
static inline size_t test_tables(const struct cpu_kernels *tables[CPU_KERNELS_MAX]) {
  size_t count = cpu_kernels_available(tables);
#if defined(KAIJU_AVXVNNI_EVEX)
  assert_true(count < CPU_KERNELS_MAX);
  tables[count] = cpu_kernels_avxvnni_evex();
  if (tables[count]) count++;
#endif
  return count;
}

/* SplitMix64. */
static inline uint64_t random_bits(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* Uniform in [-1, 1). */
static inline float random_float(uint64_t *state) { return (float)(int32_t)(random_bits(state) >> 32) * 0x1p-31f; }

/* Mostly of ordinary size, with a few outliers, as activations are. */
static inline void random_activations(uint64_t *state, float *x, size_t count) {
  for (size_t i = 0; i < count; i++) {
    x[i] = random_float(state);
    if (random_bits(state) % 50 == 0) x[i] *= 30.0f;
  }
}

static inline uint16_t bf16_from_f32(float value) { return (uint16_t)(float_bits(value) >> 16); }

/* `bytes` of memory that end where an unreadable page begins. */
struct guarded {
  unsigned char *mapping;
  size_t length;
  unsigned char *bytes;
};

static inline struct guarded guarded_create(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t readable = (bytes + page - 1) / page * page;
  struct guarded memory = {.length = readable + page};
  void *mapping = mmap(NULL, memory.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(mapping, MAP_FAILED);
  memory.mapping = mapping;
  memory.bytes = memory.mapping + readable - bytes;
  assert_int_equal(mprotect(memory.mapping + readable, page, PROT_NONE), 0);
  return memory;
}

static inline void guarded_free(struct guarded *memory) {
  if (memory->mapping) munmap(memory->mapping, memory->length);
  memory->mapping = NULL;
}

/* Working memory for one product at a time of a matrix of that many columns, full of garbage; it ends where an
 * unreadable page begins. */
static inline void *kernel_scratch(size_t columns) {
  enum { LARGEST = 1 << 20 };
  static struct guarded memory;
  const size_t bytes = (size_t)kernel_scratch_bytes(columns);
  if (!memory.mapping) memory = guarded_create(LARGEST);
  assert_in_range(bytes, 1, LARGEST);
  return memset(memory.bytes + LARGEST - bytes, 0xa5, bytes);
}

static inline void store_number(enum number_type type, unsigned char *array, size_t index, float value) {
  uint16_t half = type == NUMBER_F16 ? f16_from_f32(value) : bf16_from_f32(value);
  if (type == NUMBER_F32)
    memcpy(array + 4 * index, &value, 4);
  else
    memcpy(array + 2 * index, &half, 2);
}

struct test_matrix {
  struct matrix matrix;
  struct guarded data, scales, biases;
};

static inline void test_matrix_free(struct test_matrix *matrix) {
  guarded_free(&matrix->data);
  guarded_free(&matrix->scales);
  guarded_free(&matrix->biases);
}

/* A random matrix; bits 0 means plain. Weights are of size 1 / sqrt(columns) or so. */
static inline struct test_matrix test_matrix_create(uint64_t *state, uint32_t rows, uint32_t columns, uint32_t bits,
                                                    uint32_t group, enum number_type type) {
  struct test_matrix result = {.matrix = {.rows = rows, .columns = columns, .type = type}};
  struct matrix *matrix = &result.matrix;
  float size = 1.0f / sqrtf((float)columns);
  if (bits > 0) {
    matrix->format = MATRIX_AFFINE;
    matrix->bits = bits;
    matrix->group = group;
  }
  result.data = guarded_create(rows * matrix_row_bytes(matrix));
  matrix->data = result.data.bytes;
  if (bits == 0) {
    for (size_t i = 0; i < (size_t)rows * columns; i++)
      store_number(type, result.data.bytes, i, random_float(state) * size);
    return result;
  }
  for (size_t i = 0; i < rows * matrix_row_bytes(matrix); i++) result.data.bytes[i] = (unsigned char)random_bits(state);
  size_t groups = (size_t)rows * columns / group;
  result.scales = guarded_create(groups * number_bytes(type));
  result.biases = guarded_create(groups * number_bytes(type));
  float steps = bits == 4 ? 15.0f : 255.0f;
  for (size_t g = 0; g < groups; g++) {
    float scale = size * (1.0f + 0.5f * random_float(state)) * 2.0f / steps;
    if (random_bits(state) % 4 == 0) scale = -scale;
    store_number(type, result.scales.bytes, g, scale);
    store_number(type, result.biases.bytes, g, -scale * steps / 2.0f + 0.1f * size * random_float(state));
  }
  matrix->scales = result.scales.bytes;
  matrix->biases = result.biases.bytes;
  return result;
}

/* The packed integer at a place of an affine matrix. */
static inline unsigned quant_at(const struct matrix *matrix, size_t row, size_t column) {
  const unsigned char *data = (const unsigned char *)matrix->data + row * matrix_row_bytes(matrix);
  if (matrix->bits == 8) return data[column];
  return column % 2 == 0 ? data[column / 2] & 15u : data[column / 2] >> 4;
}

/* The weight in double precision. */
static inline double weight_at(const struct matrix *matrix, size_t row, size_t column) {
  if (matrix->format == MATRIX_PLAIN) return number_at(matrix->type, matrix->data, row * matrix->columns + column);
  size_t g = row * (matrix->columns / matrix->group) + column / matrix->group;
  return (double)number_at(matrix->type, matrix->scales, g) * quant_at(matrix, row, column) +
         (double)number_at(matrix->type, matrix->biases, g);
}

/* Equal to the bit, except that any NaN equals any other. */
static inline bool same_float(float a, float b) {
  if (a != a || b != b) return a != a && b != b;
  return float_bits(a) == float_bits(b);
}

#define assert_same_floats(a, b, count, ...) assert_same_floats_at(a, b, count, __FILE__, __LINE__, __VA_ARGS__)
__attribute__((format(printf, 6, 7))) static inline void assert_same_floats_at(const float *a, const float *b,
                                                                               size_t count, const char *file, int line,
                                                                               const char *format, ...) {
  for (size_t i = 0; i < count; i++) {
    if (same_float(a[i], b[i])) continue;
    char what[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s:%d: %s: number %zu is %a, expected %a\n", file, line, what, i, (double)a[i], (double)b[i]);
    _fail(file, line);
  }
}

/* An engine with its thread pool. */
struct test_engine {
  struct threads *threads;
  struct backend *backend;
  const struct backend_operations *operations;
};

static inline struct test_engine test_engine_create(const char *isa, size_t threads, size_t max_rows,
                                                    size_t max_columns) {
  struct test_engine engine;
  struct kj_error error = {0};
  assert_int_equal(threads_create(&engine.threads, threads, &error), 0);
  if (backend_cpu_create(&engine.backend, isa, engine.threads, max_rows, max_columns, &error) != 0)
    fail_msg("%s", error.message);
  engine.operations = engine.backend->operations;
  return engine;
}

static inline void test_engine_destroy(struct test_engine *engine) {
  engine->operations->destroy(engine->backend);
  threads_destroy(engine->threads);
}

static inline struct tensor *test_tensor(struct test_engine *engine, size_t rows, size_t columns, const float *values) {
  struct tensor *tensor;
  struct kj_error error = {0};
  if (engine->operations->tensor_create(engine->backend, rows, columns, &tensor, &error) != 0)
    fail_msg("%s", error.message);
  if (values) engine->operations->upload(engine->backend, tensor, 0, rows, values);
  return tensor;
}

static inline float *test_floats(size_t count) {
  float *values = calloc(count > 0 ? count : 1, sizeof *values);
  assert_non_null(values);
  return values;
}

#endif

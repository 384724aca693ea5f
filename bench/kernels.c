/* How fast the kernels are: GB/s of weights (scales and biases included) of a 4-bit matrix × 1 and × 8 activations for
 * every instruction set of this CPU, from memory and from cache, next to the machine's plain read bandwidth.
 *
 *   build/bench/kernels [MEBIBYTES]     the working set in memory, 1024 if not given
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bandwidth.h"
#include "base/clock.h"
#include "base/threads.h"
#include "compute/cpu/dispatch.h"

enum {
  COLUMNS = 6144,
  GROUP = 64,
  BITS = 4,
  ACTIVATIONS_MAX = 8,
  THREADS_MAX = 2,
  TASK_ROWS = 64,
  ROUNDS = 5,
  CACHE_BYTES = 1 << 20 /* in the second level cache of a core */
};

struct product {
  const struct cpu_kernels *kernels;
  struct matrix matrix;
  const void *activations[ACTIVATIONS_MAX];
  float *outs[ACTIVATIONS_MAX];
  size_t count;
  size_t passes; /* over a task's rows, for what lies in cache */
};

static void multiply_rows(void *context, size_t task) {
  const struct product *product = context;
  const size_t first = task * TASK_ROWS;
  const size_t left = product->matrix.rows - first, rows = left < TASK_ROWS ? left : TASK_ROWS;
  float *outs[ACTIVATIONS_MAX];
  for (size_t c = 0; c < product->count; c++) outs[c] = product->outs[c] + first;
  for (size_t pass = 0; pass < product->passes; pass++)
    product->kernels->matmul_affine(&product->matrix, first, rows, product->activations, outs, product->count);
}

/* GB/s, the best of some rounds. */
static double measure(struct product *product, struct threads *threads, size_t rows) {
  product->matrix.rows = (uint32_t)rows;
  const double bytes = (double)matrix_bytes(&product->matrix);
  product->passes = bytes < 64e6 ? (size_t)(256e6 / bytes) : 1;
  /* The reference is slow enough to be measured on less. */
  const bool slow = strcmp(product->kernels->name, "reference") == 0;
  if (slow && product->passes > 1) product->passes = 8;
  double best = 0;
  for (int round = 0; round < (slow ? 1 : ROUNDS); round++) {
    const double start = clock_seconds();
    threads_run(threads, (rows + TASK_ROWS - 1) / TASK_ROWS, multiply_rows, product);
    const double rate = bytes * (double)product->passes / (clock_seconds() - start) * 1e-9;
    if (rate > best) best = rate;
  }
  return best;
}

static void print_table(struct product *product, size_t memory_rows, size_t cache_rows) {
  const struct cpu_kernels *tables[CPU_KERNELS_MAX];
  const size_t table_count = cpu_kernels_available(tables);
  printf("%-10s %8s %12s %14s %14s\n", "kernels", "threads", "activations", "memory GB/s", "cache GB/s");
  for (size_t count = 1; count <= THREADS_MAX; count++) {
    struct threads *threads;
    struct kj_error error;
    if (threads_create(&threads, count, &error) != 0) {
      fprintf(stderr, "%s\n", error.message);
      return;
    }
    product->matrix.rows = (uint32_t)memory_rows;
    printf("%-10s %8zu %12s %14.1f %14.1f\n", "(read)", count, "",
           bandwidth_measure(threads, matrix_bytes(&product->matrix)) * 1e-9,
           bandwidth_measure(threads, CACHE_BYTES * count) * 1e-9);
    for (size_t k = 0; k < table_count; k++) {
      product->kernels = tables[k];
      for (product->count = 1; product->count <= ACTIVATIONS_MAX; product->count *= 8)
        printf("%-10s %8zu %12zu %14.1f %14.1f\n", tables[k]->name, count, product->count,
               measure(product, threads, tables[k] == cpu_kernels_reference() ? memory_rows / 16 : memory_rows),
               measure(product, threads, cache_rows * count));
      fflush(stdout);
    }
    threads_destroy(threads);
  }
}

/* Memory that is filled with `byte`, so that its pages exist. NULL if there is none. */
static void *filled(size_t bytes, int byte) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return memset(memory, byte, bytes);
}

int main(int count, char **arguments) {
  const unsigned long mebibytes = count > 1 ? strtoul(arguments[1], NULL, 10) : 1024;
  if (mebibytes < 1 || mebibytes > 1 << 20) {
    fprintf(stderr, "usage: kernels [MEBIBYTES]\n");
    return 2;
  }
  struct product product = {
      .matrix = {
          .rows = 1, .columns = COLUMNS, .format = MATRIX_AFFINE, .type = NUMBER_BF16, .bits = BITS, .group = GROUP}};
  const size_t row_bytes = matrix_bytes(&product.matrix);
  const size_t rows = (mebibytes << 20) / row_bytes + 1, numbers = rows * (COLUMNS / GROUP);
  product.matrix.data = filled(rows * matrix_row_bytes(&product.matrix), 0x5a);
  product.matrix.scales = filled(numbers * 2, 0x3c);
  product.matrix.biases = filled(numbers * 2, 0x3c);
  if (!product.matrix.data || !product.matrix.scales || !product.matrix.biases) {
    fprintf(stderr, "there is no memory for %lu MiB; ask for less\n", mebibytes);
    return 1;
  }
  const struct activation_layout layout = activation_layout_for(&product.matrix);
  float x[COLUMNS];
  for (size_t i = 0; i < COLUMNS; i++) x[i] = (float)(i % 17) - 8.0f;
  for (size_t c = 0; c < ACTIVATIONS_MAX; c++) {
    void *row = aligned_alloc(CPU_ALIGNMENT, activation_row_bytes(layout));
    product.outs[c] = calloc(rows, sizeof(float));
    if (!row || !product.outs[c]) return 1;
    cpu_kernels_reference()->quantize(row, x, layout);
    product.activations[c] = row;
  }
  print_table(&product, rows, CACHE_BYTES / row_bytes);
  return 0;
}

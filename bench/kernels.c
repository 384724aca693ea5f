/* How fast the kernels are: GB/s of weights (scales and biases included) of a 4-bit matrix × some activations, and
 * multiplications a second, for every instruction set of this CPU, from memory and from cache, next to the machine's
 * plain read bandwidth.
 *
 *   build/bench/kernels [MEBIBYTES [COLUMNS [THREADS]]]     working set in memory (512), columns of the matrix (2048),
 *                                                           1, 2, 4 … THREADS threads (2)
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
  COLUMNS_MAX = 32768,
  GROUP = 64,
  BITS = 4,
  ROUNDS = 5,
  ITEM_ROWS = 64,        /* of a call, as the engine has them */
  CACHE_BYTES = 1 << 20, /* of a thread, in the second level cache of a core */
  THREADS_MAX = 256
};

struct product {
  const struct cpu_kernels *kernels;
  struct matrix matrix;
  const void *activations[COLUMN_BLOCK];
  float *outs[COLUMN_BLOCK];
  unsigned char *scratch; /* [threads][scratch_stride] */
  size_t scratch_stride;
  size_t count;
  size_t rows_each; /* of a thread */
  size_t passes;    /* over them */
};

static void multiply_rows(void *context, size_t thread) {
  const struct product *product = context;
  const size_t begin = thread * product->rows_each;
  for (size_t pass = 0; pass < product->passes; pass++)
    for (size_t first = begin; first < begin + product->rows_each; first += ITEM_ROWS) {
      float *outs[COLUMN_BLOCK];
      for (size_t c = 0; c < product->count; c++) outs[c] = product->outs[c] + first;
      product->kernels->matmul_affine(&product->matrix, first, ITEM_ROWS, product->activations, outs, product->count,
                                      product->scratch + thread * product->scratch_stride);
    }
}

/* Weights a second, the best of some rounds. */
static double measure(struct product *product, struct threads *threads, size_t rows_each) {
  const double weights = (double)rows_each * (double)threads_count(threads) * product->matrix.columns;
  /* The reference is slow enough to be measured on less. */
  const bool slow = strcmp(product->kernels->name, "reference") == 0;
  product->rows_each = slow ? ITEM_ROWS : rows_each / ITEM_ROWS * ITEM_ROWS;
  product->passes = slow || weights > 256e6 ? 1 : (size_t)(512e6 / weights);
  double best = 0;
  for (int round = 0; round < (slow ? 1 : ROUNDS); round++) {
    const double start = clock_seconds();
    threads_run(threads, threads_count(threads), multiply_rows, product);
    const double seconds = clock_seconds() - start;
    const double done = (double)product->rows_each * (double)(product->passes * threads_count(threads));
    if (done * product->matrix.columns / seconds > best) best = done * product->matrix.columns / seconds;
  }
  return best;
}

static int print_threads(struct product *product, size_t rows, size_t count) {
  static const size_t activations[] = {1, 2, 4, 5, 8, 16, COLUMN_BLOCK};
  const double weight_bytes = (double)matrix_bytes(&product->matrix) / product->matrix.rows / product->matrix.columns;
  size_t cache_rows = (size_t)(CACHE_BYTES / weight_bytes / product->matrix.columns) / ITEM_ROWS * ITEM_ROWS;
  if (cache_rows < ITEM_ROWS) cache_rows = ITEM_ROWS;
  if (cache_rows > rows / count) cache_rows = rows / count;
  const struct cpu_kernels *tables[CPU_KERNELS_MAX];
  const size_t table_count = cpu_kernels_available(tables);
  struct threads *threads;
  struct kj_error error;
  if (threads_create(&threads, count, &error) != 0) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  product->scratch_stride = (size_t)kernel_scratch_bytes(product->matrix.columns);
  product->scratch = aligned_alloc(CPU_ALIGNMENT, count * product->scratch_stride);
  if (!product->scratch) {
    fprintf(stderr, "there is no memory for the scratch of %zu threads\n", count);
    threads_destroy(threads);
    return 1;
  }
  printf("%-10s %7zu %11s %11.1f %11.1f\n", "(read)", count, "",
         bandwidth_measure(threads, matrix_bytes(&product->matrix)) * 1e-9,
         bandwidth_measure(threads, CACHE_BYTES * count) * 1e-9);
  for (size_t k = 0; k < table_count; k++) {
    product->kernels = tables[k];
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
      product->count = activations[i];
      const double memory = measure(product, threads, rows / count);
      const double cache = measure(product, threads, cache_rows);
      printf("%-10s %7zu %11zu %11.1f %11.1f %11.1f %11.1f\n", tables[k]->name, count, product->count,
             memory * weight_bytes * 1e-9, cache * weight_bytes * 1e-9, memory * (double)product->count * 1e-9,
             cache * (double)product->count * 1e-9);
      fflush(stdout);
    }
  }
  free(product->scratch);
  threads_destroy(threads);
  return 0;
}

/* Memory whose pages exist and hold pseudo-random bytes; NULL if there is none. */
static void *filled(size_t bytes) {
  uint64_t *memory = mmap(NULL, bytes + sizeof *memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  uint64_t state = 1;
  for (size_t i = 0; i < bytes / sizeof *memory + 1; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
    memory[i] = state ^ state >> 29;
  }
  return memory;
}

/* Scales as checkpoints have them. */
static uint16_t *filled_numbers(size_t count) {
  uint16_t *numbers = filled(count * sizeof *numbers);
  for (size_t i = 0; numbers && i < count; i++) numbers[i] = (uint16_t)(0x3c00 | (numbers[i] & 0x80ff));
  return numbers;
}

int main(int count, char **arguments) {
  const unsigned long mebibytes = count > 1 ? strtoul(arguments[1], NULL, 10) : 512;
  const unsigned long columns = count > 2 ? strtoul(arguments[2], NULL, 10) : 2048;
  const unsigned long threads = count > 3 ? strtoul(arguments[3], NULL, 10) : 2;
  if (mebibytes < 1 || mebibytes > 1 << 20 || columns < GROUP || columns > COLUMNS_MAX || columns % GROUP != 0 ||
      threads < 1 || threads > THREADS_MAX) {
    fprintf(stderr, "usage: kernels [MEBIBYTES [COLUMNS [THREADS]]]\n");
    return 2;
  }
  static float x[COLUMNS_MAX];
  static struct product product;
  product.matrix = (struct matrix){.rows = ITEM_ROWS,
                                   .columns = (uint32_t)columns,
                                   .format = MATRIX_AFFINE,
                                   .type = NUMBER_BF16,
                                   .bits = BITS,
                                   .group = GROUP};
  const size_t tile = ITEM_ROWS * threads,
               rows = (mebibytes << 20) / matrix_bytes(&product.matrix) * ITEM_ROWS / tile * tile;
  product.matrix.rows = (uint32_t)(rows > 0 ? rows : tile);
  product.matrix.data = filled(product.matrix.rows * matrix_row_bytes(&product.matrix));
  product.matrix.scales = filled_numbers(product.matrix.rows * (columns / GROUP));
  product.matrix.biases = filled_numbers(product.matrix.rows * (columns / GROUP));
  if (!product.matrix.data || !product.matrix.scales || !product.matrix.biases) {
    fprintf(stderr, "there is no memory for %lu MiB; ask for less\n", mebibytes);
    return 1;
  }
  const struct activation_layout layout = activation_layout_for(&product.matrix);
  for (size_t c = 0; c < COLUMN_BLOCK; c++) {
    void *row = aligned_alloc(CPU_ALIGNMENT, activation_row_bytes(layout));
    product.outs[c] = calloc(product.matrix.rows, sizeof(float));
    if (!row || !product.outs[c]) {
      fprintf(stderr, "there is no memory for the activations\n");
      return 1;
    }
    for (size_t i = 0; i < columns; i++) x[i] = (float)((i * 31 + c * 7) % 17) - 8.0f;
    cpu_kernels_reference()->quantize(row, x, layout);
    product.activations[c] = row;
  }
  printf("%-10s %7s %11s %11s %11s %11s %11s\n", "", "", "", "GB/s", "", "GMAC/s", "");
  printf("%-10s %7s %11s %11s %11s %11s %11s\n", "kernels", "threads", "activations", "memory", "cache", "memory",
         "cache");
  for (size_t t = 1; t <= threads; t *= 2)
    if (print_threads(&product, product.matrix.rows, t) != 0) return 1;
  return 0;
}

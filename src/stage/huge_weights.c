#include "stage/huge_weights.h"

#include <stdlib.h>

#include "base/huge_pages.h"

/* Where the matrices lie: an array of *used ranges, or NULL without memory. */
static struct memory_range *ranges_of(const struct matrix *const *matrices, size_t count, size_t *used,
                                      struct kj_error *error) {
  struct memory_range *ranges = calloc(3 * count + 1, sizeof *ranges);
  *used = 0;
  if (!ranges) kj_fail_memory(error, "the list of weights");
  if (!ranges) return NULL;
  for (size_t i = 0; i < count; i++) {
    const struct matrix *matrix = matrices[i];
    const size_t data = matrix->rows * matrix_row_bytes(matrix), scales = (matrix_bytes(matrix) - data) / 2;
    ranges[(*used)++] = (struct memory_range){matrix->data, data};
    if (matrix->format != MATRIX_AFFINE) continue;
    ranges[(*used)++] = (struct memory_range){matrix->scales, scales};
    ranges[(*used)++] = (struct memory_range){matrix->biases, scales};
  }
  return ranges;
}

int weights_to_huge_pages(const struct matrix *const *matrices, size_t count, struct threads *threads,
                          struct kj_error *error) {
  size_t used;
  struct memory_range *ranges = ranges_of(matrices, count, &used, error);
  if (!ranges) return KJ_MEMORY;
  int code = huge_pages_move(ranges, used, threads, error);
  free(ranges);
  return code;
}

static int map_again(void *context, void *begin, size_t bytes, struct kj_error *error) {
  return checkpoint_map_again(context, begin, bytes, error);
}

int weights_to_page_cache(const struct matrix *const *matrices, size_t count, struct checkpoint *checkpoint,
                          struct kj_error *error) {
  size_t used;
  struct memory_range *ranges = ranges_of(matrices, count, &used, error);
  if (!ranges) return KJ_MEMORY;
  int code = huge_pages_give_back(ranges, used, map_again, checkpoint, error);
  free(ranges);
  return code;
}

#include "stage/huge_weights.h"

#include <stdlib.h>

#include "base/huge_pages.h"

int weights_to_huge_pages(const struct matrix *const *matrices, size_t count, struct threads *threads,
                          struct kj_error *error) {
  struct memory_range *ranges = calloc(3 * count + 1, sizeof *ranges);
  if (!ranges) return kj_fail_memory(error, "the list of weights");
  size_t used = 0;
  for (size_t i = 0; i < count; i++) {
    const struct matrix *matrix = matrices[i];
    const size_t data = matrix->rows * matrix_row_bytes(matrix), scales = (matrix_bytes(matrix) - data) / 2;
    ranges[used++] = (struct memory_range){matrix->data, data};
    if (matrix->format != MATRIX_AFFINE) continue;
    ranges[used++] = (struct memory_range){matrix->scales, scales};
    ranges[used++] = (struct memory_range){matrix->biases, scales};
  }
  int code = huge_pages_move(ranges, used, threads, error);
  free(ranges);
  return code;
}

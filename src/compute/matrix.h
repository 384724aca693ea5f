/* A weight matrix as it lies in the checkpoint: [rows, columns], one row per output feature, never copied.
 *
 * Plain formats hold rows × columns numbers. The affine format is MLX's: along a row, groups of `group` columns share
 * one scale and one bias, and weight = scale · q + bias with q an unsigned integer of `bits` bits. Integers are packed
 * lowest first into little-endian 32-bit words, so that at 4 bits byte i of a row holds column 2i in its low and
 * column 2i + 1 in its high half, and at 8 bits byte i holds column i. `scales` and `biases` are [rows, columns /
 * group]. No pointer may be assumed to be aligned. The memory belongs to the checkpoint's mapping.
 */
#ifndef KAIJU_COMPUTE_MATRIX_H
#define KAIJU_COMPUTE_MATRIX_H

#include <stddef.h>
#include <stdint.h>

enum number_type { NUMBER_F32, NUMBER_F16, NUMBER_BF16 };

enum matrix_format { MATRIX_PLAIN, MATRIX_AFFINE };

struct matrix {
  uint32_t rows, columns;
  enum matrix_format format;
  enum number_type type; /* of `data` when plain, of `scales` and `biases` when affine */
  uint32_t bits;         /* affine: 4 or 8 */
  uint32_t group;        /* affine: 32, 64 or 128; divides columns */
  const void *data;
  const void *scales;
  const void *biases;
};

/* Bytes of one row of `data`. */
static inline size_t matrix_row_bytes(const struct matrix *matrix) {
  if (matrix->format == MATRIX_AFFINE) return (size_t)matrix->columns * matrix->bits / 8;
  return (size_t)matrix->columns * (matrix->type == NUMBER_F32 ? 4 : 2);
}

/* Bytes of all of it, scales and biases included. */
static inline size_t matrix_bytes(const struct matrix *matrix) {
  size_t bytes = (size_t)matrix->rows * matrix_row_bytes(matrix);
  if (matrix->format == MATRIX_AFFINE)
    bytes += (size_t)matrix->rows * (matrix->columns / matrix->group) * (matrix->type == NUMBER_F32 ? 8 : 4);
  return bytes;
}

#endif

/* Part of lanes.h: weights × activations, row after row. The many activations of a prompt go through lanes_panel.h. */
#ifndef KAIJU_COMPUTE_CPU_LANES_MATMUL_H
#define KAIJU_COMPUTE_CPU_LANES_MATMUL_H

enum {
  SCALES_AHEAD = 256,
  ROWS_AT_ONCE = 16, /* whose lanes are added up together */
  ROWS_COLUMNS = 4   /* activations that share an unpacked weight */
};

/* What all rows of a product share. */
struct affine {
  const struct matrix *matrix;
  size_t row_bytes, groups, number_bytes;
  size_t super_groups; /* of SUPER_COLUMNS columns */
  size_t whole_supers;
  size_t scales_offset, sums_offset;
  spreading spreading;
};

LANES_SPECIALISE struct affine affine_of(const struct matrix *matrix) {
  struct activation_layout layout = activation_layout_for(matrix);
  return (struct affine){.matrix = matrix,
                         .row_bytes = matrix_row_bytes(matrix),
                         .groups = matrix->columns / matrix->group,
                         .number_bytes = number_bytes(matrix->type),
                         .super_groups = SUPER_COLUMNS / matrix->group,
                         .whole_supers = matrix->columns / SUPER_COLUMNS,
                         .scales_offset = activation_scales_offset(layout),
                         .sums_offset = activation_sums_offset(layout),
                         .spreading = spreading_of(SUPER_COLUMNS / matrix->group)};
}

static inline const unsigned char *row_scales(const struct affine *affine, size_t row) {
  return (const unsigned char *)affine->matrix->scales + row * affine->groups * affine->number_bytes;
}
static inline const unsigned char *row_biases(const struct affine *affine, size_t row) {
  return (const unsigned char *)affine->matrix->biases + row * affine->groups * affine->number_bytes;
}

/* The tree of sixteen products side by side: lanes[l] has lane l of all of them, and is used up. */
LANES_SPECIALISE floats add_lanes(floats *lanes) {
#pragma GCC unroll 4
  for (size_t half = CPU_LANES / 2; half > 0; half /= 2)
#pragma GCC unroll 8
    for (size_t lane = 0; lane < half; lane++) lanes[lane] = add(lanes[lane], lanes[lane + half]);
  return add(lanes[0], zero());
}

#ifndef TREES
/* Number i = the tree of rows[i]; rows is used up. */
LANES_SPECIALISE floats trees(floats *rows) {
  transpose(rows);
  return add_lanes(rows);
}
#endif

/* Adds a super-block with `count` activations to the lanes. */
LANES_SPECIALISE void affine_super(floats *lanes, const unsigned char *data, size_t bytes, floats weight_scale,
                                   const unsigned char *const *activations, const struct affine *affine, size_t super,
                                   uint32_t bits, size_t count) {
  const int8_t *quants[ROWS_COLUMNS];
  integers sums[ROWS_COLUMNS];
#pragma GCC unroll 8
  for (size_t c = 0; c < count; c++) quants[c] = (const int8_t *)activations[c] + super * SUPER_COLUMNS;
  super_integers(sums, data, bytes, quants, bits, count);
#pragma GCC unroll 8
  for (size_t c = 0; c < count; c++) {
    const float *scales = (const float *)(const void *)(activations[c] + affine->scales_offset) + super * CPU_LANES;
    lanes[c] = fused(to_floats(sums[c]), multiply(weight_scale, load(scales)), lanes[c]);
  }
}

/* The lanes of one row with `count` activations. */
LANES_SPECIALISE void affine_row(floats *lanes, const struct affine *affine, size_t row,
                                 const unsigned char *const *activations, uint32_t bits, enum number_type type,
                                 size_t count) {
  const unsigned char *data = (const unsigned char *)affine->matrix->data + row * affine->row_bytes;
  const unsigned char *scales = row_scales(affine, row), *biases = row_biases(affine, row);
  const size_t number_bytes = affine->number_bytes;
  for (size_t at = 0; at < affine->groups * number_bytes; at += BLOCK_BYTES) {
    __builtin_prefetch(scales + at + SCALES_AHEAD);
    __builtin_prefetch(biases + at + SCALES_AHEAD);
  }
#pragma GCC unroll 8
  for (size_t c = 0; c < count; c++) lanes[c] = zero();
  const size_t super_bytes = SUPER_COLUMNS * bits / 8;
  size_t super = 0;
  for (; super < affine->whole_supers; super++) {
    floats scale = load_spread(type, scales + super * affine->super_groups * number_bytes, affine->super_groups,
                               affine->spreading);
    affine_super(lanes, data + super * super_bytes, super_bytes, scale, activations, affine, super, bits, count);
  }
  const size_t done = super * affine->super_groups;
  if (done < affine->groups) {
    floats scale = load_spread(type, scales + done * number_bytes, affine->groups - done, affine->spreading);
    affine_super(lanes, data + super * super_bytes, affine->row_bytes - super * super_bytes, scale, activations, affine,
                 super, bits, count);
  }
  for (size_t g = 0; g < affine->groups; g += CPU_LANES) {
    const unsigned char *at = biases + g * number_bytes;
    floats bias =
        g + CPU_LANES <= affine->groups ? load_number(type, at) : load_number_first(type, at, affine->groups - g);
#pragma GCC unroll 8
    for (size_t c = 0; c < count; c++) {
      const float *sums = (const float *)(const void *)(activations[c] + affine->sums_offset);
      lanes[c] = fused(bias, load(sums + g), lanes[c]);
    }
  }
}

/* At most ROWS_AT_ONCE rows with `count` activations, a constant of at most ROWS_COLUMNS. */
LANES_SPECIALISE void affine_rows(const struct affine *affine, size_t first_row, size_t rows,
                                  const void *const *activations, float *const *outs, size_t out_index, uint32_t bits,
                                  enum number_type type, size_t count) {
  const unsigned char *bytes[ROWS_COLUMNS];
  floats results[ROWS_COLUMNS][ROWS_AT_ONCE];
  for (size_t c = 0; c < count; c++) bytes[c] = activations[c];
  for (size_t row = 0; row < rows; row++) {
    floats lanes[ROWS_COLUMNS];
    affine_row(lanes, affine, first_row + row, bytes, bits, type, count);
#pragma GCC unroll 8
    for (size_t c = 0; c < count; c++) results[c][row] = lanes[c];
  }
  for (size_t c = 0; c < count; c++) {
    for (size_t row = rows; row < ROWS_AT_ONCE; row++) results[c][row] = zero();
    floats sums = trees(results[c]);
    if (rows == ROWS_AT_ONCE)
      store(outs[c] + out_index, sums);
    else
      store_first(outs[c] + out_index, sums, rows);
  }
}

/* Each its own function, so that each gets registers of its own. */
#define AFFINE_ROWS(bits, count)                                                                                    \
  static __attribute__((noinline)) void affine_rows_##bits##_##count(const struct affine *affine, size_t first_row, \
                                                                     size_t rows, const void *const *activations,   \
                                                                     float *const *outs, size_t out_index) {        \
    if (affine->matrix->type == NUMBER_BF16)                                                                        \
      affine_rows(affine, first_row, rows, activations, outs, out_index, bits, NUMBER_BF16, count);                 \
    else if (affine->matrix->type == NUMBER_F16)                                                                    \
      affine_rows(affine, first_row, rows, activations, outs, out_index, bits, NUMBER_F16, count);                  \
    else                                                                                                            \
      affine_rows(affine, first_row, rows, activations, outs, out_index, bits, NUMBER_F32, count);                  \
  }
AFFINE_ROWS(4, 1)
AFFINE_ROWS(4, 2)
AFFINE_ROWS(4, 3)
AFFINE_ROWS(4, 4)
AFFINE_ROWS(8, 1)
AFFINE_ROWS(8, 2)
AFFINE_ROWS(8, 3)
AFFINE_ROWS(8, 4)
#undef AFFINE_ROWS

typedef void affine_rows_function(const struct affine *, size_t, size_t, const void *const *, float *const *, size_t);

static void matmul_affine_rows(const struct matrix *matrix, size_t first_row, size_t rows,
                               const void *const *activations, float *const *outs, size_t count) {
  static affine_rows_function *const functions[2][ROWS_COLUMNS] = {
      {affine_rows_4_1, affine_rows_4_2, affine_rows_4_3, affine_rows_4_4},
      {affine_rows_8_1, affine_rows_8_2, affine_rows_8_3, affine_rows_8_4}};
  const struct affine affine = affine_of(matrix);
  for (size_t i = 0; i < rows; i += ROWS_AT_ONCE) {
    const size_t n = rows - i < ROWS_AT_ONCE ? rows - i : ROWS_AT_ONCE;
    for (size_t c = 0; c < count; c += ROWS_COLUMNS) {
      const size_t width = count - c < ROWS_COLUMNS ? count - c : ROWS_COLUMNS;
      functions[matrix->bits == 8][width - 1](&affine, first_row + i, n, activations + c, outs + c, i);
    }
  }
}

/* `count` activations, a constant of at most COLUMNS_AT_ONCE, with one plain row. */
LANES_SPECIALISE void plain_tile(const unsigned char *row, enum number_type type, size_t columns,
                                 const float *const *activations, float *const *outs, size_t out_index, size_t count) {
  const size_t bytes = number_bytes(type);
  floats lanes[COLUMNS_AT_ONCE];
#pragma GCC unroll 8
  for (size_t c = 0; c < count; c++) lanes[c] = zero();
  size_t i = 0;
  for (; i + CPU_LANES <= columns; i += CPU_LANES) {
    __builtin_prefetch(row + i * bytes + PREFETCH_AHEAD);
    floats weights = load_number(type, row + i * bytes);
#pragma GCC unroll 8
    for (size_t c = 0; c < count; c++) lanes[c] = fused(weights, load(activations[c] + i), lanes[c]);
  }
  if (i < columns) {
    floats weights = load_number_first(type, row + i * bytes, columns - i);
    for (size_t c = 0; c < count; c++)
      lanes[c] = fused(weights, load_first(activations[c] + i, columns - i, 0.0f), lanes[c]);
  }
  for (size_t c = 0; c < count; c++) outs[c][out_index] = tree(lanes[c]);
}

LANES_SPECIALISE void plain_of_type(const struct matrix *matrix, size_t first_row, size_t rows,
                                    const float *const *activations, float *const *outs, size_t count,
                                    enum number_type type) {
  const size_t row_bytes = matrix_row_bytes(matrix);
  for (size_t i = 0; i < rows; i++) {
    const unsigned char *row = (const unsigned char *)matrix->data + (first_row + i) * row_bytes;
    size_t c = 0;
    for (; c + COLUMNS_AT_ONCE <= count; c += COLUMNS_AT_ONCE)
      plain_tile(row, type, matrix->columns, activations + c, outs + c, i, COLUMNS_AT_ONCE);
    for (; c + 2 <= count; c += 2) plain_tile(row, type, matrix->columns, activations + c, outs + c, i, 2);
    if (c < count) plain_tile(row, type, matrix->columns, activations + c, outs + c, i, 1);
  }
}

static void matmul_plain(const struct matrix *matrix, size_t first_row, size_t rows, const float *const *activations,
                         float *const *outs, size_t count) {
  if (matrix->type == NUMBER_F32)
    plain_of_type(matrix, first_row, rows, activations, outs, count, NUMBER_F32);
  else if (matrix->type == NUMBER_F16)
    plain_of_type(matrix, first_row, rows, activations, outs, count, NUMBER_F16);
  else
    plain_of_type(matrix, first_row, rows, activations, outs, count, NUMBER_BF16);
}

#endif

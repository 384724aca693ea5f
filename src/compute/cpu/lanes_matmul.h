/* Part of lanes.h: weights × activations. */
#ifndef KAIJU_COMPUTE_CPU_LANES_MATMUL_H
#define KAIJU_COMPUTE_CPU_LANES_MATMUL_H

enum {
  BLOCK_BYTES = 64,
  /* Bytes between a weight and its prefetch. One row after the other with 1 to 2 KiB of lead is what comes closest to
   * the memory's bandwidth; several rows side by side are slower. */
  PREFETCH_AHEAD = 2048,
  SCALES_AHEAD = 512,
  /* With several activations their part that meets a segment of blocks stays in the first level cache while
   * ROWS_AT_ONCE rows of weights go by. */
  SEGMENT_BLOCKS = 16,
  SEGMENT_BLOCKS_ALONE = 64,
  SEGMENT_SCALES_MAX = SEGMENT_BLOCKS_ALONE * 4,
  ROWS_AT_ONCE = 16
};

/* What all rows of a product share. */
struct affine {
  const struct matrix *matrix;
  size_t row_bytes, groups, number_bytes;
  size_t whole_blocks, last_bytes; /* a row is whole_blocks · 64 + last_bytes long */
  size_t half_groups;              /* weight groups in a block, times 2 */
  size_t scales_offset, sums_offset;
  spreading spreading;
};

static struct affine affine_of(const struct matrix *matrix) {
  struct activation_layout layout = activation_layout_for(matrix);
  size_t row_bytes = matrix_row_bytes(matrix);
  size_t half_groups = (matrix->bits == 4 ? 256 : 128) / matrix->group;
  return (struct affine){.matrix = matrix,
                         .row_bytes = row_bytes,
                         .groups = matrix->columns / matrix->group,
                         .number_bytes = number_bytes(matrix->type),
                         .whole_blocks = row_bytes / BLOCK_BYTES,
                         .last_bytes = row_bytes % BLOCK_BYTES,
                         .half_groups = half_groups,
                         .scales_offset = activation_scales_offset(layout),
                         .sums_offset = activation_sums_offset(layout),
                         .spreading = spreading_of(half_groups < 2 ? 1 : half_groups / 2)};
}

/* Converts `count` numbers; what is left of the last sixteen becomes zero. */
static inline void load_numbers(float *out, enum number_type type, const unsigned char *x, size_t count) {
  const size_t bytes = number_bytes(type);
  __builtin_prefetch(x + SCALES_AHEAD);
  size_t i = 0;
  for (; i + CPU_LANES <= count; i += CPU_LANES) store(out + i, load_number(type, x + i * bytes));
  if (i < count) store(out + i, load_number_first(type, x + i * bytes, count - i));
}

/* One block of one row with `count` activations. */
LANES_SPECIALISE void affine_block(floats *lanes, packed block, floats weight_scale,
                                   const unsigned char *const *activations, const struct affine *affine,
                                   size_t position, uint32_t bits, size_t count) {
  struct weights weights = unpack(block, bits);
  const size_t quants_at = position * (bits == 4 ? 128 : 64);
  const size_t scales_at = affine->scales_offset + position * CPU_LANES * sizeof(float);
#pragma GCC unroll 8
  for (size_t c = 0; c < count; c++) {
    floats scale = multiply(weight_scale, load((const float *)(const void *)(activations[c] + scales_at)));
    lanes[c] = fused(products(weights, (const int8_t *)activations[c] + quants_at, bits), scale, lanes[c]);
  }
}

/* Blocks first … last - 1 of a row. Block `whole_blocks`, if it exists, is the one that is cut short. */
LANES_SPECIALISE void affine_segment(floats *results, const struct affine *affine, size_t row, size_t first,
                                     size_t last, const unsigned char *const *activations, uint32_t bits,
                                     size_t count) {
  const struct matrix *matrix = affine->matrix;
  const unsigned char *data = (const unsigned char *)matrix->data + row * affine->row_bytes;
  const size_t first_group = first * affine->half_groups / 2;
  size_t groups = (last * affine->half_groups + 1) / 2;
  if (groups > affine->groups) groups = affine->groups;
  float scales[SEGMENT_SCALES_MAX];
  load_numbers(scales, matrix->type,
               (const unsigned char *)matrix->scales + (row * affine->groups + first_group) * affine->number_bytes,
               groups - first_group);
  floats lanes[COLUMNS_AT_ONCE];
#pragma GCC unroll 8
  for (size_t c = 0; c < count; c++) lanes[c] = results[c];
  const size_t whole = last < affine->whole_blocks ? last : affine->whole_blocks;
  /* Two blocks at a time, as at 8 bits a group of 128 covers two; `first` is even. */
  const float *scale = scales;
  const size_t second = affine->half_groups / 2;
  size_t block = first;
  for (; block + 2 <= whole; block += 2, scale += affine->half_groups) {
    const unsigned char *bytes = data + block * BLOCK_BYTES;
    __builtin_prefetch(bytes + PREFETCH_AHEAD);
    affine_block(lanes, load_packed(bytes), spread(scale, affine->spreading), activations, affine, block, bits, count);
    __builtin_prefetch(bytes + BLOCK_BYTES + PREFETCH_AHEAD);
    affine_block(lanes, load_packed(bytes + BLOCK_BYTES), spread(scale + second, affine->spreading), activations,
                 affine, block + 1, bits, count);
  }
  if (block < whole) {
    affine_block(lanes, load_packed(data + block * BLOCK_BYTES), spread(scale, affine->spreading), activations, affine,
                 block, bits, count);
    scale += second;
  }
  if (last > affine->whole_blocks) {
    affine_block(lanes, load_packed_first(data + whole * BLOCK_BYTES, affine->last_bytes),
                 spread(scale, affine->spreading), activations, affine, whole, bits, count);
  }
#pragma GCC unroll 8
  for (size_t c = 0; c < count; c++) results[c] = lanes[c];
}

/* Adds the biases' part to the results of a row and stores them. */
LANES_SPECIALISE void affine_finish(const floats *results, const struct affine *affine, size_t row,
                                    const unsigned char *const *activations, float *const *outs, size_t out_index,
                                    size_t count) {
  const struct matrix *matrix = affine->matrix;
  const unsigned char *biases = (const unsigned char *)matrix->biases + row * affine->groups * affine->number_bytes;
  floats lanes[COLUMNS_AT_ONCE];
#pragma GCC unroll 8
  for (size_t c = 0; c < count; c++) lanes[c] = zero();
  for (size_t g = 0; g < affine->groups; g += CPU_LANES) {
    const unsigned char *at = biases + g * affine->number_bytes;
    __builtin_prefetch(at + SCALES_AHEAD);
    floats bias = g + CPU_LANES <= affine->groups ? load_number(matrix->type, at)
                                                  : load_number_first(matrix->type, at, affine->groups - g);
#pragma GCC unroll 8
    for (size_t c = 0; c < count; c++) {
      const float *sums = (const float *)(const void *)(activations[c] + affine->sums_offset);
      lanes[c] = fused(bias, load(sums + g), lanes[c]);
    }
  }
  for (size_t c = 0; c < count; c++) outs[c][out_index] = tree(results[c]) + tree(lanes[c]);
}

/* Segment after segment of `rows` rows: `count` activations, a constant of at most COLUMNS_AT_ONCE. */
LANES_SPECIALISE void affine_rows(const struct affine *affine, size_t first_row, size_t rows,
                                  const unsigned char *const *activations, float *const *outs, size_t out_index,
                                  uint32_t bits, size_t count) {
  const size_t segment = count == 1 ? SEGMENT_BLOCKS_ALONE : SEGMENT_BLOCKS;
  const size_t blocks = affine->whole_blocks + (affine->last_bytes ? 1 : 0);
  floats results[ROWS_AT_ONCE * COLUMNS_AT_ONCE];
  for (size_t i = 0; i < rows * count; i++) results[i] = zero();
  for (size_t first = 0; first < blocks; first += segment) {
    const size_t last = blocks - first > segment ? first + segment : blocks;
    for (size_t row = 0; row < rows; row++)
      affine_segment(results + row * count, affine, first_row + row, first, last, activations, bits, count);
  }
  for (size_t row = 0; row < rows; row++)
    affine_finish(results + row * count, affine, first_row + row, activations, outs, out_index + row, count);
}

/* At most ROWS_AT_ONCE rows. */
LANES_SPECIALISE void affine_tile(const struct affine *affine, size_t first_row, size_t rows,
                                  const void *const *activations, float *const *outs, size_t out_index, uint32_t bits,
                                  size_t count) {
  const unsigned char *bytes[COLUMNS_AT_ONCE];
  for (size_t c = 0; c < count; c++) bytes[c] = activations[c];
  if (count == 1)
    for (size_t row = 0; row < rows; row++)
      affine_rows(affine, first_row + row, 1, bytes, outs, out_index + row, bits, 1);
  else
    affine_rows(affine, first_row, rows, bytes, outs, out_index, bits, count);
}

/* Each its own function, so that each gets registers of its own. */
#define AFFINE_TILE(bits, count)                                                                                    \
  static __attribute__((noinline)) void affine_tile_##bits##_##count(const struct affine *affine, size_t first_row, \
                                                                     size_t rows, const void *const *activations,   \
                                                                     float *const *outs, size_t out_index) {        \
    affine_tile(affine, first_row, rows, activations, outs, out_index, bits, count);                                \
  }
AFFINE_TILE(4, 1)
AFFINE_TILE(4, 2)
AFFINE_TILE(4, 4)
AFFINE_TILE(8, 1)
AFFINE_TILE(8, 2)
AFFINE_TILE(8, 4)
#if COLUMNS_AT_ONCE == 8
AFFINE_TILE(4, 8)
AFFINE_TILE(8, 8)
#endif
#undef AFFINE_TILE

typedef void affine_tile_function(const struct affine *, size_t, size_t, const void *const *, float *const *, size_t);

static void matmul_affine(const struct matrix *matrix, size_t first_row, size_t rows, const void *const *activations,
                          float *const *outs, size_t count) {
  static const struct {
    size_t count;
    affine_tile_function *of_bits[2];
  } tiles[] = {
#if COLUMNS_AT_ONCE == 8
    {8, {affine_tile_4_8, affine_tile_8_8}},
#endif
    {4, {affine_tile_4_4, affine_tile_8_4}},
    {2, {affine_tile_4_2, affine_tile_8_2}},
    {1, {affine_tile_4_1, affine_tile_8_1}},
  };
  const struct affine affine = affine_of(matrix);
  for (size_t i = 0; i < rows; i += ROWS_AT_ONCE) {
    const size_t n = rows - i < ROWS_AT_ONCE ? rows - i : ROWS_AT_ONCE;
    size_t c = 0;
    for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++)
      for (; c + tiles[t].count <= count; c += tiles[t].count)
        tiles[t].of_bits[matrix->bits == 8](&affine, first_row + i, n, activations + c, outs + c, i);
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

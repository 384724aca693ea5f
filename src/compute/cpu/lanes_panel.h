/* Part of lanes.h: weights × many activations.
 *
 * A panel is PANEL_VECTORS · 16 rows of weights, unpacked to bytes and turned so that the rows lie side by side: a
 * register holds 4 columns of 16 rows, and meets 4 columns of one activation that are broadcast. It is built once for
 * all activations. So the sum of an activation group needs no adding within registers, and a float step is taken once
 * per 32 columns for 16 rows. The specification's sixteen lanes of a product lie in the scratch memory, `accumulators`:
 * every lane is a register with its numbers of 16 rows.
 */
#ifndef KAIJU_COMPUTE_CPU_LANES_PANEL_H
#define KAIJU_COMPUTE_CPU_LANES_PANEL_H

enum {
  PANEL_ROWS = PANEL_VECTORS * CPU_LANES,
  GROUP_UNITS = ACTIVATION_GROUP / 4, /* registers of 4 columns */
  UNIT_BYTES = 4 * CPU_LANES
};

_Static_assert((int)PANEL_ROWS <= (int)PANEL_ROWS_MAX && PANEL_COLUMNS <= PANEL_COLUMNS_MAX,
               "scratch memory is for no more");

/* The weights of one activation group, and the scales or biases of one weight group. */
typedef unsigned char panel_units[GROUP_UNITS][PANEL_VECTORS][UNIT_BYTES];
typedef floats panel_numbers[PANEL_VECTORS];

struct panel {
  panel_units *units;    /* [activation groups] */
  panel_numbers *scales; /* [weight groups, a multiple of 16] */
  panel_numbers *biases; /* the same */
  floats *accumulators;  /* [lane][activation of a tile][vector] */
};

/* Shares `scratch`, kernel_scratch_bytes(columns) at least, out. */
static struct panel panel_in(void *scratch, const struct affine *affine) {
  const size_t groups = (affine->groups + CPU_LANES - 1) / CPU_LANES * CPU_LANES;
  struct panel panel = {.accumulators = scratch};
  panel.scales = (panel_numbers *)(panel.accumulators + CPU_LANES * PANEL_COLUMNS * PANEL_VECTORS);
  panel.biases = panel.scales + groups;
  panel.units = (panel_units *)(panel.biases + groups);
  return panel;
}

/* What is to be prefetched while the panel is multiplied: the rows after it. */
struct prefetch {
  const unsigned char *next, *end;
  size_t step; /* lines an activation group */
};

/* Turns the scales or biases of sixteen rows: out[g][vector] = the numbers of weight group g. */
LANES_SPECIALISE void turn_numbers(panel_numbers *out, size_t vector, const unsigned char *const *numbers,
                                   const struct affine *affine, enum number_type type) {
  for (size_t g = 0; g < affine->groups; g += CPU_LANES) {
    floats turned[CPU_LANES];
    for (size_t i = 0; i < CPU_LANES; i++) {
      const unsigned char *at = numbers[i] + g * affine->number_bytes;
      turned[i] =
          g + CPU_LANES <= affine->groups ? load_number(type, at) : load_number_first(type, at, affine->groups - g);
    }
    transpose(turned);
#pragma GCC unroll 16
    for (size_t i = 0; i < CPU_LANES; i++) out[g + i][vector] = turned[i];
  }
}

#ifndef PANEL_PRODUCTS
/* Unpacks one block of at most 64 bytes of sixteen rows. */
LANES_SPECIALISE void unpack_block(panel_units *units, size_t vector, const unsigned char *const *rows, size_t at,
                                   size_t bytes, uint32_t bits) {
  union {
    packed words[CPU_LANES];
    floats numbers[CPU_LANES];
  } block;
#pragma GCC unroll 16
  for (size_t i = 0; i < CPU_LANES; i++)
    block.words[i] = bytes == BLOCK_BYTES ? load_packed(rows[i] + at) : load_packed_first(rows[i] + at, bytes);
  transpose(block.numbers);
  const size_t words = bytes / 4;
#pragma GCC unroll 16
  for (size_t i = 0; i < CPU_LANES; i++) {
    if (i >= words) break;
    if (bits == 4) {
      struct weights weights = unpack(block.words[i], 4);
      store_packed(units[i / 4][i % 4][vector], weights.low);
      store_packed(units[i / 4][4 + i % 4][vector], weights.high);
    } else {
      store_packed(units[i / 8][i % 8][vector], block.words[i]);
    }
  }
}

/* The sums of an activation group: its units × the 32 quants of each activation, sixteen at `at` and sixteen `second`
 * bytes after them. */
LANES_SPECIALISE void panel_products(struct panel_sums *sums, panel_units *units,
                                     const unsigned char *const *activations, size_t at, size_t second, uint32_t bits,
                                     size_t count) {
#pragma GCC unroll 16
  for (size_t i = 0; i < count * PANEL_VECTORS; i++) sums[i] = no_panel_sums();
#pragma GCC unroll 8
  for (size_t u = 0; u < GROUP_UNITS; u++) {
    packed weights[PANEL_VECTORS];
#pragma GCC unroll 2
    for (size_t v = 0; v < PANEL_VECTORS; v++) weights[v] = load_packed((*units)[u][v]);
#pragma GCC unroll 8
    for (size_t c = 0; c < count; c++) {
      const unsigned char *four = activations[c] + at + u / 4 * second + u % 4 * 4;
#pragma GCC unroll 2
      for (size_t v = 0; v < PANEL_VECTORS; v++)
        add_panel_products(&sums[c * PANEL_VECTORS + v], weights[v], four, bits);
    }
  }
}
#endif

/* Rows first_row … ; those beyond the `rows` ones repeat the last and are not stored in the end. */
LANES_SPECIALISE void fill_panel(const struct panel *panel, const struct affine *affine, size_t first_row, size_t rows,
                                 uint32_t bits, enum number_type type) {
  const size_t block_groups = BLOCK_BYTES * 8 / bits / ACTIVATION_GROUP, row_bytes = affine->row_bytes;
  for (size_t vector = 0; vector < PANEL_VECTORS; vector++) {
    const unsigned char *data[CPU_LANES], *scales[CPU_LANES], *biases[CPU_LANES];
    for (size_t i = 0; i < CPU_LANES; i++) {
      const size_t wanted = vector * CPU_LANES + i, row = first_row + (wanted < rows ? wanted : rows - 1);
      data[i] = (const unsigned char *)affine->matrix->data + row * row_bytes;
      scales[i] = row_scales(affine, row);
      biases[i] = row_biases(affine, row);
    }
    size_t at = 0;
    panel_units *units = panel->units;
    for (; at + BLOCK_BYTES <= row_bytes; at += BLOCK_BYTES, units += block_groups)
      unpack_block(units, vector, data, at, BLOCK_BYTES, bits);
    if (at < row_bytes) unpack_block(units, vector, data, at, row_bytes - at, bits);
    turn_numbers(panel->scales, vector, scales, affine, type);
    turn_numbers(panel->biases, vector, biases, affine, type);
  }
}

/* What a panel's products with a tile of activations share. */
struct tile {
  const struct panel *panel;
  const struct affine *affine;
  const unsigned char *const *activations;
  float *const *outs;
  size_t out_index, rows; /* of the results; at most PANEL_ROWS */
};

/* The accumulators of `count` activations, a constant of at most PANEL_COLUMNS: the panel's weights × theirs. */
LANES_SPECIALISE void multiply_tile(const struct tile *tile, struct prefetch *prefetch, uint32_t bits, size_t count) {
  static const floats zeros[PANEL_COLUMNS * PANEL_VECTORS];
  const struct panel *panel = tile->panel;
  const unsigned char *const *activations = tile->activations;
  const size_t groups = tile->affine->matrix->columns / ACTIVATION_GROUP;
  const size_t weight_group = tile->affine->matrix->group / ACTIVATION_GROUP;
  for (size_t a = 0; a < groups; a++) {
    struct panel_sums sums[PANEL_COLUMNS * PANEL_VECTORS];
    const size_t quants = bits == 4 ? a / 4 * 128 + a % 4 * 16 : a * ACTIVATION_GROUP;
    const size_t second = bits == 4 ? 64 : 16; /* from the first sixteen quants of a group to the others */
    for (size_t i = 0; i < prefetch->step && prefetch->next < prefetch->end; i++, prefetch->next += BLOCK_BYTES)
      __builtin_prefetch(prefetch->next);
    panel_products(sums, &panel->units[a], activations, quants, second, bits, count);
    floats *lane = panel->accumulators + activation_lane(a) * count * PANEL_VECTORS;
    const floats *before = a < CPU_LANES ? zeros : lane, *scales = panel->scales[a / weight_group];
    const size_t scale_at = tile->affine->scales_offset + activation_scale_index(a) * sizeof(float);
#pragma GCC unroll 8
    for (size_t c = 0; c < count; c++) {
      const float scale = *(const float *)(const void *)(activations[c] + scale_at);
#pragma GCC unroll 2
      for (size_t v = 0; v < PANEL_VECTORS; v++) {
        const size_t i = c * PANEL_VECTORS + v;
        lane[i] = fused(to_floats(panel_integers(sums[i], bits)), multiply(scales[v], broadcast(scale)), before[i]);
      }
    }
  }
  for (size_t a = groups; a < CPU_LANES; a++)
    for (size_t i = 0; i < count * PANEL_VECTORS; i++)
      panel->accumulators[activation_lane(a) * count * PANEL_VECTORS + i] = zero();
}

/* Adds the biases' part to the accumulators, and the lanes up, and stores the results. */
LANES_SPECIALISE void finish_tile(const struct tile *tile, size_t count) {
  const size_t groups = tile->affine->groups;
  for (size_t c = 0; c < count; c++) {
    const float *sums = (const float *)(const void *)(tile->activations[c] + tile->affine->sums_offset);
    for (size_t v = 0; v < PANEL_VECTORS; v++) {
      floats lanes[CPU_LANES];
#pragma GCC unroll 16
      for (size_t lane = 0; lane < CPU_LANES; lane++)
        lanes[lane] = tile->panel->accumulators[(lane * count + c) * PANEL_VECTORS + v];
      /* Beyond the last group biases and sums are zero. */
      for (size_t g = 0; g < groups; g += CPU_LANES)
#pragma GCC unroll 16
        for (size_t lane = 0; lane < CPU_LANES; lane++)
          lanes[lane] = fused(tile->panel->biases[g + lane][v], broadcast(sums[g + lane]), lanes[lane]);
      const floats results = add_lanes(lanes);
      float *out = tile->outs[c] + tile->out_index + v * CPU_LANES;
      if (tile->rows >= (v + 1) * CPU_LANES)
        store(out, results);
      else if (tile->rows > v * CPU_LANES)
        store_first(out, results, tile->rows - v * CPU_LANES);
    }
  }
}

typedef void tile_function(const struct tile *, struct prefetch *);
#define TILE_FUNCTION(bits, count)                                                                                  \
  static __attribute__((noinline)) void tile_##bits##_##count(const struct tile *tile, struct prefetch *prefetch) { \
    multiply_tile(tile, prefetch, bits, count);                                                                     \
    finish_tile(tile, count);                                                                                       \
  }
TILE_FUNCTION(4, 1)
TILE_FUNCTION(4, 2)
TILE_FUNCTION(4, 3)
TILE_FUNCTION(4, 4)
TILE_FUNCTION(8, 1)
TILE_FUNCTION(8, 2)
TILE_FUNCTION(8, 3)
TILE_FUNCTION(8, 4)
#if PANEL_COLUMNS == 8
TILE_FUNCTION(4, 5)
TILE_FUNCTION(4, 6)
TILE_FUNCTION(4, 7)
TILE_FUNCTION(4, 8)
TILE_FUNCTION(8, 5)
TILE_FUNCTION(8, 6)
TILE_FUNCTION(8, 7)
TILE_FUNCTION(8, 8)
#endif
#undef TILE_FUNCTION

static tile_function *const tile_functions[2][PANEL_COLUMNS] = {
#if PANEL_COLUMNS == 8
    {tile_4_1, tile_4_2, tile_4_3, tile_4_4, tile_4_5, tile_4_6, tile_4_7, tile_4_8},
    {tile_8_1, tile_8_2, tile_8_3, tile_8_4, tile_8_5, tile_8_6, tile_8_7, tile_8_8}
#else
    {tile_4_1, tile_4_2, tile_4_3, tile_4_4}, {tile_8_1, tile_8_2, tile_8_3, tile_8_4}
#endif
};

typedef void fill_panel_function(const struct panel *, const struct affine *, size_t, size_t);
#define FILL_PANEL(name, bits, type)                                                                                   \
  static __attribute__((noinline)) void name(const struct panel *panel, const struct affine *affine, size_t first_row, \
                                             size_t rows) {                                                            \
    fill_panel(panel, affine, first_row, rows, bits, type);                                                            \
  }
FILL_PANEL(fill_panel_4_bf16, 4, NUMBER_BF16)
FILL_PANEL(fill_panel_4_f16, 4, NUMBER_F16)
FILL_PANEL(fill_panel_4_f32, 4, NUMBER_F32)
FILL_PANEL(fill_panel_8_bf16, 8, NUMBER_BF16)
FILL_PANEL(fill_panel_8_f16, 8, NUMBER_F16)
FILL_PANEL(fill_panel_8_f32, 8, NUMBER_F32)
#undef FILL_PANEL

static fill_panel_function *fill_panel_for(const struct matrix *matrix) {
  if (matrix->type == NUMBER_BF16) return matrix->bits == 8 ? fill_panel_8_bf16 : fill_panel_4_bf16;
  if (matrix->type == NUMBER_F16) return matrix->bits == 8 ? fill_panel_8_f16 : fill_panel_4_f16;
  return matrix->bits == 8 ? fill_panel_8_f32 : fill_panel_4_f32;
}

static void matmul_affine(const struct matrix *matrix, size_t first_row, size_t rows, const void *const *activations,
                          float *const *outs, size_t count, void *scratch) {
  if (count < PANEL_WORTHWHILE) {
    matmul_affine_rows(matrix, first_row, rows, activations, outs, count);
    return;
  }
  const unsigned char *bytes[COLUMN_BLOCK];
  for (size_t c = 0; c < count; c++) bytes[c] = activations[c];
  const struct affine affine = affine_of(matrix);
  const struct panel panel = panel_in(scratch, &affine);
  const unsigned char *data = (const unsigned char *)matrix->data + first_row * affine.row_bytes;
  /* Tiles as equal as can be. */
  const size_t tiles = (count + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
  for (size_t i = 0; i < rows; i += PANEL_ROWS) {
    const size_t n = rows - i < PANEL_ROWS ? rows - i : PANEL_ROWS;
    const size_t then = rows - i - n < PANEL_ROWS ? rows - i - n : PANEL_ROWS;
    struct prefetch prefetch = {.next = data + (i + n) * affine.row_bytes,
                                .end = data + (i + n + then) * affine.row_bytes};
    prefetch.step = then * affine.row_bytes / BLOCK_BYTES / (tiles * matrix->columns / ACTIVATION_GROUP) + 1;
    fill_panel_for(matrix)(&panel, &affine, first_row + i, n);
    for (size_t t = 0; t < tiles; t++) {
      const size_t begin = t * count / tiles, width = (t + 1) * count / tiles - begin;
      const struct tile tile = {&panel, &affine, bytes + begin, outs + begin, i, n};
      tile_functions[matrix->bits == 8][width - 1](&tile, &prefetch);
    }
  }
}

#endif

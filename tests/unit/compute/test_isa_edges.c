/* The corners of the kernels' equality with the reference: where loops are cut into parts, integers are largest,
 * numbers are special or pointers odd. test_isa_equality.c compares every member of the tables. */
#include <float.h>

#include "unit/compute/support.h"

enum { COUNT_MAX = COLUMN_BLOCK };

struct tables {
  const struct cpu_kernels *all[CPU_KERNELS_MAX];
  size_t count;
};

/* The tables to compare; the first one is the reference itself. */
static struct tables tables_here(void) {
  struct tables tables;
  tables.count = test_tables(tables.all);
  assert_ptr_equal(tables.all[0], cpu_kernels_reference());
  if (tables.count == 1) {
    print_message("this CPU has no kernels but the reference\n");
    skip();
  }
  return tables;
}

static const float special_values[] = {0.0f,    -0.0f,    1.0f,     -1.0f,     INFINITY,   -INFINITY, NAN,
                                       FLT_MIN, -FLT_MIN, FLT_MAX,  0x1p-149f, -0x1p-149f, 0x1p-100f, 0x1.fffffep-101f,
                                       88.8f,   -87.4f,   65504.0f, 65520.0f,  0x1p-24f,   0x1p-25f};
enum { SPECIAL_VALUES = sizeof special_values / sizeof *special_values };

static float *floats_of(const struct guarded *memory) { return (float *)(void *)memory->bytes; }

/* Moves what a matrix points to by `shift` bytes in memory that the caller frees. */
static unsigned char *misaligned(const void **data, size_t bytes, size_t shift) {
  unsigned char *memory = malloc(bytes + shift);
  assert_non_null(memory);
  memcpy(memory + shift, *data, bytes);
  *data = memory + shift;
  return memory;
}

static void check_affine(const struct tables *tables, const struct matrix *matrix, size_t first_row, size_t rows,
                         size_t count, uint64_t *seed, bool extreme) {
  const struct activation_layout layout = activation_layout_for(matrix);
  const void *activations[COUNT_MAX];
  float *expected[COUNT_MAX], *outs[COUNT_MAX];
  float *x = test_floats(matrix->columns);
  for (size_t c = 0; c < count; c++) {
    void *row = aligned_alloc(64, activation_row_bytes(layout));
    random_activations(seed, x, matrix->columns);
    for (size_t i = 0; extreme && i < matrix->columns; i++) x[i] = c % 2 ? -3.0f : 3.0f;
    tables->all[0]->quantize(row, x, layout);
    activations[c] = row;
    expected[c] = test_floats(rows + 1);
    outs[c] = test_floats(rows + 1);
  }
  tables->all[0]->matmul_affine(matrix, first_row, rows, activations, expected, count, kernel_scratch(matrix->columns));
  for (size_t k = 1; k < tables->count; k++) {
    for (size_t c = 0; c < count; c++)
      for (size_t i = 0; i <= rows; i++) outs[c][i] = 77.0f;
    tables->all[k]->matmul_affine(matrix, first_row, rows, activations, outs, count, kernel_scratch(matrix->columns));
    for (size_t c = 0; c < count; c++) {
      assert_same_floats(outs[c], expected[c], rows, "%s: %u bits, groups of %u, %zu × %u, activation %zu of %zu",
                         tables->all[k]->name, matrix->bits, matrix->group, rows, matrix->columns, c, count);
      assert_true(outs[c][rows] == 77.0f);
    }
  }
  for (size_t c = 0; c < count; c++) {
    free((void *)(uintptr_t)activations[c]);
    free(expected[c]);
    free(outs[c]);
  }
  free(x);
}

static void every_number_of_activations_is_equal(void **state) {
  (void)state;
  const struct tables tables = tables_here();
  uint64_t seed = 2;
  for (uint32_t bits = 4; bits <= 8; bits += 4)
    for (size_t count = 1; count <= COUNT_MAX; count++) {
      struct test_matrix matrix = test_matrix_create(&seed, 3, 1056, bits, 32, NUMBER_F16);
      check_affine(&tables, &matrix.matrix, 0, 3, count, &seed, false);
      test_matrix_free(&matrix);
    }
}

static void long_rows_and_many_rows_are_equal(void **state) {
  (void)state;
  const struct tables tables = tables_here();
  uint64_t seed = 3;
  const uint32_t shapes[][4] = {{3, 8192, 4, 64}, {3, 8224, 4, 32}, {2, 16448, 4, 64}, {2, 4224, 8, 128},
                                {2, 8256, 8, 64}, {70, 256, 4, 64}, {37, 192, 8, 32},  {65, 4640, 4, 32}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const uint32_t *shape = shapes[i];
    struct test_matrix matrix = test_matrix_create(&seed, shape[0], shape[1], shape[2], shape[3], NUMBER_BF16);
    check_affine(&tables, &matrix.matrix, 0, shape[0], 1, &seed, false);
    check_affine(&tables, &matrix.matrix, 1, shape[0] - 1, 13, &seed, false);
    test_matrix_free(&matrix);
  }
}

static void largest_integers_do_not_overflow(void **state) {
  (void)state;
  const struct tables tables = tables_here();
  uint64_t seed = 4;
  for (uint32_t bits = 4; bits <= 8; bits += 4) {
    struct test_matrix matrix = test_matrix_create(&seed, 5, 384, bits, 128, NUMBER_F16);
    memset(matrix.data.bytes, 0xff, 5 * matrix_row_bytes(&matrix.matrix));
    check_affine(&tables, &matrix.matrix, 0, 5, 9, &seed, true);
    test_matrix_free(&matrix);
  }
}

static void affine_with_special_scales_is_equal(void **state) {
  (void)state;
  const struct tables tables = tables_here();
  uint64_t seed = 5;
  for (uint32_t columns = 32; columns <= 224; columns += 32)
    for (uint32_t round = 0; round < 20; round++) {
      struct test_matrix matrix = test_matrix_create(&seed, 6, columns, round % 2 ? 4 : 8, 32, NUMBER_F32);
      for (size_t i = 0; i < 3; i++) {
        float value = special_values[random_bits(&seed) % SPECIAL_VALUES];
        store_number(NUMBER_F32, i ? matrix.scales.bytes : matrix.biases.bytes, random_bits(&seed) % (6 * columns / 32),
                     value);
      }
      check_affine(&tables, &matrix.matrix, 0, 6, round % 5 + 1, &seed, false);
      test_matrix_free(&matrix);
    }
}

static void no_alignment_is_assumed(void **state) {
  (void)state;
  const struct tables tables = tables_here();
  uint64_t seed = 6;
  for (uint32_t bits = 0; bits <= 8; bits += 4)
    for (size_t shift = 1; shift < 4; shift += 2) {
      struct test_matrix original = test_matrix_create(&seed, 4, 224, bits, 32, NUMBER_F32);
      struct matrix matrix = original.matrix;
      unsigned char *data = misaligned(&matrix.data, 4 * matrix_row_bytes(&matrix), shift);
      if (bits == 0) {
        float x[224], expected[4], out[4];
        random_activations(&seed, x, 224);
        tables.all[0]->matmul_plain(&matrix, 0, 4, (const float *[]){x}, (float *[]){expected}, 1);
        for (size_t k = 1; k < tables.count; k++) {
          tables.all[k]->matmul_plain(&matrix, 0, 4, (const float *[]){x}, (float *[]){out}, 1);
          assert_same_floats(out, expected, 4, "%s: plain", tables.all[k]->name);
        }
      } else {
        unsigned char *scales = misaligned(&matrix.scales, (size_t)4 * 7 * 4, shift);
        unsigned char *biases = misaligned(&matrix.biases, (size_t)4 * 7 * 4, shift);
        const size_t counts[] = {1, 3, 13};
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
          check_affine(&tables, &matrix, 0, 4, counts[i], &seed, false);
        free(scales);
        free(biases);
      }
      free(data);
      test_matrix_free(&original);
    }
}

/* Number by number on both sides of where exp becomes 0 (by way of softmax) and infinite (by way of silu). */
static void exp_is_equal_around_its_limits(void **state) {
  (void)state;
  const struct tables tables = tables_here();
  enum { AROUND = 3000 };
  static float x[AROUND], out[AROUND], expected[AROUND], ones[AROUND];
  for (size_t i = 0; i < AROUND; i++) {
    x[i] = expected[i] = float_from_bits(float_bits(EXP_LOWEST) + (uint32_t)i - AROUND / 2);
    ones[i] = 1.0f;
  }
  x[7] = expected[7] = 0.0f;
  tables.all[0]->softmax(expected, AROUND);
  assert_true(expected[AROUND - 1] == 0.0f && expected[0] > 0.0f);
  for (size_t k = 1; k < tables.count; k++) {
    memcpy(out, x, sizeof out);
    tables.all[k]->softmax(out, AROUND);
    assert_same_floats(out, expected, AROUND, "%s: softmax", tables.all[k]->name);
  }
  for (size_t i = 0; i < AROUND; i++)
    x[i] = expected[i] = -float_from_bits(float_bits(EXP_HIGHEST) + (uint32_t)i - AROUND / 2);
  tables.all[0]->silu_multiply(expected, ones, AROUND);
  assert_true(expected[AROUND - 1] == 0.0f && expected[0] < 0.0f);
  for (size_t k = 1; k < tables.count; k++) {
    memcpy(out, x, sizeof out);
    tables.all[k]->silu_multiply(out, ones, AROUND);
    assert_same_floats(out, expected, AROUND, "%s: silu", tables.all[k]->name);
  }
}

static bool same_half(uint16_t a, uint16_t b) {
  const bool nan_a = (a & 0x7fff) > 0x7c00, nan_b = (b & 0x7fff) > 0x7c00;
  return nan_a || nan_b ? nan_a == nan_b : a == b;
}

static void ties_and_tails_convert_to_f16_equally(void **state) {
  (void)state;
  const struct tables tables = tables_here();
  for (size_t count = 1; count < 40; count++) {
    struct guarded x = guarded_create(4 * count);
    for (uint32_t first = 0; first < 0x10000; first += 97) {
      uint16_t out[40], expected[40];
      for (size_t i = 0; i < count; i++) { /* halfway between two neighbours of f16, and next to it */
        uint32_t f32 = float_bits(f32_from_f16((uint16_t)(first + i))) + 0x1000 + (uint32_t)(i % 3) - 1;
        floats_of(&x)[i] = float_from_bits(f32);
      }
      tables.all[0]->to_f16(expected, floats_of(&x), count);
      for (size_t k = 1; k < tables.count; k++) {
        out[count] = 0x5555;
        tables.all[k]->to_f16(out, floats_of(&x), count);
        for (size_t i = 0; i < count; i++) assert_true(same_half(out[i], expected[i]));
        assert_int_equal(out[count], 0x5555);
      }
    }
    guarded_free(&x);
  }
}

struct heads {
  struct attention_query queries[COUNT_MAX];
  struct guarded vectors, outs;
};

static struct heads heads_create(uint64_t *seed, size_t count, size_t head_dim) {
  struct heads heads = {.vectors = guarded_create(4 * count * head_dim), .outs = guarded_create(4 * count * head_dim)};
  random_activations(seed, floats_of(&heads.vectors), count * head_dim);
  for (size_t q = 0; q < count; q++)
    heads.queries[q] = (struct attention_query){floats_of(&heads.vectors) + q * head_dim,
                                                floats_of(&heads.outs) + q * head_dim, -INFINITY, 0, 0};
  return heads;
}

/* Keys and values of a block; what no query sees is NaN, and with `special` some visible numbers are infinite or NaN.
 */
static void fill_block(uint64_t *seed, uint16_t *keys, uint16_t *values, size_t head_dim, size_t visible,
                       bool special) {
  for (size_t t = 0; t < KV_BLOCK; t++)
    for (size_t d = 0; d < head_dim; d++) {
      uint16_t key = f16_from_f32(random_float(seed) * 2.0f), value = f16_from_f32(random_float(seed));
      if (special && random_bits(seed) % 200 == 0) key = random_bits(seed) % 2 ? 0xfc00 : 0x7c00;
      if (special && random_bits(seed) % 200 == 0) value = random_bits(seed) % 2 ? 0x7e00 : 0x0001;
      keys[d * KV_BLOCK + t] = t < visible ? key : 0x7e00;
      values[t * head_dim + d] = t < visible ? value : 0x7e00;
    }
}

static void check_attention(const struct tables *tables, size_t count, size_t head_dim, uint64_t *seed, bool special) {
  const size_t bytes = KV_BLOCK * head_dim * sizeof(uint16_t);
  struct guarded keys = guarded_create(bytes), values = guarded_create(bytes);
  uint16_t *k16 = (uint16_t *)(void *)keys.bytes, *v16 = (uint16_t *)(void *)values.bytes;
  for (size_t k = 1; k < tables->count; k++) {
    uint64_t start = *seed;
    struct heads expected = heads_create(&start, count, head_dim);
    start = *seed;
    struct heads actual = heads_create(&start, count, head_dim);
    for (size_t block = 0; block < 3; block++) {
      uint32_t visible = 0;
      for (size_t q = 0; q < count; q++) {
        uint32_t positions = block < 1 ? KV_BLOCK : (uint32_t)(random_bits(seed) % KV_BLOCK + 1);
        if (block == 2 && count > 2) positions = positions % 16 + 1; /* a short last block */
        expected.queries[q].positions = actual.queries[q].positions = positions;
        visible = positions > visible ? positions : visible;
      }
      fill_block(seed, k16, v16, head_dim, visible, special);
      tables->all[0]->attention_block(expected.queries, count, k16, v16, head_dim, 0.088388346f);
      tables->all[k]->attention_block(actual.queries, count, k16, v16, head_dim, 0.088388346f);
      for (size_t q = 0; q < count; q++) {
        assert_same_floats(&actual.queries[q].sum, &expected.queries[q].sum, 1, "%s: sum", tables->all[k]->name);
        assert_true(actual.queries[q].max == expected.queries[q].max);
      }
      assert_same_floats(floats_of(&actual.outs), floats_of(&expected.outs), count * head_dim, "%s: %zu queries of %zu",
                         tables->all[k]->name, count, head_dim);
    }
    guarded_free(&expected.vectors);
    guarded_free(&expected.outs);
    guarded_free(&actual.vectors);
    guarded_free(&actual.outs);
  }
  guarded_free(&keys);
  guarded_free(&values);
}

static void attention_is_equal(void **state) {
  (void)state;
  const struct tables tables = tables_here();
  const size_t dims[] = {16, 32, 48, 64, 80, 96, 112, 128, 256, 512};
  uint64_t seed = 12;
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
    for (size_t count = 1; count <= 17; count++) {
      check_attention(&tables, count, dims[i], &seed, false);
      check_attention(&tables, count, dims[i], &seed, true);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_number_of_activations_is_equal),
      cmocka_unit_test(long_rows_and_many_rows_are_equal),
      cmocka_unit_test(largest_integers_do_not_overflow),
      cmocka_unit_test(affine_with_special_scales_is_equal),
      cmocka_unit_test(no_alignment_is_assumed),
      cmocka_unit_test(exp_is_equal_around_its_limits),
      cmocka_unit_test(ties_and_tails_convert_to_f16_equally),
      cmocka_unit_test(attention_is_equal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

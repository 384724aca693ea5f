/* The specification against plain computation in double precision. */
#include "unit/compute/support.h"

enum { COLUMNS_MAX = 4096 };

static void quantized_row(void **row, const float *x, struct activation_layout layout) {
  *row = aligned_alloc(64, activation_row_bytes(layout));
  assert_non_null(*row);
  cpu_kernels_reference()->quantize(*row, x, layout);
}

/* The quantized activation of a column, by the layout that kernels.h describes. */
static double activation_at(const void *row, struct activation_layout layout, size_t column) {
  const int8_t *quants = row;
  const float *scales = (const float *)(const void *)(quants + activation_scales_offset(layout));
  if (layout.bits == 8) return (double)quants[column] * (double)scales[activation_scale_index(column / 32)];
  size_t block = column / 128, byte = column % 128 / 2;
  return (double)quants[block * 128 + (column % 2) * 64 + byte] * (double)scales[activation_scale_index(column / 32)];
}

static void quantized_activations_lie_as_described(void **state) {
  (void)state;
  uint64_t seed = 2;
  float x[384];
  for (size_t i = 0; i < 384; i++) x[i] = random_float(&seed);
  for (size_t i = 64; i < 96; i++) x[i] = 0.0f;
  x[100] = -5.0f;
  const struct activation_layout layouts[] = {{384, 4, 64}, {96, 4, 32}, {160, 4, 32}, {384, 8, 128}, {96, 8, 32}};
  for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
    struct activation_layout layout = layouts[l];
    void *row;
    quantized_row(&row, x, layout);
    for (size_t first = 0; first < layout.columns; first += 32) {
      double largest = 0;
      for (size_t i = first; i < first + 32; i++)
        if (fabs((double)x[i]) > largest) largest = fabs((double)x[i]);
      for (size_t i = first; i < first + 32; i++)
        assert_true(fabs(activation_at(row, layout, i) - (double)x[i]) <= largest / 254 * 1.00001);
    }
    const float *sums = (const float *)(const void *)((const char *)row + activation_sums_offset(layout));
    size_t sum_count = (activation_row_bytes(layout) - activation_sums_offset(layout)) / sizeof(float);
    assert_int_equal(sum_count % 16, 0);
    for (size_t g = 0; g < sum_count; g++) {
      double sum = 0;
      for (size_t i = g * layout.group; i < (g + 1) * layout.group && i < layout.columns; i++)
        sum += activation_at(row, layout, i);
      assert_true(fabs(sum - (double)sums[g]) <= 1e-5);
      if (g >= layout.columns / layout.group) assert_true(sums[g] == 0.0f);
    }
    size_t block = layout.bits == 4 ? 128 : 64;
    for (size_t i = layout.columns; i < activation_blocks(layout) * block; i++)
      assert_true(activation_at(row, layout, i) == 0.0);
    free(row);
  }
}

static void extreme_activations_quantize_to_zero_or_nan(void **state) {
  (void)state;
  float x[128] = {0};
  struct activation_layout layout = {128, 8, 32};
  void *row;
  for (size_t i = 0; i < 32; i++) x[i] = 0x1p-140f;
  x[40] = INFINITY;
  x[70] = NAN;
  x[100] = 3e38f;
  quantized_row(&row, x, layout);
  const float *scales = (const float *)(const void *)((const char *)row + activation_scales_offset(layout));
  assert_true(scales[0] == 0.0f);
  assert_true(isnan(scales[4]) && isnan(scales[8]));
  assert_true(scales[12] == 3e38f / 127.0f);
  assert_int_equal(((const int8_t *)row)[100], 127);
  for (size_t i = 0; i < 96; i++) assert_int_equal(((const int8_t *)row)[i], 0);
  free(row);
}

/* One product: within rounding of the double sum over the quantized activation, and within the activation's
 * quantization error of the double sum over the activation itself. */
static void check_affine(const struct matrix *matrix, const float *x) {
  struct activation_layout layout = activation_layout_for(matrix);
  float *out = test_floats(matrix->rows);
  void *row;
  quantized_row(&row, x, layout);
  const void *activations[] = {row};
  cpu_kernels_reference()->matmul_affine(matrix, 0, matrix->rows, activations, &out, 1,
                                         kernel_scratch(matrix->columns));
  for (size_t r = 0; r < matrix->rows; r++) {
    double quantized = 0, exact = 0, size = 0, allowed = 0;
    for (size_t first = 0; first < matrix->columns; first += ACTIVATION_GROUP) {
      double largest = 0;
      for (size_t i = first; i < first + ACTIVATION_GROUP; i++)
        if (fabs((double)x[i]) > largest) largest = fabs((double)x[i]);
      size_t g = r * (matrix->columns / matrix->group) + first / matrix->group;
      double scale = fabs((double)number_at(matrix->type, matrix->scales, g));
      double bias = fabs((double)number_at(matrix->type, matrix->biases, g));
      for (size_t i = first; i < first + ACTIVATION_GROUP; i++) {
        double w = weight_at(matrix, r, i), a = activation_at(row, layout, i);
        quantized += w * a;
        exact += w * (double)x[i];
        size += (scale * quant_at(matrix, r, i) + bias) * fabs(a);
        allowed += fabs(w) * largest / 254;
      }
    }
    if (fabs((double)out[r] - quantized) > 1e-6 * size || fabs((double)out[r] - exact) > allowed + 1e-6 * size)
      fail_msg("%u bits, group %u, type %d, %u columns: row %zu is %g instead of %g (%g)", matrix->bits, matrix->group,
               (int)matrix->type, matrix->columns, r, (double)out[r], quantized, exact);
  }
  free(row);
  free(out);
}

static void affine_products_are_right_in_every_format(void **state) {
  (void)state;
  uint64_t seed = 3;
  const uint32_t multiples[] = {1, 2, 3, 5, 7, 30};
  float *x = test_floats(COLUMNS_MAX);
  for (uint32_t bits = 4; bits <= 8; bits += 4) {
    for (uint32_t group = 32; group <= 128; group *= 2) {
      for (int type = NUMBER_F32; type <= NUMBER_BF16; type++) {
        for (size_t m = 0; m < sizeof multiples / sizeof *multiples; m++) {
          uint32_t columns = group * multiples[m];
          struct test_matrix test = test_matrix_create(&seed, 3, columns, bits, group, (enum number_type)type);
          random_activations(&seed, x, columns);
          check_affine(&test.matrix, x);
          test_matrix_free(&test);
        }
      }
    }
  }
  free(x);
}

static void an_infinite_activation_shows_in_the_product(void **state) {
  (void)state;
  uint64_t seed = 4;
  struct test_matrix test = test_matrix_create(&seed, 2, 128, 4, 64, NUMBER_BF16);
  float x[128], values[2], *out = values;
  random_activations(&seed, x, 128);
  x[77] = -INFINITY;
  void *row;
  quantized_row(&row, x, activation_layout_for(&test.matrix));
  const void *activations[] = {row};
  cpu_kernels_reference()->matmul_affine(&test.matrix, 0, 2, activations, &out, 1, kernel_scratch(128));
  assert_true(isnan(out[0]) && isnan(out[1]));
  free(row);
  test_matrix_free(&test);
}

static void plain_products_are_right_in_every_type(void **state) {
  (void)state;
  uint64_t seed = 5;
  const uint32_t columns[] = {1, 7, 16, 33, 384, 1000};
  for (int type = NUMBER_F32; type <= NUMBER_BF16; type++) {
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
      struct test_matrix test = test_matrix_create(&seed, 3, columns[c], 0, 0, (enum number_type)type);
      float x[1000], values[3], *out = values;
      random_activations(&seed, x, columns[c]);
      const float *activations[] = {x};
      cpu_kernels_reference()->matmul_plain(&test.matrix, 0, 3, activations, &out, 1);
      for (size_t r = 0; r < 3; r++) {
        double exact = 0, size = 0;
        for (size_t i = 0; i < columns[c]; i++) {
          exact += weight_at(&test.matrix, r, i) * (double)x[i];
          size += fabs(weight_at(&test.matrix, r, i) * (double)x[i]);
        }
        assert_true(fabs((double)out[r] - exact) <= 4e-6 * size);
      }
      test_matrix_free(&test);
    }
  }
}

/* exp(x) for x ≤ 0, out of attention over two positions: the first scores 0 and has value 0, the second scores x and
 * has value 1. */
static float attention_exponential(float x) {
  static _Thread_local uint16_t keys[16 * KV_BLOCK], values[16 * KV_BLOCK];
  float query[16] = {x}, out[16] = {0};
  keys[1] = f16_from_f32(1.0f);
  values[16] = f16_from_f32(1.0f);
  struct attention_query one = {.query = query, .out = out, .max = -INFINITY, .positions = 2};
  cpu_kernels_reference()->attention_block(&one, 1, keys, values, 16, 1.0f);
  assert_true(one.sum == 1.0f + out[0]);
  return out[0];
}

static void exponentials_are_within_two_units_in_the_last_place(void **state) {
  (void)state;
  double worst = 0;
  for (float x = 0.0f; x > -87.3f; x -= 0.0007f) {
    double exact = exp((double)x);
    double unit = (double)nextafterf((float)exact, INFINITY) - (double)(float)exact;
    worst = fmax(worst, fabs((double)attention_exponential(x) - exact) / unit);
  }
  assert_true(worst > 0.3 && worst < 2.0);
  assert_true(attention_exponential(0.0f) == 1.0f);
  assert_true(attention_exponential(EXP_LOWEST) >= 0x1p-126f);
  assert_true(attention_exponential(nextafterf(EXP_LOWEST, -INFINITY)) == 0.0f);
  assert_true(attention_exponential(-1e30f) == 0.0f);
}

static void silu_is_right_and_bounded_at_both_ends(void **state) {
  (void)state;
  for (float x = -88.0f; x < 88.0f; x += 0.013f) {
    float gate = x, up = 2.0f;
    cpu_kernels_reference()->silu_multiply(&gate, &up, 1);
    double exact = 2.0 * (double)x / (1.0 + exp(-(double)x));
    assert_true(fabs((double)gate - exact) <= 4e-7 * fabs(exact));
  }
  float ends[] = {-1e30f, 1e30f, -INFINITY, INFINITY, NAN}, ones[] = {1, 1, 1, 1, 1};
  cpu_kernels_reference()->silu_multiply(ends, ones, 5);
  assert_true(ends[0] == 0.0f && ends[1] == 1e30f && isnan(ends[2]) && isinf(ends[3]) && isnan(ends[4]));
}

static void softmax_and_norm_are_right(void **state) {
  (void)state;
  uint64_t seed = 6;
  for (size_t n = 1; n <= 300; n += 13) {
    float x[300], p[300], w[300];
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) p[i] = x[i] = 10.0f * random_float(&seed), w[i] = random_float(&seed);
    for (size_t i = 0; i < n; i++) sum += exp((double)x[i]), squares += (double)x[i] * (double)x[i];
    cpu_kernels_reference()->softmax(p, n);
    for (size_t i = 0; i < n; i++) assert_true(fabs((double)p[i] - exp((double)x[i]) / sum) <= 2e-6 * (double)p[i]);
    cpu_kernels_reference()->rms_norm(x, x, w, NUMBER_F32, n, 1e-6f);
    double total = 0;
    for (size_t i = 0; i < n; i++)
      total += w[i] == 0.0f ? 0 : (double)x[i] / (double)w[i] * ((double)x[i] / (double)w[i]);
    assert_true(fabs(total / (double)n - 1.0 / (1.0 + 1e-6 / (squares / (double)n))) < 1e-4);
  }
}

/* Every lane holds the negative zero of a product that is too small. */
static void a_zero_result_is_positive_zero(void **state) {
  (void)state;
  float row[CPU_LANES], x[CPU_LANES], value = 1, *out = &value;
  for (size_t i = 0; i < CPU_LANES; i++) row[i] = -0x1p-100f, x[i] = 0x1p-100f;
  struct matrix matrix = {.rows = 1, .columns = CPU_LANES, .type = NUMBER_F32, .data = row};
  const float *activations[] = {x};
  cpu_kernels_reference()->matmul_plain(&matrix, 0, 1, activations, &out, 1);
  assert_true(value == 0.0f && !signbit(value));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quantized_activations_lie_as_described),
      cmocka_unit_test(extreme_activations_quantize_to_zero_or_nan),
      cmocka_unit_test(affine_products_are_right_in_every_format),
      cmocka_unit_test(an_infinite_activation_shows_in_the_product),
      cmocka_unit_test(plain_products_are_right_in_every_type),
      cmocka_unit_test(exponentials_are_within_two_units_in_the_last_place),
      cmocka_unit_test(silu_is_right_and_bounded_at_both_ends),
      cmocka_unit_test(softmax_and_norm_are_right),
      cmocka_unit_test(a_zero_result_is_positive_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every kernel table that this machine can run equals the reference to the bit. */
#include "unit/compute/support.h"

static const struct cpu_kernels *tables[CPU_KERNELS_MAX];
static size_t table_count;
static const struct cpu_kernels *reference;

static int find_tables(void **state) {
  (void)state;
  reference = cpu_kernels_reference();
  table_count = test_tables(tables);
  for (size_t i = 0; i < table_count; i++) fprintf(stderr, "comparing %s\n", tables[i]->name);
  return 0;
}

static bool has_table(const char *name) {
  for (size_t i = 0; i < table_count; i++)
    if (strcmp(tables[i]->name, name) == 0) return true;
  return false;
}

/* So that the comparisons below cannot pass for want of anything to compare. */
static void the_tables_of_this_cpu_are_there(void **state) {
  (void)state;
  assert_true(has_table("reference"));
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) assert_true(has_table("avx2"));
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw")) assert_true(has_table("avx512"));
  assert_int_equal(has_table("avxvnni-evex"), has_table("avx512"));
#endif
}

/* A block of memory of exactly the size of a quantized row, before an unreadable page. */
struct quantized {
  struct guarded memory;
};

static struct quantized quantized_create(const struct cpu_kernels *kernels, const float *x,
                                         struct activation_layout layout) {
  struct quantized row = {guarded_create(activation_row_bytes(layout))};
  memset(row.memory.bytes, 0xa5, activation_row_bytes(layout));
  kernels->quantize(row.memory.bytes, x, layout);
  return row;
}

/* Numbers of all kinds: ordinary rows, and some with zero, tiny, huge or non-finite groups. */
static void activations_of_kind(uint64_t *seed, float *x, size_t count, size_t kind) {
  random_activations(seed, x, count);
  if (kind == 1)
    for (size_t i = 0; i < count; i++) x[i] *= i / 32 % 3 == 0 ? 0.0f : i / 32 % 3 == 1 ? 0x1p-120f : 0x1p+100f;
  if (kind == 2)
    for (size_t i = 0; i < count; i++) x[i] = (float)(int)(x[i] * 8.0f) + 0.5f; /* ties when rounded */
  if (kind == 3) x[random_bits(seed) % count] = INFINITY;
  if (kind == 4) x[random_bits(seed) % count] = NAN;
}

static void compare_quantized(const struct cpu_kernels *kernels, const float *x, struct activation_layout layout) {
  struct quantized expected = quantized_create(reference, x, layout), row = quantized_create(kernels, x, layout);
  size_t quants = activation_scales_offset(layout);
  if (memcmp(row.memory.bytes, expected.memory.bytes, quants) != 0)
    fail_msg("%s: quants differ at %zu columns, %u bits", kernels->name, layout.columns, layout.bits);
  assert_same_floats((const float *)(const void *)(row.memory.bytes + quants),
                     (const float *)(const void *)(expected.memory.bytes + quants),
                     (activation_row_bytes(layout) - quants) / sizeof(float), "%s: scales, %zu columns, %u bits",
                     kernels->name, layout.columns, layout.bits);
  guarded_free(&expected.memory);
  guarded_free(&row.memory);
}

static void quantized_activations_are_equal(void **state) {
  (void)state;
  uint64_t seed = 1;
  float x[1280];
  for (size_t i = 0; i < table_count; i++)
    for (uint32_t bits = 4; bits <= 8; bits += 4)
      for (uint32_t group = 32; group <= 128; group *= 2)
        for (uint32_t columns = group; columns <= 1280; columns += group)
          for (size_t kind = 0; kind < 5; kind++) {
            activations_of_kind(&seed, x, columns, kind);
            compare_quantized(tables[i], x, (struct activation_layout){columns, bits, group});
          }
}

enum { COUNT_MAX = 19, ROWS = 11 };

static void compare_affine(const struct cpu_kernels *kernels, const struct matrix *matrix, uint64_t *seed, size_t count,
                           size_t first_row, size_t rows) {
  struct activation_layout layout = activation_layout_for(matrix);
  struct quantized activations[COUNT_MAX];
  const void *pointers[COUNT_MAX];
  float expected[COUNT_MAX][ROWS], out[COUNT_MAX][ROWS + 1], *expected_pointers[COUNT_MAX], *out_pointers[COUNT_MAX];
  float *x = test_floats(matrix->columns);
  for (size_t c = 0; c < count; c++) {
    activations_of_kind(seed, x, matrix->columns, c % 5 == 4 ? random_bits(seed) % 5 : 0);
    activations[c] = quantized_create(reference, x, layout);
    pointers[c] = activations[c].memory.bytes;
    expected_pointers[c] = expected[c];
    out_pointers[c] = out[c];
    out[c][rows] = 123.0f;
  }
  reference->matmul_affine(matrix, first_row, rows, pointers, expected_pointers, count,
                           kernel_scratch(matrix->columns));
  kernels->matmul_affine(matrix, first_row, rows, pointers, out_pointers, count, kernel_scratch(matrix->columns));
  for (size_t c = 0; c < count; c++) {
    assert_same_floats(out[c], expected[c], rows, "%s: %u bits, group %u, type %d, %u columns, %zu of %zu activations",
                       kernels->name, matrix->bits, matrix->group, (int)matrix->type, matrix->columns, c, count);
    assert_true(out[c][rows] == 123.0f);
    guarded_free(&activations[c].memory);
  }
  free(x);
}

static void affine_products_are_equal(void **state) {
  (void)state;
  uint64_t seed = 2;
  const size_t counts[] = {1, 2, 3, 4, 5, 8, COUNT_MAX};
  for (uint32_t bits = 4; bits <= 8; bits += 4) {
    for (uint32_t group = 32; group <= 128; group *= 2) {
      for (int type = NUMBER_F32; type <= NUMBER_BF16; type++) {
        for (uint32_t columns = group; columns <= 3000; columns += columns < 700 ? group : 9 * group) {
          struct test_matrix test = test_matrix_create(&seed, ROWS, columns, bits, group, (enum number_type)type);
          for (size_t i = 0; i < table_count; i++) {
            size_t rows = 1 + random_bits(&seed) % ROWS, first = random_bits(&seed) % (ROWS - rows + 1);
            compare_affine(tables[i], &test.matrix, &seed, counts[random_bits(&seed) % 7], first, rows);
            compare_affine(tables[i], &test.matrix, &seed, 1, 0, ROWS);
            compare_affine(tables[i], &test.matrix, &seed, counts[random_bits(&seed) % 7], ROWS - 1, 1);
          }
          test_matrix_free(&test);
        }
      }
    }
  }
}

static void affine_products_with_infinite_scales_are_equal(void **state) {
  (void)state;
  uint64_t seed = 3;
  for (uint32_t bits = 4; bits <= 8; bits += 4) {
    for (uint32_t columns = 96; columns <= 352; columns += 32) {
      struct test_matrix test = test_matrix_create(&seed, ROWS, columns, bits, 32, NUMBER_F32);
      size_t groups = columns / 32;
      /* Whatever a neighbouring row has must not reach the rows beside it. */
      for (size_t g = 0; g < groups; g++) {
        store_number(NUMBER_F32, test.scales.bytes, 3 * groups + g, INFINITY);
        store_number(NUMBER_F32, test.biases.bytes, 7 * groups + g, NAN);
      }
      for (size_t i = 0; i < table_count; i++) compare_affine(tables[i], &test.matrix, &seed, 4, 0, ROWS);
      test_matrix_free(&test);
    }
  }
}

static void plain_products_are_equal(void **state) {
  (void)state;
  uint64_t seed = 4;
  for (int type = NUMBER_F32; type <= NUMBER_BF16; type++) {
    for (uint32_t columns = 1; columns <= 1100; columns += columns < 70 ? 1 : 103) {
      struct test_matrix test = test_matrix_create(&seed, ROWS, columns, 0, 0, (enum number_type)type);
      for (size_t count = 1; count <= 9; count += 2) {
        struct guarded x[9];
        const float *pointers[9];
        float expected[9][ROWS], out[9][ROWS], *expected_pointers[9], *out_pointers[9];
        for (size_t c = 0; c < count; c++) {
          x[c] = guarded_create(columns * sizeof(float));
          activations_of_kind(&seed, (float *)(void *)x[c].bytes, columns, c == 4 ? random_bits(&seed) % 5 : 0);
          pointers[c] = (const float *)(const void *)x[c].bytes;
          expected_pointers[c] = expected[c];
          out_pointers[c] = out[c];
        }
        reference->matmul_plain(&test.matrix, 1, ROWS - 1, pointers, expected_pointers, count);
        for (size_t i = 0; i < table_count; i++) {
          tables[i]->matmul_plain(&test.matrix, 1, ROWS - 1, pointers, out_pointers, count);
          for (size_t c = 0; c < count; c++)
            assert_same_floats(out[c], expected[c], ROWS - 1, "%s: plain type %d, %u columns", tables[i]->name, type,
                               columns);
        }
        for (size_t c = 0; c < count; c++) guarded_free(&x[c]);
      }
      test_matrix_free(&test);
    }
  }
}

/* Three arrays of `count` floats, each before an unreadable page. */
struct arrays {
  struct guarded memory[3];
  float *a, *b, *c;
};

static struct arrays arrays_create(size_t count) {
  struct arrays arrays;
  for (size_t i = 0; i < 3; i++) arrays.memory[i] = guarded_create(count * sizeof(float));
  arrays.a = (float *)(void *)arrays.memory[0].bytes;
  arrays.b = (float *)(void *)arrays.memory[1].bytes;
  arrays.c = (float *)(void *)arrays.memory[2].bytes;
  return arrays;
}

static void arrays_free(struct arrays *arrays) {
  for (size_t i = 0; i < 3; i++) guarded_free(&arrays->memory[i]);
}

static void norms_are_equal(void **state) {
  (void)state;
  uint64_t seed = 5;
  for (size_t columns = 1; columns <= 600; columns += columns < 70 ? 1 : 53) {
    for (int type = NUMBER_F32; type <= NUMBER_BF16; type++) {
      struct arrays arrays = arrays_create(columns);
      struct guarded weight = guarded_create(columns * number_bytes((enum number_type)type));
      for (size_t i = 0; i < columns; i++)
        store_number((enum number_type)type, weight.bytes, i, 1.0f + random_float(&seed));
      for (size_t kind = 0; kind < 5; kind++) {
        activations_of_kind(&seed, arrays.a, columns, kind);
        reference->rms_norm(arrays.b, arrays.a, weight.bytes, (enum number_type)type, columns, 1e-6f);
        for (size_t i = 0; i < table_count; i++) {
          memcpy(arrays.c, arrays.a, columns * sizeof(float));
          tables[i]->rms_norm(arrays.c, arrays.c, weight.bytes, (enum number_type)type, columns, 1e-6f);
          assert_same_floats(arrays.c, arrays.b, columns, "%s: norm of %zu", tables[i]->name, columns);
        }
      }
      guarded_free(&weight);
      arrays_free(&arrays);
    }
  }
}

static void rotations_are_equal(void **state) {
  (void)state;
  uint64_t seed = 6;
  for (size_t pairs = 1; pairs <= 130; pairs++) {
    struct arrays arrays = arrays_create(2 * pairs);
    float cosine[130], sine[130];
    for (size_t i = 0; i < pairs; i++) cosine[i] = random_float(&seed), sine[i] = random_float(&seed);
    random_activations(&seed, arrays.a, 2 * pairs);
    memcpy(arrays.b, arrays.a, 2 * pairs * sizeof(float));
    reference->rotate(arrays.b, cosine, sine, pairs);
    for (size_t i = 0; i < table_count; i++) {
      memcpy(arrays.c, arrays.a, 2 * pairs * sizeof(float));
      tables[i]->rotate(arrays.c, cosine, sine, pairs);
      assert_same_floats(arrays.c, arrays.b, 2 * pairs, "%s: %zu pairs", tables[i]->name, pairs);
    }
    arrays_free(&arrays);
  }
}

static void softmaxes_are_equal(void **state) {
  (void)state;
  uint64_t seed = 7;
  for (size_t count = 1; count <= 520; count += count < 70 ? 1 : 37) {
    struct arrays arrays = arrays_create(count);
    for (size_t kind = 0; kind < 7; kind++) {
      activations_of_kind(&seed, arrays.a, count, kind);
      if (kind == 5)
        for (size_t i = 0; i < count; i++) arrays.a[i] = -INFINITY;
      if (kind == 6)
        for (size_t i = 0; i < count; i++) arrays.a[i] *= 60.0f;
      memcpy(arrays.b, arrays.a, count * sizeof(float));
      reference->softmax(arrays.b, count);
      for (size_t i = 0; i < table_count; i++) {
        memcpy(arrays.c, arrays.a, count * sizeof(float));
        tables[i]->softmax(arrays.c, count);
        assert_same_floats(arrays.c, arrays.b, count, "%s: softmax of %zu, kind %zu", tables[i]->name, count, kind);
      }
    }
    arrays_free(&arrays);
  }
}

/* Every 4099th float there is, and all values around the limits of the exponential. */
static void activation_functions_are_equal(void **state) {
  (void)state;
  enum { COUNT = 1039 };
  struct arrays arrays = arrays_create(COUNT);
  float up[COUNT];
  uint64_t bits = 0, seed = 8;
  while (bits <= UINT32_MAX) {
    for (size_t i = 0; i < COUNT; i++, bits += 4099) {
      arrays.a[i] = float_from_bits((uint32_t)bits);
      if (i % 16 == 0) arrays.a[i] = -EXP_LOWEST + (float)(int)(random_bits(&seed) % 64 - 32) * 0x1p-17f;
      if (i % 16 == 1) arrays.a[i] = -EXP_HIGHEST + (float)(int)(random_bits(&seed) % 64 - 32) * 0x1p-17f;
      if (i % 16 == 2) arrays.a[i] = 90.0f * random_float(&seed);
      up[i] = random_float(&seed);
    }
    memcpy(arrays.b, arrays.a, COUNT * sizeof(float));
    reference->silu_multiply(arrays.b, up, COUNT);
    for (size_t i = 0; i < table_count; i++) {
      memcpy(arrays.c, arrays.a, COUNT * sizeof(float));
      tables[i]->silu_multiply(arrays.c, up, COUNT);
      assert_same_floats(arrays.c, arrays.b, COUNT, "%s: silu", tables[i]->name);
    }
  }
  arrays_free(&arrays);
}

static void accumulations_and_short_silus_are_equal(void **state) {
  (void)state;
  uint64_t seed = 9;
  for (size_t count = 0; count <= 70; count++) {
    struct arrays arrays = arrays_create(count);
    float start[70], expected[70];
    for (size_t i = 0; i < count; i++) arrays.a[i] = random_float(&seed), start[i] = random_float(&seed);
    for (size_t i = 0; i < table_count; i++) {
      memcpy(expected, start, count * sizeof(float));
      memcpy(arrays.b, start, count * sizeof(float));
      reference->accumulate(expected, arrays.a, 0.3f, count);
      tables[i]->accumulate(arrays.b, arrays.a, 0.3f, count);
      assert_same_floats(arrays.b, expected, count, "%s: accumulate %zu", tables[i]->name, count);
      memcpy(expected, start, count * sizeof(float));
      memcpy(arrays.b, start, count * sizeof(float));
      reference->silu_multiply(expected, arrays.a, count);
      tables[i]->silu_multiply(arrays.b, arrays.a, count);
      assert_same_floats(arrays.b, expected, count, "%s: silu of %zu", tables[i]->name, count);
    }
    arrays_free(&arrays);
  }
}

static void conversions_to_halves_are_equal(void **state) {
  (void)state;
  enum { COUNT = 1031 };
  float x[COUNT];
  uint16_t expected[COUNT];
  for (uint64_t bits = 0; bits <= UINT32_MAX;) {
    for (size_t i = 0; i < COUNT; i++, bits += 1021) x[i] = float_from_bits((uint32_t)bits);
    reference->to_f16(expected, x, COUNT);
    for (size_t i = 0; i < table_count; i++) {
      uint16_t out[COUNT];
      tables[i]->to_f16(out, x, COUNT);
      assert_memory_equal(out, expected, sizeof out);
    }
  }
  for (size_t count = 0; count <= 40; count++) {
    for (size_t i = 0; i < table_count; i++) {
      struct guarded in = guarded_create(count * sizeof(float)), out = guarded_create(count * sizeof(uint16_t));
      memcpy(in.bytes, x, count * sizeof(float));
      tables[i]->to_f16((uint16_t *)(void *)out.bytes, (const float *)(const void *)in.bytes, count);
      assert_memory_equal(out.bytes, expected, count * sizeof(uint16_t));
      guarded_free(&in);
      guarded_free(&out);
    }
  }
}

enum { QUERIES = 13, HEAD_DIM_MAX = 144 };

/* Takes queries through `blocks` blocks with one table; results and running sums go to out. */
static void run_attention(const struct cpu_kernels *kernels, size_t count, const float *queries, const uint16_t *keys,
                          const uint16_t *values, size_t blocks, size_t head_dim, const uint32_t *positions,
                          float *out) {
  struct attention_query states[QUERIES];
  memset(out, 0, QUERIES * (HEAD_DIM_MAX + 2) * sizeof(float));
  for (size_t i = 0; i < count; i++)
    states[i] = (struct attention_query){
        .query = queries + i * head_dim, .out = out + i * (HEAD_DIM_MAX + 2), .max = -INFINITY};
  for (size_t b = 0; b < blocks; b++) {
    for (size_t i = 0; i < count; i++) states[i].positions = b + 1 < blocks ? KV_BLOCK : positions[i];
    size_t offset = b * head_dim * KV_BLOCK;
    kernels->attention_block(states, count, keys + offset, values + offset, head_dim, 0.1f);
  }
  for (size_t i = 0; i < count; i++) {
    states[i].out[HEAD_DIM_MAX] = states[i].max;
    states[i].out[HEAD_DIM_MAX + 1] = states[i].sum;
  }
}

static void attention_is_equal(void **state) {
  (void)state;
  enum { BLOCKS = 3 };
  uint64_t seed = 10;
  float expected[QUERIES * (HEAD_DIM_MAX + 2)], out[QUERIES * (HEAD_DIM_MAX + 2)];
  for (size_t head_dim = 16; head_dim <= HEAD_DIM_MAX; head_dim += 16) {
    size_t numbers = BLOCKS * head_dim * KV_BLOCK;
    uint16_t *keys = aligned_alloc(64, numbers * 2), *values = aligned_alloc(64, numbers * 2);
    assert_true(keys && values);
    for (int round = 0; round < 40; round++) {
      struct guarded queries = guarded_create(QUERIES * head_dim * sizeof(float));
      float *q = (float *)(void *)queries.bytes;
      uint32_t positions[QUERIES], longest = 0;
      size_t count = 1 + random_bits(&seed) % QUERIES, blocks = 1 + random_bits(&seed) % BLOCKS;
      for (size_t i = 0; i < QUERIES; i++) {
        positions[i] = 1 + (uint32_t)(random_bits(&seed) % KV_BLOCK);
        if (i < count && positions[i] > longest) longest = positions[i];
      }
      random_activations(&seed, q, QUERIES * head_dim);
      if (round == 7) q[0] = NAN;
      if (round == 8) q[head_dim - 1] = INFINITY;
      for (size_t i = 0; i < numbers; i++) {
        keys[i] = f16_from_f32(3.0f * random_float(&seed));
        values[i] = f16_from_f32(random_float(&seed));
      }
      /* What no query sees is NaN. */
      size_t last = (blocks - 1) * head_dim * KV_BLOCK;
      for (size_t d = 0; d < head_dim; d++)
        for (size_t t = longest; t < KV_BLOCK; t++)
          keys[last + d * KV_BLOCK + t] = values[last + t * head_dim + d] = 0x7e01;
      run_attention(reference, count, q, keys, values, blocks, head_dim, positions, expected);
      for (size_t i = 0; i < table_count; i++) {
        run_attention(tables[i], count, q, keys, values, blocks, head_dim, positions, out);
        assert_same_floats(out, expected, QUERIES * (HEAD_DIM_MAX + 2), "%s: attention, head_dim %zu, round %d",
                           tables[i]->name, head_dim, round);
      }
      guarded_free(&queries);
    }
    free(keys);
    free(values);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_tables_of_this_cpu_are_there),
      cmocka_unit_test(quantized_activations_are_equal),
      cmocka_unit_test(affine_products_are_equal),
      cmocka_unit_test(affine_products_with_infinite_scales_are_equal),
      cmocka_unit_test(plain_products_are_equal),
      cmocka_unit_test(norms_are_equal),
      cmocka_unit_test(rotations_are_equal),
      cmocka_unit_test(softmaxes_are_equal),
      cmocka_unit_test(activation_functions_are_equal),
      cmocka_unit_test(accumulations_and_short_silus_are_equal),
      cmocka_unit_test(conversions_to_halves_are_equal),
      cmocka_unit_test(attention_is_equal),
  };
  return cmocka_run_group_tests(tests, find_tables, NULL);
}

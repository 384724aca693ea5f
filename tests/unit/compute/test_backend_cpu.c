/* The CPU engine's operations: right, the same to the bit for one row and many and for any number of threads, and
 * errors that name what is wrong. Attention and experts have tests of their own. */
#include "compute/rope.h"
#include "unit/compute/support.h"

/* Rows of a chain of operations, all of which treat a row by itself. */
enum { ROWS = 600, HIDDEN = 192, HEADS = 3, HEAD_DIM = 32, VOCABULARY = 50 };

struct chain {
  struct test_matrix embedding, norm, head_norm, q, k, v, gate, up, down;
  float frequencies[HEAD_DIM / 2];
};

static struct chain chain_create(uint64_t seed) {
  struct chain chain = {
      .embedding = test_matrix_create(&seed, VOCABULARY, HIDDEN, 4, 64, NUMBER_BF16),
      .norm = test_matrix_create(&seed, 1, HIDDEN, 0, 0, NUMBER_BF16),
      .head_norm = test_matrix_create(&seed, 1, HEAD_DIM, 0, 0, NUMBER_F16),
      .q = test_matrix_create(&seed, HEADS * HEAD_DIM, HIDDEN, 4, 64, NUMBER_BF16),
      .k = test_matrix_create(&seed, HEADS * HEAD_DIM, HIDDEN, 8, 32, NUMBER_F16),
      .v = test_matrix_create(&seed, HEADS * HEAD_DIM, HIDDEN, 4, 64, NUMBER_BF16),
      .gate = test_matrix_create(&seed, 160, HEADS * HEAD_DIM, 4, 32, NUMBER_F32),
      .up = test_matrix_create(&seed, 160, HEADS * HEAD_DIM, 0, 0, NUMBER_BF16),
      .down = test_matrix_create(&seed, HIDDEN, 160, 8, 32, NUMBER_F32),
  };
  rope_frequencies(chain.frequencies, HEAD_DIM, 10000.0, NULL);
  return chain;
}

static void chain_free(struct chain *chain) {
  struct test_matrix *all[] = {&chain->embedding, &chain->norm, &chain->head_norm, &chain->q,   &chain->k,
                               &chain->v,         &chain->gate, &chain->up,        &chain->down};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) test_matrix_free(all[i]);
}

/* Runs token `row * 7` at position `row` for ROWS rows, `step` at a time; the result is [ROWS, HIDDEN]. */
static float *run_chain(const char *isa, size_t threads, const struct chain *chain, uint32_t step) {
  struct test_engine engine = test_engine_create(isa, threads, step, HIDDEN);
  const struct backend_operations *run = engine.operations;
  struct backend *backend = engine.backend;
  struct tensor *x = test_tensor(&engine, step, HIDDEN, NULL), *normed = test_tensor(&engine, step, HIDDEN, NULL);
  struct tensor *q = test_tensor(&engine, step, HEADS * HEAD_DIM, NULL), *gate = test_tensor(&engine, step, 160, NULL);
  struct tensor *k = test_tensor(&engine, step, HEADS * HEAD_DIM, NULL), *up = test_tensor(&engine, step, 160, NULL);
  struct tensor *v = test_tensor(&engine, step, HEADS * HEAD_DIM, NULL);
  struct tensor *const qkv[] = {q, k, v}, *const gate_up[] = {gate, up};
  const struct matrix *qkv_weights[] = {&chain->q.matrix, &chain->k.matrix, &chain->v.matrix};
  const struct matrix *gate_up_weights[] = {&chain->gate.matrix, &chain->up.matrix};
  const struct matrix *down = &chain->down.matrix;
  const struct rope rope = {HEAD_DIM / 2, 1.25f, chain->frequencies};
  float *result = test_floats((size_t)ROWS * HIDDEN);
  for (uint32_t first = 0; first < ROWS; first += step) {
    uint32_t rows = ROWS - first < step ? ROWS - first : step, ids[ROWS];
    for (uint32_t t = 0; t < rows; t++) ids[t] = (first + t) * 7 % VOCABULARY;
    struct span span = {.first_position = first, .tokens = rows};
    struct batch batch = {.span_count = 1, .tokens = rows, .spans = &span};
    run->embed(backend, x, &chain->embedding.matrix, ids, rows);
    run->rms_norm(backend, normed, x, &chain->norm.matrix, rows, 1, 1e-6f);
    run->matmul(backend, qkv, normed, qkv_weights, 3, rows);
    run->rms_norm(backend, q, q, &chain->head_norm.matrix, rows, HEADS, 1e-6f);
    run->rotate(backend, q, &rope, HEADS, &batch);
    run->rotate(backend, k, &rope, HEADS, &batch);
    run->add(backend, q, k, rows);
    run->add(backend, q, v, rows);
    run->matmul(backend, gate_up, q, gate_up_weights, 2, rows);
    run->silu_multiply(backend, gate, up, rows);
    run->matmul(backend, &normed, gate, &down, 1, rows);
    run->add(backend, x, normed, rows);
    run->finish(backend);
    run->download(backend, x, 0, rows, result + (size_t)first * HIDDEN);
  }
  struct tensor *all[] = {x, normed, q, k, v, gate, up};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) run->tensor_destroy(backend, all[i]);
  test_engine_destroy(&engine);
  return result;
}

static void rows_and_threads_make_no_difference(void **state) {
  (void)state;
  const struct cpu_kernels *tables[CPU_KERNELS_MAX];
  size_t count = cpu_kernels_available(tables);
  assert_true(count >= 1);
  struct chain chain = chain_create(1);
  float *expected = run_chain("reference", 1, &chain, 1);
  const uint32_t steps[] = {1, 2, 33, 64, 599, ROWS};
  for (size_t i = 0; i < count; i++) {
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
      float *out = run_chain(tables[i]->name, 1 + s % 3, &chain, steps[s]);
      assert_same_floats(out, expected, ROWS * HIDDEN, "%s, %u rows at a time", tables[i]->name, steps[s]);
      free(out);
    }
  }
  free(expected);
  chain_free(&chain);
}

/* Matrices that share an input but not a format, in every order, against their kernels. */
static void matrices_of_different_formats_share_an_input(void **state) {
  (void)state;
  enum { COUNT = 5, COLUMNS = 192, COUNT_ROWS = 3 };
  uint64_t seed = 5;
  const uint32_t formats[COUNT][2] = {{4, 64}, {0, 0}, {8, 64}, {4, 32}, {4, 64}};
  struct test_engine engine = test_engine_create("reference", 3, COUNT_ROWS, COLUMNS);
  float in[COUNT_ROWS * COLUMNS], values[COUNT_ROWS * 40];
  random_activations(&seed, in, COUNT_ROWS * COLUMNS);
  struct tensor *x = test_tensor(&engine, COUNT_ROWS, COLUMNS, in), *outs[COUNT];
  struct test_matrix tests[COUNT];
  const struct matrix *weights[COUNT];
  for (uint32_t turn = 0; turn < COUNT; turn++) {
    for (uint32_t i = 0; i < COUNT; i++) {
      const uint32_t *format = formats[(i + turn) % COUNT];
      tests[i] = test_matrix_create(&seed, 8 * i + 1, COLUMNS, format[0], format[1], NUMBER_F16);
      weights[i] = &tests[i].matrix;
      outs[i] = test_tensor(&engine, COUNT_ROWS, weights[i]->rows, NULL);
    }
    engine.operations->matmul(engine.backend, outs, x, weights, COUNT, COUNT_ROWS);
    for (uint32_t i = 0; i < COUNT; i++) {
      uint32_t rows = weights[i]->rows;
      engine.operations->download(engine.backend, outs[i], 0, COUNT_ROWS, values);
      for (size_t t = 0; t < COUNT_ROWS; t++) {
        float expected[40], *out = expected;
        const float *plain = in + t * COLUMNS;
        if (weights[i]->format == MATRIX_PLAIN) {
          cpu_kernels_reference()->matmul_plain(weights[i], 0, rows, &plain, &out, 1);
        } else {
          struct activation_layout layout = activation_layout_for(weights[i]);
          void *row = aligned_alloc(64, activation_row_bytes(layout));
          const void *activations[] = {row};
          cpu_kernels_reference()->quantize(row, plain, layout);
          cpu_kernels_reference()->matmul_affine(weights[i], 0, rows, activations, &out, 1, kernel_scratch(COLUMNS));
          free(row);
        }
        assert_same_floats(values + t * rows, expected, rows, "turn %u, matrix %u", turn, i);
      }
      engine.operations->tensor_destroy(engine.backend, outs[i]);
      test_matrix_free(&tests[i]);
    }
  }
  engine.operations->tensor_destroy(engine.backend, x);
  test_engine_destroy(&engine);
}

static void embeddings_are_the_dequantized_rows(void **state) {
  (void)state;
  uint64_t seed = 2;
  struct test_engine engine = test_engine_create("reference", 2, 5, 96);
  struct tensor *out = test_tensor(&engine, 5, 96, NULL);
  for (uint32_t bits = 0; bits <= 8; bits += 4) {
    struct test_matrix test = test_matrix_create(&seed, 7, 96, bits, 32, NUMBER_BF16);
    const uint32_t ids[] = {6, 0, 3, 3, 5};
    float values[5 * 96];
    engine.operations->embed(engine.backend, out, &test.matrix, ids, 5);
    engine.operations->download(engine.backend, out, 0, 5, values);
    for (size_t i = 0; i < 5 * 96; i++) assert_true(values[i] == (float)weight_at(&test.matrix, ids[i / 96], i % 96));
    engine.operations->warm_matrix(engine.backend, &test.matrix);
    test_matrix_free(&test);
  }
  engine.operations->tensor_destroy(engine.backend, out);
  test_engine_destroy(&engine);
}

/* The cache of angles must notice another position, another scaling and other frequencies. */
static void rotation_is_right_after_every_change(void **state) {
  (void)state;
  struct test_engine engine = test_engine_create("reference", 1, 2, 64);
  struct tensor *x = test_tensor(&engine, 2, 2 * HEAD_DIM, NULL);
  float frequencies[2][HEAD_DIM / 2];
  rope_frequencies(frequencies[0], HEAD_DIM, 10000.0, NULL);
  rope_frequencies(frequencies[1], HEAD_DIM, 500.0, NULL);
  uint64_t seed = 3;
  for (uint32_t round = 0; round < 64; round++) {
    uint32_t positions[] = {round / 8 * 1000, 3 + round / 4};
    uint32_t gray = round ^ round >> 1; /* one property changes at a time */
    struct rope rope = {gray & 1 ? HEAD_DIM / 4 : HEAD_DIM / 2, gray & 2 ? 1.5f : 1.0f, frequencies[gray >> 2 & 1]};
    struct span spans[] = {{.first_position = positions[0], .tokens = 1},
                           {.first_position = positions[1], .tokens = 1}};
    struct batch batch = {.span_count = 2, .tokens = 2, .spans = spans};
    float in[2 * 2 * HEAD_DIM], out[2 * 2 * HEAD_DIM];
    for (size_t i = 0; i < 4 * HEAD_DIM; i++) in[i] = random_float(&seed);
    engine.operations->upload(engine.backend, x, 0, 2, in);
    engine.operations->rotate(engine.backend, x, &rope, 2, &batch);
    engine.operations->download(engine.backend, x, 0, 2, out);
    for (size_t part = 0; part < 4; part++) {
      for (size_t i = 0; i < rope.pairs; i++) {
        double angle = positions[part / 2] * (double)rope.inverse_frequency[i];
        double a = in[part * HEAD_DIM + i], b = in[part * HEAD_DIM + i + rope.pairs];
        double factor = (double)rope.attention_factor;
        assert_true(fabs((double)out[part * HEAD_DIM + i] - factor * (a * cos(angle) - b * sin(angle))) < 1e-3);
        assert_true(fabs((double)out[part * HEAD_DIM + i + rope.pairs] - factor * (b * cos(angle) + a * sin(angle))) <
                    1e-3);
      }
    }
  }
  engine.operations->tensor_destroy(engine.backend, x);
  test_engine_destroy(&engine);
}

static void matrices_that_cannot_be_computed_with_are_refused_by_name(void **state) {
  (void)state;
  struct test_engine engine = test_engine_create("reference", 1, 4, 256);
  const struct matrix good = {
      .rows = 8, .columns = 256, .format = MATRIX_AFFINE, .type = NUMBER_BF16, .bits = 4, .group = 64};
  assert_int_equal(engine.operations->check_matrix(engine.backend, &good, NULL), 0);
  struct {
    struct matrix matrix;
    const char *word;
  } bad[] = {{good, "3 bits"}, {good, "groups of 16"}, {good, "multiple"}, {good, "columns"},
             {good, "0 rows"}, {good, "type 9"},       {good, "format 5"}};
  bad[0].matrix.bits = 3;
  bad[1].matrix.group = 16;
  bad[2].matrix.columns = 96;
  bad[3].matrix.columns = 512;
  bad[4].matrix.rows = 0;
  bad[5].matrix.type = (enum number_type)9;
  bad[6].matrix.format = (enum matrix_format)5;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct kj_error error = {0};
    assert_int_equal(engine.operations->check_matrix(engine.backend, &bad[i].matrix, &error), KJ_UNSUPPORTED);
    if (!strstr(error.message, bad[i].word)) fail_msg("\"%s\" lacks \"%s\"", error.message, bad[i].word);
  }
  test_engine_destroy(&engine);
}

static void an_unknown_instruction_set_is_refused_with_the_known_ones(void **state) {
  (void)state;
  struct threads *threads;
  struct backend *backend;
  struct kj_error error = {0};
  assert_int_equal(threads_create(&threads, 1, &error), 0);
  assert_int_equal(backend_cpu_create(&backend, "mmx", threads, 1, 64, &error), KJ_UNSUPPORTED);
  assert_null(backend);
  assert_non_null(strstr(error.message, "\"mmx\""));
  assert_non_null(strstr(error.message, "reference"));
  assert_int_equal(backend_cpu_create(&backend, "auto", threads, 0, 64, &error), KJ_INVALID);
  assert_int_equal(backend_cpu_create(&backend, "auto", threads, SIZE_MAX, 64, &error), KJ_MEMORY);
  assert_int_equal(backend_cpu_create(&backend, "auto", threads, 1, SIZE_MAX, &error), KJ_MEMORY);
  assert_null(backend);
  assert_int_equal(backend_cpu_create(&backend, "reference", threads, 1, 64, &error), 0);
  assert_string_equal(backend->operations->describe(backend), "cpu reference, 1 thread");
  backend->operations->destroy(backend);
  threads_destroy(threads);
}

static void memory_is_aligned_counted_and_bounded(void **state) {
  (void)state;
  struct test_engine engine = test_engine_create("reference", 1, 4, 256);
  struct tensor *tensor;
  struct kj_error error = {0};
  assert_int_equal(engine.operations->tensor_create(engine.backend, SIZE_MAX, 2, &tensor, &error), KJ_MEMORY);
  assert_int_equal(engine.operations->tensor_create(engine.backend, SIZE_MAX / 4, 1, &tensor, &error), KJ_MEMORY);
  assert_null(tensor);
  test_engine_destroy(&engine);
  /* A row: 128 int8, 16 scales, 16 sums; 8 + 2 · 1024 bytes of angles. */
  uint64_t row = backend_cpu_scratch_bytes(1, 65, 128) - backend_cpu_scratch_bytes(1, 64, 128);
  assert_in_range(row, 128 + 64 + 64 + 2048, 128 + 64 + 64 + 2048 + 64);
  assert_true(backend_cpu_scratch_bytes(1, SIZE_MAX, 128) == UINT64_MAX);
  assert_true(backend_cpu_routing_bytes(2, 64, 128, 64, 16, 4) > backend_cpu_routing_bytes(1, 64, 128, 64, 16, 4));
  /* The inner activations of the largest model stay bounded. */
  assert_in_range(backend_cpu_routing_bytes(2, 2048, 12288, 2048, 160, 8), 64 << 20, 72 << 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_and_threads_make_no_difference),
      cmocka_unit_test(matrices_of_different_formats_share_an_input),
      cmocka_unit_test(embeddings_are_the_dequantized_rows),
      cmocka_unit_test(rotation_is_right_after_every_change),
      cmocka_unit_test(matrices_that_cannot_be_computed_with_are_refused_by_name),
      cmocka_unit_test(an_unknown_instruction_set_is_refused_with_the_known_ones),
      cmocka_unit_test(memory_is_aligned_counted_and_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Attention over the KV pool: right, and the same to the bit however the positions are cut into batches. */
#include "unit/compute/support.h"

enum { HEADS = 6, KV_HEADS = 2, HEAD_DIM = 32, POSITIONS = 203, BLOCKS = 9 };
enum { Q_COLUMNS = HEADS * HEAD_DIM, KV_COLUMNS = KV_HEADS * HEAD_DIM };

static const struct attention_shape shape = {HEADS, KV_HEADS, HEAD_DIM, 0.17677669f};
/* The blocks of the sequence lie anywhere in the pool. */
static const uint32_t table[] = {5, 1, 8, 3};

struct input {
  float q[POSITIONS * Q_COLUMNS], k[POSITIONS * KV_COLUMNS], v[POSITIONS * KV_COLUMNS];
};

static struct input *random_input(uint64_t seed) {
  struct input *input = malloc(sizeof *input);
  assert_non_null(input);
  for (size_t i = 0; i < POSITIONS * Q_COLUMNS; i++) input->q[i] = 3.0f * random_float(&seed);
  for (size_t i = 0; i < POSITIONS * KV_COLUMNS; i++) input->k[i] = 3.0f * random_float(&seed);
  for (size_t i = 0; i < POSITIONS * KV_COLUMNS; i++) input->v[i] = random_float(&seed);
  return input;
}

struct pool {
  struct test_engine engine;
  struct kv_pool *pool;
  struct tensor *q, *k, *v, *out;
};

/* An engine with a pool of 2 layers that is full of NaN. */
static struct pool pool_create(const char *isa, size_t threads) {
  struct pool result = {.engine = test_engine_create(isa, threads, 256, 64)};
  struct test_engine *engine = &result.engine;
  struct kj_error error = {0};
  assert_int_equal(engine->operations->kv_create(engine->backend, 2, BLOCKS, shape, &result.pool, &error), 0);
  result.q = test_tensor(engine, 256, Q_COLUMNS, NULL);
  result.k = test_tensor(engine, 256, KV_COLUMNS, NULL);
  result.v = test_tensor(engine, 256, KV_COLUMNS, NULL);
  result.out = test_tensor(engine, 256, Q_COLUMNS, NULL);
  float *nan = test_floats(KV_BLOCK * KV_COLUMNS);
  for (size_t i = 0; i < KV_BLOCK * KV_COLUMNS; i++) nan[i] = NAN;
  engine->operations->upload(engine->backend, result.k, 0, KV_BLOCK, nan);
  engine->operations->upload(engine->backend, result.v, 0, KV_BLOCK, nan);
  for (uint32_t block = 0; block < BLOCKS; block++) {
    struct span span = {.tokens = KV_BLOCK, .block_count = 1, .blocks = &block};
    struct batch batch = {.span_count = 1, .tokens = KV_BLOCK, .spans = &span};
    engine->operations->kv_write(engine->backend, result.pool, 0, result.k, result.v, &batch);
    engine->operations->kv_write(engine->backend, result.pool, 1, result.k, result.v, &batch);
  }
  free(nan);
  return result;
}

static void pool_destroy(struct pool *pool) {
  const struct backend_operations *operations = pool->engine.operations;
  operations->tensor_destroy(pool->engine.backend, pool->q);
  operations->tensor_destroy(pool->engine.backend, pool->k);
  operations->tensor_destroy(pool->engine.backend, pool->v);
  operations->tensor_destroy(pool->engine.backend, pool->out);
  operations->kv_destroy(pool->engine.backend, pool->pool);
  test_engine_destroy(&pool->engine);
}

/* Rows of `input` as spans of one batch. The result's rows are written to out, at the spans' positions. */
static void run_batch(struct pool *pool, const struct input *input, const struct span *spans, uint32_t count,
                      float *out) {
  const struct backend_operations *operations = pool->engine.operations;
  struct backend *backend = pool->engine.backend;
  struct batch batch = {.span_count = count, .spans = spans};
  for (uint32_t s = 0; s < count; s++) {
    size_t position = spans[s].first_position;
    operations->upload(backend, pool->q, batch.tokens, spans[s].tokens, input->q + position * Q_COLUMNS);
    operations->upload(backend, pool->k, batch.tokens, spans[s].tokens, input->k + position * KV_COLUMNS);
    operations->upload(backend, pool->v, batch.tokens, spans[s].tokens, input->v + position * KV_COLUMNS);
    batch.tokens += spans[s].tokens;
  }
  operations->kv_write(backend, pool->pool, 1, pool->k, pool->v, &batch);
  operations->attention(backend, pool->out, pool->q, pool->pool, 1, &batch);
  operations->finish(backend);
  uint32_t row = 0;
  for (uint32_t s = 0; s < count; s++) {
    operations->download(backend, pool->out, row, spans[s].tokens, out + (size_t)spans[s].first_position * Q_COLUMNS);
    row += spans[s].tokens;
  }
}

static struct span span_at(uint32_t first, uint32_t tokens) {
  return (struct span){.first_position = first,
                       .tokens = tokens,
                       .block_count = (first + tokens + KV_BLOCK - 1) / KV_BLOCK,
                       .blocks = table};
}

static float *run_chunks(const char *isa, size_t threads, const struct input *input, uint32_t chunk) {
  struct pool pool = pool_create(isa, threads);
  float *out = test_floats(POSITIONS * Q_COLUMNS);
  for (uint32_t first = 0; first < POSITIONS; first += chunk) {
    struct span span = span_at(first, POSITIONS - first < chunk ? POSITIONS - first : chunk);
    run_batch(&pool, input, &span, 1, out);
  }
  pool_destroy(&pool);
  return out;
}

static double half(float value) { return (double)f32_from_f16(f16_from_f32(value)); }

static void attention_is_right(void **state) {
  (void)state;
  struct input *input = random_input(1);
  float *out = run_chunks("reference", 1, input, POSITIONS);
  for (size_t row = 0; row < POSITIONS; row++) {
    for (size_t head = 0; head < HEADS; head++) {
      const float *q = input->q + row * Q_COLUMNS + head * HEAD_DIM;
      size_t offset = head / (HEADS / KV_HEADS) * HEAD_DIM;
      double score[POSITIONS], sum = 0, max = -1e300;
      for (size_t t = 0; t <= row; t++) {
        score[t] = 0;
        for (size_t d = 0; d < HEAD_DIM; d++) score[t] += (double)q[d] * half(input->k[t * KV_COLUMNS + offset + d]);
        score[t] *= (double)shape.scale;
        max = fmax(max, score[t]);
      }
      for (size_t t = 0; t <= row; t++) sum += exp(score[t] - max);
      for (size_t d = 0; d < HEAD_DIM; d++) {
        double exact = 0;
        for (size_t t = 0; t <= row; t++)
          exact += exp(score[t] - max) / sum * half(input->v[t * KV_COLUMNS + offset + d]);
        assert_true(fabs((double)out[row * Q_COLUMNS + head * HEAD_DIM + d] - exact) < 1e-5);
      }
    }
  }
  free(out);
  free(input);
}

static void chunks_and_threads_make_no_difference(void **state) {
  (void)state;
  const struct cpu_kernels *tables[CPU_KERNELS_MAX];
  size_t count = cpu_kernels_available(tables);
  assert_true(count >= 1);
  struct input *input = random_input(2);
  float *expected = run_chunks("reference", 1, input, 1);
  const uint32_t chunks[] = {1, 7, 63, 64, 65, 150, POSITIONS};
  for (size_t i = 0; i < count; i++) {
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
      size_t threads = 1 + c % 3;
      float *out = run_chunks(tables[i]->name, threads, input, chunks[c]);
      assert_same_floats(out, expected, POSITIONS * Q_COLUMNS, "%s, chunks of %u, %zu threads", tables[i]->name,
                         chunks[c], threads);
      free(out);
    }
  }
  free(expected);
  free(input);
}

/* A batch that mixes a decode step, the middle of a prefill and the start of another sequence. */
static void spans_of_a_batch_do_not_touch_each_other(void **state) {
  (void)state;
  struct input *input = random_input(3), *other = random_input(4);
  float *expected = run_chunks("reference", 1, input, POSITIONS);
  float *expected_other = run_chunks("reference", 1, other, POSITIONS);
  struct pool pool = pool_create("reference", 3);
  float *out = test_floats(POSITIONS * Q_COLUMNS), *out_other = test_floats(POSITIONS * Q_COLUMNS);
  const uint32_t other_table[] = {2, 0, 7, 4};
  struct span first = span_at(0, 100), other_first = span_at(0, 70);
  other_first.blocks = other_table;
  run_batch(&pool, input, &first, 1, out);
  run_batch(&pool, other, &other_first, 1, out_other);
  const struct backend_operations *operations = pool.engine.operations;
  struct span spans[] = {span_at(100, 1), span_at(70, 30)};
  spans[1].blocks = other_table;
  struct batch batch = {.span_count = 2, .tokens = 31, .spans = spans};
  operations->upload(pool.engine.backend, pool.q, 0, 1, input->q + 100 * Q_COLUMNS);
  operations->upload(pool.engine.backend, pool.k, 0, 1, input->k + 100 * KV_COLUMNS);
  operations->upload(pool.engine.backend, pool.v, 0, 1, input->v + 100 * KV_COLUMNS);
  operations->upload(pool.engine.backend, pool.q, 1, 30, other->q + 70 * Q_COLUMNS);
  operations->upload(pool.engine.backend, pool.k, 1, 30, other->k + 70 * KV_COLUMNS);
  operations->upload(pool.engine.backend, pool.v, 1, 30, other->v + 70 * KV_COLUMNS);
  operations->kv_write(pool.engine.backend, pool.pool, 1, pool.k, pool.v, &batch);
  operations->attention(pool.engine.backend, pool.out, pool.q, pool.pool, 1, &batch);
  operations->download(pool.engine.backend, pool.out, 0, 1, out + 100 * Q_COLUMNS);
  operations->download(pool.engine.backend, pool.out, 1, 30, out_other + 70 * Q_COLUMNS);
  assert_same_floats(out, expected, 101 * Q_COLUMNS, "the first sequence");
  assert_same_floats(out_other, expected_other, 100 * Q_COLUMNS, "the other sequence");
  pool_destroy(&pool);
  free(out);
  free(out_other);
  free(expected);
  free(expected_other);
  free(input);
  free(other);
}

static void shapes_that_cannot_be_computed_are_refused_by_name(void **state) {
  (void)state;
  struct test_engine engine = test_engine_create("reference", 1, 1, 64);
  const struct attention_shape bad[] = {{4, 2, 0, 1}, {4, 2, 40, 1}, {4, 2, 528, 1}, {4, 3, 32, 1}, {4, 0, 32, 1}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct kv_pool *pool;
    struct kj_error error = {0};
    assert_int_equal(engine.operations->kv_create(engine.backend, 1, 1, bad[i], &pool, &error), KJ_UNSUPPORTED);
    assert_null(pool);
    assert_non_null(strstr(error.message, i < 3 ? "head_dim" : "query heads"));
  }
  struct kv_pool *pool;
  struct kj_error error = {0};
  assert_int_equal(engine.operations->kv_create(engine.backend, UINT32_MAX, UINT32_MAX, shape, &pool, &error),
                   KJ_MEMORY);
  assert_int_equal(backend_kv_block_bytes(shape), KV_BLOCK * KV_COLUMNS * 2 * 2);
  test_engine_destroy(&engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(attention_is_right),
      cmocka_unit_test(chunks_and_threads_make_no_difference),
      cmocka_unit_test(spans_of_a_batch_do_not_touch_each_other),
      cmocka_unit_test(shapes_that_cannot_be_computed_are_refused_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

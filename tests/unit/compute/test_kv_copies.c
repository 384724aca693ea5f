/* KV blocks as bytes: in the documented layout, whole, and nothing else touched when they are put back. */
#include "unit/compute/support.h"

enum { KV_HEADS = 2, HEAD_DIM = 32, COLUMNS = KV_HEADS * HEAD_DIM, LAYERS = 3, BLOCKS = 4 };
static const struct attention_shape shape = {4, KV_HEADS, HEAD_DIM, 1};

/* Small whole numbers, which f16 holds exactly; different in every place. */
static float key_at(uint32_t layer, uint32_t block, uint32_t position, uint32_t column) {
  return (float)((layer * 911 + block * 577 + position * COLUMNS + column) % 2048);
}
static float value_at(uint32_t layer, uint32_t block, uint32_t position, uint32_t column) {
  return -1.0f - key_at(layer, block, position, column);
}

/* A pool filled with them. */
static struct kv_pool *pool_create(struct test_engine *engine) {
  struct kv_pool *pool;
  assert_int_equal(engine->operations->kv_create(engine->backend, LAYERS, BLOCKS, shape, &pool, NULL), 0);
  struct tensor *k = test_tensor(engine, KV_BLOCK, COLUMNS, NULL), *v = test_tensor(engine, KV_BLOCK, COLUMNS, NULL);
  float *keys = test_floats(KV_BLOCK * COLUMNS), *values = test_floats(KV_BLOCK * COLUMNS);
  for (uint32_t block = 0; block < BLOCKS; block++) {
    struct span span = {.tokens = KV_BLOCK, .block_count = 1, .blocks = &block};
    struct batch batch = {.span_count = 1, .tokens = KV_BLOCK, .spans = &span};
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
      for (uint32_t i = 0; i < KV_BLOCK * COLUMNS; i++) {
        keys[i] = key_at(layer, block, i / COLUMNS, i % COLUMNS);
        values[i] = value_at(layer, block, i / COLUMNS, i % COLUMNS);
      }
      engine->operations->upload(engine->backend, k, 0, KV_BLOCK, keys);
      engine->operations->upload(engine->backend, v, 0, KV_BLOCK, values);
      engine->operations->kv_write(engine->backend, pool, layer, k, v, &batch);
    }
  }
  free(keys);
  free(values);
  engine->operations->tensor_destroy(engine->backend, k);
  engine->operations->tensor_destroy(engine->backend, v);
  return pool;
}

static float half_at(const uint8_t *bytes, size_t index) {
  return f32_from_f16((uint16_t)(bytes[2 * index] | bytes[2 * index + 1] << 8));
}

static void assert_block(const uint8_t *bytes, uint32_t block) {
  size_t half = (size_t)COLUMNS * KV_BLOCK;
  for (uint32_t layer = 0; layer < LAYERS; layer++) {
    for (uint32_t position = 0; position < KV_BLOCK; position++) {
      for (uint32_t column = 0; column < COLUMNS; column++) {
        size_t start = layer * 2 * half, head = column / HEAD_DIM, dim = column % HEAD_DIM;
        size_t key = start + (head * HEAD_DIM + dim) * KV_BLOCK + position;
        size_t value = start + half + (head * KV_BLOCK + position) * HEAD_DIM + dim;
        assert_true(half_at(bytes, key) == key_at(layer, block, position, column));
        assert_true(half_at(bytes, value) == value_at(layer, block, position, column));
      }
    }
  }
}

static void copies_are_laid_out_as_documented(void **state) {
  (void)state;
  struct test_engine engine = test_engine_create("auto", 2, KV_BLOCK, COLUMNS);
  struct kv_pool *pool = pool_create(&engine);
  size_t size = LAYERS * (size_t)backend_kv_block_bytes(shape);
  assert_int_equal(size, LAYERS * KV_BLOCK * COLUMNS * 2 * 2);
  uint8_t *bytes = malloc(size); /* exactly: a sanitizer sees a byte too many */
  for (uint32_t block = 0; block < BLOCKS; block++) {
    engine.operations->kv_export(engine.backend, pool, block, bytes);
    assert_block(bytes, block);
  }
  free(bytes);
  engine.operations->kv_destroy(engine.backend, pool);
  test_engine_destroy(&engine);
}

static void copies_are_put_back_alone(void **state) {
  (void)state;
  struct test_engine engine = test_engine_create("reference", 1, KV_BLOCK, COLUMNS);
  struct kv_pool *from = pool_create(&engine), *to = pool_create(&engine);
  size_t size = LAYERS * (size_t)backend_kv_block_bytes(shape);
  uint8_t *bytes = malloc(size);
  engine.operations->kv_export(engine.backend, from, 3, bytes);
  engine.operations->kv_import(engine.backend, to, 1, bytes);
  for (uint32_t block = 0; block < BLOCKS; block++) {
    engine.operations->kv_export(engine.backend, to, block, bytes);
    assert_block(bytes, block == 1 ? 3 : block);
  }
  free(bytes);
  engine.operations->kv_destroy(engine.backend, from);
  engine.operations->kv_destroy(engine.backend, to);
  test_engine_destroy(&engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copies_are_laid_out_as_documented),
      cmocka_unit_test(copies_are_put_back_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

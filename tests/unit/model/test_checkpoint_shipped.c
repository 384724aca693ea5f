/* models/kaiju-mini loads with all shapes right, and its numbers are finite and of sensible size. */
#include <math.h>

#include "model/checkpoint.h"
#include "unit/unit.h"

static struct checkpoint *checkpoint;

static int setup(void **state) {
  (void)state;
  return checkpoint_open(&checkpoint, KAIJU_SOURCE_DIR "/models/kaiju-mini", NULL);
}

static int teardown(void **state) {
  (void)state;
  checkpoint_close(checkpoint);
  return 0;
}

static void test_F4_configuration(void **state) {
  (void)state;
  const struct config *config = checkpoint_config(checkpoint);
  assert_string_equal(config->model_type, "qwen3_moe");
  assert_int_equal(config->layers, 12);
  assert_int_equal(config->hidden, 384);
  assert_int_equal(config->experts, 16);
  assert_int_equal(config->experts_per_token, 4);
  assert_int_equal(config->max_positions, 4096);
  assert_true(config->rope_theta == 1e6);
  assert_true(config->renormalise_experts);
  assert_int_equal(config->override_count, 12);
  assert_true(config->generation.sample);
  assert_true(config->generation.temperature == 0.7f);
  assert_true(config->generation.top_p == 0.8f);
  assert_true(config->generation.repetition_penalty == 1.05f);
  assert_int_equal(config->generation.top_k, 20);
  assert_int_equal(config->generation.eos_count, 2);
  assert_int_equal(config->generation.eos[0], 12264);
  assert_int_equal(config->generation.eos[1], 12262);
}

static float bf16(const void *numbers, size_t index) {
  uint16_t half;
  memcpy(&half, (const uint8_t *)numbers + 2 * index, sizeof half);
  uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void assert_affine(const struct matrix *matrix, uint32_t rows, uint32_t columns, uint32_t bits) {
  assert_int_equal(matrix->rows, rows);
  assert_int_equal(matrix->columns, columns);
  assert_int_equal(matrix->format, MATRIX_AFFINE);
  assert_int_equal(matrix->type, NUMBER_BF16);
  assert_int_equal(matrix->bits, bits);
  assert_int_equal(matrix->group, 64);
  for (size_t i = 0; i < (size_t)rows * columns / 64; i++) {
    float scale = bf16(matrix->scales, i), bias = bf16(matrix->biases, i);
    if (!(fabsf(scale) < 4) || !(fabsf(bias) < 16)) fail_msg("scale %g or bias %g of group %zu", scale, bias, i);
  }
}

static void assert_norm(const struct matrix *matrix, uint32_t columns) {
  assert_int_equal(matrix->rows, 1);
  assert_int_equal(matrix->columns, columns);
  assert_int_equal(matrix->format, MATRIX_PLAIN);
  assert_int_equal(matrix->type, NUMBER_BF16);
  for (size_t i = 0; i < columns; i++) assert_true(fabsf(bf16(matrix->data, i)) < 100);
}

static void test_layers(void **state) {
  (void)state;
  struct layer_weights weights;
  struct kj_error error;
  for (uint32_t layer = 0; layer < 12; layer++) {
    if (checkpoint_layer(checkpoint, layer, &weights, &error)) fail_msg("%s", error.message);
    assert_true(weights.sparse);
    assert_norm(&weights.input_norm, 384);
    assert_norm(&weights.post_attention_norm, 384);
    assert_norm(&weights.query_norm, 128);
    assert_norm(&weights.key_norm, 128);
    assert_affine(&weights.query, 512, 384, 4);
    assert_affine(&weights.key, 256, 384, 4);
    assert_affine(&weights.value, 256, 384, 4);
    assert_affine(&weights.output, 384, 512, 4);
    assert_affine(&weights.router, 16, 384, 8);
    for (unsigned expert = 0; expert < 16; expert++) {
      assert_affine(&weights.gate[expert], 192, 384, 4);
      assert_affine(&weights.up[expert], 192, 384, 4);
      assert_affine(&weights.down[expert], 384, 192, 4);
    }
    layer_weights_free(&weights);
  }
}

static void test_head(void **state) {
  (void)state;
  struct head_weights weights;
  struct kj_error error;
  if (checkpoint_head(checkpoint, &weights, &error)) fail_msg("%s", error.message);
  assert_affine(&weights.embedding, 12288, 384, 4);
  assert_affine(&weights.head, 12288, 384, 4);
  assert_norm(&weights.norm, 384);
  assert_ptr_not_equal(weights.embedding.data, weights.head.data);
}

static void test_sizes(void **state) {
  (void)state;
  struct checkpoint_sizes sizes;
  assert_int_equal(checkpoint_sizes(checkpoint, &sizes, NULL), 0);
  assert_int_equal(sizes.total_bytes, 33281280); /* metadata.total_size of its index */
  assert_false(sizes.estimated);
  checkpoint_sizes_free(&sizes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_F4_configuration),
      cmocka_unit_test(test_layers),
      cmocka_unit_test(test_head),
      cmocka_unit_test(test_sizes),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}

/* The layouts of a checkpoint: plain and quantized, stacked experts and one tensor an expert, dense, tied, one file. */
#include "model/checkpoint.h"
#include "unit/model/tiny_checkpoint.h"

static size_t number_bytes(const struct tiny *tiny) { return !strcmp(tiny_type(tiny), "F32") ? 4 : 2; }

static enum number_type number_type(const struct tiny *tiny) {
  const char *type = tiny_type(tiny);
  return !strcmp(type, "F32") ? NUMBER_F32 : !strcmp(type, "F16") ? NUMBER_F16 : NUMBER_BF16;
}

/* `data` must be bytes `begin` to `begin + length` of this tensor's pattern. */
static void assert_bytes(const void *data, const char *tensor, size_t begin, size_t length) {
  const uint8_t *bytes = data;
  uint32_t seed = pattern_seed(tensor);
  assert_non_null(data);
  for (size_t i = 0; i < length; i++) {
    if (bytes[i] != pattern_byte(seed, begin + i)) fail_msg("%s: byte %zu is of another tensor", tensor, begin + i);
  }
}

/* `matrix` must be number `index` of those that are stacked in MODULE. */
static void assert_matrix(const struct tiny *tiny, const struct matrix *matrix, const char *module, size_t index,
                          size_t rows, size_t columns, unsigned bits) {
  char name[200];
  size_t row_bytes = bits ? columns * bits / 8 : columns * number_bytes(tiny);
  assert_int_equal(matrix->rows, rows);
  assert_int_equal(matrix->columns, columns);
  assert_int_equal(matrix->format, bits ? MATRIX_AFFINE : MATRIX_PLAIN);
  assert_int_equal(matrix->type, number_type(tiny));
  assert_int_equal(matrix_row_bytes(matrix), row_bytes);
  snprintf(name, sizeof name, "%s.weight", module);
  assert_bytes(matrix->data, name, index * rows * row_bytes, rows * row_bytes);
  if (!bits) return;
  size_t scale_bytes = rows * (columns / tiny->group) * number_bytes(tiny);
  assert_int_equal(matrix->bits, bits);
  assert_int_equal(matrix->group, tiny->group);
  snprintf(name, sizeof name, "%s.scales", module);
  assert_bytes(matrix->scales, name, index * scale_bytes, scale_bytes);
  snprintf(name, sizeof name, "%s.biases", module);
  assert_bytes(matrix->biases, name, index * scale_bytes, scale_bytes);
}

static void assert_experts(const struct tiny *tiny, const struct matrix *matrices, unsigned layer, const char *part,
                           size_t rows, size_t columns) {
  char module[200];
  for (unsigned expert = 0; expert < TINY_EXPERTS; expert++) {
    if (tiny->one_an_expert)
      snprintf(module, sizeof module, "model.layers.%u.mlp.experts.%u.%s", layer, expert, part);
    else
      snprintf(module, sizeof module, "model.layers.%u.mlp.switch_mlp.%s", layer, part);
    assert_matrix(tiny, &matrices[expert], module, tiny->one_an_expert ? 0 : expert, rows, columns, tiny->bits);
  }
}

static void assert_feed_forward(const struct tiny *tiny, const struct layer_weights *weights, unsigned layer) {
  char prefix[60], module[200];
  snprintf(prefix, sizeof prefix, "model.layers.%u.mlp.", layer);
  assert_int_equal(weights->sparse, !tiny->dense);
  if (tiny->dense) {
    snprintf(module, sizeof module, "%sgate_proj", prefix);
    assert_matrix(tiny, weights->gate, module, 0, TINY_INNER, TINY_HIDDEN, tiny->bits);
    snprintf(module, sizeof module, "%sup_proj", prefix);
    assert_matrix(tiny, weights->up, module, 0, TINY_INNER, TINY_HIDDEN, tiny->bits);
    snprintf(module, sizeof module, "%sdown_proj", prefix);
    assert_matrix(tiny, weights->down, module, 0, TINY_HIDDEN, TINY_INNER, tiny->bits);
    return;
  }
  snprintf(module, sizeof module, "%sgate", prefix);
  assert_matrix(tiny, &weights->router, module, 0, TINY_EXPERTS, TINY_HIDDEN,
                tiny->router_8_bits  ? 8
                : tiny->router_plain ? 0
                                     : tiny->bits);
  assert_experts(tiny, weights->gate, layer, "gate_proj", TINY_EXPERT_INNER, TINY_HIDDEN);
  assert_experts(tiny, weights->up, layer, "up_proj", TINY_EXPERT_INNER, TINY_HIDDEN);
  assert_experts(tiny, weights->down, layer, "down_proj", TINY_HIDDEN, TINY_EXPERT_INNER);
}

static void assert_layer(const struct tiny *tiny, struct checkpoint *checkpoint, unsigned layer) {
  struct layer_weights weights;
  struct kj_error error;
  char module[200];
  if (checkpoint_layer(checkpoint, layer, &weights, &error)) fail_msg("%s", error.message);
  const struct {
    const char *name;
    const struct matrix *matrix;
    size_t rows, columns;
    unsigned bits;
  } modules[] = {{"input_layernorm", &weights.input_norm, 1, TINY_HIDDEN, 0},
                 {"post_attention_layernorm", &weights.post_attention_norm, 1, TINY_HIDDEN, 0},
                 {"self_attn.q_norm", &weights.query_norm, 1, TINY_HEAD, 0},
                 {"self_attn.k_norm", &weights.key_norm, 1, TINY_HEAD, 0},
                 {"self_attn.q_proj", &weights.query, 2 * TINY_HEAD, TINY_HIDDEN, tiny->bits},
                 {"self_attn.k_proj", &weights.key, TINY_HEAD, TINY_HIDDEN, tiny->bits},
                 {"self_attn.v_proj", &weights.value, TINY_HEAD, TINY_HIDDEN, tiny->bits},
                 {"self_attn.o_proj", &weights.output, TINY_HIDDEN, 2 * TINY_HEAD, tiny->bits}};
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
    snprintf(module, sizeof module, "model.layers.%u.%s", layer, modules[i].name);
    assert_matrix(tiny, modules[i].matrix, module, 0, modules[i].rows, modules[i].columns, modules[i].bits);
  }
  assert_feed_forward(tiny, &weights, layer);
  layer_weights_free(&weights);
  assert_null(weights.gate);
}

static void assert_head(const struct tiny *tiny, struct checkpoint *checkpoint) {
  struct head_weights weights;
  struct kj_error error;
  if (checkpoint_head(checkpoint, &weights, &error)) fail_msg("%s", error.message);
  assert_matrix(tiny, &weights.embedding, "model.embed_tokens", 0, TINY_TOKENS, TINY_HIDDEN, tiny->bits);
  assert_matrix(tiny, &weights.norm, "model.norm", 0, 1, TINY_HIDDEN, 0);
  assert_matrix(tiny, &weights.head, tiny->tied ? "model.embed_tokens" : "lm_head", 0, TINY_TOKENS, TINY_HIDDEN,
                tiny->bits);
}

/* Writes the checkpoint and reads all of it back. */
static void check(const struct tiny *tiny) {
  struct directory directory;
  struct checkpoint *checkpoint = NULL;
  struct kj_error error;
  directory_create(&directory);
  tiny_write(tiny, &directory);
  if (checkpoint_open(&checkpoint, directory.path, &error)) fail_msg("%s", error.message);
  assert_string_equal(checkpoint_directory(checkpoint), directory.path);
  assert_int_equal(checkpoint_config(checkpoint)->layers, tiny->layers);
  for (unsigned layer = 0; layer < tiny->layers; layer++) assert_layer(tiny, checkpoint, layer);
  assert_head(tiny, checkpoint);
  checkpoint_close(checkpoint);
  directory_remove(&directory);
}

static void test_bits_groups_and_scale_types(void **state) {
  (void)state;
  static const unsigned bits[] = {4, 8}, groups[] = {32, 64, 128};
  static const char *const types[] = {"BF16", "F16", "F32"};
  for (size_t i = 0; i < 2; i++) {
    for (size_t j = 0; j < 3; j++) {
      for (size_t k = 0; k < 3; k++)
        check(&(struct tiny){.layers = 1, .bits = bits[i], .group = groups[j], .type = types[k]});
    }
  }
}

static void test_overrides_of_a_module(void **state) {
  (void)state;
  check(&(struct tiny){.layers = 2, .bits = 4, .group = 32, .router_8_bits = true});
  check(&(struct tiny){.layers = 2, .bits = 8, .group = 32, .router_plain = true});
}

static void test_plain_types(void **state) {
  (void)state;
  check(&(struct tiny){.layers = 2});
  check(&(struct tiny){.layers = 1, .type = "F16"});
  check(&(struct tiny){.layers = 1, .type = "F32"});
}

static void test_one_tensor_an_expert(void **state) {
  (void)state;
  check(&(struct tiny){.layers = 2, .one_an_expert = true});
  check(&(struct tiny){.layers = 2, .one_an_expert = true, .bits = 4, .group = 32, .router_8_bits = true});
}

static void test_dense_tied_and_one_file(void **state) {
  (void)state;
  check(&(struct tiny){.layers = 3, .dense = true});
  check(&(struct tiny){.layers = 1, .dense = true, .tied = true, .one_file = true});
  check(&(struct tiny){.layers = 2, .bits = 4, .group = 32, .one_file = true});
}

/* A module without scales is plain although the default of config.json is 4 bits. */
static void test_a_module_without_scales_is_plain(void **state) {
  (void)state;
  check(&(struct tiny){.layers = 1, .config = "\"quantization\":{\"bits\":4,\"group_size\":64},"});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bits_groups_and_scale_types),
      cmocka_unit_test(test_overrides_of_a_module),
      cmocka_unit_test(test_plain_types),
      cmocka_unit_test(test_one_tensor_an_expert),
      cmocka_unit_test(test_dense_tied_and_one_file),
      cmocka_unit_test(test_a_module_without_scales_is_plain),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

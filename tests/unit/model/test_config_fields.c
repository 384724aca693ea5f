/* The architecture's fields of config.json: values, defaults, bounds, and what is refused by name. */
#include "unit/model/config_text.h"

static void test_values(void **state) {
  (void)state;
  struct config *config = config_valid(NULL, NULL, NULL);
  assert_string_equal(config->model_type, "qwen3_moe");
  assert_int_equal(config->layers, 4);
  assert_int_equal(config->hidden, 64);
  assert_int_equal(config->vocabulary, 1000);
  assert_int_equal(config->query_heads, 4);
  assert_int_equal(config->kv_heads, 2);
  assert_int_equal(config->head_dim, 32);
  assert_int_equal(config->intermediate, 96);
  assert_int_equal(config->max_positions, 4096);
  assert_int_equal(config->experts, 8);
  assert_int_equal(config->experts_per_token, 2);
  assert_int_equal(config->expert_intermediate, 48);
  assert_true(config->renormalise_experts);
  assert_false(config->tied_embeddings);
  assert_true(config->rms_epsilon == 1e-6f);
  assert_true(config->rope_theta == 1e6);
  assert_false(config->yarn.enabled);
  assert_int_equal(config->quantization.bits, 0);
  for (unsigned layer = 0; layer < 4; layer++) assert_true(config->layer_is_sparse[layer]);
  config_free(config);
}

static void test_defaults(void **state) {
  (void)state;
  struct config *config = config_valid("\"num_key_value_heads\":null", "head_dim", NULL);
  assert_int_equal(config->head_dim, 16);
  assert_int_equal(config->kv_heads, 4);
  config_free(config);
  config = config_valid(NULL, "norm_topk_prob", NULL);
  assert_false(config->renormalise_experts);
  config_free(config);
  config = config_valid(NULL, "intermediate_size", NULL);
  assert_int_equal(config->intermediate, 0);
  config_free(config);
  config = config_valid("\"num_local_experts\":6", "num_experts", NULL);
  assert_int_equal(config->experts, 6);
  config_free(config);
}

static void test_dense_layers(void **state) {
  (void)state;
  struct config *config = config_valid("\"decoder_sparse_step\":2,\"mlp_only_layers\":[3]", NULL, NULL);
  const bool sparse[4] = {false, true, false, false};
  assert_memory_equal(config->layer_is_sparse, sparse, sizeof sparse);
  config_free(config);
  config = config_valid("\"model_type\":\"qwen3\",\"tie_word_embeddings\":true", NULL, NULL);
  assert_int_equal(config->experts, 0);
  assert_true(config->tied_embeddings);
  for (unsigned layer = 0; layer < 4; layer++) assert_false(config->layer_is_sparse[layer]);
  config_free(config);
  config = config_valid("\"num_experts\":0", NULL, NULL);
  assert_false(config->layer_is_sparse[0]);
  config_free(config);
  config_refused("\"mlp_only_layers\":[1]", "intermediate_size", NULL, KJ_INVALID,
                 "config.json: has no intermediate_size, but layer 1 is dense");
  config_refused("\"mlp_only_layers\":[4]", NULL, NULL, KJ_INVALID, "mlp_only_layers");
  config_refused("\"mlp_only_layers\":[-1]", NULL, NULL, KJ_INVALID, "mlp_only_layers");
  config_refused("\"mlp_only_layers\":[true]", NULL, NULL, KJ_INVALID, "mlp_only_layers");
  config_refused("\"mlp_only_layers\":3", NULL, NULL, KJ_INVALID, "mlp_only_layers must be a list, not 3");
  config_refused("\"decoder_sparse_step\":0", NULL, NULL, KJ_INVALID, "decoder_sparse_step");
}

static void test_C3_an_unknown_model_type_is_named(void **state) {
  (void)state;
  config_refused("\"model_type\":\"llama\"", NULL, NULL, KJ_UNSUPPORTED,
                 "config.json: model_type llama is not supported; qwen3_moe and qwen3 are");
  config_refused("\"model_type\":\"qwen3_vl_moe\"", NULL, NULL, KJ_UNSUPPORTED, "qwen3_vl_moe");
  config_refused("\"model_type\":7", NULL, NULL, KJ_INVALID, "model_type must be a string, not 7");
  config_refused(NULL, "model_type", NULL, KJ_INVALID, "has no model_type");
}

static void test_features_that_are_not_implemented_are_named(void **state) {
  (void)state;
  config_refused("\"attention_bias\":true", NULL, NULL, KJ_UNSUPPORTED, "attention_bias true is not supported");
  config_refused("\"qkv_bias\":true", NULL, NULL, KJ_UNSUPPORTED, "qkv_bias");
  config_refused("\"mlp_bias\":true", NULL, NULL, KJ_UNSUPPORTED, "mlp_bias");
  config_refused("\"use_sliding_window\":true", NULL, NULL, KJ_UNSUPPORTED, "use_sliding_window");
  config_refused("\"use_qk_norm\":false", NULL, NULL, KJ_UNSUPPORTED, "use_qk_norm false");
  config_refused("\"quantize_activations\":true", NULL, NULL, KJ_UNSUPPORTED, "quantize_activations");
  config_refused("\"hidden_act\":\"gelu\"", NULL, NULL, KJ_UNSUPPORTED, "hidden_act gelu is not supported; silu is");
  config_refused("\"layer_types\":[\"full_attention\",\"sliding_attention\"]", NULL, NULL, KJ_UNSUPPORTED,
                 "layer_types: sliding_attention");
  config_refused("\"shared_expert_intermediate_size\":64", NULL, NULL, KJ_UNSUPPORTED, "shared_expert");
  config_refused("\"model_file\":\"model.py\"", NULL, NULL, KJ_UNSUPPORTED, "model_file");
  config_refused("\"attention_bias\":\"no\"", NULL, NULL, KJ_INVALID,
                 "attention_bias must be true or false, not \"no\"");
  config_free(
      config_valid("\"attention_bias\":false,\"qkv_bias\":false,\"use_qk_norm\":true,\"hidden_act\":\"silu\","
                   "\"use_sliding_window\":false,\"sliding_window\":4096,\"layer_types\":[\"full_attention\"],"
                   "\"shared_expert_intermediate_size\":0",
                   NULL, NULL));
}

static void test_required_keys_are_named(void **state) {
  (void)state;
  static const char *const required[] = {"num_hidden_layers",   "hidden_size",         "vocab_size",
                                         "num_attention_heads", "rope_theta",          "max_position_embeddings",
                                         "num_experts",         "num_experts_per_tok", "moe_intermediate_size"};
  for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
    char message[80];
    snprintf(message, sizeof message, "config.json: has no %s", required[i]);
    config_refused(NULL, required[i], NULL, KJ_INVALID, message);
  }
}

/* Every numeric key: wrong types, negative, zero, too large, beyond 64 bits. */
static void test_numbers_are_bounded(void **state) {
  (void)state;
  static const char *const keys[] = {"num_hidden_layers",       "hidden_size",         "vocab_size",
                                     "num_attention_heads",     "num_key_value_heads", "head_dim",
                                     "max_position_embeddings", "num_experts_per_tok", "moe_intermediate_size"};
  static const char *const values[] = {
      "0", "-1", "\"8\"", "true", "8.0", "[]", "{}", "4294967296", "9223372036854775807"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    char added[80], message[80];
    for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
      snprintf(added, sizeof added, "\"%s\":%s", keys[i], values[j]);
      snprintf(message, sizeof message, "config.json: %s must be a whole number", keys[i]);
      config_refused(added, NULL, NULL, KJ_INVALID, message);
    }
    snprintf(added, sizeof added, "\"%s\":99999999999999999999", keys[i]);
    config_refused(added, NULL, NULL, KJ_INVALID, "too big integer");
  }
  config_refused("\"num_hidden_layers\":1025", NULL, NULL, KJ_INVALID, "num_hidden_layers must be");
  config_refused("\"num_experts\":4097", NULL, NULL, KJ_INVALID, "num_experts must be");
  config_refused("\"num_experts_per_tok\":9", NULL, NULL, KJ_INVALID, "from 1 to 8, not 9");
  config_refused("\"num_experts\":8,\"num_local_experts\":4", NULL, NULL, KJ_INVALID, "num_local_experts is 4");
  config_refused("\"rms_norm_eps\":0", NULL, NULL, KJ_INVALID, "rms_norm_eps must be a number");
  config_refused("\"rms_norm_eps\":\"tiny\"", NULL, NULL, KJ_INVALID, "rms_norm_eps must be a number");
  config_refused("\"rms_norm_eps\":1e999", NULL, NULL, KJ_INVALID, "real number overflow");
  config_refused("\"tie_word_embeddings\":0", NULL, NULL, KJ_INVALID, "tie_word_embeddings must be true or false");
}

static void test_head_sizes_must_divide(void **state) {
  (void)state;
  config_refused("\"num_attention_heads\":5", NULL, NULL, KJ_INVALID, "not a multiple of num_key_value_heads 2");
  config_refused("\"head_dim\":33", NULL, NULL, KJ_UNSUPPORTED, "head_dim 33 is not supported");
  config_refused("\"hidden_size\":66", "head_dim", NULL, KJ_INVALID, "hidden_size 66 is not a multiple of");
  config_refused("\"hidden_size\":20", "head_dim", NULL, KJ_UNSUPPORTED, "head_dim 5 is not supported");
}

static void test_text_that_is_not_a_configuration(void **state) {
  (void)state;
  struct kj_error error;
  struct config *config = NULL;
  static const struct {
    const char *text, *message;
  } cases[] = {{"", "line 1"},
               {"[]", "must be a JSON object"},
               {"{\"a\":1,\"a\":2}", "duplicate object key"},
               {"{\"model_type\":\"qwen3\"", "line 1"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(config_parse(&config, "x/config.json", cases[i].text, strlen(cases[i].text), NULL, 0, &error),
                     KJ_INVALID);
    assert_message(error, "x/config.json: ");
    assert_message(error, cases[i].message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_defaults),
      cmocka_unit_test(test_dense_layers),
      cmocka_unit_test(test_C3_an_unknown_model_type_is_named),
      cmocka_unit_test(test_features_that_are_not_implemented_are_named),
      cmocka_unit_test(test_required_keys_are_named),
      cmocka_unit_test(test_numbers_are_bounded),
      cmocka_unit_test(test_head_sizes_must_divide),
      cmocka_unit_test(test_text_that_is_not_a_configuration),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* quantization and quantization_config: the default, overrides of modules, and what is refused by name. */
#include "unit/model/config_text.h"

static void assert_quantization(const struct config *config, const char *module, unsigned bits, unsigned group) {
  struct quantization quantization = config_quantization(config, module);
  assert_int_equal(quantization.bits, bits);
  assert_int_equal(quantization.group, group);
}

static void test_default_and_overrides(void **state) {
  (void)state;
  struct config *config = config_valid(
      "\"quantization\":{\"model.layers.1.mlp.gate\":{\"group_size\":64,\"bits\":8},\"group_size\":32,\"bits\":4,"
      "\"lm_head\":false,\"model.embed_tokens\":true,\"mode\":\"affine\","
      "\"model.layers.0.mlp.gate\":{\"group_size\":128,\"bits\":4,\"mode\":\"affine\"}}",
      NULL, NULL);
  assert_quantization(config, "model.layers.0.self_attn.q_proj", 4, 32);
  assert_quantization(config, "model.layers.0.mlp.gate", 4, 128);
  assert_quantization(config, "model.layers.1.mlp.gate", 8, 64);
  assert_quantization(config, "model.embed_tokens", 4, 32);
  assert_quantization(config, "lm_head", 0, 0);
  assert_int_equal(config->override_count, 3); /* the one that says true is the default */
  config_free(config);
}

static void test_either_key_and_the_first_wins(void **state) {
  (void)state;
  struct config *config = config_valid("\"quantization_config\":{\"group_size\":64,\"bits\":8}", NULL, NULL);
  assert_quantization(config, "lm_head", 8, 64);
  config_free(config);
  config = config_valid(
      "\"quantization_config\":{\"group_size\":64,\"bits\":8},\"quantization\":{\"group_size\":128,\"bits\":4}", NULL,
      NULL);
  assert_quantization(config, "lm_head", 4, 128);
  config_free(config);
  config = config_valid("\"quantization\":null,\"quantization_config\":null", NULL, NULL);
  assert_quantization(config, "lm_head", 0, 0);
  config_free(config);
}

static void test_other_methods_are_refused_by_name(void **state) {
  (void)state;
  static const char *const methods[] = {"fp8", "gptq", "awq", "bitsandbytes", "compressed-tensors", "mxfp4"};
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    char added[120], message[80];
    snprintf(added, sizeof added, "\"quantization_config\":{\"quant_method\":\"%s\",\"bits\":4,\"group_size\":64}",
             methods[i]);
    snprintf(message, sizeof message, "quantization_config: quant_method %s is not supported", methods[i]);
    config_refused(added, NULL, NULL, KJ_UNSUPPORTED, message);
  }
}

static void test_other_parameters_are_refused_by_name(void **state) {
  (void)state;
#define QUANTIZATION(text) "\"quantization\":{" text "}"
  config_refused(QUANTIZATION("\"bits\":4,\"group_size\":32,\"mode\":\"mxfp4\""), NULL, NULL, KJ_UNSUPPORTED,
                 "config.json: quantization: mode mxfp4 is not supported");
  config_refused(QUANTIZATION("\"mode\":\"nvfp4\""), NULL, NULL, KJ_UNSUPPORTED, "mode nvfp4");
  config_refused(QUANTIZATION("\"bits\":6,\"group_size\":64"), NULL, NULL, KJ_UNSUPPORTED, "bits 6 is not supported");
  config_refused(QUANTIZATION("\"bits\":4,\"group_size\":16"), NULL, NULL, KJ_UNSUPPORTED, "group_size 16");
  config_refused(QUANTIZATION("\"bits\":4,\"group_size\":64,\"codebook\":\"x\""), NULL, NULL, KJ_UNSUPPORTED,
                 "quantization: codebook is not supported");
  config_refused(QUANTIZATION("\"bits\":4,\"group_size\":64,\"lm_head\":{\"bits\":3,\"group_size\":64}"), NULL, NULL,
                 KJ_UNSUPPORTED, "quantization: lm_head: bits 3");
  config_refused(
      QUANTIZATION("\"bits\":4,\"group_size\":64,\"lm_head\":{\"bits\":8,\"group_size\":64,\"mode\":\"mxfp8\"}"), NULL,
      NULL, KJ_UNSUPPORTED, "quantization: lm_head: mode mxfp8");
  config_refused(QUANTIZATION("\"bits\":4,\"group_size\":64,\"lm_head\":{\"bits\":8,\"group_size\":64,\"x\":1}"), NULL,
                 NULL, KJ_UNSUPPORTED, "quantization: lm_head: x is not supported");
}

static void test_values_that_break_a_rule(void **state) {
  (void)state;
  config_refused(QUANTIZATION("\"bits\":4"), NULL, NULL, KJ_INVALID, "quantization: has no group_size");
  config_refused(QUANTIZATION("\"group_size\":64"), NULL, NULL, KJ_INVALID, "quantization: has no bits");
  config_refused(QUANTIZATION("\"bits\":\"4\",\"group_size\":64"), NULL, NULL, KJ_INVALID, "bits must be");
  config_refused(QUANTIZATION("\"bits\":4,\"group_size\":-64"), NULL, NULL, KJ_INVALID, "group_size must be");
  config_refused(QUANTIZATION("\"bits\":4,\"group_size\":64,\"mode\":1"), NULL, NULL, KJ_INVALID, "mode must be");
  config_refused(QUANTIZATION("\"bits\":4,\"group_size\":64,\"lm_head\":{}"), NULL, NULL, KJ_INVALID,
                 "quantization: lm_head: has no bits");
  config_refused("\"quantization\":4", NULL, NULL, KJ_INVALID, "quantization must be an object or null, not 4");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_default_and_overrides),
      cmocka_unit_test(test_either_key_and_the_first_wins),
      cmocka_unit_test(test_other_methods_are_refused_by_name),
      cmocka_unit_test(test_other_parameters_are_refused_by_name),
      cmocka_unit_test(test_values_that_break_a_rule),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* F3: rope_scaling and rope_parameters. Expected numbers are those of Transformers' _compute_yarn_parameters. */
#include <math.h>

#include "unit/model/config_text.h"

static void assert_near(double value, double expected) { assert_true(fabs(value - expected) < 1e-6); }

static void test_F3_yarn_fields(void **state) {
  (void)state;
  struct config *config = config_valid(
      "\"max_position_embeddings\":40960,"
      "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0,\"original_max_position_embeddings\":32768}",
      NULL, NULL);
  assert_true(config->yarn.enabled);
  assert_near(config->yarn.factor, 4);
  assert_near(config->yarn.beta_fast, 32);
  assert_near(config->yarn.beta_slow, 1);
  assert_near(config->yarn.attention_factor, 1.138629436111989); /* 0.1 ln 4 + 1 */
  assert_int_equal(config->yarn.original_positions, 32768);
  assert_int_equal(config->max_positions, 131072);
  config_free(config);
  config = config_valid(
      "\"max_position_embeddings\":200000,\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2,\"beta_fast\":16,"
      "\"beta_slow\":2,\"attention_factor\":1.25,\"truncate\":true,\"original_max_position_embeddings\":65536}",
      NULL, NULL);
  assert_near(config->yarn.beta_fast, 16);
  assert_near(config->yarn.beta_slow, 2);
  assert_near(config->yarn.attention_factor, 1.25);
  assert_int_equal(config->max_positions, 200000);
  config_free(config);
}

static void test_F3_yarn_mscale(void **state) {
  (void)state;
  struct config *config = config_valid(
      "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":40,\"mscale\":0.7,\"mscale_all_dim\":1.4}", NULL, NULL);
  assert_near(config->yarn.attention_factor, (0.07 * log(40) + 1) / (0.14 * log(40) + 1));
  assert_int_equal(config->yarn.original_positions, 4096);
  config_free(config);
  config = config_valid("\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":40,\"mscale\":0.7}", NULL, NULL);
  assert_near(config->yarn.attention_factor, 0.1 * log(40) + 1);
  config_free(config);
  config = config_valid("\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":1}", NULL, NULL);
  assert_near(config->yarn.attention_factor, 1);
  config_free(config);
}

static void test_F3_the_newer_spelling(void **state) {
  (void)state;
  struct config *config = config_valid(
      "\"rope_parameters\":{\"rope_theta\":5000000,\"rope_type\":\"yarn\",\"factor\":4.0,"
      "\"original_max_position_embeddings\":2048}",
      "rope_theta", NULL);
  assert_true(config->rope_theta == 5e6);
  assert_true(config->yarn.enabled);
  assert_int_equal(config->max_positions, 8192);
  config_free(config);
  config = config_valid("\"rope_parameters\":{\"rope_theta\":1000000,\"rope_type\":\"default\"}", NULL, NULL);
  assert_true(config->rope_theta == 1e6);
  assert_false(config->yarn.enabled);
  config_free(config);
  config_refused("\"rope_theta\":10000,\"rope_parameters\":{\"rope_theta\":20000}", NULL, NULL, KJ_INVALID,
                 "rope_theta is 10000, but 20000 in config.json: rope_parameters");
}

static void test_no_scaling(void **state) {
  (void)state;
  static const char *const texts[] = {"\"rope_scaling\":null", "\"rope_scaling\":{}",
                                      "\"rope_scaling\":{\"rope_type\":\"default\"}", "\"rope_parameters\":null"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct config *config = config_valid(texts[i], NULL, NULL);
    assert_false(config->yarn.enabled);
    assert_int_equal(config->max_positions, 4096);
    config_free(config);
  }
}

static void test_F3_other_kinds_are_refused_by_name(void **state) {
  (void)state;
  static const char *const kinds[] = {"linear", "dynamic", "llama3", "longrope", "mrope", "su"};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    char added[120], message[80];
    snprintf(added, sizeof added, "\"rope_scaling\":{\"type\":\"%s\",\"factor\":2.0}", kinds[i]);
    snprintf(message, sizeof message, "config.json: rope_scaling: type %s is not supported", kinds[i]);
    config_refused(added, NULL, NULL, KJ_UNSUPPORTED, message);
  }
  config_refused("\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\"}}", NULL, NULL, KJ_UNSUPPORTED,
                 "rope_parameters: full_attention is not supported");
  config_refused("\"partial_rotary_factor\":0.5", NULL, NULL, KJ_UNSUPPORTED, "partial_rotary_factor 0.5");
}

static void test_F3_yarn_values_that_break_a_rule(void **state) {
  (void)state;
#define YARN(fields) "\"rope_scaling\":{\"rope_type\":\"yarn\"" fields "}"
  config_refused(YARN(""), NULL, NULL, KJ_INVALID, "rope_scaling: has no factor");
  config_refused(YARN(",\"factor\":0.5"), NULL, NULL, KJ_INVALID, "factor must be a number from 1");
  config_refused(YARN(",\"factor\":\"4\""), NULL, NULL, KJ_INVALID, "factor must be a number");
  config_refused(YARN(",\"factor\":1000000"), NULL, NULL, KJ_INVALID, "factor 1e+06 makes more than");
  config_refused(YARN(",\"factor\":4,\"beta_fast\":0"), NULL, NULL, KJ_INVALID, "beta_fast must be");
  config_refused(YARN(",\"factor\":4,\"beta_fast\":1,\"beta_slow\":2"), NULL, NULL, KJ_INVALID,
                 "beta_fast is less than beta_slow");
  config_refused(YARN(",\"factor\":4,\"attention_factor\":-1"), NULL, NULL, KJ_INVALID, "attention_factor must be");
  config_refused(YARN(",\"factor\":4,\"original_max_position_embeddings\":0"), NULL, NULL, KJ_INVALID,
                 "original_max_position_embeddings must be");
  config_refused(YARN(",\"factor\":4,\"truncate\":false"), NULL, NULL, KJ_UNSUPPORTED, "truncate false");
  config_refused(YARN(",\"factor\":4,\"finetuned\":true"), NULL, NULL, KJ_UNSUPPORTED, "finetuned is not supported");
  config_refused(YARN(",\"type\":\"linear\",\"factor\":4"), NULL, NULL, KJ_INVALID,
                 "type is linear but rope_type is yarn");
  config_refused("\"rope_scaling\":\"yarn\"", NULL, NULL, KJ_INVALID, "rope_scaling must be an object or null");
  config_refused("\"rope_theta\":0", NULL, NULL, KJ_INVALID, "rope_theta must be a number");
  config_refused("\"rope_theta\":\"big\"", NULL, NULL, KJ_INVALID, "rope_theta must be a number");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_F3_yarn_fields),
      cmocka_unit_test(test_F3_yarn_mscale),
      cmocka_unit_test(test_F3_the_newer_spelling),
      cmocka_unit_test(test_no_scaling),
      cmocka_unit_test(test_F3_other_kinds_are_refused_by_name),
      cmocka_unit_test(test_F3_yarn_values_that_break_a_rule),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

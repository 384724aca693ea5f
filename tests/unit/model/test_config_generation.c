/* F4: generation_config.json gives the defaults of sampling and the list of eos tokens. */
#include "unit/model/config_text.h"

static void test_F4_defaults_without_the_file(void **state) {
  (void)state;
  struct config *config = config_valid("\"eos_token_id\":7", NULL, NULL);
  assert_true(config->generation.sample);
  assert_true(config->generation.temperature == 1);
  assert_true(config->generation.top_p == 1);
  assert_true(config->generation.min_p == 0);
  assert_true(config->generation.repetition_penalty == 1);
  assert_int_equal(config->generation.top_k, 0);
  assert_int_equal(config->generation.eos_count, 1);
  assert_int_equal(config->generation.eos[0], 7);
  config_free(config);
  config = config_valid(NULL, NULL, NULL);
  assert_int_equal(config->generation.eos_count, 0);
  config_free(config);
}

static void test_F4_values_and_eos_list(void **state) {
  (void)state;
  struct config *config = config_valid("\"eos_token_id\":7", NULL,
                                       "{\"do_sample\":true,\"temperature\":0.7,\"top_p\":0.8,\"top_k\":20,"
                                       "\"min_p\":0.05,\"repetition_penalty\":1.05,\"eos_token_id\":[5,999],"
                                       "\"transformers_version\":\"4.51.0\"}");
  assert_true(config->generation.sample);
  assert_true(config->generation.temperature == 0.7f);
  assert_true(config->generation.top_p == 0.8f);
  assert_true(config->generation.min_p == 0.05f);
  assert_true(config->generation.repetition_penalty == 1.05f);
  assert_int_equal(config->generation.top_k, 20);
  assert_int_equal(config->generation.eos_count, 2);
  assert_int_equal(config->generation.eos[0], 5);
  assert_int_equal(config->generation.eos[1], 999);
  config_free(config);
  config = config_valid("\"eos_token_id\":[7,8]", NULL, "{\"do_sample\":false,\"top_k\":null}");
  assert_false(config->generation.sample);
  assert_int_equal(config->generation.eos_count, 2);
  assert_int_equal(config->generation.eos[1], 8);
  config_free(config);
}

static void test_F4_invalid_values_are_refused_with_the_key(void **state) {
  (void)state;
  static const struct {
    const char *key, *value;
  } cases[] = {
      {"do_sample", "1"},
      {"do_sample", "\"yes\""},
      {"temperature", "\"hot\""},
      {"temperature", "true"},
      {"temperature", "-0.1"},
      {"temperature", "1e9"},
      {"top_p", "1.5"},
      {"top_p", "[]"},
      {"min_p", "-1"},
      {"top_k", "-1"},
      {"top_k", "2.5"},
      {"top_k", "\"20\""},
      {"repetition_penalty", "0"},
      {"repetition_penalty", "{}"},
      {"eos_token_id", "\"</s>\""},
      {"eos_token_id", "-1"},
      {"eos_token_id", "1000"},
      {"eos_token_id", "[1,null]"},
      {"eos_token_id", "[1,true]"},
      {"eos_token_id", "{\"a\":1}"},
      {"eos_token_id", "[[1]]"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[80], message[80];
    snprintf(text, sizeof text, "{\"%s\":%s}", cases[i].key, cases[i].value);
    snprintf(message, sizeof message, "generation_config.json: %s must be", cases[i].key);
    config_refused(NULL, NULL, text, KJ_INVALID, message);
  }
  config_refused(NULL, NULL, "{\"eos_token_id\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}", KJ_UNSUPPORTED,
                 "eos_token_id has more than 16 tokens");
  config_refused(NULL, NULL, "[]", KJ_INVALID, "generation_config.json: must be a JSON object");
  config_refused(NULL, NULL, "{", KJ_INVALID, "generation_config.json: line 1");
  config_refused("\"eos_token_id\":1000", NULL, NULL, KJ_INVALID, "config.json: eos_token_id must be");
}

static void test_F4_files_of_a_directory(void **state) {
  (void)state;
  struct directory directory;
  struct config *config = NULL;
  struct kj_error error;
  directory_create(&directory);
  assert_int_equal(config_load(&config, directory.path, &error), KJ_NOT_FOUND);
  assert_message(error, "/config.json: cannot open");
  write_text(&directory, "config.json",
             "{\"model_type\":\"qwen3\",\"num_hidden_layers\":1,\"hidden_size\":64,\"vocab_size\":10,"
             "\"num_attention_heads\":2,\"intermediate_size\":32,\"max_position_embeddings\":64,\"rope_theta\":1e4}");
  assert_int_equal(config_load(&config, directory.path, &error), 0);
  assert_true(config->generation.temperature == 1);
  config_free(config);
  write_text(&directory, "generation_config.json", "{\"temperature\":0.5}");
  assert_int_equal(config_load(&config, directory.path, &error), 0);
  assert_true(config->generation.temperature == 0.5f);
  config_free(config);
  write_text(&directory, "generation_config.json", "{\"top_k\":true}");
  assert_int_equal(config_load(&config, directory.path, &error), KJ_INVALID);
  assert_message(error, directory.path);
  assert_message(error, "/generation_config.json: top_k must be");
  directory_remove(&directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_F4_defaults_without_the_file),
      cmocka_unit_test(test_F4_values_and_eos_list),
      cmocka_unit_test(test_F4_invalid_values_are_refused_with_the_key),
      cmocka_unit_test(test_F4_files_of_a_directory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

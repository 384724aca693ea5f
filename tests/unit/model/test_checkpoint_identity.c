/* C8: two machines can tell whether they hold the same checkpoint, each with the shards of its own layers. */
#include "model/checkpoint.h"
#include "unit/model/tiny_checkpoint.h"

static struct directory directory;

static int setup(void **state) {
  (void)state;
  directory_create(&directory);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  directory_remove(&directory);
  return 0;
}

static struct checkpoint_identity identify(uint32_t first, uint32_t count, bool head) {
  struct checkpoint *checkpoint = NULL;
  struct checkpoint_identity identity;
  struct kj_error error;
  if (checkpoint_open(&checkpoint, directory.path, &error)) fail_msg("%s", error.message);
  if (checkpoint_identity(checkpoint, first, count, head, &identity, &error)) fail_msg("%s", error.message);
  checkpoint_close(checkpoint);
  return identity;
}

/* The hash of config and index after config.json has been written anew. */
static void hash_of_config(const char *config, uint8_t hash[CHECKPOINT_HASH]) {
  write_text(&directory, "config.json", config);
  struct checkpoint_identity identity = identify(0, 0, false);
  memcpy(hash, identity.config, CHECKPOINT_HASH);
  checkpoint_identity_free(&identity);
}

static const struct tiny tiny = {.layers = 2, .dense = true};

#define CONFIG_OF(rest)                                                                                                \
  "{\"model_type\":\"qwen3\",\"num_hidden_layers\":2,\"hidden_size\":256,\"vocab_size\":32,\"num_attention_heads\":2," \
  "\"num_key_value_heads\":1,\"head_dim\":64,\"intermediate_size\":384,\"max_position_embeddings\":" rest "}"
#define CONFIG(rest) CONFIG_OF("512" rest)

static void test_formatting_order_and_other_fields_do_not_matter(void **state) {
  (void)state;
  static const char *const same[] = {
      "{ \"rope_theta\" : 1e4,\n\t\"vocab_size\":32, \"hidden_size\":256, \"num_hidden_layers\":2, \"head_dim\":64,"
      "\"max_position_embeddings\":512, \"num_attention_heads\":2, \"intermediate_size\":384,"
      "\"num_key_value_heads\":1, \"model_type\":\"qwen3\" }",
      CONFIG(",\"rope_theta\":10000,\"transformers_version\":\"5\",\"torch_dtype\":\"bfloat16\",\"eos_token_id\":3"),
      CONFIG(",\"rope_theta\":10000.0,\"rope_scaling\":null,\"rms_norm_eps\":1e-6,\"quantization\":null"),
      CONFIG(",\"rope_parameters\":{\"rope_theta\":10000}"),
  };
  uint8_t first[CHECKPOINT_HASH], hash[CHECKPOINT_HASH];
  tiny_write(&tiny, &directory);
  hash_of_config(CONFIG(",\"rope_theta\":10000"), first);
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    hash_of_config(same[i], hash);
    assert_memory_equal(hash, first, CHECKPOINT_HASH);
  }
}

static void test_C8_fields_of_the_computation_matter(void **state) {
  (void)state;
  static const char *const other[] = {
      CONFIG(",\"rope_theta\":10001"),
      CONFIG_OF("513,\"rope_theta\":10000"),
      CONFIG(",\"rope_theta\":10000,\"rms_norm_eps\":1e-5"),
      CONFIG(",\"rope_theta\":10000,\"tie_word_embeddings\":true"),
      CONFIG(",\"rope_theta\":10000,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}"),
      CONFIG(",\"rope_theta\":10000,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4}"),
      CONFIG(",\"rope_theta\":10000,\"quantization\":{\"bits\":4,\"group_size\":64}"),
      CONFIG(",\"rope_theta\":10000,\"quantization\":{\"bits\":4,\"group_size\":64,\"lm_head\":false}"),
  };
  enum { COUNT = sizeof other / sizeof *other + 1 };
  uint8_t hashes[COUNT][CHECKPOINT_HASH];
  tiny_write(&tiny, &directory);
  hash_of_config(CONFIG(",\"rope_theta\":10000"), hashes[COUNT - 1]);
  for (size_t i = 0; i < COUNT - 1; i++) hash_of_config(other[i], hashes[i]);
  for (size_t i = 0; i < COUNT; i++) {
    for (size_t j = 0; j < i; j++) assert_memory_not_equal(hashes[i], hashes[j], CHECKPOINT_HASH);
  }
}

static void test_C8_where_tensors_lie_matters(void **state) {
  (void)state;
  tiny_write(&tiny, &directory);
  struct checkpoint_identity split = identify(0, 2, true);
  assert_int_equal(remove(directory_file(&directory, "model.safetensors.index.json")), 0);
  tiny_write(&(struct tiny){.layers = 2, .dense = true, .one_file = true}, &directory);
  struct checkpoint_identity single = identify(0, 2, true);
  assert_memory_not_equal(split.config, single.config, CHECKPOINT_HASH);
  assert_int_equal(single.shard_count, 1);
  assert_string_equal(single.shards[0].name, "model.safetensors");
  checkpoint_identity_free(&split);
  checkpoint_identity_free(&single);
}

static void test_shards_of_the_layers_asked_for(void **state) {
  (void)state;
  tiny_write(&tiny, &directory);
  struct checkpoint_identity all = identify(0, 2, true), one = identify(1, 1, false);
  assert_int_equal(all.shard_count, 3);
  assert_int_equal(one.shard_count, 1);
  assert_string_equal(all.shards[0].name, "model-0.safetensors");
  assert_string_equal(all.shards[2].name, "model-2.safetensors");
  assert_string_equal(one.shards[0].name, "model-1.safetensors");
  assert_memory_equal(one.shards[0].hash, all.shards[1].hash, CHECKPOINT_HASH);
  assert_memory_equal(one.config, all.config, CHECKPOINT_HASH);
  checkpoint_identity_free(&all);
  checkpoint_identity_free(&one);
}

static void test_C8_another_header_is_noticed(void **state) {
  (void)state;
  tiny_write(&tiny, &directory);
  struct checkpoint_identity before = identify(0, 2, false);
  tiny_write(
      &(struct tiny){
          .layers = 2, .dense = true, .retyped = "model.layers.1.input_layernorm.weight", .retyped_as = "F16"},
      &directory);
  struct checkpoint_identity after = identify(0, 2, false);
  assert_memory_equal(before.config, after.config, CHECKPOINT_HASH);
  assert_memory_equal(before.shards[0].hash, after.shards[0].hash, CHECKPOINT_HASH);
  assert_memory_not_equal(before.shards[1].hash, after.shards[1].hash, CHECKPOINT_HASH);
  checkpoint_identity_free(&before);
  checkpoint_identity_free(&after);
}

static void test_a_shard_of_another_machine_is_left_out(void **state) {
  (void)state;
  struct checkpoint *checkpoint = NULL;
  struct checkpoint_identity identity;
  struct kj_error error;
  tiny_write(&tiny, &directory);
  struct checkpoint_identity whole = identify(0, 2, true);
  assert_int_equal(remove(directory_file(&directory, "model-1.safetensors")), 0);
  assert_int_equal(checkpoint_open(&checkpoint, directory.path, &error), 0);
  assert_int_equal(checkpoint_identity(checkpoint, 0, 2, true, &identity, &error), 0);
  assert_int_equal(identity.shard_count, whole.shard_count - 1);
  assert_memory_equal(identity.config, whole.config, CHECKPOINT_HASH);
  for (size_t i = 0; i < identity.shard_count; i++)
    assert_string_not_equal(identity.shards[i].name, "model-1.safetensors");
  checkpoint_identity_free(&identity);
  checkpoint_identity_free(&whole);
  checkpoint_close(checkpoint);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_formatting_order_and_other_fields_do_not_matter),
      TEST(test_C8_fields_of_the_computation_matter),
      TEST(test_C8_where_tensors_lie_matters),
      TEST(test_shards_of_the_layers_asked_for),
      TEST(test_C8_another_header_is_noticed),
      TEST(test_a_shard_of_another_machine_is_left_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

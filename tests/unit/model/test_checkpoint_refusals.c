/* Checkpoints that are incomplete or not what config.json describes: refused with file and tensor, never ignored. */
#include <unistd.h>

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

/* Opens the directory and reads everything in it; the first failure is returned. */
static int read_all(struct kj_error *error) {
  struct checkpoint *checkpoint = NULL;
  struct layer_weights layer;
  struct head_weights head;
  int result = checkpoint_open(&checkpoint, directory.path, error);
  if (result) {
    assert_null(checkpoint);
    return result;
  }
  for (uint32_t i = 0; !result && i < checkpoint_config(checkpoint)->layers; i++) {
    result = checkpoint_layer(checkpoint, i, &layer, error);
    if (result) assert_null(layer.gate);
    layer_weights_free(&layer);
  }
  if (!result) result = checkpoint_head(checkpoint, &head, error);
  checkpoint_close(checkpoint);
  return result;
}

static void refuse(const struct tiny *tiny, int code, const char *message) {
  struct kj_error error = {0};
  tiny_write(tiny, &directory);
  int result = read_all(&error);
  if (result != code) fail_msg("code %d, not %d of '%s': %s", result, code, message, error.message);
  assert_message(error, directory.path);
  assert_message(error, message);
}

static void refuse_index(const char *text, const char *message) {
  struct kj_error error = {0};
  write_text(&directory, "model.safetensors.index.json", text);
  assert_int_equal(read_all(&error), KJ_INVALID);
  assert_message(error, "model.safetensors.index.json: ");
  assert_message(error, message);
}

static const struct tiny quantized = {.layers = 2, .bits = 4, .group = 32};

static void test_C3_a_missing_shard(void **state) {
  (void)state;
  struct checkpoint *checkpoint = NULL;
  struct layer_weights weights;
  struct kj_error error;
  tiny_write(&quantized, &directory);
  assert_int_equal(unlink(directory_file(&directory, "model-1.safetensors")), 0);
  assert_int_equal(checkpoint_open(&checkpoint, directory.path, &error), 0);
  assert_int_equal(checkpoint_layer(checkpoint, 0, &weights, &error), 0);
  layer_weights_free(&weights);
  assert_int_equal(checkpoint_layer(checkpoint, 1, &weights, &error), KJ_NOT_FOUND);
  assert_message(error, directory_file(&directory, "model-1.safetensors"));
  assert_message(error, "this shard is missing; it holds tensor model.layers.1.input_layernorm.weight");
  checkpoint_close(checkpoint);
}

static void test_F1_a_truncated_shard(void **state) {
  (void)state;
  struct kj_error error;
  tiny_write(&quantized, &directory);
  assert_int_equal(truncate(directory_file(&directory, "model-1.safetensors"), 20000), 0);
  assert_int_equal(read_all(&error), KJ_INVALID);
  assert_message(error, directory_file(&directory, "model-1.safetensors"));
  assert_message(error, "tensor model.layers.1.");
  assert_message(error, "is it cut short?");
}

static void test_tensors_that_would_be_ignored(void **state) {
  (void)state;
  static const char *const unknown[] = {"model.layers.0.self_attn.q_proj.bias",
                                        "model.layers.0.self_attn.sinks",
                                        "model.layers.0.mlp.experts.gate_up_proj",
                                        "model.layers.0.mlp.shared_expert.gate_proj.weight",
                                        "model.layers.0.mlp.switch_mlp.gate_proj.lora_a",
                                        "model.layers.00.input_layernorm.weight",
                                        "model.layers.0",
                                        "model.norm.bias",
                                        "model.norm.scales",
                                        "language_model.model.norm.weight",
                                        "visual.patch_embed.weight"};
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
    char message[200];
    snprintf(message, sizeof message, "tensor %s has no place in a text model of type qwen3_moe", unknown[i]);
    refuse(&(struct tiny){.layers = 1, .extra = unknown[i]}, KJ_UNSUPPORTED, message);
    refuse(&(struct tiny){.layers = 1, .extra = unknown[i], .one_file = true}, KJ_UNSUPPORTED, message);
    assert_int_equal(unlink(directory_file(&directory, "model.safetensors")), 0);
  }
  refuse(&(struct tiny){.layers = 1, .extra = "model.layers.1.input_layernorm.weight"}, KJ_INVALID,
         "tensor model.layers.1.input_layernorm.weight: config.json says that there are 1 layers");
  refuse(&(struct tiny){.layers = 1, .one_an_expert = true, .extra = "model.layers.0.mlp.experts.3.up_proj.weight"},
         KJ_INVALID, "tensor model.layers.0.mlp.experts.3.up_proj.weight has no use in a sparse layer of 3 experts");
  refuse(&(struct tiny){.layers = 1, .extra = "model.layers.0.mlp.up_proj.weight"}, KJ_INVALID,
         "tensor model.layers.0.mlp.up_proj.weight has no use in a sparse layer");
  refuse(&(struct tiny){.layers = 1, .dense = true, .extra = "model.layers.0.mlp.gate.weight"}, KJ_INVALID,
         "tensor model.layers.0.mlp.gate.weight has no use in a dense layer");
}

static void test_tables_of_angles_are_left_aside(void **state) {
  (void)state;
  struct kj_error error;
  tiny_write(&(struct tiny){.layers = 1, .extra = "model.layers.0.self_attn.rotary_emb.inv_freq"}, &directory);
  assert_int_equal(read_all(&error), 0);
}

static void test_tensors_that_are_missing(void **state) {
  (void)state;
  static const char *const needed[] = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight",
                                       "model.layers.1.mlp.gate.weight", "model.layers.1.self_attn.k_norm.weight"};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
    char message[120];
    snprintf(message, sizeof message, ": has no tensor %s", needed[i]);
    refuse(&(struct tiny){.layers = 2, .left_out = needed[i]}, KJ_NOT_FOUND, message);
  }
  refuse(&(struct tiny){.layers = 1, .bits = 4, .group = 32, .left_out = "lm_head.biases"}, KJ_NOT_FOUND,
         "has no tensor lm_head.biases");
  refuse(
      &(struct tiny){.layers = 1, .one_an_expert = true, .left_out = "model.layers.0.mlp.experts.2.down_proj.weight"},
      KJ_NOT_FOUND, "has no tensor model.layers.0.mlp.experts.2.down_proj.weight");
}

static void test_shapes_that_config_does_not_describe(void **state) {
  (void)state;
  refuse(&(struct tiny){.layers = 1, .reshaped = "model.layers.0.self_attn.q_norm.weight"}, KJ_INVALID,
         "tensor model.layers.0.self_attn.q_norm.weight has shape [65]; by config.json it must be [64]");
  refuse(&(struct tiny){.layers = 1, .reshaped = "model.layers.0.mlp.switch_mlp.up_proj.weight"}, KJ_INVALID,
         "tensor model.layers.0.mlp.switch_mlp.up_proj.weight has shape [4, 128, 256]; by config.json it must be "
         "[3, 128, 256]");
  refuse(&(struct tiny){.layers = 1, .bits = 4, .group = 32, .reshaped = "lm_head.scales"}, KJ_INVALID,
         "tensor lm_head.scales has shape [33, 8]; by config.json it must be [32, 8]");
  refuse(&(struct tiny){.layers = 1, .bits = 4, .group = 32, .reshaped = "model.layers.0.self_attn.o_proj.biases"},
         KJ_INVALID, "tensor model.layers.0.self_attn.o_proj.biases has shape [257, 4]");
  refuse(&(struct tiny){.layers = 1,
                        .bits = 4,
                        .group = 32,
                        .config = "\"quantization_config\":null,",
                        .reshaped = "model.embed_tokens.weight"},
         KJ_INVALID, "tensor model.embed_tokens.weight has shape [33, 32]");
}

static void test_types_that_do_not_fit(void **state) {
  (void)state;
  refuse(&(struct tiny){.layers = 1, .bits = 4, .group = 32, .retyped = "lm_head.biases", .retyped_as = "F16"},
         KJ_UNSUPPORTED, "tensor lm_head.biases has dtype F16 but the scales have BF16");
  refuse(&(struct tiny){.layers = 1, .bits = 4, .group = 32, .retyped = "lm_head.weight", .retyped_as = "F32"},
         KJ_INVALID, "tensor lm_head.weight has scales, but its dtype is F32, not U32");
  refuse(&(struct tiny){.layers = 1, .retyped = "model.norm.weight", .retyped_as = "U8"}, KJ_UNSUPPORTED,
         "tensor model.norm.weight: dtype U8 is not supported");
  refuse(&(struct tiny){.layers = 1, .bits = 4, .group = 32, .left_out = "lm_head.scales"}, KJ_UNSUPPORTED,
         "tensor lm_head.weight: dtype U32 is not supported without .scales");
}

static void test_scales_that_config_does_not_describe(void **state) {
  (void)state;
  struct kj_error error;
  struct tiny plain = {.layers = 1};
  tiny_write(&(struct tiny){.layers = 1, .bits = 4, .group = 32}, &directory);
  tiny_config(&plain, &directory);
  assert_int_equal(read_all(&error), KJ_INVALID);
  assert_message(error, "q_proj.scales exists, but config.json says that it is not quantized");
  tiny_config(&(struct tiny){.layers = 1, .bits = 8, .group = 32}, &directory);
  assert_int_equal(read_all(&error), KJ_INVALID);
  assert_message(error, "tensor model.layers.0.self_attn.q_proj.weight has shape [128, 32]");
  plain.config = "\"quantization\":{\"bits\":4,\"group_size\":128},";
  tiny_config(&plain, &directory);
  assert_int_equal(read_all(&error), KJ_INVALID);
  assert_message(error, "tensor model.layers.0.self_attn.q_proj.scales has shape [128, 8]");
}

static void test_columns_that_are_no_multiple_of_the_group(void **state) {
  (void)state;
  struct kj_error error;
  write_text(
      &directory, "config.json",
      "{\"model_type\":\"qwen3\",\"num_hidden_layers\":1,\"hidden_size\":200,\"vocab_size\":32,\"rope_theta\":1e4,"
      "\"num_attention_heads\":2,\"head_dim\":64,\"intermediate_size\":32,\"max_position_embeddings\":64,"
      "\"quantization\":{\"bits\":4,\"group_size\":128}}");
  struct shard_writer writer = {0};
  write_text(&directory, "model.safetensors.index.json",
             "{\"weight_map\":{\"model.embed_tokens.weight\":\"a\",\"model.embed_tokens.scales\":\"a\","
             "\"model.embed_tokens.biases\":\"a\"}}");
  shard_write(&writer, &directory, "a");
  struct checkpoint *checkpoint = NULL;
  struct head_weights head;
  assert_int_equal(checkpoint_open(&checkpoint, directory.path, &error), 0);
  assert_int_equal(checkpoint_head(checkpoint, &head, &error), KJ_INVALID);
  assert_message(error, "model.embed_tokens: 200 columns cannot be quantized in groups of 128");
  checkpoint_close(checkpoint);
}

static void test_an_index_that_leaves_the_directory(void **state) {
  (void)state;
  tiny_write(&quantized, &directory);
  refuse_index("{\"weight_map\":{\"lm_head.weight\":\"../model-0.safetensors\"}}",
               "tensor lm_head.weight: its shard must be the name of a file in the same directory");
  refuse_index("{\"weight_map\":{\"lm_head.weight\":\"/etc/passwd\"}}", "not /etc/passwd");
  refuse_index("{\"weight_map\":{\"lm_head.weight\":\"..\"}}", "tensor lm_head.weight: its shard must be");
  refuse_index("{\"weight_map\":{\"lm_head.weight\":\"\"}}", "tensor lm_head.weight: its shard must be");
  refuse_index("{\"weight_map\":{\"lm_head.weight\":7}}", "tensor lm_head.weight: its shard must be");
}

static void test_an_index_that_is_not_one(void **state) {
  (void)state;
  tiny_write(&quantized, &directory);
  refuse_index("{}", "has no weight_map");
  refuse_index("{\"weight_map\":[]}", "has no weight_map");
  refuse_index("[]", "must be a JSON object");
  refuse_index("{\"weight_map\":{\"a\":\"x\",\"a\":\"y\"}}", "duplicate object key");
  refuse_index("", "line 1");
}

static void test_an_index_of_other_shards(void **state) {
  (void)state;
  struct kj_error error;
  struct shard_writer writer = {0};
  tiny_write(&quantized, &directory);
  shard_add(&writer, "model.layers.0.input_layernorm.weight", "BF16", 1, (const size_t[]){256});
  shard_write(&writer, &directory, "model-0.safetensors");
  assert_int_equal(read_all(&error), KJ_INVALID);
  assert_message(error,
                 "model-0.safetensors: has no tensor model.layers.0.mlp.gate.biases, which "
                 "model.safetensors.index.json places there");
  shard_add(&writer, "model.layers.1.input_layernorm.weight", "BF16", 1, (const size_t[]){256});
  shard_write(&writer, &directory, "model-0.safetensors");
  assert_int_equal(read_all(&error), KJ_INVALID);
  assert_message(error,
                 "model-0.safetensors: tensor model.layers.1.input_layernorm.weight is not in this file "
                 "according to model.safetensors.index.json");
}

static void test_a_directory_without_weights(void **state) {
  (void)state;
  struct kj_error error;
  struct checkpoint *checkpoint = NULL;
  tiny_config(&quantized, &directory);
  assert_int_equal(checkpoint_open(&checkpoint, directory.path, &error), KJ_NOT_FOUND);
  assert_message(error, directory.path);
  assert_message(error, "has neither model.safetensors.index.json nor model.safetensors");
  assert_int_equal(checkpoint_open(&checkpoint, directory_file(&directory, "nowhere"), &error), KJ_NOT_FOUND);
  assert_message(error, "nowhere/config.json: cannot open");
  assert_null(checkpoint);
}

static void test_a_layer_that_is_not_there(void **state) {
  (void)state;
  struct checkpoint *checkpoint = NULL;
  struct layer_weights weights;
  struct kj_error error;
  tiny_write(&quantized, &directory);
  assert_int_equal(checkpoint_open(&checkpoint, directory.path, &error), 0);
  assert_int_equal(checkpoint_layer(checkpoint, 2, &weights, &error), KJ_INVALID);
  assert_message(error, "has 2 layers, no layer 2");
  checkpoint_close(checkpoint);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_C3_a_missing_shard),
      TEST(test_F1_a_truncated_shard),
      TEST(test_tensors_that_would_be_ignored),
      TEST(test_tables_of_angles_are_left_aside),
      TEST(test_tensors_that_are_missing),
      TEST(test_shapes_that_config_does_not_describe),
      TEST(test_types_that_do_not_fit),
      TEST(test_scales_that_config_does_not_describe),
      TEST(test_columns_that_are_no_multiple_of_the_group),
      TEST(test_an_index_that_leaves_the_directory),
      TEST(test_an_index_that_is_not_one),
      TEST(test_an_index_of_other_shards),
      TEST(test_a_directory_without_weights),
      TEST(test_a_layer_that_is_not_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

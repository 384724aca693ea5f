#include "model/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/config_parts.h"

enum { FILE_LIMIT = 64 << 20 /* bytes; a config.json with overrides for every expert has a few MB */ };

/* Keys that are allowed only where their value is the one that is computed here. */
static int check_flags(const struct json_place *place, struct kj_error *error) {
  static const struct flag {
    const char *key;
    bool allowed;
  } flags[] = {
      {"attention_bias", false},     {"qkv_bias", false},   {"mlp_bias", false},
      {"use_sliding_window", false}, {"use_qk_norm", true}, {"quantize_activations", false},
  };
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    bool value = flags[i].allowed;
    int result = json_read_truth(place, flags[i].key, &value, error);
    if (result) return result;
    if (value != flags[i].allowed)
      return kj_fail(error, KJ_UNSUPPORTED, "%s: %s %s is not supported", place->name, flags[i].key,
                     value ? "true" : "false");
  }
  return 0;
}

/* layer_types, where present, must call every layer full attention. */
static int check_layer_types(const struct json_place *place, struct kj_error *error) {
  const json_t *types = json_read_field(place, "layer_types");
  if (types && !json_is_array(types)) return json_read_fail(place, "layer_types", "a list", types, error);
  for (size_t i = 0; i < json_array_size(types); i++) {
    const char *type = json_string_value(json_array_get(types, i));
    if (!type) return kj_fail(error, KJ_INVALID, "%s: layer_types must be strings", place->name);
    if (strcmp(type, "full_attention") != 0)
      return kj_fail(error, KJ_UNSUPPORTED, "%s: layer_types: %.40s is not supported; full_attention is", place->name,
                     type);
  }
  return 0;
}

static int check_features(const struct json_place *place, struct kj_error *error) {
  const char *activation = "silu", *custom_code = NULL;
  uint32_t shared_expert = 0;
  int result = check_flags(place, error);
  if (!result) result = json_read_text(place, "hidden_act", &activation, error);
  if (!result) result = json_read_text(place, "model_file", &custom_code, error);
  if (!result) result = json_read_whole(place, "shared_expert_intermediate_size", 0, UINT32_MAX, &shared_expert, error);
  if (result) return result;
  if (strcmp(activation, "silu") != 0)
    return kj_fail(error, KJ_UNSUPPORTED, "%s: hidden_act %.40s is not supported; silu is", place->name, activation);
  if (custom_code)
    return kj_fail(error, KJ_UNSUPPORTED, "%s: model_file (the checkpoint's own code) is not supported", place->name);
  if (shared_expert)
    return kj_fail(error, KJ_UNSUPPORTED, "%s: shared_expert_intermediate_size (a shared expert) is not supported",
                   place->name);
  return check_layer_types(place, error);
}

static int read_model_type(struct config *config, const struct json_place *place, struct kj_error *error) {
  const char *type = NULL;
  int result = json_read_required(place, "model_type", error);
  if (!result) result = json_read_text(place, "model_type", &type, error);
  if (result) return result;
  if (strcmp(type, "qwen3_moe") != 0 && strcmp(type, "qwen3") != 0)
    return kj_fail(error, KJ_UNSUPPORTED, "%s: model_type %.60s is not supported; qwen3_moe and qwen3 are", place->name,
                   type);
  snprintf(config->model_type, sizeof config->model_type, "%s", type);
  return 0;
}

static int required_number(const struct json_place *place, const char *key, uint32_t highest, uint32_t *value,
                           struct kj_error *error) {
  int result = json_read_required(place, key, error);
  return result ? result : json_read_whole(place, key, 1, highest, value, error);
}

static int read_heads(struct config *config, const struct json_place *place, struct kj_error *error) {
  int result = required_number(place, "num_attention_heads", CONFIG_MAX_HEADS, &config->query_heads, error);
  if (result) return result;
  config->kv_heads = config->query_heads;
  result = json_read_whole(place, "num_key_value_heads", 1, CONFIG_MAX_HEADS, &config->kv_heads, error);
  if (!result) result = json_read_whole(place, "head_dim", 2, CONFIG_MAX_HEAD_DIM, &config->head_dim, error);
  if (result) return result;
  if (config->query_heads % config->kv_heads)
    return kj_fail(error, KJ_INVALID, "%s: num_attention_heads %u is not a multiple of num_key_value_heads %u",
                   place->name, config->query_heads, config->kv_heads);
  if (!config->head_dim) {
    if (config->hidden % config->query_heads)
      return kj_fail(error, KJ_INVALID,
                     "%s: has no head_dim, and hidden_size %u is not a multiple of num_attention_heads %u", place->name,
                     config->hidden, config->query_heads);
    config->head_dim = config->hidden / config->query_heads;
  }
  if (config->head_dim % 2 || config->head_dim > CONFIG_MAX_HEAD_DIM)
    return kj_fail(error, KJ_UNSUPPORTED, "%s: head_dim %u is not supported; even numbers up to %d are", place->name,
                   config->head_dim, CONFIG_MAX_HEAD_DIM);
  return 0;
}

static int read_sizes(struct config *config, const struct json_place *place, struct kj_error *error) {
  double epsilon = 1e-6;
  int result = required_number(place, "num_hidden_layers", CONFIG_MAX_LAYERS, &config->layers, error);
  if (!result) result = required_number(place, "hidden_size", CONFIG_MAX_WIDTH, &config->hidden, error);
  if (!result) result = required_number(place, "vocab_size", CONFIG_MAX_VOCABULARY, &config->vocabulary, error);
  if (!result)
    result = required_number(place, "max_position_embeddings", CONFIG_MAX_POSITIONS, &config->max_positions, error);
  if (!result) result = json_read_whole(place, "intermediate_size", 0, CONFIG_MAX_WIDTH, &config->intermediate, error);
  if (!result) result = json_read_real(place, "rms_norm_eps", 1e-12, 1, &epsilon, error);
  if (!result) result = json_read_truth(place, "tie_word_embeddings", &config->tied_embeddings, error);
  config->rms_epsilon = (float)epsilon;
  return result ? result : read_heads(config, place, error);
}

/* Newer files call the number of experts num_local_experts. */
static int read_expert_count(struct config *config, const struct json_place *place, struct kj_error *error) {
  uint32_t old = UINT32_MAX, new = UINT32_MAX;
  int result = json_read_whole(place, "num_experts", 0, CONFIG_MAX_EXPERTS, &old, error);
  if (!result) result = json_read_whole(place, "num_local_experts", 0, CONFIG_MAX_EXPERTS, &new, error);
  if (result) return result;
  if (old == UINT32_MAX && new == UINT32_MAX) return kj_fail(error, KJ_INVALID, "%s: has no num_experts", place->name);
  if (old != UINT32_MAX && new != UINT32_MAX && old != new)
    return kj_fail(error, KJ_INVALID, "%s: num_experts is %u but num_local_experts is %u", place->name, old, new);
  config->experts = old != UINT32_MAX ? old : new;
  return 0;
}

/* A layer is sparse if its number from 1 is a multiple of decoder_sparse_step and mlp_only_layers does not name it. */
static int read_sparse_layers(struct config *config, const struct json_place *place, struct kj_error *error) {
  uint32_t step = 1;
  int result = json_read_whole(place, "decoder_sparse_step", 1, UINT32_MAX, &step, error);
  if (result) return result;
  for (uint32_t layer = 0; layer < config->layers; layer++) config->layer_is_sparse[layer] = (layer + 1) % step == 0;
  const json_t *dense = json_read_field(place, "mlp_only_layers");
  if (dense && !json_is_array(dense)) return json_read_fail(place, "mlp_only_layers", "a list", dense, error);
  for (size_t i = 0; i < json_array_size(dense); i++) {
    const json_t *layer = json_array_get(dense, i);
    if (!json_is_integer(layer) || json_integer_value(layer) < 0 || json_integer_value(layer) >= config->layers)
      return json_read_fail(place, "mlp_only_layers", "numbers of layers", layer, error);
    config->layer_is_sparse[json_integer_value(layer)] = false;
  }
  return 0;
}

static int read_experts(struct config *config, const struct json_place *place, struct kj_error *error) {
  if (strcmp(config->model_type, "qwen3_moe") != 0) return 0;
  int result = read_expert_count(config, place, error);
  if (result || !config->experts) return result;
  result = required_number(place, "num_experts_per_tok", config->experts, &config->experts_per_token, error);
  if (!result)
    result = required_number(place, "moe_intermediate_size", CONFIG_MAX_WIDTH, &config->expert_intermediate, error);
  if (!result) result = json_read_truth(place, "norm_topk_prob", &config->renormalise_experts, error);
  if (!result) result = read_sparse_layers(config, place, error);
  return result;
}

/* intermediate_size may be missing only where no layer is dense. */
static int check_dense_layers(const struct config *config, const struct json_place *place, struct kj_error *error) {
  for (uint32_t layer = 0; layer < config->layers; layer++) {
    if (!config->layer_is_sparse[layer] && !config->intermediate)
      return kj_fail(error, KJ_INVALID, "%s: has no intermediate_size, but layer %u is dense", place->name, layer);
  }
  return 0;
}

static int read_config(struct config *config, const struct json_place *place, struct kj_error *error) {
  int result = read_model_type(config, place, error);
  if (!result) result = check_features(place, error);
  if (!result) result = read_sizes(config, place, error);
  if (!result) result = read_experts(config, place, error);
  if (!result) result = check_dense_layers(config, place, error);
  if (!result) result = config_read_rope(config, place, error);
  if (!result) result = config_read_quantization(config, place, error);
  if (!result) result = config_read_eos(config, place, error);
  return result;
}

/* generation may be NULL; *_name are used in messages. */
static int parse(struct config **config, const char *name, const char *json, size_t length, const char *generation_name,
                 const char *generation, size_t generation_length, struct kj_error *error) {
  json_t *root = NULL, *generation_root = NULL;
  *config = NULL;
  struct config *made = calloc(1, sizeof *made);
  if (!made) return kj_fail_memory(error, "the configuration");
  made->generation =
      (struct generation_defaults){.sample = true, .temperature = 1, .top_p = 1, .repetition_penalty = 1};
  int result = json_read_object(&root, name, json, length, error);
  if (!result) result = read_config(made, &(struct json_place){.object = root, .name = name}, error);
  if (!result && generation) {
    result = json_read_object(&generation_root, generation_name, generation, generation_length, error);
    if (!result)
      result =
          config_read_generation(made, &(struct json_place){.object = generation_root, .name = generation_name}, error);
  }
  json_decref(root);
  json_decref(generation_root);
  if (result)
    config_free(made);
  else
    *config = made;
  return result;
}

int config_parse(struct config **config, const char *name, const char *json, size_t length, const char *generation,
                 size_t generation_length, struct kj_error *error) {
  return parse(config, name, json, length, "generation_config.json", generation, generation_length, error);
}

int config_load(struct config **config, const char *directory, struct kj_error *error) {
  char *path = NULL, *generation_path = NULL, *json = NULL, *generation = NULL;
  size_t length = 0, generation_length = 0;
  int result = 0;
  *config = NULL;
  if (asprintf(&path, "%s/config.json", directory) < 0) path = NULL;
  if (asprintf(&generation_path, "%s/generation_config.json", directory) < 0) generation_path = NULL;
  if (!path || !generation_path) {
    result = kj_fail_memory(error, "a path");
    goto done;
  }
  result = json_read_bytes(&json, &length, path, FILE_LIMIT, error);
  if (result) goto done;
  result = json_read_bytes(&generation, &generation_length, generation_path, FILE_LIMIT, error);
  if (result && result != KJ_NOT_FOUND) goto done;
  result = parse(config, path, json, length, generation_path, generation, generation_length, error);
done:
  free(path);
  free(generation_path);
  free(json);
  free(generation);
  return result;
}

void config_free(struct config *config) {
  if (!config) return;
  for (size_t i = 0; i < config->override_count; i++) free(config->overrides[i].module);
  free(config->overrides);
  free(config);
}

#include "model/synth_config.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "model/json_read.h"

enum { DEFAULT_BITS = 4, DEFAULT_GROUP = 64, ROUTER_BITS = 8, ROUTER_GROUP = 64, CONFIG_LIMIT = 64 << 20 };

struct shape {
  const char *name;
  const char *config; /* the fields in which the shapes differ */
};

static const struct shape shapes[] = {
    {"qwen3-coder-480b",
     "{\"hidden_size\": 6144, \"intermediate_size\": 8192, \"max_position_embeddings\": 262144,"
     " \"max_window_layers\": 62, \"moe_intermediate_size\": 2560, \"num_attention_heads\": 96, \"num_experts\": 160,"
     " \"num_hidden_layers\": 62, \"num_key_value_heads\": 8, \"rope_theta\": 10000000,"
     " \"router_aux_loss_coef\": 0.0}"},
    {"qwen3-coder-30b",
     "{\"hidden_size\": 2048, \"intermediate_size\": 5472, \"max_position_embeddings\": 262144,"
     " \"max_window_layers\": 28, \"moe_intermediate_size\": 768, \"num_attention_heads\": 32, \"num_experts\": 128,"
     " \"num_hidden_layers\": 48, \"num_key_value_heads\": 4, \"rope_theta\": 10000000,"
     " \"router_aux_loss_coef\": 0.0}"},
    {"qwen3-235b",
     "{\"hidden_size\": 4096, \"intermediate_size\": 12288, \"max_position_embeddings\": 40960,"
     " \"max_window_layers\": 94, \"moe_intermediate_size\": 1536, \"num_attention_heads\": 64, \"num_experts\": 128,"
     " \"num_hidden_layers\": 94, \"num_key_value_heads\": 4, \"rope_theta\": 1000000.0,"
     " \"router_aux_loss_coef\": 0.001}"},
};

static const char common_config[] =
    "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"attention_bias\": false, \"attention_dropout\": 0.0,"
    " \"bos_token_id\": 151643, \"decoder_sparse_step\": 1, \"eos_token_id\": 151645, \"head_dim\": 128,"
    " \"hidden_act\": \"silu\", \"initializer_range\": 0.02, \"mlp_only_layers\": [], \"model_type\": \"qwen3_moe\","
    " \"norm_topk_prob\": true, \"num_experts_per_tok\": 8, \"output_router_logits\": false, \"rms_norm_eps\": 1e-06,"
    " \"rope_scaling\": null, \"sliding_window\": null, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\","
    " \"use_cache\": true, \"use_sliding_window\": false, \"vocab_size\": 151936}";

static const char shape_generation[] =
    "{\"pad_token_id\": 151643, \"do_sample\": true, \"eos_token_id\": [151645, 151643],"
    " \"repetition_penalty\": 1.05, \"temperature\": 0.7, \"top_p\": 0.8, \"top_k\": 20}";

static int load_shape(json_t **config, json_t **generation, const char *name, struct kj_error *error) {
  size_t count = sizeof shapes / sizeof *shapes, i = 0;
  while (i < count && strcmp(shapes[i].name, name) != 0) i++;
  if (i == count) {
    struct buffer known = {0};
    for (i = 0; i < count; i++) buffer_append_format(&known, "%s%s", i ? ", " : "", shapes[i].name);
    int code = kj_fail(error, KJ_INVALID, "unknown shape \"%.80s\"; there are %s, and --config FILE for any other",
                       name, buffer_text(&known));
    buffer_free(&known);
    return code;
  }
  *config = json_loads(common_config, 0, NULL);
  *generation = json_loads(shape_generation, 0, NULL);
  json_t *own = json_loads(shapes[i].config, 0, NULL);
  int failed = !*config || !*generation || !own || json_object_update(*config, own);
  json_decref(own);
  return failed ? kj_fail_memory(error, "a shape's config") : 0;
}

/* The generation_config.json beside a config file, or the config's own end tokens. */
static int load_generation(json_t **generation, json_t *config, const char *config_path, struct kj_error *error) {
  const char *slash = strrchr(config_path, '/');
  struct buffer path = {0};
  if (slash) buffer_append(&path, config_path, (size_t)(slash + 1 - config_path));
  buffer_append_text(&path, "generation_config.json");
  int code = buffer_failed(&path) ? kj_fail_memory(error, "a path")
                                  : json_read_file(generation, buffer_text(&path), CONFIG_LIMIT, error);
  buffer_free(&path);
  if (code != KJ_NOT_FOUND) return code;
  json_t *eos = json_object_get(config, "eos_token_id");
  *generation = json_object();
  if (!*generation || (eos && !json_is_null(eos) && json_object_set(*generation, "eos_token_id", eos)))
    return kj_fail_memory(error, "generation_config.json");
  return 0;
}

/* Removes entries of mlp_only_layers that the model no longer has. */
static void cut_dense_layers(json_t *config, uint32_t layers) {
  json_t *dense = json_object_get(config, "mlp_only_layers");
  for (size_t i = json_array_size(dense); i-- > 0;)
    if (json_integer_value(json_array_get(dense, i)) >= (json_int_t)layers) json_array_remove(dense, i);
}

/* "model.layers.12.mlp.gate" → 12 and ".mlp.gate"; false for a module outside the layers. */
static bool layer_module(const char *module, uint32_t *layer, const char **rest) {
  int length = 0;
  if (sscanf(module, "model.layers.%9" SCNu32 "%n", layer, &length) != 1 || module[length] != '.') return false;
  *rest = module + length;
  return true;
}

/* Overrides of layers that are cut off go; layers that are added are quantized as the last one was. */
static int fit_overrides(json_t *quantization, uint32_t old_layers, uint32_t layers) {
  const char *module, *rest;
  json_t *value, *added = json_object();
  void *next;
  uint32_t layer;
  int failed = !added;
  json_object_foreach_safe(quantization, next, module, value) {
    if (!layer_module(module, &layer, &rest)) continue;
    if (layer >= layers) {
      json_object_del(quantization, module);
      continue;
    }
    if (layer + 1 != old_layers) continue;
    for (uint32_t i = old_layers; i < layers && !failed; i++) {
      char name[256];
      snprintf(name, sizeof name, "model.layers.%" PRIu32 "%s", i, rest);
      failed |= json_object_set(added, name, value);
    }
  }
  failed |= json_object_update(quantization, added);
  json_decref(added);
  return failed;
}

static int set_layers(json_t *config, uint32_t layers, struct kj_error *error) {
  json_int_t old_layers = json_integer_value(json_object_get(config, "num_hidden_layers"));
  if (layers > CONFIG_MAX_LAYERS)
    return kj_fail(error, KJ_INVALID, "%" PRIu32 " layers; at most %d are possible", layers, CONFIG_MAX_LAYERS);
  if (old_layers < 1 || old_layers > CONFIG_MAX_LAYERS) return 0; /* left for config_parse to refuse */
  cut_dense_layers(config, layers);
  json_t *quantization = json_object_get(config, "quantization");
  if (json_object_set_new(config, "num_hidden_layers", json_integer(layers)) ||
      (json_is_object(quantization) && fit_overrides(quantization, (uint32_t)old_layers, layers)))
    return kj_fail_memory(error, "config.json");
  return 0;
}

/* As mlx-lm quantizes Qwen3: the routers of sparse layers at 8 bits. */
static int add_router_overrides(json_t *config, json_t *quantization) {
  json_int_t layers = json_integer_value(json_object_get(config, "num_hidden_layers"));
  json_int_t step = json_integer_value(json_object_get(config, "decoder_sparse_step"));
  json_t *dense = json_object_get(config, "mlp_only_layers");
  if (!json_integer_value(json_object_get(config, "num_experts"))) return 0;
  for (json_int_t layer = 0; layer < layers && layer < CONFIG_MAX_LAYERS; layer++) {
    bool sparse = step <= 1 || (layer + 1) % step == 0;
    for (size_t i = 0; i < json_array_size(dense); i++) sparse &= json_integer_value(json_array_get(dense, i)) != layer;
    if (!sparse) continue;
    char name[64];
    snprintf(name, sizeof name, "model.layers.%" JSON_INTEGER_FORMAT ".mlp.gate", layer);
    json_t *router = json_pack("{s:i, s:i}", "group_size", ROUTER_GROUP, "bits", ROUTER_BITS);
    if (json_object_set_new(quantization, name, router)) return -1;
  }
  return 0;
}

static int set_quantization(json_t *config, const struct synth_request *request, struct kj_error *error) {
  json_t *quantization = json_object_get(config, "quantization");
  bool wanted = request->shape || request->bits || request->group;
  if (request->bits && request->bits != 4 && request->bits != 8)
    return kj_fail(error, KJ_INVALID, "%" PRIu32 " bits: 4 and 8 are possible", request->bits);
  if (request->group && request->group != 32 && request->group != 64 && request->group != 128)
    return kj_fail(error, KJ_INVALID, "groups of %" PRIu32 ": 32, 64 and 128 are possible", request->group);
  int failed = 0;
  if (json_is_object(quantization)) {
    if (request->bits) failed |= json_object_set_new(quantization, "bits", json_integer(request->bits));
    if (request->group) failed |= json_object_set_new(quantization, "group_size", json_integer(request->group));
  } else if (wanted) {
    uint32_t group = request->group ? request->group : DEFAULT_GROUP,
             bits = request->bits ? request->bits : DEFAULT_BITS;
    quantization =
        json_pack("{s:I, s:I, s:s}", "group_size", (json_int_t)group, "bits", (json_int_t)bits, "mode", "affine");
    failed |= json_object_set_new(config, "quantization", quantization) || add_router_overrides(config, quantization);
  }
  /* MLX writes it under both names. */
  quantization = json_object_get(config, "quantization");
  if (json_is_object(quantization)) failed |= json_object_set(config, "quantization_config", quantization);
  return failed ? kj_fail_memory(error, "config.json") : 0;
}

int synth_config_make(struct synth_config *result, const struct synth_request *request, struct kj_error *error) {
  json_t *config = NULL, *generation = NULL;
  int code;
  memset(result, 0, sizeof *result);
  if (!request->shape == !request->config_path)
    return kj_fail(error, KJ_INVALID, "either a shape or a config file is needed, not both");
  if (request->shape)
    code = load_shape(&config, &generation, request->shape, error);
  else if (!(code = json_read_file(&config, request->config_path, CONFIG_LIMIT, error)))
    code = load_generation(&generation, config, request->config_path, error);
  if (code) goto done;
  if (request->layers && (code = set_layers(config, request->layers, error))) goto done;
  if ((code = set_quantization(config, request, error))) goto done;

  result->config_json = json_dumps(config, JSON_INDENT(4) | JSON_REAL_PRECISION(15));
  result->generation_json = json_dumps(generation, JSON_INDENT(4) | JSON_REAL_PRECISION(15));
  if (!result->config_json || !result->generation_json) {
    code = kj_fail_memory(error, "config.json");
    goto done;
  }
  code = config_parse(&result->config, request->shape ? request->shape : request->config_path, result->config_json,
                      strlen(result->config_json), result->generation_json, strlen(result->generation_json), error);

done:
  json_decref(config);
  json_decref(generation);
  if (code) synth_config_free(result);
  return code;
}

void synth_config_free(struct synth_config *config) {
  free(config->config_json);
  free(config->generation_json);
  config_free(config->config);
  memset(config, 0, sizeof *config);
}

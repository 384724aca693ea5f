/* What a checkpoint's config.json and generation_config.json say, validated.
 *
 * Only architectures that Kaiju implements get through: `model_type` qwen3_moe and qwen3. A field that would change
 * the computation and is not implemented is refused by name, never ignored.
 */
#ifndef KAIJU_MODEL_CONFIG_H
#define KAIJU_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Bounds on what a file may say. Products of any two, and of heads and head_dim, fit 64 bits with room to spare. */
enum {
  CONFIG_MAX_LAYERS = 1024,
  CONFIG_MAX_EXPERTS = 4096,
  CONFIG_MAX_EOS = 16,
  CONFIG_MAX_HEADS = 4096,
  CONFIG_MAX_HEAD_DIM = 1024,
  CONFIG_MAX_WIDTH = 1 << 22, /* hidden_size and the inner sizes of FFNs */
  CONFIG_MAX_VOCABULARY = 1 << 24,
  CONFIG_MAX_POSITIONS = 1 << 28
};

/* How the modules of a layer's weights are quantized; bits 0: not at all. A module that has no scales in the checkpoint
 * is plain whatever this says. */
struct quantization {
  uint32_t bits;
  uint32_t group;
};

/* rope_scaling (or rope_parameters, as newer files say) of type yarn (Peng et al. 2023,
 * https://arxiv.org/abs/2309.00071), as Transformers computes it: with the correction range truncated to whole pairs.
 */
struct yarn {
  bool enabled;
  float factor, beta_fast, beta_slow;
  float attention_factor; /* on cos and sin; derived from factor, mscale, mscale_all_dim where config.json has none */
  uint32_t original_positions;
};

struct config {
  char model_type[32];
  uint32_t layers, hidden, vocabulary;
  uint32_t query_heads, kv_heads, head_dim;
  uint32_t intermediate; /* inner size of a dense layer's FFN; 0 only where every layer is sparse */
  uint32_t experts;      /* 0: every layer is dense */
  uint32_t experts_per_token;
  uint32_t expert_intermediate;
  bool renormalise_experts; /* norm_topk_prob */
  bool tied_embeddings;
  uint32_t max_positions; /* max_position_embeddings, or what yarn stretches the original context to if that is more */
  float rms_epsilon;
  double rope_theta;
  struct yarn yarn;
  bool layer_is_sparse[CONFIG_MAX_LAYERS]; /* from mlp_only_layers and decoder_sparse_step */

  struct quantization quantization;        /* the default of all modules */
  struct quantization_override *overrides; /* sorted by module name; none equals the default */
  size_t override_count;

  /* generation_config.json, or its defaults: temperature 1, top_p 1, top_k 0 (off), no penalty. */
  struct generation_defaults {
    bool sample; /* do_sample; false means temperature 0. Missing: true, as clients of the OpenAI API expect */
    float temperature, top_p, min_p, repetition_penalty;
    uint32_t top_k;
    uint32_t eos[CONFIG_MAX_EOS]; /* from generation_config.json, else config.json */
    size_t eos_count;
  } generation;
};

struct quantization_override {
  char *module; /* "model.layers.0.mlp.gate" */
  struct quantization quantization;
};

/* Reads DIRECTORY/config.json and, where it exists, DIRECTORY/generation_config.json. KJ_UNSUPPORTED names the feature
 * that is not implemented, KJ_INVALID the key whose value breaks a rule. */
int config_load(struct config **config, const char *directory, struct kj_error *error);
/* The same from memory; generation may be NULL. `name` is used in messages. */
int config_parse(struct config **config, const char *name, const char *json, size_t length, const char *generation,
                 size_t generation_length, struct kj_error *error);
void config_free(struct config *config);

/* The quantization of a module, e.g. "model.layers.3.self_attn.q_proj". */
struct quantization config_quantization(const struct config *config, const char *module);

#endif

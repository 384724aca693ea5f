// links: model
/* config.json and, after a line of "---", generation_config.json: what gets through must keep the promises of config.h.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct config *config) {
  const struct generation_defaults *generation = &config->generation;
  if (!config->layers || config->layers > CONFIG_MAX_LAYERS || config->experts > CONFIG_MAX_EXPERTS) abort();
  if (!config->hidden || !config->vocabulary || !config->max_positions || config->head_dim % 2) abort();
  if (!config->kv_heads || config->query_heads % config->kv_heads || !config->head_dim) abort();
  if (config->experts && (!config->experts_per_token || config->experts_per_token > config->experts)) abort();
  if (!(config->rms_epsilon > 0) || !(config->rope_theta > 1)) abort();
  if (config->yarn.enabled && !(config->yarn.factor >= 1 && config->yarn.attention_factor > 0)) abort();
  if (!isfinite(generation->temperature) || !isfinite(generation->repetition_penalty)) abort();
  for (size_t i = 0; i < generation->eos_count; i++) {
    if (generation->eos[i] >= config->vocabulary) abort();
  }
  for (uint32_t layer = 0; layer < config->layers; layer++) {
    if (config->layer_is_sparse[layer] ? !config->expert_intermediate : !config->intermediate) abort();
  }
  for (size_t i = 0; i < config->override_count; i++) {
    struct quantization found = config_quantization(config, config->overrides[i].module);
    if (found.bits != config->overrides[i].quantization.bits) abort();
    if (found.bits && found.bits != 4 && found.bits != 8) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char separator[] = "\n---\n";
  struct config *config = NULL;
  struct kj_error error;
  const char *text = (const char *)data, *split = memmem(data, size, separator, sizeof separator - 1);
  const char *generation = split ? split + sizeof separator - 1 : NULL;
  size_t length = split ? (size_t)(split - text) : size;
  size_t generation_length = generation ? size - (size_t)(generation - text) : 0;
  if (config_parse(&config, "fuzz", text, length, generation, generation_length, &error)) return 0;
  check(config);
  config_free(config);
  return 0;
}

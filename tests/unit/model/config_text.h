/* config.json texts for tests: a valid one from which keys are left out and to which others are added. */
#ifndef KAIJU_TESTS_CONFIG_TEXT_H
#define KAIJU_TESTS_CONFIG_TEXT_H

#include "model/config.h"
#include "unit/model/checkpoint_files.h"

static const char *const config_text_keys[] = {
    "\"model_type\":\"qwen3_moe\"",
    "\"num_hidden_layers\":4",
    "\"hidden_size\":64",
    "\"vocab_size\":1000",
    "\"num_attention_heads\":4",
    "\"num_key_value_heads\":2",
    "\"head_dim\":32",
    "\"intermediate_size\":96",
    "\"max_position_embeddings\":4096",
    "\"rope_theta\":1000000",
    "\"num_experts\":8",
    "\"num_experts_per_tok\":2",
    "\"moe_intermediate_size\":48",
    "\"norm_topk_prob\":true",
    "\"rms_norm_eps\":1e-6",
    "\"tie_word_embeddings\":false",
    "\"decoder_sparse_step\":1",
    "\"mlp_only_layers\":[]",
};

/* Parses the valid text with `added` keys ("\"a\":1,\"b\":2", or NULL) in place of those of the same name and of those
 * named in `removed` (one name or NULL), and with this generation_config.json (or NULL). */
static inline int config_parse_text(struct config **config, const char *added, const char *removed,
                                    const char *generation, struct kj_error *error) {
  struct buffer text = {0};
  char name[64];
  buffer_append_text(&text, "{");
  buffer_append_text(&text, added ? added : "\"unknown\":null");
  for (size_t i = 0; i < sizeof config_text_keys / sizeof *config_text_keys; i++) {
    snprintf(name, sizeof name, "%.*s", (int)(strchr(config_text_keys[i], ':') - config_text_keys[i] + 1),
             config_text_keys[i]);
    if (added && strstr(added, name)) continue;
    if (removed && !strncmp(name + 1, removed, strlen(removed)) && name[1 + strlen(removed)] == '"') continue;
    buffer_append_format(&text, ",%s", config_text_keys[i]);
  }
  buffer_append_text(&text, "}");
  *error = (struct kj_error){0};
  int result = config_parse(config, "config.json", text.data, text.length, generation,
                            generation ? strlen(generation) : 0, error);
  if (result) assert_null(*config);
  buffer_free(&text);
  return result;
}

static inline struct config *config_valid(const char *added, const char *removed, const char *generation) {
  struct config *config = NULL;
  struct kj_error error;
  if (config_parse_text(&config, added, removed, generation, &error)) fail_msg("%s", error.message);
  return config;
}

static inline void config_refused(const char *added, const char *removed, const char *generation, int code,
                                  const char *message) {
  struct config *config = NULL;
  struct kj_error error;
  int result = config_parse_text(&config, added, removed, generation, &error);
  if (result != code) fail_msg("code %d, not %d of '%s': %s", result, code, message, error.message);
  assert_message(error, message);
}

#endif

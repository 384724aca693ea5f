#include "model/tensor_role.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Moves *text past `prefix` if it begins with it. */
static bool skip(const char **text, const char *prefix) {
  size_t length = strlen(prefix);
  if (strncmp(*text, prefix, length) != 0) return false;
  *text += length;
  return true;
}

/* Moves *text past "N.", N without leading zeros and below 10⁸. */
static bool skip_number(const char **text, uint32_t *number) {
  const char *digit = *text;
  uint32_t value = 0;
  while (*digit >= '0' && *digit <= '9' && digit - *text < 8) value = value * 10 + (uint32_t)(*digit++ - '0');
  if (digit == *text || *digit != '.' || (**text == '0' && digit - *text > 1)) return false;
  *text = digit + 1;
  *number = value;
  return true;
}

/* "NAME.weight" and, where it may be quantized, "NAME.scales" and "NAME.biases", for a NAME of a list. */
static bool is_module(const char *text, const char *const *names, size_t count, bool quantizable) {
  for (size_t i = 0; i < count; i++) {
    const char *rest = text;
    if (!skip(&rest, names[i])) continue;
    if (!strcmp(rest, ".weight")) return true;
    if (quantizable && (!strcmp(rest, ".scales") || !strcmp(rest, ".biases"))) return true;
  }
  return false;
}

static bool is_layer_tensor(const char *text) {
  static const char *const norms[] = {"input_layernorm", "post_attention_layernorm", "self_attn.q_norm",
                                      "self_attn.k_norm"};
  static const char *const matrices[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                         "mlp.gate"};
  static const char *const inner[] = {"gate_proj", "up_proj", "down_proj"};
  if (is_module(text, norms, sizeof norms / sizeof *norms, false)) return true;
  if (is_module(text, matrices, sizeof matrices / sizeof *matrices, true)) return true;
  if (!skip(&text, "mlp.")) return false;
  uint32_t expert = 0;
  if (skip(&text, "experts.")) {
    if (!skip_number(&text, &expert)) return false;
  } else {
    skip(&text, "switch_mlp.");
  }
  return is_module(text, inner, sizeof inner / sizeof *inner, true);
}

struct tensor_role tensor_role(const char *name) {
  static const char *const embedding[] = {"model.embed_tokens"}, *const norm[] = {"model.norm"},
                           *const head[] = {"lm_head"};
  struct tensor_role role = {.part = TENSOR_UNKNOWN};
  if (is_module(name, embedding, 1, true)) {
    role.part = TENSOR_EMBEDDING;
  } else if (is_module(name, norm, 1, false)) {
    role.part = TENSOR_NORM;
  } else if (is_module(name, head, 1, true)) {
    role.part = TENSOR_HEAD;
  } else if (!strcmp(name, "model.rotary_emb.inv_freq")) {
    role.part = TENSOR_UNUSED;
  } else if (skip(&name, "model.layers.") && skip_number(&name, &role.layer)) {
    if (is_layer_tensor(name)) role.part = TENSOR_LAYER;
    if (!strcmp(name, "self_attn.rotary_emb.inv_freq")) role.part = TENSOR_UNUSED;
  }
  return role;
}

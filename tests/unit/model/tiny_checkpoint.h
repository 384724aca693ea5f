/* A whole checkpoint of the smallest Qwen3 model: hidden 256, 2 query heads and 1 KV head of 64, 3 experts, 32 tokens.
 * What a test varies is in `struct tiny`. Layer N lies in shard N; embedding, norm and head in the last shard.
 */
#ifndef KAIJU_TESTS_TINY_CHECKPOINT_H
#define KAIJU_TESTS_TINY_CHECKPOINT_H

#include "unit/model/checkpoint_files.h"

enum {
  TINY_HIDDEN = 256,
  TINY_HEAD = 64,
  TINY_EXPERTS = 3,
  TINY_EXPERT_INNER = 128,
  TINY_INNER = 384,
  TINY_TOKENS = 32
};

struct tiny {
  unsigned layers;
  bool dense;                       /* model_type qwen3 */
  bool one_an_expert;               /* instead of stacked */
  unsigned bits, group;             /* 0: plain */
  const char *type;                 /* of plain tensors, scales and biases; NULL: BF16 */
  bool router_8_bits;               /* an override */
  bool router_plain;                /* an override that says false */
  bool tied;                        /* and no lm_head */
  bool one_file;                    /* model.safetensors without an index */
  const char *config;               /* more keys of config.json: "\"x\": 1," */
  const char *extra;                /* one more tensor, BF16 [4], in the first shard */
  const char *left_out;             /* a tensor that is not written and not in the index */
  const char *reshaped;             /* a tensor whose first dimension is one more */
  const char *retyped, *retyped_as; /* a tensor of another type */
};

struct tiny_state {
  const struct tiny *tiny;
  struct shard_writer writer;
  struct buffer index;
  char shard[64];
};

static inline void tiny_tensor(struct tiny_state *state, const char *name, const char *dtype, size_t dimensions,
                               const size_t *shape) {
  const struct tiny *tiny = state->tiny;
  size_t written[3];
  if (tiny->left_out && !strcmp(tiny->left_out, name)) return;
  memcpy(written, shape, dimensions * sizeof *shape);
  if (tiny->reshaped && !strcmp(tiny->reshaped, name)) written[0]++;
  if (tiny->retyped && !strcmp(tiny->retyped, name)) dtype = tiny->retyped_as;
  shard_add(&state->writer, name, dtype, dimensions, written);
  buffer_append_format(&state->index, "%s\"%s\":\"%s\"", state->index.length ? "," : "{\"weight_map\":{", name,
                       state->shard);
}

static inline const char *tiny_type(const struct tiny *tiny) { return tiny->type ? tiny->type : "BF16"; }

/* MODULE.weight and, if quantized, scales and biases. `stack` 0: a matrix. */
static inline void tiny_module(struct tiny_state *state, const char *module, size_t stack, size_t rows,
                               size_t columns) {
  const struct tiny *tiny = state->tiny;
  bool router = strlen(module) > 9 && !strcmp(module + strlen(module) - 9, ".mlp.gate");
  unsigned bits = router && tiny->router_8_bits ? 8 : router && tiny->router_plain ? 0 : tiny->bits;
  size_t dimensions = stack ? 3 : 2, shape[3] = {stack, rows, columns};
  size_t *last = stack ? &shape[2] : &shape[1];
  char name[256];
  if (!stack) shape[0] = rows, shape[1] = columns;
  snprintf(name, sizeof name, "%s.weight", module);
  if (bits) *last = columns * bits / 32;
  tiny_tensor(state, name, bits ? "U32" : tiny_type(tiny), dimensions, shape);
  if (!bits) return;
  *last = columns / tiny->group;
  snprintf(name, sizeof name, "%s.scales", module);
  tiny_tensor(state, name, tiny_type(tiny), dimensions, shape);
  snprintf(name, sizeof name, "%s.biases", module);
  tiny_tensor(state, name, tiny_type(tiny), dimensions, shape);
}

static inline void tiny_experts(struct tiny_state *state, unsigned layer, const char *part, size_t rows,
                                size_t columns) {
  char module[200];
  bool down = !strcmp(part, "down_proj");
  if (state->tiny->dense) {
    snprintf(module, sizeof module, "model.layers.%u.mlp.%s", layer, part);
    tiny_module(state, module, 0, down ? rows : TINY_INNER, down ? TINY_INNER : columns);
  } else if (!state->tiny->one_an_expert) {
    snprintf(module, sizeof module, "model.layers.%u.mlp.switch_mlp.%s", layer, part);
    tiny_module(state, module, TINY_EXPERTS, rows, columns);
  } else {
    for (unsigned expert = 0; expert < TINY_EXPERTS; expert++) {
      snprintf(module, sizeof module, "model.layers.%u.mlp.experts.%u.%s", layer, expert, part);
      tiny_module(state, module, 0, rows, columns);
    }
  }
}

static inline void tiny_layer(struct tiny_state *state, unsigned layer) {
  static const struct {
    const char *name;
    size_t rows, columns; /* columns 0: a norm */
  } modules[] = {{"input_layernorm", TINY_HIDDEN, 0},
                 {"post_attention_layernorm", TINY_HIDDEN, 0},
                 {"self_attn.q_norm", TINY_HEAD, 0},
                 {"self_attn.k_norm", TINY_HEAD, 0},
                 {"self_attn.q_proj", 2 * TINY_HEAD, TINY_HIDDEN},
                 {"self_attn.k_proj", TINY_HEAD, TINY_HIDDEN},
                 {"self_attn.v_proj", TINY_HEAD, TINY_HIDDEN},
                 {"self_attn.o_proj", TINY_HIDDEN, 2 * TINY_HEAD}};
  char name[200];
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
    bool norm = !modules[i].columns;
    snprintf(name, sizeof name, "model.layers.%u.%s%s", layer, modules[i].name, norm ? ".weight" : "");
    if (norm)
      tiny_tensor(state, name, tiny_type(state->tiny), 1, &modules[i].rows);
    else
      tiny_module(state, name, 0, modules[i].rows, modules[i].columns);
  }
  if (!state->tiny->dense) {
    snprintf(name, sizeof name, "model.layers.%u.mlp.gate", layer);
    tiny_module(state, name, 0, TINY_EXPERTS, TINY_HIDDEN);
  }
  tiny_experts(state, layer, "gate_proj", TINY_EXPERT_INNER, TINY_HIDDEN);
  tiny_experts(state, layer, "up_proj", TINY_EXPERT_INNER, TINY_HIDDEN);
  tiny_experts(state, layer, "down_proj", TINY_HIDDEN, TINY_EXPERT_INNER);
}

static inline void tiny_config(const struct tiny *tiny, const struct directory *directory) {
  struct buffer text = {0};
  buffer_append_format(&text,
                       "{%s\"model_type\":\"%s\",\"num_hidden_layers\":%u,\"hidden_size\":%d,\"vocab_size\":%d,"
                       "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":%d,\"intermediate_size\":%d,"
                       "\"max_position_embeddings\":512,\"rope_theta\":10000,\"tie_word_embeddings\":%s",
                       tiny->config ? tiny->config : "", tiny->dense ? "qwen3" : "qwen3_moe", tiny->layers, TINY_HIDDEN,
                       TINY_TOKENS, TINY_HEAD, TINY_INNER, tiny->tied ? "true" : "false");
  if (!tiny->dense)
    buffer_append_format(&text, ",\"num_experts\":%d,\"num_experts_per_tok\":2,\"moe_intermediate_size\":%d",
                         TINY_EXPERTS, TINY_EXPERT_INNER);
  if (tiny->bits)
    buffer_append_format(&text, ",\"quantization\":{\"bits\":%u,\"group_size\":%u", tiny->bits, tiny->group);
  for (unsigned layer = 0; layer < tiny->layers; layer++) {
    if (tiny->router_8_bits)
      buffer_append_format(&text, ",\"model.layers.%u.mlp.gate\":{\"bits\":8,\"group_size\":%u}", layer, tiny->group);
    if (tiny->router_plain) buffer_append_format(&text, ",\"model.layers.%u.mlp.gate\":false", layer);
  }
  buffer_append_text(&text, tiny->bits ? "}}" : "}");
  write_text(directory, "config.json", text.data);
  buffer_free(&text);
}

static inline void tiny_write(const struct tiny *tiny, const struct directory *directory) {
  static const size_t hidden = TINY_HIDDEN, four = 4;
  struct tiny_state state = {.tiny = tiny, .shard = "model.safetensors"};
  tiny_config(tiny, directory);
  for (unsigned layer = 0; layer < tiny->layers; layer++) {
    if (!tiny->one_file) snprintf(state.shard, sizeof state.shard, "model-%u.safetensors", layer);
    tiny_layer(&state, layer);
    if (tiny->extra && !layer) tiny_tensor(&state, tiny->extra, "BF16", 1, &four);
    if (!tiny->one_file) shard_write(&state.writer, directory, state.shard);
  }
  if (!tiny->one_file) snprintf(state.shard, sizeof state.shard, "model-%u.safetensors", tiny->layers);
  tiny_module(&state, "model.embed_tokens", 0, TINY_TOKENS, TINY_HIDDEN);
  tiny_tensor(&state, "model.norm.weight", tiny_type(tiny), 1, &hidden);
  if (!tiny->tied) tiny_module(&state, "lm_head", 0, TINY_TOKENS, TINY_HIDDEN);
  shard_write(&state.writer, directory, state.shard);
  buffer_append_text(&state.index, "}}");
  if (!tiny->one_file) write_text(directory, "model.safetensors.index.json", state.index.data);
  buffer_free(&state.index);
}

#endif

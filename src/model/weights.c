#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/checkpoint_state.h"

enum { NAME_SIZE = 200 /* of a tensor: all are built here and short */ };

/* Where matrices come from, and whether they get pointers. Without, a shard need not be there: the matrix is then what
 * config.json and the index say that it must be, its numbers taken for BF16, and `estimated` becomes true. */
struct source {
  struct checkpoint *checkpoint;
  bool map, estimated;
};

/* A module's weight: `stack` matrices [rows, columns] in one tensor, or one matrix where stack is 0. A norm is a tensor
 * of one dimension. */
struct want {
  char module[NAME_SIZE];
  uint32_t stack, rows, columns;
  bool norm;
};

struct found {
  struct safetensors *file;                /* NULL: the shard is not on this machine */
  const struct safetensors_tensor *tensor; /* NULL likewise */
};

static int find_tensor(struct source *source, const char *name, struct found *found, struct kj_error *error) {
  struct checkpoint *checkpoint = source->checkpoint;
  struct index_entry *entry = checkpoint_entry(checkpoint, name);
  if (!entry) return kj_fail(error, KJ_NOT_FOUND, "%s: has no tensor %s", checkpoint->directory, name);
  entry->used = true;
  int result = checkpoint_open_shard(checkpoint, entry->shard, name, error);
  if (result == KJ_NOT_FOUND && !source->map) {
    *found = (struct found){0};
    source->estimated = true;
    return 0;
  }
  if (result) return result;
  found->file = checkpoint->shards[entry->shard].file;
  found->tensor = safetensors_find(found->file, name); /* is there: header and index have been compared */
  return source->map ? safetensors_map(found->file, error) : 0;
}

static bool has_tensor(struct source *source, const char *module, const char *suffix) {
  char name[NAME_SIZE + 16];
  snprintf(name, sizeof name, "%s.%s", module, suffix);
  return checkpoint_entry(source->checkpoint, name) != NULL;
}

static int fail_shape(const struct found *found, const uint64_t *shape, uint32_t dimensions, struct kj_error *error) {
  char is[256] = "", must[256] = "";
  size_t length = 0;
  for (uint32_t i = 0; i < found->tensor->dimensions; i++)
    length += (size_t)snprintf(is + length, sizeof is - length, "%s%llu", i ? ", " : "",
                               (unsigned long long)found->tensor->shape[i]);
  length = 0;
  for (uint32_t i = 0; i < dimensions; i++)
    length +=
        (size_t)snprintf(must + length, sizeof must - length, "%s%llu", i ? ", " : "", (unsigned long long)shape[i]);
  return kj_fail(error, KJ_INVALID, "%s: tensor %s has shape [%s]; by config.json it must be [%s]",
                 safetensors_path(found->file), found->tensor->name, is, must);
}

static int find_part(struct source *source, const struct want *want, const char *suffix, struct found *found,
                     struct kj_error *error) {
  char name[NAME_SIZE + 16];
  snprintf(name, sizeof name, "%s.%s", want->module, suffix);
  return find_tensor(source, name, found, error);
}

/* The shape must be what is wanted, with a last dimension of `columns` (in the units of the tensor's type). */
static int check_shape(const struct want *want, const struct found *found, uint64_t columns, struct kj_error *error) {
  uint64_t shape[3];
  uint32_t dimensions = 0;
  if (!found->tensor) return 0;
  if (want->stack) shape[dimensions++] = want->stack;
  if (!want->norm) shape[dimensions++] = want->rows;
  shape[dimensions++] = columns;
  if (found->tensor->dimensions != dimensions || memcmp(found->tensor->shape, shape, dimensions * sizeof *shape) != 0)
    return fail_shape(found, shape, dimensions, error);
  return 0;
}

static int number_type_of(const struct found *found, enum number_type *type, struct kj_error *error) {
  *type = NUMBER_BF16;
  if (!found->tensor) return 0;
  switch (found->tensor->type) {
    case SAFETENSORS_F32:
      *type = NUMBER_F32;
      return 0;
    case SAFETENSORS_F16:
      *type = NUMBER_F16;
      return 0;
    case SAFETENSORS_BF16:
      *type = NUMBER_BF16;
      return 0;
    default:
      return kj_fail(error, KJ_UNSUPPORTED,
                     "%s: tensor %s: dtype %s is not supported without .scales and .biases; BF16, F16 and F32 are",
                     safetensors_path(found->file), found->tensor->name, found->tensor->dtype);
  }
}

/* The part of a stacked tensor that is matrix `index` of `count` equal ones; NULL while nothing is mapped. */
static const void *slice(struct source *source, const struct found *found, uint32_t index, uint32_t count) {
  if (!source->map) return NULL;
  return (const uint8_t *)safetensors_data(found->file, found->tensor) + found->tensor->bytes / count * index;
}

static int find_plain(struct source *source, const struct want *want, struct matrix *matrices, struct kj_error *error) {
  struct found weight = {0};
  enum number_type type = NUMBER_F32;
  int result = find_part(source, want, "weight", &weight, error);
  if (!result) result = number_type_of(&weight, &type, error); /* first: packed integers without scales are named so */
  if (!result) result = check_shape(want, &weight, want->columns, error);
  if (result) return result;
  uint32_t count = want->stack ? want->stack : 1;
  for (uint32_t i = 0; i < count; i++)
    matrices[i] = (struct matrix){.rows = want->rows,
                                  .columns = want->columns,
                                  .format = MATRIX_PLAIN,
                                  .type = type,
                                  .data = slice(source, &weight, i, count)};
  return 0;
}

/* *type becomes that of the scales. */
static int check_affine_types(const struct found *weight, const struct found *scales, const struct found *biases,
                              enum number_type *type, struct kj_error *error) {
  enum number_type bias_type = NUMBER_F32;
  if (weight->tensor && weight->tensor->type != SAFETENSORS_U32)
    return kj_fail(error, KJ_INVALID, "%s: tensor %s has scales, but its dtype is %s, not U32",
                   safetensors_path(weight->file), weight->tensor->name, weight->tensor->dtype);
  int result = number_type_of(scales, type, error);
  if (!result) result = number_type_of(biases, &bias_type, error);
  if (!result && scales->tensor && biases->tensor && *type != bias_type)
    result =
        kj_fail(error, KJ_UNSUPPORTED, "%s: tensor %s has dtype %s but the scales have %s: not supported",
                safetensors_path(biases->file), biases->tensor->name, biases->tensor->dtype, scales->tensor->dtype);
  return result;
}

static int find_affine(struct source *source, const struct want *want, struct quantization quantization,
                       struct matrix *matrices, struct kj_error *error) {
  struct found weight = {0}, scales = {0}, biases = {0};
  enum number_type type = NUMBER_F32;
  if (want->columns % quantization.group)
    return kj_fail(error, KJ_INVALID, "%s: %s: %u columns cannot be quantized in groups of %u",
                   source->checkpoint->directory, want->module, want->columns, quantization.group);
  uint64_t groups = want->columns / quantization.group, words = (uint64_t)want->columns * quantization.bits / 32;
  int result = find_part(source, want, "weight", &weight, error);
  if (!result) result = find_part(source, want, "scales", &scales, error);
  if (!result) result = find_part(source, want, "biases", &biases, error);
  if (!result) result = check_affine_types(&weight, &scales, &biases, &type, error);
  if (!result) result = check_shape(want, &weight, words, error);
  if (!result) result = check_shape(want, &scales, groups, error);
  if (!result) result = check_shape(want, &biases, groups, error);
  if (result) return result;
  uint32_t count = want->stack ? want->stack : 1;
  for (uint32_t i = 0; i < count; i++)
    matrices[i] = (struct matrix){.rows = want->rows,
                                  .columns = want->columns,
                                  .format = MATRIX_AFFINE,
                                  .type = type,
                                  .bits = quantization.bits,
                                  .group = quantization.group,
                                  .data = slice(source, &weight, i, count),
                                  .scales = slice(source, &scales, i, count),
                                  .biases = slice(source, &biases, i, count)};
  return 0;
}

/* Fills max(1, stack) matrices. A module without scales is plain, whatever the config's default says. */
static int find_matrices(struct source *source, const struct want *want, struct matrix *matrices,
                         struct kj_error *error) {
  if (want->norm || !has_tensor(source, want->module, "scales")) return find_plain(source, want, matrices, error);
  struct quantization quantization = config_quantization(source->checkpoint->config, want->module);
  if (!quantization.bits)
    return kj_fail(error, KJ_INVALID, "%s: tensor %s.scales exists, but config.json says that it is not quantized",
                   source->checkpoint->directory, want->module);
  return find_affine(source, want, quantization, matrices, error);
}

static int find_named(struct source *source, const char *prefix, const char *module, uint32_t rows, uint32_t columns,
                      struct matrix *matrix, struct kj_error *error) {
  struct want want = {.rows = rows, .columns = columns};
  snprintf(want.module, sizeof want.module, "%s%s", prefix, module);
  return find_matrices(source, &want, matrix, error);
}

static int find_norm(struct source *source, const char *prefix, const char *module, uint32_t columns,
                     struct matrix *matrix, struct kj_error *error) {
  struct want want = {.rows = 1, .columns = columns, .norm = true};
  snprintf(want.module, sizeof want.module, "%s%s", prefix, module);
  return find_matrices(source, &want, matrix, error);
}

static int find_attention(struct source *source, const char *prefix, struct layer_weights *weights,
                          struct kj_error *error) {
  const struct config *config = source->checkpoint->config;
  uint32_t hidden = config->hidden, head = config->head_dim;
  uint32_t queries = config->query_heads * head, keys = config->kv_heads * head;
  int result = find_norm(source, prefix, "input_layernorm", hidden, &weights->input_norm, error);
  if (!result)
    result = find_norm(source, prefix, "post_attention_layernorm", hidden, &weights->post_attention_norm, error);
  if (!result) result = find_norm(source, prefix, "self_attn.q_norm", head, &weights->query_norm, error);
  if (!result) result = find_norm(source, prefix, "self_attn.k_norm", head, &weights->key_norm, error);
  if (!result) result = find_named(source, prefix, "self_attn.q_proj", queries, hidden, &weights->query, error);
  if (!result) result = find_named(source, prefix, "self_attn.k_proj", keys, hidden, &weights->key, error);
  if (!result) result = find_named(source, prefix, "self_attn.v_proj", keys, hidden, &weights->value, error);
  if (!result) result = find_named(source, prefix, "self_attn.o_proj", hidden, queries, &weights->output, error);
  return result;
}

/* One of gate, up and down of all experts, stacked in one tensor or in one each. */
static int find_experts(struct source *source, const char *prefix, const char *module, uint32_t rows, uint32_t columns,
                        struct matrix *matrices, struct kj_error *error) {
  uint32_t experts = source->checkpoint->config->experts;
  struct want want = {.stack = experts, .rows = rows, .columns = columns};
  snprintf(want.module, sizeof want.module, "%smlp.switch_mlp.%s", prefix, module);
  if (has_tensor(source, want.module, "weight")) return find_matrices(source, &want, matrices, error);
  want.stack = 0;
  for (uint32_t i = 0; i < experts; i++) {
    snprintf(want.module, sizeof want.module, "%smlp.experts.%u.%s", prefix, i, module);
    int result = find_matrices(source, &want, &matrices[i], error);
    if (result) return result;
  }
  return 0;
}

static int find_feed_forward(struct source *source, const char *prefix, struct layer_weights *weights,
                             struct kj_error *error) {
  const struct config *config = source->checkpoint->config;
  uint32_t hidden = config->hidden, count = weights->sparse ? config->experts : 1;
  weights->gate = calloc(count, sizeof *weights->gate);
  weights->up = calloc(count, sizeof *weights->up);
  weights->down = calloc(count, sizeof *weights->down);
  if (!weights->gate || !weights->up || !weights->down) return kj_fail_memory(error, "the matrices of a layer");
  int result = 0;
  if (!weights->sparse) {
    uint32_t inner = config->intermediate;
    result = find_named(source, prefix, "mlp.gate_proj", inner, hidden, weights->gate, error);
    if (!result) result = find_named(source, prefix, "mlp.up_proj", inner, hidden, weights->up, error);
    if (!result) result = find_named(source, prefix, "mlp.down_proj", hidden, inner, weights->down, error);
    return result;
  }
  uint32_t inner = config->expert_intermediate;
  result = find_named(source, prefix, "mlp.gate", config->experts, hidden, &weights->router, error);
  if (!result) result = find_experts(source, prefix, "gate_proj", inner, hidden, weights->gate, error);
  if (!result) result = find_experts(source, prefix, "up_proj", inner, hidden, weights->up, error);
  if (!result) result = find_experts(source, prefix, "down_proj", hidden, inner, weights->down, error);
  return result;
}

/* A tensor that no matrix was made of would be ignored: more experts than the config says, a dense FFN beside experts.
 */
static int check_all_used(const struct checkpoint *checkpoint, uint32_t layer, struct kj_error *error) {
  for (size_t i = 0; i < checkpoint->entry_count; i++) {
    const struct index_entry *entry = &checkpoint->entries[i];
    if (entry->role.part == TENSOR_LAYER && entry->role.layer == layer && !entry->used)
      return kj_fail(error, KJ_INVALID,
                     "%s: tensor %s has no use in a %s layer of %u experts, as config.json describes it",
                     checkpoint->directory, entry->name,
                     checkpoint->config->layer_is_sparse[layer] ? "sparse" : "dense", checkpoint->config->experts);
  }
  return 0;
}

static int find_layer(struct source *source, uint32_t layer, struct layer_weights *weights, struct kj_error *error) {
  const struct config *config = source->checkpoint->config;
  *weights = (struct layer_weights){0};
  if (layer >= config->layers)
    return kj_fail(error, KJ_INVALID, "%s: has %u layers, no layer %u", source->checkpoint->directory, config->layers,
                   layer);
  char prefix[40];
  snprintf(prefix, sizeof prefix, "model.layers.%u.", layer);
  weights->sparse = config->layer_is_sparse[layer];
  int result = find_attention(source, prefix, weights, error);
  if (!result) result = find_feed_forward(source, prefix, weights, error);
  if (!result) result = check_all_used(source->checkpoint, layer, error);
  if (result) layer_weights_free(weights);
  return result;
}

static int find_head(struct source *source, struct head_weights *weights, struct kj_error *error) {
  const struct config *config = source->checkpoint->config;
  *weights = (struct head_weights){0};
  int result =
      find_named(source, "model.", "embed_tokens", config->vocabulary, config->hidden, &weights->embedding, error);
  if (!result) result = find_norm(source, "model.", "norm", config->hidden, &weights->norm, error);
  if (result) return result;
  weights->head = weights->embedding;
  if (config->tied_embeddings) return 0; /* a copy of it in lm_head is ignored, as elsewhere */
  return find_named(source, "", "lm_head", config->vocabulary, config->hidden, &weights->head, error);
}

int checkpoint_layer(struct checkpoint *checkpoint, uint32_t layer, struct layer_weights *weights,
                     struct kj_error *error) {
  return find_layer(&(struct source){.checkpoint = checkpoint, .map = true}, layer, weights, error);
}

int checkpoint_layer_shapes(struct checkpoint *checkpoint, uint32_t layer, struct layer_weights *weights,
                            bool *estimated, struct kj_error *error) {
  struct source source = {.checkpoint = checkpoint};
  int result = find_layer(&source, layer, weights, error);
  *estimated = *estimated || source.estimated;
  return result;
}

void layer_weights_free(struct layer_weights *weights) {
  free(weights->gate);
  free(weights->up);
  free(weights->down);
  *weights = (struct layer_weights){0};
}

int checkpoint_head(struct checkpoint *checkpoint, struct head_weights *weights, struct kj_error *error) {
  return find_head(&(struct source){.checkpoint = checkpoint, .map = true}, weights, error);
}

int checkpoint_head_shapes(struct checkpoint *checkpoint, struct head_weights *weights, bool *estimated,
                           struct kj_error *error) {
  struct source source = {.checkpoint = checkpoint};
  int result = find_head(&source, weights, error);
  *estimated = *estimated || source.estimated;
  return result;
}

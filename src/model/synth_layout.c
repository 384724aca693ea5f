#include "model/synth_layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

/* A layout that is being built: the first failure sticks, later additions do nothing. */
struct builder {
  struct synth_layout *layout;
  const struct config *config;
  size_t capacity;
  int code;
  struct kj_error *error;
};

static struct synth_tensor *add_tensor(struct builder *builder, const char *module, const char *suffix,
                                       enum synth_content content, uint32_t experts, uint32_t rows, uint32_t columns) {
  struct synth_layout *layout = builder->layout;
  if (layout->tensor_count == builder->capacity) {
    size_t capacity = builder->capacity ? builder->capacity * 2 : 256;
    struct synth_tensor *tensors = realloc(layout->tensors, capacity * sizeof *tensors);
    if (!tensors) {
      builder->code = kj_fail_memory(builder->error, "the list of tensors");
      return NULL;
    }
    layout->tensors = tensors;
    builder->capacity = capacity;
  }
  struct synth_tensor *tensor = &layout->tensors[layout->tensor_count];
  memset(tensor, 0, sizeof *tensor);
  snprintf(tensor->name, sizeof tensor->name, "%s.%s", module, suffix);
  tensor->module_length = strlen(module);
  tensor->content = content;
  if (experts) tensor->shape[tensor->rank++] = experts;
  if (rows) tensor->shape[tensor->rank++] = rows;
  tensor->shape[tensor->rank++] = columns;
  uint64_t bytes = content == SYNTH_PACKED ? 4 : 2;
  bool fits = true;
  for (uint32_t i = 0; i < tensor->rank; i++) fits &= checked_multiply(bytes, tensor->shape[i], &bytes);
  fits = fits && bytes < UINT64_C(1) << 50;
  if (!fits) {
    builder->code = kj_fail(builder->error, KJ_INVALID, "%s: the tensor would have over 2^50 bytes", tensor->name);
    return NULL;
  }
  tensor->bytes = bytes;
  layout->tensor_count++;
  return tensor;
}

/* A module's matrix [rows, columns], or [experts, rows, columns], quantized as the config says. */
static void add_scaled(struct builder *builder, const char *module, uint32_t experts, uint32_t rows, uint32_t columns,
                       double deviation) {
  static const struct {
    const char *suffix;
    enum synth_content content;
  } parts[] = {{"weight", SYNTH_PACKED}, {"scales", SYNTH_SCALES}, {"biases", SYNTH_BIASES}};
  if (builder->code) return;
  struct quantization quantization = config_quantization(builder->config, module);
  builder->layout->total_parameters += (uint64_t)(experts ? experts : 1) * rows * columns;
  if (!quantization.bits) {
    struct synth_tensor *plain = add_tensor(builder, module, "weight", SYNTH_PLAIN, experts, rows, columns);
    if (plain) plain->deviation = deviation;
    return;
  }
  if (columns % quantization.group) {
    builder->code = kj_fail(builder->error, KJ_INVALID,
                            "%s: its %" PRIu32 " columns are no multiple of the quantization group %" PRIu32, module,
                            columns, quantization.group);
    return;
  }
  for (size_t i = 0; i < 3 && !builder->code; i++) {
    uint32_t width = parts[i].content == SYNTH_PACKED ? (uint32_t)((uint64_t)columns * quantization.bits / 32)
                                                      : columns / quantization.group;
    struct synth_tensor *tensor = add_tensor(builder, module, parts[i].suffix, parts[i].content, experts, rows, width);
    if (!tensor) return;
    tensor->deviation = deviation;
    tensor->bits = quantization.bits;
  }
}

static void add_matrix(struct builder *builder, const char *module, uint32_t experts, uint32_t rows, uint32_t columns) {
  add_scaled(builder, module, experts, rows, columns, 1 / sqrt(columns));
}

/* One whose output is added to the residual stream. */
static void add_residual(struct builder *builder, const char *module, uint32_t experts, uint32_t rows,
                         uint32_t columns) {
  double layers = builder->config->layers;
  add_scaled(builder, module, experts, rows, columns, 1 / sqrt((double)columns * rows * 2 * layers));
}

static void add_norm(struct builder *builder, const char *module, uint32_t columns) {
  if (builder->code) return;
  add_tensor(builder, module, "weight", SYNTH_NORM, 0, 0, columns);
  builder->layout->total_parameters += columns;
}

struct module_name {
  char text[80];
};

static struct module_name layer_module(uint32_t layer, const char *module) {
  struct module_name name;
  snprintf(name.text, sizeof name.text, "model.layers.%" PRIu32 ".%s", layer, module);
  return name;
}

static void add_layer(struct builder *builder, uint32_t layer) {
  const struct config *config = builder->config;
  uint32_t query = config->query_heads * config->head_dim, kv = config->kv_heads * config->head_dim;
  uint32_t hidden = config->hidden;
  add_norm(builder, layer_module(layer, "input_layernorm").text, hidden);
  add_matrix(builder, layer_module(layer, "self_attn.q_proj").text, 0, query, hidden);
  add_matrix(builder, layer_module(layer, "self_attn.k_proj").text, 0, kv, hidden);
  add_matrix(builder, layer_module(layer, "self_attn.v_proj").text, 0, kv, hidden);
  add_residual(builder, layer_module(layer, "self_attn.o_proj").text, 0, hidden, query);
  add_norm(builder, layer_module(layer, "self_attn.q_norm").text, config->head_dim);
  add_norm(builder, layer_module(layer, "self_attn.k_norm").text, config->head_dim);
  add_norm(builder, layer_module(layer, "post_attention_layernorm").text, hidden);
  if (config->layer_is_sparse[layer]) {
    uint32_t experts = config->experts, inner = config->expert_intermediate;
    add_matrix(builder, layer_module(layer, "mlp.gate").text, 0, experts, hidden);
    add_matrix(builder, layer_module(layer, "mlp.switch_mlp.gate_proj").text, experts, inner, hidden);
    add_matrix(builder, layer_module(layer, "mlp.switch_mlp.up_proj").text, experts, inner, hidden);
    add_residual(builder, layer_module(layer, "mlp.switch_mlp.down_proj").text, experts, hidden, inner);
  } else {
    add_matrix(builder, layer_module(layer, "mlp.gate_proj").text, 0, config->intermediate, hidden);
    add_matrix(builder, layer_module(layer, "mlp.up_proj").text, 0, config->intermediate, hidden);
    add_residual(builder, layer_module(layer, "mlp.down_proj").text, 0, hidden, config->intermediate);
  }
}

/* Shards are cut as MLX does: tensors in the model's order until the next one would exceed the limit. */
static int assign_shards(struct synth_layout *layout, uint64_t limit, struct kj_error *error) {
  uint64_t filled = 0;
  for (size_t i = 0; i < layout->tensor_count; i++) {
    struct synth_tensor *tensor = &layout->tensors[i];
    if (!checked_add(layout->total_bytes, tensor->bytes, &layout->total_bytes) || layout->total_bytes >> 56)
      return kj_fail(error, KJ_INVALID, "the checkpoint would have over 2^56 bytes");
    if (i == 0 || filled + tensor->bytes > limit) {
      layout->shard_count++;
      filled = 0;
    }
    filled += tensor->bytes;
    tensor->shard = layout->shard_count - 1;
  }
  layout->shard_bytes = calloc(layout->shard_count, sizeof *layout->shard_bytes);
  return layout->shard_bytes ? 0 : kj_fail_memory(error, "the list of shards");
}

/* Within a shard packed words come first, as safetensors' own writer has it: then they are aligned. */
static int by_place(const void *a, const void *b) {
  const struct synth_tensor *left = a, *right = b;
  if (left->shard != right->shard) return left->shard < right->shard ? -1 : 1;
  bool left_packed = left->content == SYNTH_PACKED, right_packed = right->content == SYNTH_PACKED;
  if (left_packed != right_packed) return left_packed ? -1 : 1;
  return strcmp(left->name, right->name);
}

static void assign_offsets(struct synth_layout *layout) {
  qsort(layout->tensors, layout->tensor_count, sizeof *layout->tensors, by_place);
  for (size_t i = 0; i < layout->tensor_count; i++) {
    struct synth_tensor *tensor = &layout->tensors[i];
    tensor->offset = layout->shard_bytes[tensor->shard];
    layout->shard_bytes[tensor->shard] += tensor->bytes;
  }
}

int synth_layout_make(struct synth_layout *layout, const struct config *config, uint64_t shard_limit,
                      struct kj_error *error) {
  memset(layout, 0, sizeof *layout);
  struct builder builder = {.layout = layout, .config = config, .error = error};
  if ((uint64_t)config->query_heads * config->head_dim > UINT32_MAX ||
      (uint64_t)config->kv_heads * config->head_dim > UINT32_MAX)
    return kj_fail(error, KJ_INVALID, "attention heads of %" PRIu32 " numbers: too many", config->head_dim);
  add_matrix(&builder, "model.embed_tokens", 0, config->vocabulary, config->hidden);
  for (uint32_t layer = 0; layer < config->layers && !builder.code; layer++) add_layer(&builder, layer);
  add_norm(&builder, "model.norm", config->hidden);
  if (!config->tied_embeddings) add_matrix(&builder, "lm_head", 0, config->vocabulary, config->hidden);
  int code = builder.code;
  if (!code) code = assign_shards(layout, shard_limit, error);
  if (code)
    synth_layout_free(layout);
  else
    assign_offsets(layout);
  return code;
}

void synth_layout_free(struct synth_layout *layout) {
  free(layout->tensors);
  free(layout->shard_bytes);
  memset(layout, 0, sizeof *layout);
}

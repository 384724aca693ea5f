#include <stdlib.h>
#include <string.h>

#include "model/checkpoint_state.h"

static uint64_t bytes_of_experts(const struct layer_weights *weights, uint32_t count) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count; i++)
    bytes += matrix_bytes(&weights->gate[i]) + matrix_bytes(&weights->up[i]) + matrix_bytes(&weights->down[i]);
  return bytes;
}

static uint64_t bytes_of_rest(const struct layer_weights *weights) {
  uint64_t bytes = matrix_bytes(&weights->input_norm) + matrix_bytes(&weights->post_attention_norm) +
                   matrix_bytes(&weights->query_norm) + matrix_bytes(&weights->key_norm) +
                   matrix_bytes(&weights->query) + matrix_bytes(&weights->key) + matrix_bytes(&weights->value) +
                   matrix_bytes(&weights->output);
  return weights->sparse ? bytes + matrix_bytes(&weights->router) : bytes;
}

static int size_layer(struct checkpoint *checkpoint, uint32_t layer, struct checkpoint_sizes *sizes,
                      struct kj_error *error) {
  struct layer_weights weights;
  int result = checkpoint_layer_shapes(checkpoint, layer, &weights, &sizes->estimated, error);
  if (result) return result;
  uint64_t feed_forward = bytes_of_experts(&weights, weights.sparse ? checkpoint->config->experts : 1);
  sizes->layer_bytes[layer] = feed_forward + bytes_of_rest(&weights);
  sizes->expert_bytes[layer] = weights.sparse ? feed_forward : 0;
  sizes->total_bytes += sizes->layer_bytes[layer];
  layer_weights_free(&weights);
  return 0;
}

/* Matrices have the shapes and types of their tensors, so their bytes are the tensors': no second way to count. */
int checkpoint_sizes(struct checkpoint *checkpoint, struct checkpoint_sizes *sizes, struct kj_error *error) {
  struct head_weights head;
  uint32_t layers = checkpoint->config->layers;
  *sizes = (struct checkpoint_sizes){.layers = layers};
  sizes->layer_bytes = calloc(layers, sizeof *sizes->layer_bytes);
  sizes->expert_bytes = calloc(layers, sizeof *sizes->expert_bytes);
  int result = sizes->layer_bytes && sizes->expert_bytes ? 0 : kj_fail_memory(error, "the sizes of layers");
  for (uint32_t layer = 0; !result && layer < layers; layer++) result = size_layer(checkpoint, layer, sizes, error);
  if (!result) result = checkpoint_head_shapes(checkpoint, &head, &sizes->estimated, error);
  if (result) {
    checkpoint_sizes_free(sizes);
    return result;
  }
  sizes->embedding_bytes = matrix_bytes(&head.embedding);
  sizes->norm_bytes = matrix_bytes(&head.norm);
  sizes->head_bytes = checkpoint->config->tied_embeddings ? 0 : matrix_bytes(&head.head);
  sizes->total_bytes += sizes->embedding_bytes + sizes->norm_bytes + sizes->head_bytes;
  return 0;
}

void checkpoint_sizes_free(struct checkpoint_sizes *sizes) {
  free(sizes->layer_bytes);
  free(sizes->expert_bytes);
  *sizes = (struct checkpoint_sizes){0};
}

static bool is_held(const struct checkpoint *checkpoint, struct tensor_role role, uint32_t first, uint32_t count,
                    bool head) {
  switch (role.part) {
    case TENSOR_LAYER:
      return role.layer >= first && role.layer - first < count;
    case TENSOR_EMBEDDING:
    case TENSOR_NORM:
      return head;
    case TENSOR_HEAD:
      return head && !checkpoint->config->tied_embeddings;
    default:
      return false;
  }
}

int checkpoint_shards(struct checkpoint *checkpoint, uint32_t first, uint32_t count, bool head, char ***names,
                      size_t *name_count, struct kj_error *error) {
  *names = NULL;
  *name_count = 0;
  if (first > checkpoint->config->layers || count > checkpoint->config->layers - first)
    return kj_fail(error, KJ_INVALID, "%s: has %u layers; layers %u to %llu are not among them", checkpoint->directory,
                   checkpoint->config->layers, first, (unsigned long long)first + count - 1);
  char **made = calloc(checkpoint->shard_count + 1, sizeof *made);
  bool *needed = calloc(checkpoint->shard_count + 1, sizeof *needed);
  size_t made_count = 0;
  int result = 0;
  if (!made || !needed) {
    result = kj_fail_memory(error, "the names of shards");
    goto done;
  }
  for (size_t i = 0; i < checkpoint->entry_count; i++) {
    const struct index_entry *entry = &checkpoint->entries[i];
    if (is_held(checkpoint, entry->role, first, count, head)) needed[entry->shard] = true;
  }
  for (size_t i = 0; i < checkpoint->shard_count; i++) {
    if (!needed[i]) continue;
    made[made_count] = strdup(checkpoint->shards[i].name);
    if (!made[made_count]) {
      result = kj_fail_memory(error, "the name of a shard");
      goto done;
    }
    made_count++;
  }
  *names = made;
  *name_count = made_count;
  made = NULL;
  made_count = 0;
done:
  checkpoint_names_free(made, made_count);
  free(needed);
  return result;
}

void checkpoint_names_free(char **names, size_t count) {
  for (size_t i = 0; i < count; i++) free(names[i]);
  free(names);
}

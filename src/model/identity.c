#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "model/checkpoint_state.h"

_Static_assert((int)CHECKPOINT_HASH == (int)SAFETENSORS_DIGEST, "a shard's identity is its file's digest");

/* Everything that a hidden state, and whether there is one at a position, depends on, in one spelling: numbers as
 * hexadecimal floats. */
static void describe_config(struct buffer *text, const struct config *config) {
  buffer_append_format(text, "%s %u %u %u %u %u %u %u\n", config->model_type, config->layers, config->hidden,
                       config->vocabulary, config->query_heads, config->kv_heads, config->head_dim,
                       config->intermediate);
  buffer_append_format(text, "experts %u %u %u %d tied %d\n", config->experts, config->experts_per_token,
                       config->expert_intermediate, config->renormalise_experts, config->tied_embeddings);
  buffer_append_format(text, "epsilon %a rope %a positions %u\n", (double)config->rms_epsilon, config->rope_theta,
                       config->max_positions);
  if (config->yarn.enabled)
    buffer_append_format(text, "yarn %a %a %a %a %u\n", (double)config->yarn.factor, (double)config->yarn.beta_fast,
                         (double)config->yarn.beta_slow, (double)config->yarn.attention_factor,
                         config->yarn.original_positions);
  for (uint32_t layer = 0; layer < config->layers; layer++)
    buffer_append_text(text, config->layer_is_sparse[layer] ? "s" : "d");
  buffer_append_format(text, "\nquantization %u %u\n", config->quantization.bits, config->quantization.group);
  for (size_t i = 0; i < config->override_count; i++) {
    const struct quantization_override *override = &config->overrides[i];
    buffer_append_text(text, override->module);
    buffer_append_format(text, " %u %u\n", override->quantization.bits, override->quantization.group);
  }
}

static void describe_index(struct buffer *text, const struct checkpoint *checkpoint) {
  for (size_t i = 0; i < checkpoint->entry_count; i++) {
    buffer_append_text(text, checkpoint->entries[i].name);
    buffer_append_text(text, " ");
    buffer_append_text(text, checkpoint->shards[checkpoint->entries[i].shard].name);
    buffer_append_text(text, "\n");
  }
}

static int hash_config(const struct checkpoint *checkpoint, uint8_t *hash, struct kj_error *error) {
  struct buffer text = {0};
  uint8_t digest[crypto_generichash_BYTES];
  describe_config(&text, checkpoint->config);
  describe_index(&text, checkpoint);
  int result = 0;
  if (buffer_failed(&text))
    result = kj_fail_memory(error, "the identity of a checkpoint");
  else if (sodium_init() < 0)
    result = kj_fail(error, KJ_INTERNAL, "libsodium cannot be initialised");
  else
    crypto_generichash(digest, sizeof digest, (const unsigned char *)text.data, text.length, NULL, 0);
  if (!result) memcpy(hash, digest, CHECKPOINT_HASH);
  buffer_free(&text);
  return result;
}

static int hash_shard(struct checkpoint *checkpoint, const char *name, struct shard_identity *identity,
                      struct kj_error *error) {
  uint32_t shard = 0;
  while (strcmp(checkpoint->shards[shard].name, name) != 0) shard++;
  int result = checkpoint_open_shard(checkpoint, shard, "of a layer", error);
  if (!result) memcpy(identity->hash, safetensors_digest(checkpoint->shards[shard].file), CHECKPOINT_HASH);
  return result;
}

int checkpoint_identity(struct checkpoint *checkpoint, uint32_t first, uint32_t count, bool head,
                        struct checkpoint_identity *identity, struct kj_error *error) {
  char **names = NULL;
  size_t name_count = 0;
  *identity = (struct checkpoint_identity){0};
  int result = hash_config(checkpoint, identity->config, error);
  if (!result) result = checkpoint_shards(checkpoint, first, count, head, &names, &name_count, error);
  if (result) goto done;
  identity->shards = calloc(name_count + 1, sizeof *identity->shards);
  if (!identity->shards) {
    result = kj_fail_memory(error, "the identity of shards");
    goto done;
  }
  for (size_t i = 0; !result && i < name_count; i++) {
    result = hash_shard(checkpoint, names[i], &identity->shards[identity->shard_count], error);
    if (result == KJ_NOT_FOUND)
      result = 0; /* it lies on another machine */
    else if (!result) {
      identity->shards[identity->shard_count++].name = names[i];
      names[i] = NULL;
    }
  }
done:
  checkpoint_names_free(names, name_count);
  if (result) checkpoint_identity_free(identity);
  return result;
}

void checkpoint_identity_free(struct checkpoint_identity *identity) {
  for (size_t i = 0; i < identity->shard_count; i++) free(identity->shards[i].name);
  free(identity->shards);
  *identity = (struct checkpoint_identity){0};
}

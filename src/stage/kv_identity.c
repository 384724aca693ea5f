#include "stage/kv_identity.h"

#include <sodium.h>
#include <stdio.h>

#include "base/buffer.h"

static void add(crypto_generichash_state *state, const void *bytes, size_t length) {
  crypto_generichash_update(state, bytes, length);
}

/* The first row, as it is stored. */
static void add_row(crypto_generichash_state *state, const struct matrix *matrix) {
  add(state, matrix->data, matrix_row_bytes(matrix));
  if (matrix->format != MATRIX_AFFINE) return;
  size_t scales = (size_t)(matrix->columns / matrix->group) * (matrix->type == NUMBER_F32 ? 4 : 2);
  add(state, matrix->scales, scales);
  add(state, matrix->biases, scales);
}

static void add_layer(crypto_generichash_state *state, const struct layer_weights *weights,
                      const struct config *config) {
  const struct matrix *const always[] = {&weights->input_norm, &weights->post_attention_norm,
                                         &weights->query_norm, &weights->key_norm, /* one row each */
                                         &weights->query,      &weights->key,
                                         &weights->value,      &weights->output};
  for (size_t i = 0; i < sizeof always / sizeof *always; i++) add_row(state, always[i]);
  if (weights->sparse) add_row(state, &weights->router);
  for (uint32_t i = 0; i < (weights->sparse ? config->experts : 1); i++) {
    add_row(state, &weights->gate[i]);
    add_row(state, &weights->up[i]);
    add_row(state, &weights->down[i]);
  }
}

static int add_shards(crypto_generichash_state *state, struct checkpoint *checkpoint, uint32_t first, uint32_t count,
                      bool head, struct kj_error *error) {
  struct checkpoint_identity shards = {0};
  int code = checkpoint_identity(checkpoint, first, count, head, &shards, error);
  if (code) return code;
  add(state, shards.config, sizeof shards.config);
  for (size_t i = 0; i < shards.shard_count; i++) add(state, shards.shards[i].hash, sizeof shards.shards[i].hash);
  checkpoint_identity_free(&shards);
  return 0;
}

static int add_weights(crypto_generichash_state *state, struct checkpoint *checkpoint, uint32_t first, uint32_t count,
                       bool head, struct kj_error *error) {
  struct head_weights ends;
  int code = 0;
  for (uint32_t i = first; i < first + count && !code; i++) {
    struct layer_weights weights;
    if ((code = checkpoint_layer(checkpoint, i, &weights, error))) return code;
    add_layer(state, &weights, checkpoint_config(checkpoint));
    layer_weights_free(&weights);
  }
  if (head && !(code = checkpoint_head(checkpoint, &ends, error))) add_row(state, &ends.embedding);
  return code;
}

int kv_identity(uint8_t identity[KV_FILE_IDENTITY], struct checkpoint *checkpoint, const struct backend *backend,
                uint32_t first_layer, uint32_t layer_count, bool head, struct kj_error *error) {
  const struct config *config = checkpoint_config(checkpoint);
  crypto_generichash_state state;
  crypto_generichash_init(&state, NULL, 0, KV_FILE_IDENTITY);
  char text[256];
  int length = snprintf(text, sizeof text, "kaiju %s, %s, layers %u %u, block %d %u %u\n", KAIJU_VERSION,
                        backend->operations->arithmetic(backend), first_layer, layer_count, KV_BLOCK, config->kv_heads,
                        config->head_dim);
  add(&state, text, (size_t)length);
  int code = add_shards(&state, checkpoint, first_layer, layer_count, head, error);
  if (!code) code = add_weights(&state, checkpoint, first_layer, layer_count, head, error);
  crypto_generichash_final(&state, identity, KV_FILE_IDENTITY);
  return code;
}

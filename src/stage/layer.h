/* The recipe of a Qwen3 transformer layer, dense or mixture of experts, against the operations of compute/backend.h.
 *
 *   x += output(attention(rotate(norm(query(h))), rotate(norm(key(h))), value(h)))   with h = input_norm(x)
 *   x += ffn(post_attention_norm(x))      ffn(h) = down(silu(gate(h)) · up(h)), or a routed sum of such experts
 *
 * Source: the Qwen3 technical report (https://arxiv.org/abs/2505.09388) and its implementation in Transformers.
 */
#ifndef KAIJU_STAGE_LAYER_H
#define KAIJU_STAGE_LAYER_H

#include "compute/backend.h"
#include "model/checkpoint.h"

/* The activations of one micro-batch, shared by all layers of a stage. */
struct layer_scratch {
  struct tensor *normed;           /* [tokens, hidden] */
  struct tensor *query, *attended; /* [tokens, query_heads · head_dim] */
  struct tensor *key, *value;      /* [tokens, kv_heads · head_dim] */
  struct tensor *added;            /* [tokens, hidden] what a sub-layer adds */
  struct tensor *gate, *up;        /* [tokens, intermediate]; NULL without dense layers */
  struct tensor *router_logits;    /* [tokens, experts]; NULL without sparse layers */
  struct routing *routing;         /* the same */
};

int layer_scratch_create(struct layer_scratch *scratch, struct backend *backend, const struct config *config,
                         uint32_t first_layer, uint32_t layer_count, size_t max_tokens, struct kj_error *error);
void layer_scratch_destroy(struct layer_scratch *scratch, struct backend *backend);

/* Refuses weights that the engine cannot compute with. */
int layer_check(const struct layer_weights *weights, const struct config *config, const struct backend *backend,
                struct kj_error *error);
/* Reads all of the layer's weights in, and then moves them into huge pages with these threads if there are any. */
int layer_warm(const struct layer_weights *weights, const struct config *config, struct backend *backend,
               struct threads *huge_page_threads, struct kj_error *error);
/* Moves them back, to where the checkpoint mapped them. */
int layer_to_page_cache(const struct layer_weights *weights, const struct config *config, struct checkpoint *checkpoint,
                        struct kj_error *error);

/* x [batch->tokens, hidden] is overwritten. `index` is the layer's place in the KV pool. */
void layer_forward(const struct layer_weights *weights, const struct config *config, const struct rope *rope,
                   struct backend *backend, struct layer_scratch *scratch, struct kv_pool *pool, uint32_t index,
                   const struct batch *batch, struct tensor *x);

#endif

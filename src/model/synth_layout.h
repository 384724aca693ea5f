/* The tensors of a model in MLX's format, where they lie in shards, and their pseudo-random contents.
 *
 * Contents. With splitmix64's (Steele, Lea, Flood 2014) increment γ and finaliser mix, a module, say
 * "model.layers.0.self_attn.q_proj", has the key k = mix(mix(seed + γ) xor h), h being the FNV-1a hash of its name.
 * Draw i of a key is mix(k + (i + 1) · γ), and its top 24 bits make a number u uniform in [0, 1). The contents of any
 * part of any tensor thus follow from the seed, the names and the shapes alone, in any order.
 * - Packed words: draws as little-endian 64-bit words, hence q uniform over all integers of `bits` bits.
 * - Scales: s · (0.75 + u/2) with s such that the weights have about the module's standard deviation, negative where
 *   the draw's lowest bit is set, from draws of the key mix(k xor γ); rounded to bf16.
 * - Biases: −scale · (2^bits − 1)/2, so that the weights' mean is 0; rounded to bf16.
 * - Plain weights: u, scaled to mean 0 and the standard deviation, bf16.
 * - Norms: 0.9 + u/5, bf16.
 *
 * The standard deviation is 1/√columns, so that outputs are as large as inputs, except for what is added to the
 * residual stream (o_proj, down_proj): 1/√(columns · hidden · 2 · layers). All layers together then add about as much
 * as the embedding, whose rows have a norm near 1, began with; so different tokens keep different hidden states, and
 * choose different experts, in models of any depth.
 *
 * Internal to model/synth.c.
 */
#ifndef KAIJU_MODEL_SYNTH_LAYOUT_H
#define KAIJU_MODEL_SYNTH_LAYOUT_H

#include "base/error.h"
#include "model/config.h"

enum synth_content { SYNTH_PACKED, SYNTH_SCALES, SYNTH_BIASES, SYNTH_PLAIN, SYNTH_NORM };

struct synth_tensor {
  char name[96];
  size_t module_length; /* of the name, without ".weight", ".scales" or ".biases" */
  enum synth_content content;
  uint32_t shape[3], rank; /* as stored: packed tensors have columns · bits / 32 words a row */
  uint32_t bits;           /* of the module's weights */
  double deviation;        /* of the module's weights */
  uint64_t bytes;
  uint32_t shard;
  uint64_t offset; /* in the shard's data */
};

struct synth_layout {
  struct synth_tensor *tensors; /* by shard, then by offset */
  size_t tensor_count;
  uint64_t *shard_bytes; /* [shard_count] of data, without the header */
  uint32_t shard_count;
  uint64_t total_bytes, total_parameters;
};

/* KJ_INVALID where a module's shape cannot be quantized as the config says. */
int synth_layout_make(struct synth_layout *layout, const struct config *config, uint64_t shard_limit,
                      struct kj_error *error);
void synth_layout_free(struct synth_layout *layout);

/* Bytes [offset, offset + length) of the tensor; offset is a multiple of 8. */
void synth_fill(const struct synth_tensor *tensor, uint64_t seed, uint64_t offset, void *out, size_t length);

#endif

/* A compute engine, as the layer recipe (stage/layer.c) sees it.
 *
 * An engine owns activation tensors (f32, row-major [rows, columns], rows = tokens of the micro-batch) and a KV pool,
 * and offers the dozen operations that a transformer layer needs. The CPU engine executes an operation when it is
 * called; a GPU engine may record it and execute at `finish`, so contents are defined only after `finish`, and then
 * `download` may be called. Operations cannot fail: everything that can (memory, unsupported formats) fails in
 * `tensor_create`, `kv_create` or `check_matrix`, before the first token.
 *
 * Exactness: a row's result depends on that row's inputs alone, bit for bit: not on the other rows, their number, the
 * number of threads, or (for the CPU engine) the instruction set. compute/cpu/kernels.h specifies the arithmetic.
 */
#ifndef KAIJU_COMPUTE_BACKEND_H
#define KAIJU_COMPUTE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/threads.h"
#include "compute/batch.h"
#include "compute/matrix.h"

struct backend; /* an engine with its threads and scratch memory; one user at a time */
struct tensor;  /* f32 activations [rows, columns] */
struct kv_pool; /* keys and values of some layers, in blocks of KV_BLOCK positions, f16 */

/* The routing of a micro-batch: for each token `chosen` experts in order of falling probability (equal ones: lower id
 * first) and their shares. Owned by the engine that fills it. */
struct routing;

/* The rotary embedding: angle of pair i at position p is p · inverse_frequency[i]; q and k heads are multiplied by
 * `attention_factor` (1 without YaRN) through cos and sin. Pairs are (i, i + pairs), as Transformers' rotate_half. */
struct rope {
  uint32_t pairs; /* head_dim / 2 */
  float attention_factor;
  const float *inverse_frequency; /* [pairs] */
};

struct attention_shape {
  uint32_t query_heads, kv_heads, head_dim;
  float scale; /* 1 / sqrt(head_dim) */
};

struct backend_operations {
  void (*destroy)(struct backend *backend);
  const char *(*describe)(const struct backend *backend); /* "cpu avx512, 2 threads" */
  /* Names the arithmetic: engines that give the same name compute the same bits from the same weights and tokens, so
   * that keys and values of one may be used by the other. Changes whenever a result changes. */
  const char *(*arithmetic)(const struct backend *backend);

  /* 0 if the engine can compute with this matrix, else KJ_UNSUPPORTED with the reason. To be asked for every matrix
   * before its first use. */
  int (*check_matrix)(const struct backend *backend, const struct matrix *matrix, struct kj_error *error);
  /* Reads the matrix once, so that it is in memory; a GPU engine uploads it. */
  void (*warm_matrix)(struct backend *backend, const struct matrix *matrix);

  int (*tensor_create)(struct backend *backend, size_t rows, size_t columns, struct tensor **tensor,
                       struct kj_error *error);
  void (*tensor_destroy)(struct backend *backend, struct tensor *tensor);
  void (*upload)(struct backend *backend, struct tensor *tensor, size_t first_row, size_t rows, const float *values);
  void (*download)(struct backend *backend, const struct tensor *tensor, size_t first_row, size_t rows, float *values);
  int (*routing_create)(struct backend *backend, size_t rows, uint32_t experts, uint32_t chosen,
                        struct routing **routing, struct kj_error *error);
  void (*routing_destroy)(struct backend *backend, struct routing *routing);
  int (*kv_create)(struct backend *backend, uint32_t layers, uint32_t blocks, struct attention_shape shape,
                   struct kv_pool **pool, struct kj_error *error);
  void (*kv_destroy)(struct backend *backend, struct kv_pool *pool);
  /* Copy a block of all the pool's layers out of the pool and back in. The bytes are, for each layer in order, keys
   * [kv_heads][head_dim][KV_BLOCK], then values [kv_heads][KV_BLOCK][head_dim], little-endian f16: layers ·
   * backend_kv_block_bytes(shape) in all, whatever the engine's own layout. What was recorded before is done first. */
  void (*kv_export)(struct backend *backend, const struct kv_pool *pool, uint32_t block, uint8_t *bytes);
  void (*kv_import)(struct backend *backend, struct kv_pool *pool, uint32_t block, const uint8_t *bytes);

  /* out[t] = row token_ids[t] of the embedding, dequantized. */
  void (*embed)(struct backend *backend, struct tensor *out, const struct matrix *embedding, const uint32_t *token_ids,
                size_t rows);
  /* Each row of x is `parts` vectors of weight->columns; every one is normalised: x / sqrt(mean(x²) + epsilon) ·
   * weight. out may be x. `weight` is plain, [1, columns]. */
  void (*rms_norm)(struct backend *backend, struct tensor *out, const struct tensor *x, const struct matrix *weight,
                   size_t rows, uint32_t parts, float epsilon);
  /* outs[i] = x · weights[i]ᵀ for `count` matrices that share the input (q, k, v or gate, up). */
  void (*matmul)(struct backend *backend, struct tensor *const *outs, const struct tensor *x,
                 const struct matrix *const *weights, size_t count, size_t rows);
  /* Rotates each of the `heads` heads in every row of x, in place, by the row's position. */
  void (*rotate)(struct backend *backend, struct tensor *x, const struct rope *rope, uint32_t heads,
                 const struct batch *batch);
  /* Stores the rows of k and v [kv_heads · head_dim] at their positions' slots of the pool's layer. */
  void (*kv_write)(struct backend *backend, struct kv_pool *pool, uint32_t layer, const struct tensor *k,
                   const struct tensor *v, const struct batch *batch);
  /* Causal attention of every row over its sequence's positions 0…its own: out, q [query_heads · head_dim]. */
  void (*attention)(struct backend *backend, struct tensor *out, const struct tensor *q, struct kv_pool *pool,
                    uint32_t layer, const struct batch *batch);
  /* Softmax over all experts, the `chosen` best, renormalised to a sum of 1 if asked. */
  void (*route)(struct backend *backend, struct routing *routing, const struct tensor *logits, size_t rows,
                bool renormalise);
  /* out[t] = Σ share · down_e(silu(gate_e(x)) · up_e(x)) over the token's experts in routing order.
   * gate, up and down are arrays of one matrix an expert. out is overwritten. */
  void (*expert_ffn)(struct backend *backend, struct tensor *out, const struct tensor *x, const struct routing *routing,
                     const struct matrix *gate, const struct matrix *up, const struct matrix *down, size_t rows);
  /* gate = silu(gate) · up, elementwise. */
  void (*silu_multiply)(struct backend *backend, struct tensor *gate, const struct tensor *up, size_t rows);
  /* x += y */
  void (*add)(struct backend *backend, struct tensor *x, const struct tensor *y, size_t rows);
  /* Waits until everything recorded is done. */
  void (*finish)(struct backend *backend);
};

/* Every engine's struct begins with this. */
struct backend {
  const struct backend_operations *operations;
};

/* The CPU engine. `isa` is "auto", "reference", "avx2", "avxvnni", "avx512", "neon" or "neon-i8mm"; one that this
 * machine or build lacks is KJ_UNSUPPORTED, with the ones that it has. `threads` is borrowed and must outlive the
 * engine. `max_rows` bounds the rows of any operation and `max_columns` the columns of any input of a matmul; both size
 * the scratch memory. */
int backend_cpu_create(struct backend **backend, const char *isa, struct threads *threads, size_t max_rows,
                       size_t max_columns, struct kj_error *error);

/* For the planner: bytes of the scratch memory of backend_cpu_create, of what routing_create allocates on that engine
 * (rows, experts and chosen as there), and of one KV block of one layer. UINT64_MAX where that exceeds 64 bits. */
uint64_t backend_cpu_scratch_bytes(size_t threads, size_t max_rows, size_t max_columns);
uint64_t backend_cpu_routing_bytes(size_t threads, size_t max_rows, size_t max_columns, size_t rows, uint32_t experts,
                                   uint32_t chosen);
uint64_t backend_kv_block_bytes(struct attention_shape shape);

#endif

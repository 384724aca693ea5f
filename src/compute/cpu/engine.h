/* What the modules of the CPU engine share: its state, its memory and its parallel loops. Only they include this.
 *
 * Nothing is allocated after the objects are created: operations work in the scratch memory that backend_cpu_create and
 * routing_create set aside. Work is cut into items that each write only what they own, so that a result cannot depend
 * on which thread does what.
 */
#ifndef KAIJU_COMPUTE_CPU_ENGINE_H
#define KAIJU_COMPUTE_CPU_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/threads.h"
#include "compute/backend.h"
#include "compute/cpu/kernels.h"

enum {
  TILE_ROWS = 512,    /* activation rows that are quantized at a time */
  RANGE_MINIMUM = 16, /* weight rows of an item of work: what kernels take at once of few activations */
  RANGE_MAXIMUM = 64,
  ROPE_MAX_PAIRS = ATTENTION_MAX_HEAD_DIM / 2
};

/* cos and sin of the rows' positions, kept from one call of `rotate` to the next: every layer asks for the same. */
struct rope_cache {
  uint64_t *positions;                     /* [max_rows] that the row's cos and sin are of; ROPE_NO_POSITION: none */
  float *cosine, *sine;                    /* [max_rows][ROPE_MAX_PAIRS] */
  float inverse_frequency[ROPE_MAX_PAIRS]; /* what the cache was computed with */
  float attention_factor;
  uint32_t pairs;
};
#define ROPE_NO_POSITION UINT64_MAX

/* A worker's share of the items of a parallel loop; each on a cache line of its own. */
struct share {
  _Alignas(CPU_ALIGNMENT) atomic_size_t next;
  size_t end;
};

struct cpu_backend {
  struct backend base;
  const struct cpu_kernels *kernels;
  struct threads *threads; /* borrowed */
  size_t thread_count;
  size_t max_rows, max_columns;
  void *scratch;              /* one allocation; the members below point into it */
  unsigned char *activations; /* [tile_rows] quantized rows */
  size_t activation_stride, tile_rows;
  unsigned char *kernel_scratch; /* [thread_count][kernel_scratch_stride] */
  size_t kernel_scratch_stride;
  struct rope_cache rope;
  struct share *shares; /* [thread_count] */
  char description[64];
};

struct tensor {
  size_t rows, columns;
  float *values;
};

static inline struct cpu_backend *cpu_backend_of(struct backend *backend) { return (struct cpu_backend *)backend; }
static inline float *tensor_row(const struct tensor *tensor, size_t row) {
  return tensor->values + row * tensor->columns;
}

/* Takes pieces, each aligned to CPU_ALIGNMENT, out of one allocation. With `memory` NULL it only measures. */
struct carver {
  unsigned char *memory;
  uint64_t used;
  bool overflow; /* the sizes do not fit into 64 bits */
};
void *carve(struct carver *carver, uint64_t count, uint64_t size);
/* Memory aligned to CPU_ALIGNMENT, to be freed with free(); `what` names it in the message. */
int allocate_aligned(void **memory, uint64_t bytes, const char *what, struct kj_error *error);

/* Runs body for every item in 0…items-1. `slot` < thread_count names the worker, for scratch memory of its own. `work`
 * is about how many numbers are touched in all: too few are not worth waking the threads for. */
typedef void parallel_body(void *context, size_t item, size_t slot);
void parallel(struct cpu_backend *backend, size_t items, uint64_t work, parallel_body *body, void *context);
/* Rows of an item, when `rows` rows in all are to be spread over the threads and meet about so many activations each:
 * whole panels of the kernels where these use them and `maximum` is no less. */
size_t parallel_range(const struct cpu_backend *backend, size_t rows, size_t activations, size_t maximum);

/* Largest quantized row for matrices of up to this many columns. */
uint64_t activation_largest(uint64_t max_columns);
/* True if both matrices take the same form of activation. */
bool same_activation(const struct matrix *a, const struct matrix *b);
/* Quantizes rows first_row … of x for an affine matrix into backend->activations; does nothing for a plain one. */
void quantize_rows(struct cpu_backend *backend, const struct tensor *x, size_t first_row, size_t rows,
                   const struct matrix *matrix);

/* Up to COLUMN_BLOCK activations and the places of their results. Which of the two inputs is used depends on the
 * matrix. */
struct column_block {
  const void *quantized[COLUMN_BLOCK];
  const float *plain[COLUMN_BLOCK];
  float *outs[COLUMN_BLOCK];
  size_t count;
};
void multiply_block(const struct cpu_backend *backend, size_t slot, const struct matrix *matrix, size_t first_row,
                    size_t rows, const struct column_block *block);

/* The operations; see compute/backend.h. */
void cpu_embed(struct backend *, struct tensor *, const struct matrix *, const uint32_t *, size_t);
void cpu_rms_norm(struct backend *, struct tensor *, const struct tensor *, const struct matrix *, size_t, uint32_t,
                  float);
void cpu_matmul(struct backend *, struct tensor *const *, const struct tensor *, const struct matrix *const *, size_t,
                size_t);
void cpu_rotate(struct backend *, struct tensor *, const struct rope *, uint32_t, const struct batch *);
void cpu_silu_multiply(struct backend *, struct tensor *, const struct tensor *, size_t);
void cpu_add(struct backend *, struct tensor *, const struct tensor *, size_t);
int cpu_kv_create(struct backend *, uint32_t, uint32_t, struct attention_shape, struct kv_pool **, struct kj_error *);
void cpu_kv_destroy(struct backend *, struct kv_pool *);
void cpu_kv_export(struct backend *, const struct kv_pool *, uint32_t, uint8_t *);
void cpu_kv_import(struct backend *, struct kv_pool *, uint32_t, const uint8_t *);
void cpu_kv_write(struct backend *, struct kv_pool *, uint32_t, const struct tensor *, const struct tensor *,
                  const struct batch *);
void cpu_attention(struct backend *, struct tensor *, const struct tensor *, struct kv_pool *, uint32_t,
                   const struct batch *);
int cpu_routing_create(struct backend *, size_t, uint32_t, uint32_t, struct routing **, struct kj_error *);
void cpu_routing_destroy(struct backend *, struct routing *);
void cpu_route(struct backend *, struct routing *, const struct tensor *, size_t, bool);
void cpu_expert_ffn(struct backend *, struct tensor *, const struct tensor *, const struct routing *,
                    const struct matrix *, const struct matrix *, const struct matrix *, size_t);

#endif

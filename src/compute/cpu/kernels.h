/* The arithmetic of the CPU engine: what an instruction set implements, and the specification they all equal.
 *
 * reference.c is plain scalar C and *is* the specification; the other tables equal it to the bit, on every
 * machine, because all of the following is fixed and every float operation is one IEEE operation, rounded to nearest
 * even, with subnormals; `fma` rounds once and is used exactly where it is written. A NaN equals any other NaN.
 *
 * Sixteen virtual lanes. A long sum is kept as 16 sums, lane l; they start at +0, and tree(lanes) adds lane l + 8 to l,
 *   then l + 4, l + 2, l + 1, and at last + 0. With that last addition a zero result is +0, and it makes no difference
 *   whether a lane is fed zero products where there are no more columns.
 *
 * Quantized activations. A row x is cut into groups of ACTIVATION_GROUP columns. Per group m = max|x|:
 *   m ≥ 2^-100 and finite: scale = m / 127, q = rint(x · (127 / m)) to even, as int8;
 *   m < 2^-100: scale 0 and every q 0;   an infinity or NaN among them: scale NaN and every q 0.
 *   For a weight group g: sum[g] = fma(scale[a], (float)Σq[a], sum[g]) over its activation groups a, rising, from +0.
 *
 * Affine matrix × quantized activation. isum[a] = Σ q_weight · q_activation over the columns of activation group a,
 * exact in 32 bits and in f32. Lane 4 · (a mod 4) + (a div 4) mod 4 = fma((float)isum[a], weight_scale ·
 * activation_scale, lane), a rising: that is where sixteen groups lie when the sums of four blocks of 64 bytes are
 * added up within registers. Then lane g % 16 = fma(bias[g], sum[g], lane), g rising over the weight groups; result =
 * tree(lanes). Nothing beyond the row's last byte, scale or bias may be read.
 *
 * Plain matrix × activation. lane i % 16 = fma(weight[i], x[i], lane i % 16), i rising; result = tree(lanes).
 *
 * exp(x): NaN for NaN, 0 for x < EXP_LOWEST, +infinity for x > EXP_HIGHEST, else
 *   n = rint(x · EXP_LOG2E), r = fma(n, -EXP_LN2_LOW, fma(n, -EXP_LN2_HIGH, x)),
 *   p = fma(… fma(fma(EXP_C6, r, EXP_C5), r, EXP_C4) …, r, 1) with coefficients C6 … C2, 1, 1,
 *   h = n >> 1 (towards minus infinity), result = (p · 2^h) · 2^(n - h).
 *
 * max of several: of the numbers that are not NaN; minus infinity if there are none.
 *
 * Everything else: see the comment at each member of struct cpu_kernels.
 */
#ifndef KAIJU_COMPUTE_CPU_KERNELS_H
#define KAIJU_COMPUTE_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/batch.h"
#include "compute/matrix.h"

enum {
  ACTIVATION_GROUP = 32, /* columns that share an activation scale */
  SUPER_COLUMNS = 512,   /* columns of sixteen activation groups */
  CPU_LANES = 16,
  COLUMN_BLOCK = 64,           /* activations that a product takes at a time */
  PANEL_ROWS_MAX = 32,         /* rows of weights that a product keeps unpacked in its scratch memory, at most */
  PANEL_COLUMNS_MAX = 8,       /* activations whose lanes it keeps there, at most */
  CPU_ALIGNMENT = 64,          /* of quantized rows, KV blocks and scratch memory; matrices have none, f32 their own */
  ATTENTION_MAX_HEAD_DIM = 512 /* head_dim is a multiple of 16 and at most this */
};

#define EXP_LOWEST (-0x1.5d589ep+6f) /* -87.33654: every larger x gives a normal number */
#define EXP_HIGHEST 0x1.62e42ep+6f   /* 88.72283 */
#define EXP_LOG2E 0x1.715476p+0f
#define EXP_LN2_HIGH 0x1.62e43p-1f
#define EXP_LN2_LOW (-0x1.05c61p-29f)
#define EXP_C6 0x1.6d10fcp-10f
#define EXP_C5 0x1.120b62p-7f
#define EXP_C4 0x1.55551ap-5f
#define EXP_C3 0x1.5554dep-3f
#define EXP_C2 0.5f

/* A quantized activation row: three parts one after the other, each a whole number of 64-byte lines, the row itself
 * aligned to 64 bytes. What lies beyond the row's columns is zero.
 *   quants  per block of 64 weight bytes: at 4 bits the 64 even columns' int8, then the 64 odd columns'; at 8 bits 64
 *           int8. So byte i of the block is multiplied with quants i (its low half) and 64 + i (its high half).
 *   scales  per SUPER_COLUMNS columns 16 floats: the scales of their activation groups, each at the place of its lane.
 *   sums    per weight group a float, padded to a multiple of 16. */
struct activation_layout {
  size_t columns;
  uint32_t bits, group; /* of the matrix that it will meet */
};

static inline struct activation_layout activation_layout_for(const struct matrix *matrix) {
  return (struct activation_layout){matrix->columns, matrix->bits, matrix->group};
}
static inline size_t activation_blocks(struct activation_layout layout) {
  size_t block_columns = layout.bits == 4 ? 128 : 64;
  return (layout.columns + block_columns - 1) / block_columns;
}
static inline size_t activation_scales_offset(struct activation_layout layout) {
  return activation_blocks(layout) * (layout.bits == 4 ? 128 : 64);
}
static inline size_t activation_sums_offset(struct activation_layout layout) {
  size_t supers = (layout.columns + SUPER_COLUMNS - 1) / SUPER_COLUMNS;
  return activation_scales_offset(layout) + supers * CPU_LANES * sizeof(float);
}
/* Where activation group a's lane is among the sixteen, and its scale among the scales. */
static inline size_t activation_lane(size_t a) { return 4 * (a % 4) + a / 4 % 4; }
static inline size_t activation_scale_index(size_t a) { return a / CPU_LANES * CPU_LANES + activation_lane(a); }
static inline size_t activation_row_bytes(struct activation_layout layout) {
  size_t groups = layout.columns / layout.group;
  return activation_sums_offset(layout) + (groups + CPU_LANES - 1) / CPU_LANES * CPU_LANES * sizeof(float);
}

/* Working memory of a product of a matrix of this many columns, a multiple of ACTIVATION_GROUP, which is the smallest
 * weight group too: PANEL_ROWS_MAX rows unpacked to bytes, their scales and biases as f32 for a multiple of 16 groups,
 * and the lanes of their products with PANEL_COLUMNS_MAX activations. */
static inline uint64_t kernel_scratch_bytes(uint64_t columns) {
  const uint64_t groups = (columns / ACTIVATION_GROUP + CPU_LANES - 1) / CPU_LANES * CPU_LANES;
  return PANEL_ROWS_MAX * (columns + (2 * groups + (uint64_t)CPU_LANES * PANEL_COLUMNS_MAX) * sizeof(float));
}

/* One query head of one row on its way through the KV blocks of its sequence. Before the first block the engine sets
 * max to minus infinity, sum and out to 0; after the last one it divides out by sum. */
struct attention_query {
  const float *query; /* [head_dim] */
  float *out;         /* [head_dim] */
  float max, sum;     /* running */
  uint32_t positions; /* of the block at hand that this query sees: its first 1 … KV_BLOCK ones */
};

struct cpu_kernels {
  const char *name;

  /* Rows of weights, a multiple of 16, that matmul_affine takes at once with at least this many activations; a rest
   * costs as much as all of them. With fewer it takes 16. Both are for the engine to cut work by, without influence on
   * any result. */
  size_t panel_rows, panel_activations;

  /* Quantizes x into `row`, activation_row_bytes(layout) of memory aligned to 64. */
  void (*quantize)(void *row, const float *x, struct activation_layout layout);

  /* outs[c][i] = row (first_row + i) of the affine matrix × quantized activation c, for i < rows and c < count, at most
   * COLUMN_BLOCK. Every activation has the matrix's layout. `scratch` is kernel_scratch_bytes(columns) aligned to 64.
   */
  void (*matmul_affine)(const struct matrix *matrix, size_t first_row, size_t rows, const void *const *activations,
                        float *const *outs, size_t count, void *scratch);

  /* The same for a plain matrix; activations are f32 rows. */
  void (*matmul_plain)(const struct matrix *matrix, size_t first_row, size_t rows, const float *const *activations,
                       float *const *outs, size_t count);

  /* lane i % 16 = fma(x[i], x[i], lane), i rising; r = 1 / sqrt(tree(lanes) / (float)columns + epsilon);
   * out[i] = (x[i] · r) · weight[i]. out may be x. */
  void (*rms_norm)(float *out, const float *x, const void *weight, enum number_type type, size_t columns,
                   float epsilon);

  /* a = head[i], b = head[i + pairs]: head[i] = fma(a, cosine[i], -(b · sine[i])),
   * head[i + pairs] = fma(b, cosine[i], a · sine[i]). */
  void (*rotate)(float *head, const float *cosine, const float *sine, size_t pairs);

  /* p[i] = exp(x[i] - max(x)); lane i % 16 = lane + p[i], i rising; x[i] = p[i] / tree(lanes). In place. */
  void (*softmax)(float *x, size_t count);

  /* gate[i] = (gate[i] / (1 + exp(-gate[i]))) · up[i] */
  void (*silu_multiply)(float *gate, const float *up, size_t count);

  /* sum[i] = fma(factor, x[i], sum[i]) */
  void (*accumulate)(float *sum, const float *x, float factor, size_t count);

  /* Conversion as compute/number.h has it. */
  void (*to_f16)(uint16_t *out, const float *x, size_t count);

  /* Takes `count` queries through one KV block: keys [head_dim][KV_BLOCK], values [KV_BLOCK][head_dim], f16. For each:
   *   s[t] = (fma over d rising of query[d] · keys[d][t], from +0) · scale, for t < positions
   *   m = max(s); p[t] = exp(s[t] - m); lane t % 16 = lane + p[t], t rising; block_sum = tree(lanes)
   *   v[d] = fma over t rising of p[t] · values[t][d], from +0
   *   new = max(max, m); a = exp(max - new); b = exp(m - new)
   *   sum = fma(sum, a, block_sum · b); out[d] = fma(out[d], a, v[d] · b); max = new
   * Slots from `positions` on may hold anything, NaN included, and have no influence. */
  void (*attention_block)(struct attention_query *queries, size_t count, const uint16_t *keys, const uint16_t *values,
                          size_t head_dim, float scale);
};

/* The tables, fastest last; NULL where this build or this CPU cannot run them (found out at run time). */
const struct cpu_kernels *cpu_kernels_reference(void);
const struct cpu_kernels *cpu_kernels_avx2(void);
const struct cpu_kernels *cpu_kernels_avxvnni(void);
const struct cpu_kernels *cpu_kernels_avx512(void);
const struct cpu_kernels *cpu_kernels_neon(void);
const struct cpu_kernels *cpu_kernels_neon_i8mm(void);

#endif

#include <math.h>
#include <string.h>

#include "compute/cpu/kernels.h"
#include "compute/number.h"

static float tree(const float lanes[CPU_LANES]) {
  float sum[CPU_LANES];
  memcpy(sum, lanes, sizeof sum);
  for (size_t half = CPU_LANES / 2; half > 0; half /= 2)
    for (size_t lane = 0; lane < half; lane++) sum[lane] = sum[lane] + sum[lane + half];
  return sum[0] + 0.0f;
}

static float maximum(float a, float b) { return b > a ? b : a; }

static float power_of_two(int exponent) { return float_from_bits((uint32_t)(exponent + 127) << 23); }

static float exponential(float x) {
  if (x != x) return x;
  if (x < EXP_LOWEST) return 0.0f;
  if (x > EXP_HIGHEST) return INFINITY;
  float n = rintf(x * EXP_LOG2E);
  float r = fmaf(n, -EXP_LN2_LOW, fmaf(n, -EXP_LN2_HIGH, x));
  float p = fmaf(EXP_C6, r, EXP_C5);
  p = fmaf(p, r, EXP_C4);
  p = fmaf(p, r, EXP_C3);
  p = fmaf(p, r, EXP_C2);
  p = fmaf(p, r, 1.0f);
  p = fmaf(p, r, 1.0f);
  int whole = (int)n;
  int half = (whole - (whole & 1)) / 2;
  return (p * power_of_two(half)) * power_of_two(whole - half);
}

/* Where column `column` of a row lies among the quants. */
static size_t quant_index(struct activation_layout layout, size_t column) {
  if (layout.bits == 8) return column;
  return column / 128 * 128 + column % 2 * 64 + column % 128 / 2;
}

/* Quantizes one activation group; returns its scale and stores Σq. */
static float quantize_group(int8_t *quants, const float *x, struct activation_layout layout, size_t first,
                            int32_t *quant_sum) {
  uint32_t largest = 0; /* |x| in order of its bits, so that an infinity or NaN is the largest */
  for (size_t i = 0; i < ACTIVATION_GROUP; i++) {
    uint32_t magnitude = float_bits(x[first + i]) & 0x7fffffffu;
    if (magnitude > largest) largest = magnitude;
  }
  float m = float_from_bits(largest);
  *quant_sum = 0;
  if (largest >= 0x7f800000u) return NAN;
  if (m < 0x1p-100f) return 0.0f;
  float inverse = 127.0f / m;
  for (size_t i = 0; i < ACTIVATION_GROUP; i++) {
    int32_t q = (int32_t)rintf(x[first + i] * inverse);
    quants[quant_index(layout, first + i)] = (int8_t)q;
    *quant_sum += q;
  }
  return m / 127.0f;
}

static void quantize(void *row, const float *x, struct activation_layout layout) {
  memset(row, 0, activation_row_bytes(layout));
  int8_t *quants = row;
  float *scales = (float *)(void *)((unsigned char *)row + activation_scales_offset(layout));
  float *sums = (float *)(void *)((unsigned char *)row + activation_sums_offset(layout));
  for (size_t first = 0; first < layout.columns; first += ACTIVATION_GROUP) {
    int32_t quant_sum;
    float scale = quantize_group(quants, x, layout, first, &quant_sum);
    scales[activation_scale_index(first / ACTIVATION_GROUP)] = scale;
    float *sum = &sums[first / layout.group];
    *sum = fmaf(scale, (float)quant_sum, *sum);
  }
}

static float affine_dot(const struct matrix *matrix, size_t row, const void *activation) {
  struct activation_layout layout = activation_layout_for(matrix);
  const int8_t *quants = activation;
  const float *scales = (const float *)(const void *)(quants + activation_scales_offset(layout));
  const float *sums = (const float *)(const void *)(quants + activation_sums_offset(layout));
  const unsigned char *weights = (const unsigned char *)matrix->data + row * matrix_row_bytes(matrix);
  const size_t groups = matrix->columns / matrix->group;
  float lanes[CPU_LANES] = {0};
  for (size_t a = 0; a < matrix->columns / ACTIVATION_GROUP; a++) {
    int32_t sum = 0;
    for (size_t column = a * ACTIVATION_GROUP; column < (a + 1) * ACTIVATION_GROUP; column++) {
      int32_t weight = matrix->bits == 8 ? weights[column] : weights[column / 2] >> (column % 2 * 4) & 15;
      sum += weight * quants[quant_index(layout, column)];
    }
    size_t g = a * ACTIVATION_GROUP / matrix->group;
    float scale = number_at(matrix->type, matrix->scales, row * groups + g) * scales[activation_scale_index(a)];
    float *lane = &lanes[activation_lane(a)];
    *lane = fmaf((float)sum, scale, *lane);
  }
  for (size_t g = 0; g < groups; g++) {
    float *lane = &lanes[g % CPU_LANES];
    *lane = fmaf(number_at(matrix->type, matrix->biases, row * groups + g), sums[g], *lane);
  }
  return tree(lanes);
}

static void matmul_affine(const struct matrix *matrix, size_t first_row, size_t rows, const void *const *activations,
                          float *const *outs, size_t count, void *scratch) {
  (void)scratch;
  for (size_t i = 0; i < rows; i++)
    for (size_t c = 0; c < count; c++) outs[c][i] = affine_dot(matrix, first_row + i, activations[c]);
}

static void matmul_plain(const struct matrix *matrix, size_t first_row, size_t rows, const float *const *activations,
                         float *const *outs, size_t count) {
  for (size_t i = 0; i < rows; i++) {
    const unsigned char *row = (const unsigned char *)matrix->data + (first_row + i) * matrix_row_bytes(matrix);
    for (size_t c = 0; c < count; c++) {
      float lanes[CPU_LANES] = {0};
      for (size_t column = 0; column < matrix->columns; column++) {
        float *sum = &lanes[column % CPU_LANES];
        *sum = fmaf(number_at(matrix->type, row, column), activations[c][column], *sum);
      }
      outs[c][i] = tree(lanes);
    }
  }
}

static void rms_norm(float *out, const float *x, const void *weight, enum number_type type, size_t columns,
                     float epsilon) {
  float lanes[CPU_LANES] = {0};
  for (size_t i = 0; i < columns; i++) lanes[i % CPU_LANES] = fmaf(x[i], x[i], lanes[i % CPU_LANES]);
  float mean = tree(lanes) / (float)columns;
  float r = 1.0f / sqrtf(mean + epsilon);
  for (size_t i = 0; i < columns; i++) out[i] = (x[i] * r) * number_at(type, weight, i);
}

static void rotate(float *head, const float *cosine, const float *sine, size_t pairs) {
  for (size_t i = 0; i < pairs; i++) {
    float a = head[i], b = head[i + pairs];
    head[i] = fmaf(a, cosine[i], -(b * sine[i]));
    head[i + pairs] = fmaf(b, cosine[i], a * sine[i]);
  }
}

/* x[i] = exp(x[i] - max); returns the sum. */
static float exponentials(float *x, size_t count, float max) {
  float lanes[CPU_LANES] = {0};
  for (size_t i = 0; i < count; i++) {
    x[i] = exponential(x[i] - max);
    lanes[i % CPU_LANES] += x[i];
  }
  return tree(lanes);
}

static void softmax(float *x, size_t count) {
  float max = -INFINITY;
  for (size_t i = 0; i < count; i++) max = maximum(max, x[i]);
  float sum = exponentials(x, count, max);
  for (size_t i = 0; i < count; i++) x[i] = x[i] / sum;
}

static void silu_multiply(float *gate, const float *up, size_t count) {
  for (size_t i = 0; i < count; i++) gate[i] = (gate[i] / (1.0f + exponential(-gate[i]))) * up[i];
}

static void accumulate(float *sum, const float *x, float factor, size_t count) {
  for (size_t i = 0; i < count; i++) sum[i] = fmaf(factor, x[i], sum[i]);
}

static void to_f16(uint16_t *out, const float *x, size_t count) {
  for (size_t i = 0; i < count; i++) out[i] = f16_from_f32(x[i]);
}

static void attention_one(struct attention_query *query, const uint16_t *keys, const uint16_t *values, size_t head_dim,
                          float scale) {
  float p[KV_BLOCK] = {0};
  size_t positions = query->positions;
  for (size_t d = 0; d < head_dim; d++)
    for (size_t t = 0; t < positions; t++) p[t] = fmaf(query->query[d], f32_from_f16(keys[d * KV_BLOCK + t]), p[t]);
  float block_max = -INFINITY;
  for (size_t t = 0; t < positions; t++) {
    p[t] = p[t] * scale;
    block_max = maximum(block_max, p[t]);
  }
  float block_sum = exponentials(p, positions, block_max);
  float max = maximum(query->max, block_max);
  float a = exponential(query->max - max);
  float b = exponential(block_max - max);
  query->sum = fmaf(query->sum, a, block_sum * b);
  query->max = max;
  for (size_t d = 0; d < head_dim; d++) {
    float v = 0.0f;
    for (size_t t = 0; t < positions; t++) v = fmaf(p[t], f32_from_f16(values[t * head_dim + d]), v);
    query->out[d] = fmaf(query->out[d], a, v * b);
  }
}

static void attention_block(struct attention_query *queries, size_t count, const uint16_t *keys, const uint16_t *values,
                            size_t head_dim, float scale) {
  for (size_t i = 0; i < count; i++) attention_one(&queries[i], keys, values, head_dim, scale);
}

static const struct cpu_kernels reference = {
    .name = "reference",
    .panel_rows = CPU_LANES,
    .panel_activations = 1,
    .quantize = quantize,
    .matmul_affine = matmul_affine,
    .matmul_plain = matmul_plain,
    .rms_norm = rms_norm,
    .rotate = rotate,
    .softmax = softmax,
    .silu_multiply = silu_multiply,
    .accumulate = accumulate,
    .to_f16 = to_f16,
    .attention_block = attention_block,
};

const struct cpu_kernels *cpu_kernels_reference(void) { return &reference; }

/* Part of lanes.h: the operations on vectors. */
#ifndef KAIJU_COMPUTE_CPU_LANES_VECTOR_H
#define KAIJU_COMPUTE_CPU_LANES_VECTOR_H

#include <math.h>
#include <string.h>

static inline floats load_number(enum number_type type, const void *x) {
  if (type == NUMBER_F32) return load(x);
  return type == NUMBER_F16 ? load_f16(x) : load_bf16(x);
}

#ifndef FIRST_NUMBERS
/* The first count < 16 numbers, then zeros. */
static inline floats load_number_first(enum number_type type, const void *x, size_t count) {
  unsigned char numbers[CPU_LANES * sizeof(float)] = {0};
  memcpy(numbers, x, count * number_bytes(type));
  return load_number(type, numbers);
}
#endif

static inline floats exponential(floats x) {
  floats n = round_even(multiply(x, broadcast(EXP_LOG2E)));
  floats r = fused(n, broadcast(-EXP_LN2_LOW), fused(n, broadcast(-EXP_LN2_HIGH), x));
  floats p = fused(broadcast(EXP_C6), r, broadcast(EXP_C5));
  p = fused(p, r, broadcast(EXP_C4));
  p = fused(p, r, broadcast(EXP_C3));
  p = fused(p, r, broadcast(EXP_C2));
  p = fused(p, r, broadcast(1.0f));
  p = fused(p, r, broadcast(1.0f));
  floats result = choose_less(x, broadcast(EXP_LOWEST), zero(), scale_by_power(p, n));
  return choose_less(broadcast(EXP_HIGHEST), x, broadcast(INFINITY), result);
}

static inline float largest(floats x) {
  float lanes[CPU_LANES];
  store(lanes, x);
  float max = lanes[0];
  for (size_t lane = 1; lane < CPU_LANES; lane++) max = lanes[lane] > max ? lanes[lane] : max;
  return max;
}

/* Quantizes one activation group into `quants`, in order, zero before; returns its scale. */
static inline float quantize_group(int8_t *quants, const float *x) {
  floats a = load(x), b = load(x + CPU_LANES);
  uint32_t magnitude = largest_magnitude(a, b);
  float m = float_from_bits(magnitude);
  if (magnitude >= 0x7f800000u) return NAN;
  if (m < 0x1p-100f) return 0.0f;
  floats inverse = broadcast(127.0f / m);
  round_to_bytes(quants, multiply(a, inverse), multiply(b, inverse));
  return m / 127.0f;
}

LANES_SPECIALISE void quantize_for_bits(void *row, const float *x, struct activation_layout layout, uint32_t bits) {
  int8_t *quants = row;
  float *scales = (float *)(void *)((unsigned char *)row + activation_scales_offset(layout));
  float *sum = (float *)(void *)((unsigned char *)row + activation_sums_offset(layout));
  memset(row, 0, activation_row_bytes(layout));
  size_t left = layout.group; /* columns until the next weight group */
  for (size_t first = 0; first < layout.columns; first += ACTIVATION_GROUP) {
    int8_t ordered[ACTIVATION_GROUP] = {0};
    const float scale = quantize_group(ordered, x + first);
    int32_t quant_sum = 0;
    for (size_t i = 0; i < ACTIVATION_GROUP; i++) quant_sum += ordered[i];
    if (bits == 4) {
      int8_t *even = quants + first / 128 * 128 + first % 128 / 2;
      split_pairs(even, even + 64, ordered);
    } else {
      memcpy(quants + first, ordered, sizeof ordered);
    }
    scales[activation_scale_index(first / ACTIVATION_GROUP)] = scale;
    *sum = fmaf(scale, (float)quant_sum, *sum);
    left -= ACTIVATION_GROUP;
    if (left == 0) {
      sum++;
      left = layout.group;
    }
  }
}

static void quantize(void *row, const float *x, struct activation_layout layout) {
  if (layout.bits == 4)
    quantize_for_bits(row, x, layout, 4);
  else
    quantize_for_bits(row, x, layout, 8);
}

LANES_SPECIALISE void rms_norm_of_type(float *out, const float *x, const void *weight, enum number_type type,
                                       size_t columns, float epsilon) {
  const size_t whole = columns - columns % CPU_LANES, rest = columns % CPU_LANES;
  const unsigned char *weights = weight;
  floats squares = zero();
  for (size_t i = 0; i < whole; i += CPU_LANES) squares = fused(load(x + i), load(x + i), squares);
  if (rest) {
    floats last = load_first(x + whole, rest, 0.0f);
    squares = fused(last, last, squares);
  }
  float mean = tree(squares) / (float)columns;
  floats r = broadcast(1.0f / sqrtf(mean + epsilon));
  for (size_t i = 0; i < whole; i += CPU_LANES)
    store(out + i, multiply(multiply(load(x + i), r), load_number(type, weights + i * number_bytes(type))));
  if (rest) {
    floats last = multiply(load_first(x + whole, rest, 0.0f), r);
    store_first(out + whole, multiply(last, load_number_first(type, weights + whole * number_bytes(type), rest)), rest);
  }
}

static void rms_norm(float *out, const float *x, const void *weight, enum number_type type, size_t columns,
                     float epsilon) {
  if (type == NUMBER_F32)
    rms_norm_of_type(out, x, weight, NUMBER_F32, columns, epsilon);
  else if (type == NUMBER_F16)
    rms_norm_of_type(out, x, weight, NUMBER_F16, columns, epsilon);
  else
    rms_norm_of_type(out, x, weight, NUMBER_BF16, columns, epsilon);
}

static void rotate(float *head, const float *cosine, const float *sine, size_t pairs) {
  size_t i = 0;
  for (; i + CPU_LANES <= pairs; i += CPU_LANES) {
    floats a = load(head + i), b = load(head + i + pairs), c = load(cosine + i), s = load(sine + i);
    store(head + i, fused(a, c, negate(multiply(b, s))));
    store(head + i + pairs, fused(b, c, multiply(a, s)));
  }
  if (i < pairs) {
    size_t rest = pairs - i;
    floats a = load_first(head + i, rest, 0.0f), b = load_first(head + i + pairs, rest, 0.0f);
    floats c = load_first(cosine + i, rest, 0.0f), s = load_first(sine + i, rest, 0.0f);
    store_first(head + i, fused(a, c, negate(multiply(b, s))), rest);
    store_first(head + i + pairs, fused(b, c, multiply(a, s)), rest);
  }
}

static void softmax(float *x, size_t count) {
  const size_t whole = count - count % CPU_LANES, rest = count % CPU_LANES;
  floats maxima = broadcast(-INFINITY);
  for (size_t i = 0; i < whole; i += CPU_LANES) maxima = maximum(maxima, load(x + i));
  if (rest) maxima = maximum(maxima, load_first(x + whole, rest, -INFINITY));
  floats max = broadcast(largest(maxima)), sums = zero();
  for (size_t i = 0; i < whole; i += CPU_LANES) {
    floats p = exponential(subtract(load(x + i), max));
    store(x + i, p);
    sums = add(sums, p);
  }
  if (rest) { /* the lanes without a number get exp(-infinity) = 0, or NaN where all is NaN anyway */
    floats p = exponential(subtract(load_first(x + whole, rest, -INFINITY), max));
    store_first(x + whole, p, rest);
    sums = add(sums, p);
  }
  floats sum = broadcast(tree(sums));
  for (size_t i = 0; i < whole; i += CPU_LANES) store(x + i, divide(load(x + i), sum));
  if (rest) store_first(x + whole, divide(load_first(x + whole, rest, 0.0f), sum), rest);
}

static inline floats silu_product(floats gate, floats up) {
  return multiply(divide(gate, add(broadcast(1.0f), exponential(negate(gate)))), up);
}

static void silu_multiply(float *gate, const float *up, size_t count) {
  size_t i = 0;
  for (; i + CPU_LANES <= count; i += CPU_LANES) store(gate + i, silu_product(load(gate + i), load(up + i)));
  if (i < count) {
    size_t rest = count - i;
    store_first(gate + i, silu_product(load_first(gate + i, rest, 0.0f), load_first(up + i, rest, 0.0f)), rest);
  }
}

static void accumulate(float *sum, const float *x, float factor, size_t count) {
  const floats f = broadcast(factor);
  size_t i = 0;
  for (; i + CPU_LANES <= count; i += CPU_LANES) store(sum + i, fused(f, load(x + i), load(sum + i)));
  if (i < count) {
    size_t rest = count - i;
    store_first(sum + i, fused(f, load_first(x + i, rest, 0.0f), load_first(sum + i, rest, 0.0f)), rest);
  }
}

static void to_f16(uint16_t *out, const float *x, size_t count) {
  size_t i = 0;
  for (; i + CPU_LANES <= count; i += CPU_LANES) store_f16(out + i, load(x + i));
  if (i < count) {
    uint16_t last[CPU_LANES];
    store_f16(last, load_first(x + i, count - i, 0.0f));
    memcpy(out + i, last, (count - i) * sizeof *out);
  }
}

#endif

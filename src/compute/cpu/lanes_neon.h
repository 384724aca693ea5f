/* Sixteen lanes in Advanced SIMD: four registers of four. The operations of lanes.h that neon.c and neon_i8mm.c share;
 * what differs is by __ARM_FEATURE_MATMUL_INT8, which tells of USDOT and USMMLA. */
#ifndef KAIJU_COMPUTE_CPU_LANES_NEON_H
#define KAIJU_COMPUTE_CPU_LANES_NEON_H

#include <arm_neon.h>

#include "compute/cpu/lanes_base.h"

#define COLUMNS_AT_ONCE 4
#define ATTENTION_QUERIES 4
#define PRODUCT_TILE 4
#define PANEL_VECTORS 1
#define PANEL_COLUMNS 4
#define PANEL_WORTHWHILE 10

typedef struct {
  float32x4_t val[4];
} floats;
typedef struct {
  int32x4_t val[4];
} integers;

/* An operation on lanes from one on registers of one, two or three operands. */
#define LANES_OF_ONE(name, operation)                                                                      \
  static inline floats name(floats x) {                                                                    \
    return (floats){{operation(x.val[0]), operation(x.val[1]), operation(x.val[2]), operation(x.val[3])}}; \
  }
#define LANES_OF_TWO(name, operation)                                                                             \
  static inline floats name(floats x, floats y) {                                                                 \
    return (floats){{operation(x.val[0], y.val[0]), operation(x.val[1], y.val[1]), operation(x.val[2], y.val[2]), \
                     operation(x.val[3], y.val[3])}};                                                             \
  }
#define LANES_OF_THREE(name, operation)                                                                  \
  static inline floats name(floats x, floats y, floats z) {                                              \
    return (floats){{operation(x.val[0], y.val[0], z.val[0]), operation(x.val[1], y.val[1], z.val[1]),   \
                     operation(x.val[2], y.val[2], z.val[2]), operation(x.val[3], y.val[3], z.val[3])}}; \
  }

static inline floats broadcast(float x) {
  const float32x4_t four = vdupq_n_f32(x);
  return (floats){{four, four, four, four}};
}
static inline floats zero(void) { return broadcast(0.0f); }
static inline floats load(const float *x) {
  return (floats){{vld1q_f32(x), vld1q_f32(x + 4), vld1q_f32(x + 8), vld1q_f32(x + 12)}};
}
static inline void store(float *out, floats x) {
  vst1q_f32(out, x.val[0]);
  vst1q_f32(out + 4, x.val[1]);
  vst1q_f32(out + 8, x.val[2]);
  vst1q_f32(out + 12, x.val[3]);
}
static inline floats load_first(const float *x, size_t count, float rest) {
  float lanes[CPU_LANES];
  store(lanes, broadcast(rest));
  memcpy(lanes, x, count * sizeof *x);
  return load(lanes);
}
static inline void store_first(float *out, floats x, size_t count) {
  float lanes[CPU_LANES];
  store(lanes, x);
  memcpy(out, lanes, count * sizeof *out);
}
/* Bytes need no alignment, which vld1q_u16 may be compiled to assume. */
static inline uint16x8_t load_halves(const void *x) { return vreinterpretq_u16_u8(vld1q_u8(x)); }
static inline floats load_f16(const void *x) {
  const float16x8_t a = vreinterpretq_f16_u16(load_halves(x));
  const float16x8_t b = vreinterpretq_f16_u16(load_halves((const unsigned char *)x + 16));
  return (floats){
      {vcvt_f32_f16(vget_low_f16(a)), vcvt_high_f32_f16(a), vcvt_f32_f16(vget_low_f16(b)), vcvt_high_f32_f16(b)}};
}
static inline float32x4_t from_bf16(uint16x4_t x) { return vreinterpretq_f32_u32(vshll_n_u16(x, 16)); }
static inline floats load_bf16(const void *x) {
  const uint16x8_t a = load_halves(x), b = load_halves((const unsigned char *)x + 16);
  return (floats){{from_bf16(vget_low_u16(a)), from_bf16(vget_high_u16(a)), from_bf16(vget_low_u16(b)),
                   from_bf16(vget_high_u16(b))}};
}
static inline void store_f16(uint16_t *out, floats x) {
  vst1q_u16(out, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.val[0]), x.val[1])));
  vst1q_u16(out + 8, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.val[2]), x.val[3])));
}

static inline float32x4_t fused_of_four(float32x4_t x, float32x4_t y, float32x4_t z) { return vfmaq_f32(z, x, y); }
/* FMAX would give NaN for a NaN. */
static inline float32x4_t maximum_of_four(float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(y, x), y, x); }
static inline float32x4_t scale_of_four(float32x4_t x, float32x4_t n) {
  /* 2^n can lie beyond the exponents of f32, its halves cannot. */
  const int32x4_t whole = vcvtq_s32_f32(n), half = vshrq_n_s32(whole, 1), bias = vdupq_n_s32(127);
  const int32x4_t rest = vsubq_s32(whole, half);
  x = vmulq_f32(x, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23)));
  return vmulq_f32(x, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23)));
}
LANES_OF_ONE(negate, vnegq_f32)
LANES_OF_ONE(round_even, vrndnq_f32)
LANES_OF_TWO(add, vaddq_f32)
LANES_OF_TWO(subtract, vsubq_f32)
LANES_OF_TWO(multiply, vmulq_f32)
LANES_OF_TWO(divide, vdivq_f32)
LANES_OF_TWO(maximum, maximum_of_four)
LANES_OF_TWO(scale_by_power, scale_of_four)
LANES_OF_THREE(fused, fused_of_four)
static inline floats choose_less(floats x, floats y, floats yes, floats no) {
  return (floats){{vbslq_f32(vcltq_f32(x.val[0], y.val[0]), yes.val[0], no.val[0]),
                   vbslq_f32(vcltq_f32(x.val[1], y.val[1]), yes.val[1], no.val[1]),
                   vbslq_f32(vcltq_f32(x.val[2], y.val[2]), yes.val[2], no.val[2]),
                   vbslq_f32(vcltq_f32(x.val[3], y.val[3]), yes.val[3], no.val[3])}};
}

static inline float tree(floats x) {
  const float32x4_t four = vaddq_f32(vaddq_f32(x.val[0], x.val[2]), vaddq_f32(x.val[1], x.val[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1) + 0.0f;
}

static inline uint32x4_t magnitude_bits(float32x4_t x) {
  return vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x7fffffff));
}
static inline uint32x4_t largest_of_lanes(floats x) {
  return vmaxq_u32(vmaxq_u32(magnitude_bits(x.val[0]), magnitude_bits(x.val[1])),
                   vmaxq_u32(magnitude_bits(x.val[2]), magnitude_bits(x.val[3])));
}
static inline uint32_t largest_magnitude(floats x, floats y) {
  return vmaxvq_u32(vmaxq_u32(largest_of_lanes(x), largest_of_lanes(y)));
}
static inline int8x16_t rounded_to_bytes(floats x) {
  const int16x8_t a = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(x.val[0])), vmovn_s32(vcvtnq_s32_f32(x.val[1])));
  const int16x8_t b = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(x.val[2])), vmovn_s32(vcvtnq_s32_f32(x.val[3])));
  return vcombine_s8(vmovn_s16(a), vmovn_s16(b));
}
static inline void round_to_bytes(int8_t *out, floats x, floats y) {
  vst1q_s8(out, rounded_to_bytes(x));
  vst1q_s8(out + 16, rounded_to_bytes(y));
}

static inline void split_pairs(int8_t *even, int8_t *odd, const int8_t *pairs) {
  const int8x16x2_t both = vld2q_s8(pairs);
  vst1q_s8(even, both.val[0]);
  vst1q_s8(odd, both.val[1]);
}

/* How many scales a super-block has: 16, 8 or 4. */
typedef struct {
  size_t groups;
} spreading;
static inline spreading spreading_of(size_t groups) { return (spreading){groups}; }

/* The even or the odd ones of eight numbers of 16 bits. */
static inline float32x4_t even_numbers(enum number_type type, uint16x8_t x) {
  if (type == NUMBER_F16) return vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(vuzp1q_u16(x, x))));
  return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_u16(x), 16));
}
static inline float32x4_t odd_numbers(enum number_type type, uint16x8_t x) {
  if (type == NUMBER_F16) return vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(vuzp2q_u16(x, x))));
  return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_u16(x), vdupq_n_u32(0xffff0000)));
}
/* Register q, lane k is that of activation group 4 k + q. */
static inline floats spread_f32(const float *x, size_t groups) {
  if (groups == 4) {
    const float32x4_t all = vld1q_f32(x);
    return (floats){{all, all, all, all}};
  }
  const float32x4_t a = vld1q_f32(x), b = vld1q_f32(x + 4);
  const float32x4_t even = vuzp1q_f32(a, b), odd = vuzp2q_f32(a, b);
  if (groups == 8) return (floats){{even, even, odd, odd}};
  const float32x4_t c = vld1q_f32(x + 8), d = vld1q_f32(x + 12);
  const float32x4_t others = vuzp1q_f32(c, d), other_odd = vuzp2q_f32(c, d);
  return (floats){
      {vuzp1q_f32(even, others), vuzp1q_f32(odd, other_odd), vuzp2q_f32(even, others), vuzp2q_f32(odd, other_odd)}};
}
static inline floats spread_16(enum number_type type, const unsigned char *x, size_t groups) {
  if (groups == 4) {
    const uint16x4_t numbers = vreinterpret_u16_u8(vld1_u8(x));
    const float32x4_t all = type == NUMBER_F16 ? vcvt_f32_f16(vreinterpret_f16_u16(numbers)) : from_bf16(numbers);
    return (floats){{all, all, all, all}};
  }
  const uint16x8_t a = load_halves(x);
  if (groups == 8) {
    const float32x4_t even = even_numbers(type, a), odd = odd_numbers(type, a);
    return (floats){{even, even, odd, odd}};
  }
  const uint16x8_t b = load_halves(x + 16), even = vuzp1q_u16(a, b), odd = vuzp2q_u16(a, b);
  return (floats){{even_numbers(type, even), even_numbers(type, odd), odd_numbers(type, even), odd_numbers(type, odd)}};
}
static inline floats load_spread(enum number_type type, const void *scales, size_t count, spreading how) {
  unsigned char numbers[CPU_LANES * sizeof(float)];
  if (count < how.groups) {
    memset(numbers, 0, sizeof numbers);
    scales = memcpy(numbers, scales, count * number_bytes(type));
  }
  return type == NUMBER_F32 ? spread_f32(scales, how.groups) : spread_16(type, scales, how.groups);
}

/* An integer that is added to the bits of 1.5 · 2^23, whose last place is 1, becomes an f32 by one subtraction. That
 * runs on every pipe, while SCVTF has half of them or one. Sums of a group are within ±2^20. */
#define INTEGER_BASE 0x4b400000
static inline float32x4_t base_of_four(void) { return vreinterpretq_f32_s32(vdupq_n_s32(INTEGER_BASE)); }
static inline floats to_floats(integers x) {
  floats result;
  for (int i = 0; i < 4; i++) result.val[i] = vsubq_f32(vreinterpretq_f32_s32(x.val[i]), base_of_four());
  return result;
}

/* The weights of an activation group: those of its even and odd columns at 4 bits, of its halves at 8 bits. SDOT has
 * signed bytes, so without USDOT it meets 127 - weight at 8 bits, whose products are then negative. */
struct group_weights {
  uint8x16_t first, second;
};
static inline struct group_weights group_weights_at(const unsigned char *data, uint32_t bits) {
  const uint8x16_t x = vld1q_u8(data);
  if (bits == 4) return (struct group_weights){vandq_u8(x, vdupq_n_u8(15)), vshrq_n_u8(x, 4)};
#ifdef __ARM_FEATURE_MATMUL_INT8
  return (struct group_weights){x, vld1q_u8(data + 16)};
#else
  return (struct group_weights){veorq_u8(x, vdupq_n_u8(127)), veorq_u8(vld1q_u8(data + 16), vdupq_n_u8(127))};
#endif
}
/* start + products, or at 8 bits without USDOT start - products, spread over the lanes. */
static inline int32x4_t group_products(int32x4_t start, struct group_weights x, const int8_t *quants, uint32_t bits) {
  const int8x16_t first = vld1q_s8(quants), second = vld1q_s8(quants + (bits == 4 ? 64 : 16));
#ifdef __ARM_FEATURE_MATMUL_INT8
  return vusdotq_s32(vusdotq_s32(start, x.first, first), x.second, second);
#else
  start = vdotq_s32(start, vreinterpretq_s8_u8(x.first), first);
  start = vdotq_s32(start, vreinterpretq_s8_u8(x.second), second);
  if (bits == 4) return start;
  return vdotq_s32(vdotq_s32(start, vdupq_n_s8(-127), first), vdupq_n_s8(-127), second);
#endif
}
static inline int32x4_t group_sums(const int32x4_t *x, uint32_t bits) {
  const int32x4_t sum = vpaddq_s32(vpaddq_s32(x[0], x[1]), vpaddq_s32(x[2], x[3]));
#ifndef __ARM_FEATURE_MATMUL_INT8
  if (bits == 8) return vsubq_s32(vdupq_n_s32((int32_t)(2u * INTEGER_BASE)), sum);
#endif
  (void)bits;
  return sum;
}

/* Quarter after quarter of the lanes, whose weights fit the registers beside several activations' sums. */
LANES_SPECIALISE void super_integers(integers *sums, const unsigned char *data, size_t bytes,
                                     const int8_t *const *quants, uint32_t bits, size_t count) {
  const size_t group_bytes = bits == 4 ? 16 : 32, groups = bytes / group_bytes;
  const int32x4_t start = vsetq_lane_s32(INTEGER_BASE, vdupq_n_s32(0), 0);
#pragma GCC unroll 8
  for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(data + at + PREFETCH_AHEAD);
#pragma GCC unroll 4
  for (size_t q = 0; q < 4; q++) {
    struct group_weights weights[4];
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; k++)
      weights[k] = 4 * k + q < groups ? group_weights_at(data + (4 * k + q) * group_bytes, bits)
                                      : (struct group_weights){vdupq_n_u8(0), vdupq_n_u8(0)};
#pragma GCC unroll 4
    for (size_t c = 0; c < count; c++) {
      int32x4_t parts[4];
#pragma GCC unroll 4
      for (size_t k = 0; k < 4; k++)
        parts[k] =
            4 * k + q < groups ? group_products(start, weights[k], quants[c] + k * 128 + q * group_bytes, bits) : start;
      sums[c].val[q] = group_sums(parts, bits);
    }
  }
}

static inline float32x4_t join_low(float32x4_t x, float32x4_t y) {
  return vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y)));
}
static inline float32x4_t join_high(float32x4_t x, float32x4_t y) {
  return vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y)));
}
static inline void transpose_four(float32x4_t *x) {
  const float32x4_t a = vtrn1q_f32(x[0], x[1]), b = vtrn2q_f32(x[0], x[1]);
  const float32x4_t c = vtrn1q_f32(x[2], x[3]), d = vtrn2q_f32(x[2], x[3]);
  x[0] = join_low(a, c);
  x[1] = join_low(b, d);
  x[2] = join_high(a, c);
  x[3] = join_high(b, d);
}
static inline void transpose(floats *x) {
  for (int row = 0; row < 4; row++)
    for (int column = 0; column <= row; column++) {
      float32x4_t below[4], above[4];
      for (int i = 0; i < 4; i++) {
        below[i] = x[4 * row + i].val[column];
        above[i] = x[4 * column + i].val[row];
      }
      transpose_four(below);
      transpose_four(above);
      for (int i = 0; i < 4; i++) {
        x[4 * column + i].val[row] = below[i];
        x[4 * row + i].val[column] = above[i];
      }
    }
}

#define TREES
static inline floats trees(floats *rows) {
  floats result;
  for (int i = 0; i < 4; i++) {
    float32x4_t fours[4];
    for (int k = 0; k < 4; k++) {
      const floats row = rows[4 * i + k];
      fours[k] = vaddq_f32(vaddq_f32(row.val[0], row.val[2]), vaddq_f32(row.val[1], row.val[3]));
    }
    const float32x4_t a = vaddq_f32(join_low(fours[0], fours[1]), join_high(fours[0], fours[1]));
    const float32x4_t b = vaddq_f32(join_low(fours[2], fours[3]), join_high(fours[2], fours[3]));
    result.val[i] = vaddq_f32(vpaddq_f32(a, b), vdupq_n_f32(0.0f));
  }
  return result;
}

struct panel_sums {
  integers sums; /* on top of INTEGER_BASE */
};
static inline integers panel_integers(struct panel_sums x, uint32_t bits) {
  (void)bits;
  return x.sums;
}

#define PANEL_PRODUCTS
static inline void store_nibbles(unsigned char *out, size_t to_high, uint8x16_t x) {
  vst1q_u8(out, vandq_u8(x, vdupq_n_u8(15)));
  vst1q_u8(out + to_high, vshrq_n_u8(x, 4));
}

#ifdef __ARM_FEATURE_MATMUL_INT8

/* USMMLA multiplies 8 columns of two rows with those of two activations. So an activation group's units are four times
 * 8 columns of eight pairs of rows. */
static inline void unpack_block(void *units, size_t vector, const unsigned char *const *rows, size_t at, size_t bytes,
                                uint32_t bits) {
  enum { COLUMNS = 128 }; /* bytes between columns */
  (void)vector;
  for (size_t b = 0; b < bytes; b += 16) {
    unsigned char *out = (unsigned char *)units + (bits == 4 ? b * 32 : b * 16);
    for (size_t pair = 0; pair < 8; pair++, out += 16) {
      const uint64x2_t x = vreinterpretq_u64_u8(vld1q_u8(rows[2 * pair] + at + b));
      const uint64x2_t y = vreinterpretq_u64_u8(vld1q_u8(rows[2 * pair + 1] + at + b));
      const uint8x16_t first = vreinterpretq_u8_u64(vzip1q_u64(x, y)), second = vreinterpretq_u8_u64(vzip2q_u64(x, y));
      if (bits == 4) {
        store_nibbles(out, 2 * COLUMNS, first);
        store_nibbles(out + COLUMNS, 2 * COLUMNS, second);
      } else {
        vst1q_u8(out, first);
        vst1q_u8(out + COLUMNS, second);
      }
    }
  }
}

LANES_SPECIALISE void panel_products(struct panel_sums *sums, const void *units,
                                     const unsigned char *const *activations, size_t at, size_t second, uint32_t bits,
                                     size_t count) {
  const size_t pairs = (count + 1) / 2;
  const unsigned char *weights = units;
  int32x4_t products[2][8];
  (void)bits;
#pragma GCC unroll 2
  for (size_t c = 0; c < pairs; c++)
#pragma GCC unroll 8
    for (size_t row = 0; row < 8; row++) products[c][row] = vdupq_n_s32(INTEGER_BASE);
#pragma GCC unroll 2
  for (size_t half = 0; half < 2; half++) {
    int8x16_t quants[2][2];
#pragma GCC unroll 2
    for (size_t c = 0; c < pairs; c++) {
      const size_t other = 2 * c + 1 < count ? 2 * c + 1 : 2 * c;
      const int64x2_t x = vreinterpretq_s64_u8(vld1q_u8(activations[2 * c] + at + half * second));
      const int64x2_t y = vreinterpretq_s64_u8(vld1q_u8(activations[other] + at + half * second));
      quants[0][c] = vreinterpretq_s8_s64(vzip1q_s64(x, y));
      quants[1][c] = vreinterpretq_s8_s64(vzip2q_s64(x, y));
    }
#pragma GCC unroll 2
    for (size_t eight = 0; eight < 2; eight++)
#pragma GCC unroll 8
      for (size_t row = 0; row < 8; row++, weights += 16) {
        const uint8x16_t x = vld1q_u8(weights);
#pragma GCC unroll 2
        for (size_t c = 0; c < pairs; c++) products[c][row] = vusmmlaq_s32(products[c][row], x, quants[eight][c]);
      }
  }
#pragma GCC unroll 4
  for (size_t c = 0; c < count; c++)
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
      const int32x4_t x = products[c / 2][2 * i], y = products[c / 2][2 * i + 1];
      sums[c].sums.val[i] = c % 2 ? vuzp2q_s32(x, y) : vuzp1q_s32(x, y);
    }
}

#else

/* An activation group's units are eight times 4 columns of sixteen rows. At 8 bits they hold weight - 128. */
static inline void unpack_block(void *units, size_t vector, const unsigned char *const *rows, size_t at, size_t bytes,
                                uint32_t bits) {
  enum { COLUMNS = 64 }; /* bytes between columns */
  (void)vector;
  for (size_t b = 0; b < bytes; b += 16) {
    unsigned char *out = (unsigned char *)units + (bits == 4 ? b * 32 : b * 16);
    for (size_t row = 0; row < CPU_LANES; row += 4, out += 16) {
      float32x4_t x[4];
      for (size_t i = 0; i < 4; i++) x[i] = vreinterpretq_f32_u8(vld1q_u8(rows[row + i] + at + b));
      transpose_four(x);
      for (size_t i = 0; i < 4; i++) {
        const uint8x16_t turned = vreinterpretq_u8_f32(x[i]);
        if (bits == 4)
          store_nibbles(out + i * COLUMNS, 4 * COLUMNS, turned);
        else
          vst1q_u8(out + i * COLUMNS, veorq_u8(turned, vdupq_n_u8(128)));
      }
    }
  }
}

/* Four columns, constant `lane` of the quants, of sixteen rows. */
#define PANEL_UNIT(lane)                                                        \
  _Pragma("GCC unroll 4") for (size_t i = 0; i < 4; i++) {                      \
    const int8x16_t x = vld1q_s8(weights + (lane)*64 + i * 16);                 \
    _Pragma("GCC unroll 4") for (size_t c = 0; c < count; c++) products[c][i] = \
        vdotq_laneq_s32(products[c][i], x, quants[c], lane);                    \
  }
LANES_SPECIALISE void panel_products(struct panel_sums *sums, const void *units,
                                     const unsigned char *const *activations, size_t at, size_t second, uint32_t bits,
                                     size_t count) {
  const int8_t *weights = units;
  int32x4_t products[4][4];
#pragma GCC unroll 4
  for (size_t c = 0; c < count; c++) {
    int32x4_t start = vdupq_n_s32(INTEGER_BASE);
    if (bits == 8) {
      const int8x16_t offset = vdupq_n_s8(-128);
      const int8_t *quants = (const int8_t *)activations[c] + at;
      const int32x4_t sum =
          vdotq_s32(vdotq_s32(vdupq_n_s32(0), offset, vld1q_s8(quants)), offset, vld1q_s8(quants + second));
      start = vsubq_s32(start, vdupq_n_s32(vaddvq_s32(sum)));
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) products[c][i] = start;
  }
#pragma GCC unroll 2
  for (size_t half = 0; half < 2; half++, weights += 256) {
    int8x16_t quants[4];
#pragma GCC unroll 4
    for (size_t c = 0; c < count; c++) quants[c] = vld1q_s8((const int8_t *)activations[c] + at + half * second);
    PANEL_UNIT(0)
    PANEL_UNIT(1)
    PANEL_UNIT(2)
    PANEL_UNIT(3)
  }
#pragma GCC unroll 4
  for (size_t c = 0; c < count; c++)
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) sums[c].sums.val[i] = products[c][i];
}
#undef PANEL_UNIT

#endif

#endif

/* Armv8.2 Advanced SIMD with dot products: sixteen lanes are four registers of four. */
#include <arm_neon.h>
#include <string.h>

#include "compute/cpu/features.h"
#include "compute/cpu/kernels.h"
#include "compute/number.h"

#define COLUMNS_AT_ONCE 4
#define PRODUCT_TILE 4
#define PANEL_VECTORS 1
#define PANEL_COLUMNS 4
#define PANEL_WORTHWHILE 10

typedef float32x4x4_t floats;
typedef uint8x16x4_t packed;
typedef int32x4x4_t integers;

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

/* How many activation groups share a scale, as a shift. */
typedef struct {
  size_t shift;
} spreading;
static inline spreading spreading_of(size_t groups) { return (spreading){groups == 16 ? 0 : groups == 8 ? 1 : 2}; }
static inline floats load_number_first(enum number_type type, const void *x, size_t count);
static inline floats load_spread(enum number_type type, const void *scales, size_t count, spreading how) {
  float numbers[CPU_LANES], spread[CPU_LANES];
  store(numbers, load_number_first(type, scales, count));
  for (size_t a = 0; a < CPU_LANES; a++) spread[activation_lane(a)] = numbers[a >> how.shift];
  return load(spread);
}

static inline packed load_packed(const void *x) { return vld1q_u8_x4(x); }
static inline void store_packed(void *out, packed x) { vst1q_u8_x4(out, x); }
static inline packed load_packed_first(const void *x, size_t bytes) {
  unsigned char block[64] = {0};
  memcpy(block, x, bytes);
  return load_packed(block);
}

/* SDOT multiplies signed bytes: weights of 4 bits fit, those of 8 bits are taken minus 128, which products() corrects.
 */
struct weights {
  int8x16x4_t low, high;
};
static inline struct weights unpack(packed x, uint32_t bits) {
  struct weights weights;
  for (int i = 0; i < 4; i++) {
    if (bits == 4) {
      weights.low.val[i] = vreinterpretq_s8_u8(vandq_u8(x.val[i], vdupq_n_u8(15)));
      weights.high.val[i] = vreinterpretq_s8_u8(vshrq_n_u8(x.val[i], 4));
    } else {
      weights.low.val[i] = vreinterpretq_s8_u8(veorq_u8(x.val[i], vdupq_n_u8(0x80)));
      weights.high.val[i] = weights.low.val[i];
    }
  }
  return weights;
}
static inline int32x4_t products_of_four(int8x16_t low, int8x16_t high, const int8_t *quants, uint32_t bits) {
  const int32x4_t none = vdupq_n_s32(0);
  const int8x16_t first = vld1q_s8(quants);
  const int32x4_t sum = vdotq_s32(none, low, first);
  if (bits == 4) return vdotq_s32(sum, high, vld1q_s8(quants + 64));
  return vsubq_s32(sum, vdotq_s32(none, vdupq_n_s8(-128), first));
}
static inline integers products(struct weights x, const int8_t *quants, uint32_t bits) {
  return (integers){{products_of_four(x.low.val[0], x.high.val[0], quants, bits),
                     products_of_four(x.low.val[1], x.high.val[1], quants + 16, bits),
                     products_of_four(x.low.val[2], x.high.val[2], quants + 32, bits),
                     products_of_four(x.low.val[3], x.high.val[3], quants + 48, bits)}};
}
static inline integers no_products(void) {
  const int32x4_t none = vdupq_n_s32(0);
  return (integers){{none, none, none, none}};
}
static inline floats to_floats(integers x) {
  return (floats){{vcvtq_f32_s32(x.val[0]), vcvtq_f32_s32(x.val[1]), vcvtq_f32_s32(x.val[2]), vcvtq_f32_s32(x.val[3])}};
}
static inline integers add_quarters(integers x, integers y, integers z, integers w) {
  integers result;
  for (int q = 0; q < 4; q++)
    result.val[q] = vpaddq_s32(vpaddq_s32(x.val[q], y.val[q]), vpaddq_s32(z.val[q], w.val[q]));
  return result;
}
static inline integers add_pairs(integers x, integers y) {
  return (integers){{vaddq_s32(x.val[0], x.val[1]), vaddq_s32(x.val[2], x.val[3]), vaddq_s32(y.val[0], y.val[1]),
                     vaddq_s32(y.val[2], y.val[3])}};
}

/* Storing four registers by turns transposes the rows of four numbers within them. */
static inline void transpose(floats *x) {
  float numbers[CPU_LANES][CPU_LANES];
  for (int row = 0; row < CPU_LANES; row += 4)
    for (int quarter = 0; quarter < 4; quarter++) {
      float turned[4][4];
      const float32x4x4_t rows = {
          {x[row].val[quarter], x[row + 1].val[quarter], x[row + 2].val[quarter], x[row + 3].val[quarter]}};
      vst4q_f32(&turned[0][0], rows);
      for (int i = 0; i < 4; i++) memcpy(&numbers[4 * quarter + i][row], turned[i], sizeof turned[i]);
    }
  for (int i = 0; i < CPU_LANES; i++) x[i] = load(numbers[i]);
}

struct panel_sums {
  integers low, high; /* at 8 bits `high` is of the upper halves of the bytes */
};
static inline struct panel_sums no_panel_sums(void) { return (struct panel_sums){no_products(), no_products()}; }
static inline void add_panel_products(struct panel_sums *sums, packed weights, const void *four, uint32_t bits) {
  int32_t bytes;
  memcpy(&bytes, four, sizeof bytes);
  const int8x16_t quants = vreinterpretq_s8_s32(vdupq_n_s32(bytes));
  for (int i = 0; i < 4; i++) {
    const uint8x16_t low = bits == 4 ? weights.val[i] : vandq_u8(weights.val[i], vdupq_n_u8(15));
    sums->low.val[i] = vdotq_s32(sums->low.val[i], vreinterpretq_s8_u8(low), quants);
    if (bits == 8)
      sums->high.val[i] = vdotq_s32(sums->high.val[i], vreinterpretq_s8_u8(vshrq_n_u8(weights.val[i], 4)), quants);
  }
}
static inline integers panel_integers(struct panel_sums sums, uint32_t bits) {
  if (bits == 8)
    for (int i = 0; i < 4; i++) sums.low.val[i] = vaddq_s32(sums.low.val[i], vshlq_n_s32(sums.high.val[i], 4));
  return sums.low;
}

#define LANES_NAME "neon"
#include "compute/cpu/lanes.h"

const struct cpu_kernels *cpu_kernels_neon(void) { return cpu_has_neon_dotprod() ? &table : NULL; }

/* AVX2 with FMA and F16C: sixteen lanes are two registers, `a` the lanes 0 … 7 and `b` the lanes 8 … 15. */
#include <immintrin.h>
#include <string.h>

#include "compute/cpu/features.h"
#include "compute/cpu/kernels.h"
#include "compute/number.h"

#define COLUMNS_AT_ONCE 4
#define PRODUCT_TILE 4
#define PANEL_VECTORS 1
#define PANEL_COLUMNS 4
#define PANEL_WORTHWHILE 10

typedef struct {
  __m256 a, b;
} floats;

typedef struct {
  __m256i a, b;
} packed, integers;

static inline floats zero(void) { return (floats){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
static inline floats broadcast(float x) { return (floats){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline floats load(const float *x) { return (floats){_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)}; }
static inline void store(float *out, floats x) {
  _mm256_storeu_ps(out, x.a);
  _mm256_storeu_ps(out + 8, x.b);
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
static inline floats load_f16(const void *x) {
  __m256i halves = _mm256_loadu_si256(x);
  return (floats){_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
                  _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}
static inline __m256 from_bf16(__m128i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
static inline floats load_bf16(const void *x) {
  __m256i halves = _mm256_loadu_si256(x);
  return (floats){from_bf16(_mm256_castsi256_si128(halves)), from_bf16(_mm256_extracti128_si256(halves, 1))};
}
static inline void store_f16(uint16_t *out, floats x) {
  __m128i a = _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT), b = _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT);
  _mm256_storeu_si256((__m256i *)(void *)out, _mm256_set_m128i(b, a));
}

static inline floats fused(floats x, floats y, floats z) {
  return (floats){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
static inline floats add(floats x, floats y) { return (floats){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
static inline floats subtract(floats x, floats y) { return (floats){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
static inline floats multiply(floats x, floats y) { return (floats){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
static inline floats divide(floats x, floats y) { return (floats){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
static inline floats negate(floats x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return (floats){_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign)};
}
/* vmaxps gives its second operand where the comparison is false or one is NaN. */
static inline floats maximum(floats x, floats y) { return (floats){_mm256_max_ps(y.a, x.a), _mm256_max_ps(y.b, x.b)}; }
static inline floats round_even(floats x) {
  enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
  return (floats){_mm256_round_ps(x.a, NEAREST), _mm256_round_ps(x.b, NEAREST)};
}
static inline __m256 scale_half(__m256 x, __m256 n) {
  /* 2^n can lie beyond the exponents of f32, its halves cannot. */
  __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), bias = _mm256_set1_epi32(127);
  __m256i rest = _mm256_sub_epi32(whole, half);
  x = _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
  return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23)));
}
static inline floats scale_by_power(floats x, floats n) { return (floats){scale_half(x.a, n.a), scale_half(x.b, n.b)}; }
static inline floats choose_less(floats x, floats y, floats yes, floats no) {
  return (floats){_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
                  _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}

static inline float tree(floats x) {
  __m256 eight = _mm256_add_ps(x.a, x.b);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two))) + 0.0f;
}

static inline __m256i magnitude_bits(__m256 x) {
  return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}
static inline uint32_t largest_magnitude(floats x, floats y) {
  __m256i eight = _mm256_max_epu32(_mm256_max_epu32(magnitude_bits(x.a), magnitude_bits(x.b)),
                                   _mm256_max_epu32(magnitude_bits(y.a), magnitude_bits(y.b)));
  __m128i four = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  __m128i two = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
  return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(two, _mm_shuffle_epi32(two, 0xb1)));
}
static inline void round_to_bytes(int8_t *out, floats x, floats y) {
  __m256i first = _mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b));
  __m256i second = _mm256_packs_epi32(_mm256_cvtps_epi32(y.a), _mm256_cvtps_epi32(y.b));
  /* Packing works within each half of a register; fours of numbers are put in order at the end. */
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, second), order);
  _mm256_storeu_si256((__m256i *)(void *)out, bytes);
}

/* Within each half of a register the even bytes come first, then the halves' parts are joined. */
static inline void split_pairs(int8_t *even, int8_t *odd, const int8_t *pairs) {
  const __m256i apart =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
  __m256i bytes = _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)(const void *)pairs), apart);
  bytes = _mm256_permute4x64_epi64(bytes, 0xd8);
  _mm_storeu_si128((__m128i *)(void *)even, _mm256_castsi256_si128(bytes));
  _mm_storeu_si128((__m128i *)(void *)odd, _mm256_extracti128_si256(bytes, 1));
}

/* Which of a super-block's scales each lane takes. */
typedef struct {
  __m256i a, b;
} spreading;
static inline spreading spreading_of(size_t groups) {
  const __m128i shift = _mm_cvtsi32_si128(groups == 16 ? 0 : groups == 8 ? 1 : 2);
  /* The activation group of each lane. */
  return (spreading){_mm256_srl_epi32(_mm256_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13), shift),
                     _mm256_srl_epi32(_mm256_setr_epi32(2, 6, 10, 14, 3, 7, 11, 15), shift)};
}
/* Lane l = x[indices[l]], of sixteen. */
static inline __m256 pick(floats x, __m256i indices) {
  const __m256 second = _mm256_permutevar8x32_ps(x.b, indices);
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(x.a, indices), second,
                          _mm256_castsi256_ps(_mm256_slli_epi32(indices, 28)));
}
static inline floats load_number_first(enum number_type type, const void *x, size_t count);
static inline floats load_spread(enum number_type type, const void *scales, size_t count, spreading how) {
  const floats numbers = load_number_first(type, scales, count);
  return (floats){pick(numbers, how.a), pick(numbers, how.b)};
}

static inline packed load_packed(const void *x) {
  return (packed){_mm256_loadu_si256(x), _mm256_loadu_si256((const __m256i *)x + 1)};
}
static inline void store_packed(void *out, packed x) {
  _mm256_storeu_si256(out, x.a);
  _mm256_storeu_si256((__m256i *)out + 1, x.b);
}
static inline packed load_packed_first(const void *x, size_t bytes) {
  unsigned char block[64] = {0};
  memcpy(block, x, bytes);
  return load_packed(block);
}

/* Both widths are multiplied as halves of a byte, since the 16-bit sums of vpmaddubsw would overflow with whole bytes:
 * at 4 bits the halves are two columns' weights, at 8 bits one weight is low + 16 · high. */
struct weights {
  packed low, high;
};
static inline struct weights unpack(packed x, uint32_t bits) {
  (void)bits;
  const __m256i mask = _mm256_set1_epi8(15);
  return (struct weights){
      {_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)},
      {_mm256_and_si256(_mm256_srli_epi16(x.a, 4), mask), _mm256_and_si256(_mm256_srli_epi16(x.b, 4), mask)}};
}
static inline __m256i products_of_half(__m256i low, __m256i high, const int8_t *quants, uint32_t bits) {
  const __m256i ones = _mm256_set1_epi16(1), sixteens = _mm256_set1_epi16(16);
  __m256i first = _mm256_load_si256((const __m256i *)(const void *)quants);
  low = _mm256_maddubs_epi16(low, first);
  if (bits == 4) {
    high = _mm256_maddubs_epi16(high, _mm256_load_si256((const __m256i *)(const void *)(quants + 64)));
    return _mm256_madd_epi16(_mm256_add_epi16(low, high), ones);
  }
  high = _mm256_madd_epi16(_mm256_maddubs_epi16(high, first), sixteens);
  return _mm256_add_epi32(_mm256_madd_epi16(low, ones), high);
}
static inline integers products(struct weights x, const int8_t *quants, uint32_t bits) {
  return (integers){products_of_half(x.low.a, x.high.a, quants, bits),
                    products_of_half(x.low.b, x.high.b, quants + 32, bits)};
}
static inline integers no_products(void) { return (integers){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
static inline floats to_floats(integers x) { return (floats){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
static inline integers add_quarters(integers x, integers y, integers z, integers w) {
  return (integers){_mm256_hadd_epi32(_mm256_hadd_epi32(x.a, y.a), _mm256_hadd_epi32(z.a, w.a)),
                    _mm256_hadd_epi32(_mm256_hadd_epi32(x.b, y.b), _mm256_hadd_epi32(z.b, w.b))};
}
static inline __m256i add_pair(integers x) {
  return _mm256_add_epi32(_mm256_permute2x128_si256(x.a, x.b, 0x20), _mm256_permute2x128_si256(x.a, x.b, 0x31));
}
static inline integers add_pairs(integers x, integers y) { return (integers){add_pair(x), add_pair(y)}; }

/* A square of 8 × 8 numbers, x[0], x[2] … x[14] by their halves `b` or `a` as `column` tells. */
static inline __attribute__((always_inline)) void transpose_eight(__m256 *out, const __m256 *x) {
  __m256 pairs[8], fours[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    out[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    out[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
}
static inline __attribute__((always_inline)) void transpose(floats *x) {
  __m256 in[8], quarters[4][8];
  for (int quarter = 0; quarter < 4; quarter++) {
    const floats *rows = x + quarter / 2 * 8;
    for (int i = 0; i < 8; i++) in[i] = quarter % 2 ? rows[i].b : rows[i].a;
    transpose_eight(quarters[quarter], in);
  }
  for (int i = 0; i < 8; i++) {
    x[i] = (floats){quarters[0][i], quarters[2][i]};
    x[8 + i] = (floats){quarters[1][i], quarters[3][i]};
  }
}

/* Sums of sixteen bits hold an activation group's products of half bytes: 8 · 2 · 15 · 127 = 30480. */
struct panel_sums {
  packed low, high; /* at 8 bits `high` is of the upper halves */
};
static inline struct panel_sums no_panel_sums(void) { return (struct panel_sums){no_products(), no_products()}; }
static inline void add_panel_products(struct panel_sums *sums, packed weights, const void *four, uint32_t bits) {
  int32_t bytes;
  memcpy(&bytes, four, sizeof bytes);
  const __m256i quants = _mm256_set1_epi32(bytes);
  struct weights halves = {weights, weights};
  if (bits == 8) {
    halves = unpack(weights, 8);
    sums->high.a = _mm256_add_epi16(sums->high.a, _mm256_maddubs_epi16(halves.high.a, quants));
    sums->high.b = _mm256_add_epi16(sums->high.b, _mm256_maddubs_epi16(halves.high.b, quants));
  }
  sums->low.a = _mm256_add_epi16(sums->low.a, _mm256_maddubs_epi16(halves.low.a, quants));
  sums->low.b = _mm256_add_epi16(sums->low.b, _mm256_maddubs_epi16(halves.low.b, quants));
}
static inline integers panel_integers(struct panel_sums sums, uint32_t bits) {
  const __m256i ones = _mm256_set1_epi16(1), sixteens = _mm256_set1_epi16(16);
  integers result = {_mm256_madd_epi16(sums.low.a, ones), _mm256_madd_epi16(sums.low.b, ones)};
  if (bits == 4) return result;
  return (integers){_mm256_add_epi32(result.a, _mm256_madd_epi16(sums.high.a, sixteens)),
                    _mm256_add_epi32(result.b, _mm256_madd_epi16(sums.high.b, sixteens))};
}

#define LANES_NAME "avx2"
#include "compute/cpu/lanes.h"

const struct cpu_kernels *cpu_kernels_avx2(void) { return cpu_has_avx2() ? &table : NULL; }

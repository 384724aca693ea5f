/* AVX-512 with VNNI: sixteen lanes are one register. */
#include "compute/cpu/lanes_x86.h"

typedef __m512 floats;
typedef __m512i packed;
typedef __m512i integers;

#define COLUMNS_AT_ONCE 8
#define ATTENTION_QUERIES 8
#define PRODUCT_TILE 16
#define PANEL_VECTORS 2
#define PANEL_COLUMNS 8
#define PANEL_WORTHWHILE 10

static inline __mmask16 first_lanes(size_t count) { return (__mmask16)((1u << count) - 1); }

static inline floats zero(void) { return _mm512_setzero_ps(); }
static inline floats broadcast(float x) { return _mm512_set1_ps(x); }
static inline floats load(const float *x) { return _mm512_loadu_ps(x); }
static inline floats load_first(const float *x, size_t count, float rest) {
  return _mm512_mask_loadu_ps(_mm512_set1_ps(rest), first_lanes(count), x);
}
static inline void store(float *out, floats x) { _mm512_storeu_ps(out, x); }
static inline void store_first(float *out, floats x, size_t count) {
  _mm512_mask_storeu_ps(out, first_lanes(count), x);
}
static inline floats load_f16(const void *x) { return _mm512_cvtph_ps(_mm256_loadu_si256(x)); }
static inline floats load_bf16(const void *x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(x)), 16));
}
static inline void store_f16(uint16_t *out, floats x) {
  _mm256_storeu_si256((__m256i *)(void *)out, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline floats fused(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
static inline floats add(floats a, floats b) { return _mm512_add_ps(a, b); }
static inline floats subtract(floats a, floats b) { return _mm512_sub_ps(a, b); }
static inline floats multiply(floats a, floats b) { return _mm512_mul_ps(a, b); }
static inline floats divide(floats a, floats b) { return _mm512_div_ps(a, b); }
static inline floats negate(floats x) { return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f)); }
/* vmaxps gives its second operand where the comparison is false or one is NaN. */
static inline floats maximum(floats a, floats b) { return _mm512_max_ps(b, a); }
static inline floats round_even(floats x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline floats scale_by_power(floats x, floats n) { return _mm512_scalef_ps(x, n); }
static inline floats choose_less(floats a, floats b, floats yes, floats no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}

static inline float tree(floats x) {
  return tree_of_eight(_mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
}

static inline uint32_t largest_magnitude(floats a, floats b) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  __m512i both = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                                  _mm512_and_si512(_mm512_castps_si512(b), magnitude));
  return _mm512_reduce_max_epu32(both);
}
static inline void round_to_bytes(int8_t *out, floats x, floats y) {
  __m128i first = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)), second = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(y));
  _mm256_storeu_si256((__m256i *)(void *)out, _mm256_set_m128i(second, first));
}

/* Which of a super-block's scales each lane takes: as dwords, and as the upper words of dwords. */
typedef struct {
  __m512i dwords, words;
} spreading;
static inline spreading spreading_of(size_t groups) {
  /* The activation group of each lane. */
  const __m512i group = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i dwords = _mm512_srlv_epi32(group, _mm512_set1_epi32(groups == 16 ? 0 : groups == 8 ? 1 : 2));
  return (spreading){dwords, _mm512_slli_epi32(dwords, 16)};
}
static inline floats load_spread(enum number_type type, const void *scales, size_t count, spreading how) {
  if (type == NUMBER_F32) return _mm512_permutexvar_ps(how.dwords, _mm512_maskz_loadu_ps(first_lanes(count), scales));
  const __m512i words = _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(first_lanes(count), scales));
  /* The upper half of a bf16's f32 is the bf16. */
  const __m512i spread = _mm512_maskz_permutexvar_epi16(0xaaaaaaaau, how.words, words);
  if (type == NUMBER_BF16) return _mm512_castsi512_ps(spread);
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(spread, 16)));
}

static inline packed load_packed(const void *x) { return _mm512_loadu_si512(x); }
static inline void store_packed(void *out, packed x) { _mm512_storeu_si512(out, x); }
static inline packed load_packed_first(const void *x, size_t bytes) {
  return _mm512_maskz_loadu_epi32(first_lanes(bytes / 4), x);
}

struct weights {
  __m512i low, high;
};
static inline struct weights unpack(packed x, uint32_t bits) {
  if (bits == 8) return (struct weights){x, x};
  const __m512i mask = _mm512_set1_epi8(15);
  return (struct weights){_mm512_and_si512(x, mask), _mm512_and_si512(_mm512_srli_epi16(x, 4), mask)};
}
/* Of each lane's bytes with a block's quants. */
static inline integers products(struct weights x, const int8_t *quants, uint32_t bits) {
  __m512i sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), x.low, _mm512_load_si512(quants));
  if (bits == 4) sum = _mm512_dpbusd_epi32(sum, x.high, _mm512_load_si512(quants + 64));
  return sum;
}
static inline floats to_floats(integers x) { return _mm512_cvtepi32_ps(x); }
/* Lane 4 q + k = the sum of lanes 4 q … 4 q + 3 of the kth. */
static inline integers add_quarters(integers a, integers b, integers c, integers d) {
  const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}
/* Lanes 4 q … 4 q + 3 = those of quarters 2 q and 2 q + 1 of a, added; then of b. */
static inline integers add_pairs(integers a, integers b) {
  return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

/* All weights of a super-block are unpacked once, and stay in registers for all activations. */
LANES_SPECIALISE void super_integers(integers *sums, const unsigned char *data, size_t bytes,
                                     const int8_t *const *quants, uint32_t bits, size_t count) {
  enum { BLOCKS_MAX = 8 };
  const size_t blocks = bits == 4 ? 4 : 8, block_quants = bits == 4 ? 128 : 64;
  struct weights weights[BLOCKS_MAX];
#pragma GCC unroll 8
  for (size_t b = 0; b < blocks; b++) {
    const size_t at = b * BLOCK_BYTES;
    if (bytes >= at + BLOCK_BYTES) {
      __builtin_prefetch(data + at + PREFETCH_AHEAD);
      weights[b] = unpack(load_packed(data + at), bits);
    } else {
      weights[b] = unpack(load_packed_first(data + at, bytes > at ? bytes - at : 0), bits);
    }
  }
#pragma GCC unroll 8
  for (size_t c = 0; c < count; c++) {
    integers parts[BLOCKS_MAX];
#pragma GCC unroll 8
    for (size_t b = 0; b < blocks; b++)
      parts[b] =
          bytes > b * BLOCK_BYTES ? products(weights[b], quants[c] + b * block_quants, bits) : _mm512_setzero_si512();
    sums[c] = bits == 4 ? add_quarters(parts[0], parts[1], parts[2], parts[3])
                        : add_pairs(add_quarters(parts[0], parts[2], parts[4], parts[6]),
                                    add_quarters(parts[1], parts[3], parts[5], parts[7]));
  }
}

/* Within the quarters of registers, then the quarters themselves. */
LANES_SPECIALISE void transpose(floats *x) {
  __m512 pairs[16], fours[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    const __m512d a = _mm512_castps_pd(pairs[i]), b = _mm512_castps_pd(pairs[i + 2]);
    const __m512d c = _mm512_castps_pd(pairs[i + 1]), d = _mm512_castps_pd(pairs[i + 3]);
    fours[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
    fours[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    fours[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(c, d));
    fours[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(c, d));
  }
  /* Quarter q of fours[i + c] is column 4 q + c of rows i … i + 3. */
#pragma GCC unroll 4
  for (int c = 0; c < 4; c++) {
    const __m512 a = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0x88);
    const __m512 b = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0xdd);
    const __m512 d = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0x88);
    const __m512 e = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0xdd);
    x[c] = _mm512_shuffle_f32x4(a, d, 0x88);
    x[4 + c] = _mm512_shuffle_f32x4(b, e, 0x88);
    x[8 + c] = _mm512_shuffle_f32x4(a, d, 0xdd);
    x[12 + c] = _mm512_shuffle_f32x4(b, e, 0xdd);
  }
}

struct panel_sums {
  __m512i sums;
};
static inline struct panel_sums no_panel_sums(void) { return (struct panel_sums){_mm512_setzero_si512()}; }
static inline void add_panel_products(struct panel_sums *sums, packed weights, const void *four, uint32_t bits) {
  int32_t quants;
  (void)bits;
  memcpy(&quants, four, sizeof quants);
  sums->sums = _mm512_dpbusd_epi32(sums->sums, weights, _mm512_set1_epi32(quants));
}
static inline integers panel_integers(struct panel_sums sums, uint32_t bits) {
  (void)bits;
  return sums.sums;
}

#define LANES_NAME "avx512"
#include "compute/cpu/lanes.h"

const struct cpu_kernels *cpu_kernels_avx512(void) { return cpu_has_avx512() ? &table : NULL; }

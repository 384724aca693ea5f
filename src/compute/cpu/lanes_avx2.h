/* Sixteen lanes on AVX2 with FMA and F16C: two registers, `a` the lanes 0 … 7 and `b` the lanes 8 … 15. The part of
 * lanes.h's operations that avx2.c and avxvnni.c share; lanes_avx2_super.h is another. */
#ifndef KAIJU_COMPUTE_CPU_LANES_AVX2_H
#define KAIJU_COMPUTE_CPU_LANES_AVX2_H

#include "compute/cpu/lanes_x86.h"

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
/* All bits set in the first `count` lanes of eight, none for a negative count. */
static inline __m256i first_of_eight(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline floats load_first(const float *x, size_t count, float rest) {
  const __m256i a = first_of_eight((int)count), b = first_of_eight((int)count - 8);
  const __m256 others = _mm256_set1_ps(rest);
  return (floats){_mm256_blendv_ps(others, _mm256_maskload_ps(x, a), _mm256_castsi256_ps(a)),
                  _mm256_blendv_ps(others, _mm256_maskload_ps(x + 8, b), _mm256_castsi256_ps(b))};
}
static inline void store_first(float *out, floats x, size_t count) {
  _mm256_maskstore_ps(out, first_of_eight((int)count), x.a);
  _mm256_maskstore_ps(out + 8, first_of_eight((int)count - 8), x.b);
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

static inline float tree(floats x) { return tree_of_eight(_mm256_add_ps(x.a, x.b)); }

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

/* The first `count` of at most eight words, then zeros. */
static inline __m128i load_words(const void *x, size_t count) {
  if (count >= 8) return _mm_loadu_si128(x);
  if (count == 4) return _mm_loadl_epi64(x);
  const __m128i pairs = _mm_cmpgt_epi32(_mm_set1_epi32((int)(count / 2)), _mm_setr_epi32(0, 1, 2, 3));
  const __m128i words = _mm_maskload_epi32(x, pairs);
  if (count % 2 == 0) return words;
  int16_t last;
  memcpy(&last, (const unsigned char *)x + 2 * (count - 1), sizeof last);
  const __m128i place = _mm_cmpeq_epi16(_mm_set1_epi16((short)(count - 1)), _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7));
  return _mm_or_si128(words, _mm_and_si128(_mm_set1_epi16(last), place));
}
static inline __m128i load_words_after_eight(const void *x, size_t count) {
  return count > 8 ? load_words((const unsigned char *)x + 16, count - 8) : _mm_setzero_si128();
}
#define FIRST_NUMBERS
static inline floats load_number_first(enum number_type type, const void *x, size_t count) {
  if (type == NUMBER_F32) return load_first(x, count, 0.0f);
  const __m128i a = load_words(x, count), b = load_words_after_eight(x, count);
  if (type == NUMBER_F16) return (floats){_mm256_cvtph_ps(a), _mm256_cvtph_ps(b)};
  return (floats){from_bf16(a), from_bf16(b)};
}

/* Which of a super-block's scales each lane takes: as the number of a lane; and as the bytes by which a word becomes
 * the upper word of a dword, where it is among the first eight words and where among the others. */
typedef struct {
  packed lanes, first, others;
  bool sixteen; /* else there are no others */
} spreading;
static inline __m256i word_choice(__m256i words, bool others) {
  const __m256i bytes =
      _mm256_add_epi32(_mm256_mullo_epi32(words, _mm256_set1_epi32(0x02020000)), _mm256_set1_epi32(0x01008080));
  const __m256i beyond = _mm256_cmpgt_epi32(words, _mm256_set1_epi32(7)), none = _mm256_set1_epi8(-128);
  return _mm256_or_si256(bytes, others ? _mm256_andnot_si256(beyond, none) : _mm256_and_si256(beyond, none));
}
static inline spreading spreading_of(size_t groups) {
  const __m128i shift = _mm_cvtsi32_si128(groups == 16 ? 0 : groups == 8 ? 1 : 2);
  /* The activation group of each lane. */
  const __m256i a = _mm256_srl_epi32(_mm256_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13), shift);
  const __m256i b = _mm256_srl_epi32(_mm256_setr_epi32(2, 6, 10, 14, 3, 7, 11, 15), shift);
  return (spreading){.lanes = {a, b},
                     .first = {word_choice(a, false), word_choice(b, false)},
                     .others = {word_choice(a, true), word_choice(b, true)},
                     .sixteen = groups == 16};
}
/* Lane l = x[indices[l]], of sixteen. */
static inline __m256 pick(floats x, __m256i indices) {
  const __m256 second = _mm256_permutevar8x32_ps(x.b, indices);
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(x.a, indices), second,
                          _mm256_castsi256_ps(_mm256_slli_epi32(indices, 28)));
}
static inline floats load_spread(enum number_type type, const void *scales, size_t count, spreading how) {
  if (type == NUMBER_F32) {
    const floats numbers = count < CPU_LANES ? load_first(scales, count, 0.0f) : load(scales);
    return (floats){pick(numbers, how.lanes.a), pick(numbers, how.lanes.b)};
  }
  __m256i words = _mm256_broadcastsi128_si256(load_words(scales, count));
  __m256i a = _mm256_shuffle_epi8(words, how.first.a), b = _mm256_shuffle_epi8(words, how.first.b);
  if (how.sixteen) {
    words = _mm256_broadcastsi128_si256(load_words_after_eight(scales, count));
    a = _mm256_or_si256(a, _mm256_shuffle_epi8(words, how.others.a));
    b = _mm256_or_si256(b, _mm256_shuffle_epi8(words, how.others.b));
  }
  /* The upper half of a bf16's f32 is the bf16. */
  if (type == NUMBER_BF16) return (floats){_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)};
  const __m256i halves = _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16));
  const __m256i ordered = _mm256_permute4x64_epi64(halves, 0xd8);
  return (floats){_mm256_cvtph_ps(_mm256_castsi256_si128(ordered)),
                  _mm256_cvtph_ps(_mm256_extracti128_si256(ordered, 1))};
}

static inline packed load_packed(const void *x) {
  return (packed){_mm256_loadu_si256(x), _mm256_loadu_si256((const __m256i *)x + 1)};
}
static inline void store_packed(void *out, packed x) {
  _mm256_storeu_si256(out, x.a);
  _mm256_storeu_si256((__m256i *)out + 1, x.b);
}
/* Weights come in sixteens of bytes. */
static inline __m256i load_part(const void *x, size_t at, size_t bytes) {
  const unsigned char *from = (const unsigned char *)x + at;
  if (bytes >= at + 32) return _mm256_loadu_si256((const __m256i *)(const void *)from);
  if (bytes > at) return _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)from));
  return _mm256_setzero_si256();
}
static inline packed load_packed_first(const void *x, size_t bytes) {
  return (packed){load_part(x, 0, bytes), load_part(x, 32, bytes)};
}

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
static inline integers no_products(void) { return (integers){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
static inline floats to_floats(integers x) { return (floats){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }

/* A square of 8 × 8 numbers. */
LANES_SPECIALISE void transpose_eight(__m256 *out, const __m256 *x) {
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
LANES_SPECIALISE void transpose(floats *x) {
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

/* Of eight rows; a step adds up the halves of what is left of two rows side by side. */
LANES_SPECIALISE __m256 trees_of_eight(const floats *rows) {
  __m256 eights[8], fours[4], twos[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) eights[i] = _mm256_add_ps(rows[i].a, rows[i].b);
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
    fours[i] = _mm256_add_ps(_mm256_blend_ps(eights[i], eights[i + 4], 0xf0),
                             _mm256_permute2f128_ps(eights[i], eights[i + 4], 0x21));
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++)
    twos[i] = _mm256_add_ps(_mm256_shuffle_ps(fours[2 * i], fours[2 * i + 1], 0x44),
                            _mm256_shuffle_ps(fours[2 * i], fours[2 * i + 1], 0xee));
  return _mm256_add_ps(_mm256_shuffle_ps(twos[0], twos[1], 0x88), _mm256_shuffle_ps(twos[0], twos[1], 0xdd));
}
#define TREES
LANES_SPECIALISE floats trees(floats *rows) {
  return add((floats){trees_of_eight(rows), trees_of_eight(rows + 8)}, zero());
}

/* Every second dword of x, then of y, within halves of a register. */
static inline __m256i even_dwords(__m256i x, __m256i y) {
  return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(x), _mm256_castsi256_ps(y), 0x88));
}
static inline __m256i odd_dwords(__m256i x, __m256i y) {
  return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(x), _mm256_castsi256_ps(y), 0xdd));
}
/* The second quarter of x and the first of y, of two in each half of a register; and the others. */
static inline __m256i inner_quarters(__m256i x, __m256i y) { return _mm256_alignr_epi8(y, x, 8); }
static inline __m256i outer_quarters(__m256i x, __m256i y) { return _mm256_blend_epi32(x, y, 0xcc); }
/* Per half of a register, dword k = the sum of the dwords of x[k]. */
static inline __m256i join_dwords(const __m256i *x) {
  const __m256i a = _mm256_add_epi32(inner_quarters(x[0], x[1]), outer_quarters(x[0], x[1]));
  const __m256i b = _mm256_add_epi32(inner_quarters(x[2], x[3]), outer_quarters(x[2], x[3]));
  return _mm256_add_epi32(even_dwords(a, b), odd_dwords(a, b));
}

#endif

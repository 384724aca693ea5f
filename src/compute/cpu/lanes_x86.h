/* What AVX2 and AVX-512 share of the operations of lanes.h. */
#ifndef KAIJU_COMPUTE_CPU_LANES_X86_H
#define KAIJU_COMPUTE_CPU_LANES_X86_H

#include <immintrin.h>

#include "compute/cpu/lanes_base.h"

/* The rest of the tree from lanes l and l + 8 added. */
static inline float tree_of_eight(__m256 eight) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two))) + 0.0f;
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

#endif

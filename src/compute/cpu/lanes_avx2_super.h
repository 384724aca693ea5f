/* super_integers of lanes.h on AVX2. Sixteen registers do not hold the weights of a whole super-block, so a part of
 * them is multiplied with all activations before the next is loaded.
 *
 * The including file defines, of registers of 32 bytes:
 *   nibble_products(low, high, q, r)   the sums of low · q + high · r, to be joined
 *   join_nibbles(x)                    per half of a register, dword k = all of the half of x[k], k < 4
 *   struct byte_weights, unpack_bytes(x), byte_products(weights, q)   each dword's sum of four bytes × int8
 */
#ifndef KAIJU_COMPUTE_CPU_LANES_AVX2_SUPER_H
#define KAIJU_COMPUTE_CPU_LANES_AVX2_SUPER_H

static inline __m256i load_quants(const int8_t *quants) {
  return _mm256_load_si256((const __m256i *)(const void *)quants);
}

/* The halves, `half` = 0 or 1, of the four blocks at 4 bits: lanes 8 · half … */
LANES_SPECIALISE void nibble_sums(integers *sums, const unsigned char *data, size_t bytes, const int8_t *const *quants,
                                  size_t half, size_t count) {
  const __m256i mask = _mm256_set1_epi8(15);
  __m256i low[4], high[4];
#pragma GCC unroll 4
  for (size_t b = 0; b < 4; b++) {
    const size_t at = 64 * b + 32 * half;
    if (half == 0 && bytes > at) __builtin_prefetch(data + at + PREFETCH_AHEAD);
    const __m256i part = load_part(data, at, bytes);
    low[b] = _mm256_and_si256(part, mask);
    high[b] = _mm256_and_si256(_mm256_srli_epi16(part, 4), mask);
  }
#pragma GCC unroll 4
  for (size_t c = 0; c < count; c++) {
    __m256i products[4];
#pragma GCC unroll 4
    for (size_t b = 0; b < 4; b++) {
      const int8_t *q = quants[c] + 128 * b + 32 * half;
      products[b] = bytes > 64 * b + 32 * half ? nibble_products(low[b], high[b], load_quants(q), load_quants(q + 64))
                                               : _mm256_setzero_si256();
    }
    if (half == 0)
      sums[c].a = join_nibbles(products);
    else
      sums[c].b = join_nibbles(products);
  }
}

/* Activation groups first, first + 4 … first + 12 at 8 bits, of which each is a register: in either half of sums[c],
 * dword k is a part of the kth one's. */
LANES_SPECIALISE void byte_sums(__m256i *sums, const unsigned char *data, size_t bytes, const int8_t *const *quants,
                                size_t first, size_t count) {
  struct byte_weights weights[4];
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; i++) {
    const size_t at = 32 * (first + 4 * i);
    if (first % 2 == 0 && bytes > at) __builtin_prefetch(data + at + PREFETCH_AHEAD);
    weights[i] = unpack_bytes(load_part(data, at, bytes));
  }
#pragma GCC unroll 4
  for (size_t c = 0; c < count; c++) {
    __m256i products[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
      const size_t at = 32 * (first + 4 * i);
      products[i] = bytes > at ? byte_products(weights[i], load_quants(quants[c] + at)) : _mm256_setzero_si256();
    }
    sums[c] = join_dwords(products);
  }
}
static inline __m256i join_halves(__m256i x, __m256i y) {
  return _mm256_add_epi32(_mm256_permute2x128_si256(x, y, 0x20), _mm256_permute2x128_si256(x, y, 0x31));
}

LANES_SPECIALISE void super_integers(integers *sums, const unsigned char *data, size_t bytes,
                                     const int8_t *const *quants, uint32_t bits, size_t count) {
  if (bits == 4) {
    nibble_sums(sums, data, bytes, quants, 0, count);
    nibble_sums(sums, data, bytes, quants, 1, count);
    return;
  }
  __m256i quarters[4][4]; /* [of the sums][activation] */
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; i++) byte_sums(quarters[i], data, bytes, quants, i, count);
#pragma GCC unroll 4
  for (size_t c = 0; c < count; c++)
    sums[c] = (integers){join_halves(quarters[0][c], quarters[1][c]), join_halves(quarters[2][c], quarters[3][c])};
}

#endif

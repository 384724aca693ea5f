/* AVX2 without VNNI. Products of a byte with an int8 are added up in pairs, as int16; whole bytes would overflow that,
 * so they are cut in two. */
#include "compute/cpu/lanes_avx2.h"

#define COLUMNS_AT_ONCE 4
#define ATTENTION_QUERIES 4
#define PRODUCT_TILE 4
#define PANEL_VECTORS 1
#define PANEL_COLUMNS 4
#define PANEL_WORTHWHILE 12

static inline __m256i nibble_products(__m256i low, __m256i high, __m256i q, __m256i r) {
  return _mm256_add_epi16(_mm256_maddubs_epi16(low, q), _mm256_maddubs_epi16(high, r));
}
/* Words hold four of those sums: 4 · 4 · 15 · 127 = 30480. */
static inline __m256i join_nibbles(const __m256i *x) {
  const __m256i a = _mm256_add_epi16(inner_quarters(x[0], x[1]), outer_quarters(x[0], x[1]));
  const __m256i b = _mm256_add_epi16(inner_quarters(x[2], x[3]), outer_quarters(x[2], x[3]));
  return _mm256_madd_epi16(_mm256_add_epi16(even_dwords(a, b), odd_dwords(a, b)), _mm256_set1_epi16(1));
}

struct byte_weights {
  __m256i low, top; /* seven bits and one: 2 · 128 · 127 is a word */
};
static inline struct byte_weights unpack_bytes(__m256i x) {
  return (struct byte_weights){_mm256_and_si256(x, _mm256_set1_epi8(127)), _mm256_and_si256(x, _mm256_set1_epi8(-128))};
}
static inline __m256i byte_products(struct byte_weights x, __m256i q) {
  const __m256i ones = _mm256_set1_epi16(1);
  return _mm256_add_epi32(_mm256_madd_epi16(_mm256_maddubs_epi16(x.low, q), ones),
                          _mm256_madd_epi16(_mm256_maddubs_epi16(x.top, q), ones));
}

/* Words hold an activation group's products of half bytes: 8 · 2 · 15 · 127 = 30480. */
struct panel_sums {
  packed low, high; /* at 8 bits `high` is of the upper halves */
};
static inline struct panel_sums no_panel_sums(void) { return (struct panel_sums){no_products(), no_products()}; }
/* The compiler would else regroup the sums, and run out of registers for the products. */
static inline __m256i add_in_order(__m256i sum, __m256i x) {
  sum = _mm256_add_epi16(sum, x);
  __asm__("" : "+x"(sum));
  return sum;
}
static inline void add_panel_products(struct panel_sums *sums, packed weights, const void *four, uint32_t bits) {
  int32_t bytes;
  memcpy(&bytes, four, sizeof bytes);
  const __m256i quants = _mm256_set1_epi32(bytes);
  struct weights halves = {weights, weights};
  if (bits == 8) {
    halves = unpack(weights, 8);
    sums->high.a = add_in_order(sums->high.a, _mm256_maddubs_epi16(halves.high.a, quants));
    sums->high.b = add_in_order(sums->high.b, _mm256_maddubs_epi16(halves.high.b, quants));
  }
  sums->low.a = add_in_order(sums->low.a, _mm256_maddubs_epi16(halves.low.a, quants));
  sums->low.b = add_in_order(sums->low.b, _mm256_maddubs_epi16(halves.low.b, quants));
}
static inline integers panel_integers(struct panel_sums sums, uint32_t bits) {
  const __m256i ones = _mm256_set1_epi16(1), sixteens = _mm256_set1_epi16(16);
  integers result = {_mm256_madd_epi16(sums.low.a, ones), _mm256_madd_epi16(sums.low.b, ones)};
  if (bits == 4) return result;
  return (integers){_mm256_add_epi32(result.a, _mm256_madd_epi16(sums.high.a, sixteens)),
                    _mm256_add_epi32(result.b, _mm256_madd_epi16(sums.high.b, sixteens))};
}

#define LANES_NAME "avx2"
#include "compute/cpu/lanes_avx2_super.h"
/* It is part of what this needs. */
#include "compute/cpu/lanes.h"

const struct cpu_kernels *cpu_kernels_avx2(void) { return cpu_has_avx2() ? &table : NULL; }

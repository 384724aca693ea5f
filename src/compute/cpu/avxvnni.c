/* AVX2 with AVX-VNNI. Many CPUs that can be tested on have AVX-512 VNNI in its place, which has the same instruction
 * for the same registers; compiled for that, this is a table of the tests. */
#include "compute/cpu/lanes_avx2.h"

#define COLUMNS_AT_ONCE 4
#define ATTENTION_QUERIES 4
#define PRODUCT_TILE 4
#define PANEL_VECTORS 1
#define PANEL_COLUMNS 4
#define PANEL_WORTHWHILE 10

/* sum + each dword's four products of a byte with an int8 */
static inline __m256i add_products(__m256i sum, __m256i bytes, __m256i quants) {
#if defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(sum, bytes, quants);
#else
  return _mm256_dpbusd_epi32(sum, bytes, quants);
#endif
}

static inline __m256i nibble_products(__m256i low, __m256i high, __m256i q, __m256i r) {
  return add_products(add_products(_mm256_setzero_si256(), low, q), high, r);
}
static inline __m256i join_nibbles(const __m256i *x) { return join_dwords(x); }

struct byte_weights {
  __m256i bytes;
};
static inline struct byte_weights unpack_bytes(__m256i x) { return (struct byte_weights){x}; }
static inline __m256i byte_products(struct byte_weights x, __m256i q) {
  return add_products(_mm256_setzero_si256(), x.bytes, q);
}

struct panel_sums {
  integers sums;
};
static inline struct panel_sums no_panel_sums(void) { return (struct panel_sums){no_products()}; }
static inline void add_panel_products(struct panel_sums *sums, packed weights, const void *four, uint32_t bits) {
  (void)bits;
  int32_t bytes;
  memcpy(&bytes, four, sizeof bytes);
  const __m256i quants = _mm256_set1_epi32(bytes);
  sums->sums.a = add_products(sums->sums.a, weights.a, quants);
  sums->sums.b = add_products(sums->sums.b, weights.b, quants);
}
static inline integers panel_integers(struct panel_sums sums, uint32_t bits) {
  (void)bits;
  return sums.sums;
}

#if defined(__AVXVNNI__)
#define LANES_NAME "avxvnni"
#else
#define LANES_NAME "avxvnni-evex"
#endif
#include "compute/cpu/lanes_avx2_super.h"
/* It is part of what this needs. */
#include "compute/cpu/lanes.h"

#if defined(__AVXVNNI__)
const struct cpu_kernels *cpu_kernels_avxvnni(void) { return cpu_has_avxvnni() ? &table : NULL; }
#else
const struct cpu_kernels *cpu_kernels_avxvnni_evex(void);
const struct cpu_kernels *cpu_kernels_avxvnni_evex(void) { return cpu_has_avx512() ? &table : NULL; }
#endif

/* Part of lanes.h: attention over one KV block. */
#ifndef KAIJU_COMPUTE_CPU_LANES_ATTENTION_H
#define KAIJU_COMPUTE_CPU_LANES_ATTENTION_H

/* sums[q · width + w] += Σ over k = first … last - 1, rising, of factors[q][k] · matrix[k][16 w … 16 w + 15], for
 * constant `count` rows q and `width` vectors w. Rows of the f16 matrix are `stride` apart. As many numbers as are read
 * are prefetched from `ahead`, which may be NULL: blocks lie apart, and nothing else would fetch them in time. */
LANES_SPECIALISE void product_tile(floats *sums, const float *const *factors, const uint16_t *matrix, size_t stride,
                                   size_t first, size_t last, size_t count, size_t width, const uint16_t *ahead) {
  floats held[PRODUCT_TILE];
#pragma GCC unroll 16
  for (size_t i = 0; i < count * width; i++) held[i] = sums[i];
  for (size_t k = first; k < last; k++) {
    if (ahead) __builtin_prefetch(ahead + k * width * CPU_LANES);
    if (ahead && width > 2) __builtin_prefetch(ahead + (k * width + 2) * CPU_LANES);
#pragma GCC unroll 8
    for (size_t w = 0; w < width; w++) {
      floats column = load_f16(matrix + k * stride + w * CPU_LANES);
#pragma GCC unroll 8
      for (size_t q = 0; q < count; q++)
        held[q * width + w] = fused(broadcast(factors[q][k]), column, held[q * width + w]);
    }
  }
#pragma GCC unroll 16
  for (size_t i = 0; i < count * width; i++) sums[i] = held[i];
}

/* Scores of `count` queries with the `width` vectors of positions from `position` on. */
LANES_SPECIALISE void score_tile(float (*scores)[KV_BLOCK], const float *const *queries, const uint16_t *keys,
                                 size_t head_dim, float scale, size_t position, size_t count, size_t width,
                                 const uint16_t *ahead) {
  floats sums[PRODUCT_TILE];
  for (size_t i = 0; i < count * width; i++) sums[i] = zero();
  product_tile(sums, queries, keys + position, KV_BLOCK, 0, head_dim, count, width, ahead);
  for (size_t q = 0; q < count; q++)
    for (size_t w = 0; w < width; w++)
      store(scores[q] + position + w * CPU_LANES, multiply(sums[q * width + w], broadcast(scale)));
}

/* Turns scores into p and brings max and sum up to date. a and b: the factors of the old and of this block's values. */
static inline void weigh_scores(struct attention_query *query, float *scores, float *a, float *b) {
  for (size_t t = query->positions; t < KV_BLOCK; t++) scores[t] = -INFINITY;
  floats maxima = broadcast(-INFINITY);
  for (size_t t = 0; t < KV_BLOCK; t += CPU_LANES) maxima = maximum(maxima, load(scores + t));
  const float block_max = largest(maxima);
  floats sums = zero();
  for (size_t t = 0; t < KV_BLOCK; t += CPU_LANES) {
    floats p = exponential(subtract(load(scores + t), broadcast(block_max)));
    store(scores + t, p);
    sums = add(sums, p);
  }
  const float max = block_max > query->max ? block_max : query->max;
  float factors[CPU_LANES] = {query->max - max, block_max - max};
  store(factors, exponential(load(factors)));
  *a = factors[0];
  *b = factors[1];
  query->sum = fmaf(query->sum, *a, tree(sums) * *b);
  query->max = max;
}

/* Values of `count` queries in the `width` vectors of the head from d on; all see the first `common` positions. */
LANES_SPECIALISE void value_tile(struct attention_query *queries, const float *const *p, const float *a, const float *b,
                                 const uint16_t *values, size_t head_dim, size_t common, size_t d, size_t count,
                                 size_t width) {
  floats sums[PRODUCT_TILE];
  for (size_t i = 0; i < count * width; i++) sums[i] = zero();
  product_tile(sums, p, values + d, head_dim, 0, common, count, width, NULL);
  for (size_t q = 0; q < count; q++) {
    product_tile(sums + q * width, p + q, values + d, head_dim, common, queries[q].positions, 1, width, NULL);
    for (size_t w = 0; w < width; w++) {
      float *out = queries[q].out + d + w * CPU_LANES;
      store(out, fused(load(out), broadcast(a[q]), multiply(sums[q * width + w], broadcast(b[q]))));
    }
  }
}

/* `count` queries, a constant of at most ATTENTION_QUERIES. */
LANES_SPECIALISE void attend(struct attention_query *queries, const uint16_t *keys, const uint16_t *values,
                             size_t head_dim, float scale, size_t count) {
  const size_t width = PRODUCT_TILE / count < 4 ? PRODUCT_TILE / count : 4;
  float scores[ATTENTION_QUERIES][KV_BLOCK], a[ATTENTION_QUERIES], b[ATTENTION_QUERIES];
  const float *vectors[ATTENTION_QUERIES], *p[ATTENTION_QUERIES];
  size_t common = KV_BLOCK, most = 0;
  for (size_t q = 0; q < count; q++) {
    vectors[q] = queries[q].query;
    p[q] = scores[q];
    common = queries[q].positions < common ? queries[q].positions : common;
    most = queries[q].positions > most ? queries[q].positions : most;
  }
  for (size_t t = 0; t < most; t += width * CPU_LANES)
    score_tile(scores, vectors, keys, head_dim, scale, t, count, width, values + t * head_dim);
  for (size_t q = 0; q < count; q++) weigh_scores(&queries[q], scores[q], &a[q], &b[q]);
  size_t d = 0;
  for (; d + width * CPU_LANES <= head_dim; d += width * CPU_LANES)
    value_tile(queries, p, a, b, values, head_dim, common, d, count, width);
  for (; d < head_dim; d += CPU_LANES) value_tile(queries, p, a, b, values, head_dim, common, d, count, 1);
}

static void attention_block(struct attention_query *queries, size_t count, const uint16_t *keys, const uint16_t *values,
                            size_t head_dim, float scale) {
  for (; count >= ATTENTION_QUERIES; count -= ATTENTION_QUERIES, queries += ATTENTION_QUERIES)
    attend(queries, keys, values, head_dim, scale, ATTENTION_QUERIES);
  if (ATTENTION_QUERIES > 4 && count >= 4) {
    attend(queries, keys, values, head_dim, scale, 4);
    count -= 4;
    queries += 4;
  }
  if (count >= 2) {
    attend(queries, keys, values, head_dim, scale, 2);
    count -= 2;
    queries += 2;
  }
  if (count) attend(queries, keys, values, head_dim, scale, 1);
}

#endif

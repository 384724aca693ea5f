/* The numbers of the rotary embedding, from our own double-precision functions (only + - * / and integer operations),
 * so that every machine computes the same bits.
 */
#ifndef KAIJU_COMPUTE_ROPE_H
#define KAIJU_COMPUTE_ROPE_H

#include <stdint.h>

/* YaRN (Peng et al. 2023, https://arxiv.org/abs/2309.00071), with the meanings that Transformers gives them. */
struct rope_yarn {
  double factor, beta_fast, beta_slow;
  uint32_t original_positions; /* original_max_position_embeddings */
};

/* inverse_frequency[i] = theta^(-2i / head_dim) for i < head_dim / 2; with `yarn` (may be NULL) blended with the
 * interpolated frequencies as Transformers' _compute_yarn_parameters does (truncate true). theta > 1, head_dim ≥ 2. */
void rope_frequencies(float *inverse_frequency, uint32_t head_dim, double theta, const struct rope_yarn *yarn);

/* What YaRN multiplies queries and keys by, Transformers' get_mscale: 0.1 · scale · ln(factor) + 1, or 1 for factor
 * ≤ 1.
 */
double rope_yarn_magnitude(double factor, double scale);

/* cos and sin of angle = (float)position · inverse_frequency (a float product, as Transformers computes it), each
 * rounded to float and multiplied by attention_factor. Within 1 ulp before that product for angles up to 1e6. */
void rope_cosine_sine(uint32_t position, float inverse_frequency, float attention_factor, float *cosine, float *sine);

#endif

#include "compute/rope.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846
#define TWO_OVER_PI 0x1.45f306dc9c883p-1
/* π/2 as a sum; the first two parts have 33 bits, so that their products with integers of 20 bits are exact. */
#define HALF_PI_1 0x1.921fb544p+0
#define HALF_PI_2 0x1.0b4611a6p-34
#define HALF_PI_3 0x1.3198a2e037073p-69
/* ln 2 likewise. */
#define LN2_1 0x1.62e42feep-1
#define LN2_2 0x1.a39ef35793c76p-33
#define LOG2_E 0x1.71547652b82fep+0

/* Taylor polynomials for |r| ≤ π/4; their errors are below 1e-16. */
static double sine_near_zero(double r) {
  double z = r * r;
  double p = -1.0 / 1307674368000.0;
  p = p * z + 1.0 / 6227020800.0;
  p = p * z - 1.0 / 39916800.0;
  p = p * z + 1.0 / 362880.0;
  p = p * z - 1.0 / 5040.0;
  p = p * z + 1.0 / 120.0;
  p = p * z - 1.0 / 6.0;
  return r + r * z * p;
}

static double cosine_near_zero(double r) {
  double z = r * r;
  double p = 1.0 / 20922789888000.0;
  p = p * z - 1.0 / 87178291200.0;
  p = p * z + 1.0 / 479001600.0;
  p = p * z - 1.0 / 3628800.0;
  p = p * z + 1.0 / 40320.0;
  p = p * z - 1.0 / 720.0;
  p = p * z + 1.0 / 24.0;
  p = p * z - 0.5;
  return 1.0 + z * p;
}

void rope_cosine_sine(uint32_t position, float inverse_frequency, float attention_factor, float *cosine, float *sine) {
  double angle = (double)((float)position * inverse_frequency);
  double turns = rint(angle * TWO_OVER_PI);
  double r = ((angle - turns * HALF_PI_1) - turns * HALF_PI_2) - turns * HALF_PI_3;
  double s = sine_near_zero(r), c = cosine_near_zero(r);
  double swap;
  switch ((int64_t)turns & 3) {
    case 1:
      swap = s, s = c, c = -swap;
      break;
    case 2:
      s = -s, c = -c;
      break;
    case 3:
      swap = s, s = -c, c = swap;
      break;
    default:
      break;
  }
  *cosine = (float)c * attention_factor;
  *sine = (float)s * attention_factor;
}

/* ln x for normal x > 0. */
static double logarithm(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
  bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
  double m;
  memcpy(&m, &bits, sizeof m);
  if (m > 1.4142135623730951) {
    m = m / 2.0;
    exponent++;
  }
  /* ln m = 2 artanh((m - 1) / (m + 1)), whose argument is at most 0.172. */
  double s = (m - 1.0) / (m + 1.0);
  double z = s * s, p = 0.0;
  for (int k = 23; k >= 1; k -= 2) p = p * z + 1.0 / k;
  return exponent * LN2_1 + (exponent * LN2_2 + 2.0 * s * p);
}

/* e^x for |x| < 700. */
static double exponential(double x) {
  double n = rint(x * LOG2_E);
  double r = (x - n * LN2_1) - n * LN2_2;
  double p = 1.0;
  for (int k = 14; k >= 1; k--) p = 1.0 + p * r / k;
  uint64_t bits = (uint64_t)((int64_t)n + 1023) << 52;
  double power;
  memcpy(&power, &bits, sizeof power);
  return p * power;
}

double rope_yarn_magnitude(double factor, double scale) {
  return factor <= 1.0 ? 1.0 : 0.1 * scale * logarithm(factor) + 1.0;
}

/* The dimension whose pair turns `rotations` times over the original positions. */
static double correction_dimension(double rotations, uint32_t head_dim, double log_theta, uint32_t positions) {
  return head_dim * logarithm(positions / (rotations * 2.0 * PI)) / (2.0 * log_theta);
}

void rope_frequencies(float *inverse_frequency, uint32_t head_dim, double theta, const struct rope_yarn *yarn) {
  double log_theta = logarithm(theta);
  double low = 0.0, high = 0.0;
  if (yarn) {
    low = floor(correction_dimension(yarn->beta_fast, head_dim, log_theta, yarn->original_positions));
    high = ceil(correction_dimension(yarn->beta_slow, head_dim, log_theta, yarn->original_positions));
    if (low < 0.0) low = 0.0;
    if (high > head_dim - 1.0) high = head_dim - 1.0;
    if (low == high) high = high + 0.001;
  }
  for (uint32_t i = 0; i < head_dim / 2; i++) {
    double frequency = exponential(-(2.0 * i / head_dim) * log_theta);
    if (yarn) {
      double ramp = (i - low) / (high - low);
      ramp = ramp < 0.0 ? 0.0 : ramp > 1.0 ? 1.0 : ramp;
      frequency = frequency / yarn->factor * ramp + frequency * (1.0 - ramp);
    }
    inverse_frequency[i] = (float)frequency;
  }
}

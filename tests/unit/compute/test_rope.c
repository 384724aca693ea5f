#include "compute/rope.h"

#include "unit/compute/support.h"

/* Half a unit in the last place of a float near `value`, and what the double computation may be off. */
static double rounding(double value) { return fabs(value) * 0x1.001p-24; }

static void check_angle(uint32_t position, float frequency) {
  float cosine, sine;
  double angle = (double)((float)position * frequency);
  rope_cosine_sine(position, frequency, 1.0f, &cosine, &sine);
  if (fabs(cosine - cos(angle)) > rounding(cos(angle)) || fabs(sine - sin(angle)) > rounding(sin(angle)))
    fail_msg("angle %.9g: cos %.9g instead of %.9g, sin %.9g instead of %.9g", angle, (double)cosine, cos(angle),
             (double)sine, sin(angle));
}

static void sine_and_cosine_are_correctly_rounded_up_to_a_million(void **state) {
  (void)state;
  uint64_t seed = 1;
  for (int i = 0; i < 200000; i++) {
    uint32_t position = (uint32_t)(random_bits(&seed) % 1000001);
    check_angle(position, exp2f(-20.0f * (float)(random_bits(&seed) % 1000) / 1000.0f));
  }
  for (uint32_t position = 0; position <= 1000000; position += 7) check_angle(position, 1.0f);
  /* Near the zeros, where the reduction of the angle must be most precise. */
  for (int quarter = 1; quarter * M_PI_2 <= 1e6; quarter++) check_angle(1, (float)(quarter * M_PI_2));
}

static void the_attention_factor_scales_both(void **state) {
  (void)state;
  float cosine, sine, scaled_cosine, scaled_sine;
  rope_cosine_sine(77, 0.31f, 1.0f, &cosine, &sine);
  rope_cosine_sine(77, 0.31f, 1.25f, &scaled_cosine, &scaled_sine);
  assert_true(scaled_cosine == cosine * 1.25f && scaled_sine == sine * 1.25f);
  rope_cosine_sine(0, 1.0f, 1.0f, &cosine, &sine);
  assert_true(cosine == 1.0f && sine == 0.0f);
}

static void an_absurd_position_gives_finite_numbers(void **state) {
  (void)state;
  float cosine, sine;
  rope_cosine_sine(UINT32_MAX, 1.0f, 1.0f, &cosine, &sine);
  assert_true(fabsf(cosine) <= 1.001f && fabsf(sine) <= 1.001f);
}

static void frequencies_equal_the_power_function(void **state) {
  (void)state;
  const double thetas[] = {10000.0, 500000.0, 1e6, 5e6, 1e7, 1e10};
  const uint32_t dims[] = {16, 64, 80, 128, 256, 512};
  float frequency[256];
  for (size_t t = 0; t < sizeof thetas / sizeof *thetas; t++) {
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
      rope_frequencies(frequency, dims[d], thetas[t], NULL);
      for (uint32_t i = 0; i < dims[d] / 2; i++) {
        double expected = pow(thetas[t], -2.0 * i / dims[d]);
        assert_true(fabs(frequency[i] - expected) <= 1e-7 * expected);
      }
    }
  }
}

/* Transformers' _compute_yarn_parameters with libm. */
static double yarn_expected(uint32_t i, uint32_t dim, double theta, const struct rope_yarn *yarn) {
  double low = floor(dim * log(yarn->original_positions / (yarn->beta_fast * 2 * M_PI)) / (2 * log(theta)));
  double high = ceil(dim * log(yarn->original_positions / (yarn->beta_slow * 2 * M_PI)) / (2 * log(theta)));
  low = fmax(low, 0);
  high = fmin(high, dim - 1);
  double ramp = fmin(fmax((i - low) / (low == high ? 0.001 : high - low), 0), 1);
  double extrapolated = 1 / pow(theta, 2.0 * i / dim), interpolated = extrapolated / yarn->factor;
  return interpolated * ramp + extrapolated * (1 - ramp);
}

static void yarn_frequencies_equal_those_of_transformers_F3(void **state) {
  (void)state;
  const struct rope_yarn yarns[] = {
      {4.0, 32.0, 1.0, 32768}, {2.5, 32.0, 1.0, 262144}, {8.0, 16.0, 2.0, 4096}, {40.0, 1e6, 1e6, 64}};
  float frequency[64];
  for (size_t y = 0; y < sizeof yarns / sizeof *yarns; y++) {
    for (double theta = 1e4; theta <= 1e7; theta *= 10) {
      rope_frequencies(frequency, 128, theta, &yarns[y]);
      for (uint32_t i = 0; i < 64; i++) {
        double expected = yarn_expected(i, 128, theta, &yarns[y]);
        assert_true(fabs(frequency[i] - expected) <= 1e-7 * expected);
      }
    }
  }
  /* The fastest pair turns too often to be interpolated, the slowest is interpolated wholly. */
  float plain[64];
  rope_frequencies(plain, 128, 1e6, NULL);
  rope_frequencies(frequency, 128, 1e6, &yarns[0]);
  assert_true(frequency[0] == 1.0f && frequency[63] == plain[63] / 4.0f);
}

static void yarn_magnitude_equals_that_of_transformers_F3(void **state) {
  (void)state;
  assert_true(rope_yarn_magnitude(1, 1) == 1 && rope_yarn_magnitude(0.5, 2) == 1);
  for (double factor = 1.25; factor < 1e6; factor *= 1.25) {
    double expected = 0.1 * 0.7 * log(factor) + 1;
    assert_true(fabs(rope_yarn_magnitude(factor, 0.7) - expected) <= 1e-15 * expected);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sine_and_cosine_are_correctly_rounded_up_to_a_million),
      cmocka_unit_test(the_attention_factor_scales_both),
      cmocka_unit_test(an_absurd_position_gives_finite_numbers),
      cmocka_unit_test(frequencies_equal_the_power_function),
      cmocka_unit_test(yarn_frequencies_equal_those_of_transformers_F3),
      cmocka_unit_test(yarn_magnitude_equals_that_of_transformers_F3),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "unit/compute/support.h"

static double half_value(uint16_t half) {
  int exponent = half >> 10 & 31, mantissa = half & 1023;
  double magnitude = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

static void every_half_becomes_its_float(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 65536; bits++) {
    float value = f32_from_f16((uint16_t)bits);
    if ((bits & 0x7c00) != 0x7c00) {
      assert_true((double)value == half_value((uint16_t)bits));
      assert_int_equal(signbit(value) != 0, bits >> 15);
    } else if (bits & 0x3ff) {
      assert_true(isnan(value));
    } else {
      assert_true(value == (bits & 0x8000 ? -INFINITY : INFINITY));
    }
  }
}

static void every_half_survives_the_round_trip(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 65536; bits++) {
    bool nan = (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff);
    assert_int_equal(f16_from_f32(f32_from_f16((uint16_t)bits)), nan ? bits | 0x200 : bits);
  }
}

/* Around every half, the middle to the next one and its neighbours decide the rounding. */
static void floats_round_to_the_nearest_half_and_ties_to_even(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 0x7c00; bits++) {
    double low = half_value((uint16_t)bits), high = bits == 0x7bff ? 65536.0 : half_value((uint16_t)(bits + 1));
    float middle = (float)((low + high) / 2);
    uint16_t even = (uint16_t)(bits % 2 == 0 ? bits : bits + 1);
    assert_int_equal(f16_from_f32(middle), even);
    assert_int_equal(f16_from_f32(nextafterf(middle, 0.0f)), bits);
    assert_int_equal(f16_from_f32(nextafterf(middle, INFINITY)), bits + 1);
    assert_int_equal(f16_from_f32(-middle), even | 0x8000);
    assert_int_equal(f16_from_f32(-nextafterf(middle, 0.0f)), bits | 0x8000);
    assert_int_equal(f16_from_f32(-nextafterf(middle, INFINITY)), (bits + 1) | 0x8000);
  }
}

static void extremes_become_zero_infinity_and_quiet_nan(void **state) {
  (void)state;
  assert_int_equal(f16_from_f32(0x1p-149f), 0);
  assert_int_equal(f16_from_f32(-0x1p-149f), 0x8000);
  assert_int_equal(f16_from_f32(65519.99f), 0x7bff);
  assert_int_equal(f16_from_f32(65520.0f), 0x7c00);
  assert_int_equal(f16_from_f32(-3e38f), 0xfc00);
  assert_int_equal(f16_from_f32(INFINITY), 0x7c00);
  assert_int_equal(f16_from_f32(float_from_bits(0x7f800001)), 0x7e00);
  assert_int_equal(f16_from_f32(float_from_bits(0xffd56000)), 0xfeab);
}

static void numbers_are_read_from_unaligned_arrays(void **state) {
  (void)state;
  unsigned char bytes[16] = {0};
  for (int type = NUMBER_F32; type <= NUMBER_BF16; type++) {
    store_number((enum number_type)type, bytes + 1, 1, -1.5f);
    assert_true(number_at((enum number_type)type, bytes + 1, 1) == -1.5f);
  }
  assert_int_equal(number_bytes(NUMBER_F32), 4);
  assert_int_equal(number_bytes(NUMBER_BF16), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_half_becomes_its_float),
      cmocka_unit_test(every_half_survives_the_round_trip),
      cmocka_unit_test(floats_round_to_the_nearest_half_and_ties_to_even),
      cmocka_unit_test(extremes_become_zero_infinity_and_quiet_nan),
      cmocka_unit_test(numbers_are_read_from_unaligned_arrays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Number formats of 16 bits: conversions in plain integer arithmetic, equal to the hardware's (F16C, NEON) to the bit.
 *
 * f32 to f16 rounds to nearest, ties to even; what is too large becomes infinity, subnormals are kept, a NaN keeps the
 * upper bits of its payload and becomes quiet. All other conversions are exact.
 */
#ifndef KAIJU_COMPUTE_NUMBER_H
#define KAIJU_COMPUTE_NUMBER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compute/matrix.h"

static inline float float_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float f32_from_bf16(uint16_t value) { return float_from_bits((uint32_t)value << 16); }

static inline float f32_from_f16(uint16_t value) {
  uint32_t sign = (uint32_t)(value & 0x8000u) << 16;
  uint32_t exponent = (value >> 10) & 0x1fu;
  uint32_t mantissa = value & 0x3ffu;
  if (exponent == 0x1f) return float_from_bits(sign | 0x7f800000u | (mantissa ? 0x400000u : 0) | mantissa << 13);
  if (exponent == 0) {
    float magnitude = (float)mantissa * 0x1p-24f;
    return float_from_bits(sign | float_bits(magnitude));
  }
  return float_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

static inline uint16_t f16_from_f32(float value) {
  uint32_t bits = float_bits(value);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
  if (magnitude < 0x38800000u) {
    /* Below 2^-14: a multiple of 2^-24. Adding 0.5, whose last bit is worth 2^-24, makes the adder round to it. */
    float shifted = float_from_bits(magnitude) + 0.5f;
    return (uint16_t)(sign | (float_bits(shifted) - 0x3f000000u));
  }
  uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

/* Number `index` of an array that need not be aligned. */
static inline float number_at(enum number_type type, const void *array, size_t index) {
  uint16_t half;
  float full;
  if (type == NUMBER_F32) {
    memcpy(&full, (const unsigned char *)array + 4 * index, sizeof full);
    return full;
  }
  memcpy(&half, (const unsigned char *)array + 2 * index, sizeof half);
  return type == NUMBER_F16 ? f32_from_f16(half) : f32_from_bf16(half);
}

static inline size_t number_bytes(enum number_type type) { return type == NUMBER_F32 ? 4 : 2; }

#endif

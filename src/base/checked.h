/* Checked arithmetic for sizes that come from outside: false on overflow, and then *result is not to be used. */
#ifndef KAIJU_BASE_CHECKED_H
#define KAIJU_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *result) {
  return !__builtin_add_overflow(a, b, result);
}

static inline bool checked_multiply(uint64_t a, uint64_t b, uint64_t *result) {
  return !__builtin_mul_overflow(a, b, result);
}

#endif

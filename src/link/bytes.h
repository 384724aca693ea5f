/* Little-endian numbers in byte strings. */
#ifndef KAIJU_LINK_BYTES_H
#define KAIJU_LINK_BYTES_H

#include <stdint.h>

static inline void bytes_put16(uint8_t *out, uint16_t value) {
  out[0] = (uint8_t)value;
  out[1] = (uint8_t)(value >> 8);
}

static inline void bytes_put32(uint8_t *out, uint32_t value) {
  for (int i = 0; i < 4; i++) out[i] = (uint8_t)(value >> (8 * i));
}

static inline void bytes_put64(uint8_t *out, uint64_t value) {
  for (int i = 0; i < 8; i++) out[i] = (uint8_t)(value >> (8 * i));
}

static inline uint16_t bytes_get16(const uint8_t *in) { return (uint16_t)(in[0] | in[1] << 8); }

static inline uint32_t bytes_get32(const uint8_t *in) {
  uint32_t value = 0;
  for (int i = 0; i < 4; i++) value |= (uint32_t)in[i] << (8 * i);
  return value;
}

static inline uint64_t bytes_get64(const uint8_t *in) {
  uint64_t value = 0;
  for (int i = 0; i < 8; i++) value |= (uint64_t)in[i] << (8 * i);
  return value;
}

#endif

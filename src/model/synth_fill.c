#include <math.h>
#include <string.h>

#include "model/synth_layout.h"

static const uint64_t gamma_step = 0x9e3779b97f4a7c15u;

static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static inline uint64_t draw(uint64_t key, uint64_t index) { return mix(key + (index + 1) * gamma_step); }

static uint64_t module_key(const struct synth_tensor *tensor, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < tensor->module_length; i++) hash = (hash ^ (unsigned char)tensor->name[i]) * 0x100000001b3u;
  return mix(mix(seed + gamma_step) ^ hash);
}

/* Uniform in [0, 1), from the top 24 bits. */
static float uniform(uint64_t bits) { return (float)(bits >> 40) * 0x1p-24f; }

static float round_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  bits += 0x7fff + ((bits >> 16) & 1); /* to nearest, ties to even */
  bits &= 0xffff0000u;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void store_bf16(unsigned char *out, float value) {
  uint32_t bits;
  value = round_bf16(value);
  memcpy(&bits, &value, sizeof bits);
  out[0] = (unsigned char)(bits >> 16);
  out[1] = (unsigned char)(bits >> 24);
}

static void fill_packed(uint64_t key, uint64_t offset, unsigned char *out, size_t length) {
  uint64_t index = offset / 8;
  for (; length >= 8; length -= 8, out += 8, index++) {
    uint64_t word = draw(key, index);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    memcpy(out, &word, 8);
  }
  uint64_t word = draw(key, index);
  for (size_t i = 0; i < length; i++) out[i] = (unsigned char)(word >> (8 * i));
}

/* The scale of group `index`: its own key, so that the packed words of the module are another sequence. */
static float group_scale(uint64_t key, uint64_t index, float step) {
  uint64_t bits = draw(mix(key ^ gamma_step), index);
  float scale = step * (0.75f + 0.5f * uniform(bits));
  return round_bf16(bits & 1 ? -scale : scale);
}

void synth_fill(const struct synth_tensor *tensor, uint64_t seed, uint64_t offset, void *out, size_t length) {
  uint64_t key = module_key(tensor, seed);
  unsigned char *bytes = out;
  uint64_t first = offset / 2;
  size_t count = length / 2;
  switch (tensor->content) {
    case SYNTH_PACKED:
      fill_packed(key, offset, bytes, length);
      break;
    case SYNTH_SCALES:
    case SYNTH_BIASES: {
      /* Of an integer that is uniform over 0…2^bits − 1: the standard deviation and the mean. */
      double levels = (double)(1u << tensor->bits), spread = sqrt((levels * levels - 1) / 12);
      float step = (float)(tensor->deviation / spread), middle = (float)((levels - 1) / 2);
      for (size_t i = 0; i < count; i++) {
        float scale = group_scale(key, first + i, step);
        store_bf16(bytes + 2 * i, tensor->content == SYNTH_SCALES ? scale : -scale * middle);
      }
      break;
    }
    case SYNTH_PLAIN: {
      float width = (float)(tensor->deviation * sqrt(12));
      for (size_t i = 0; i < count; i++) store_bf16(bytes + 2 * i, width * (uniform(draw(key, first + i)) - 0.5f));
      break;
    }
    case SYNTH_NORM:
      for (size_t i = 0; i < count; i++) store_bf16(bytes + 2 * i, 0.9f + 0.2f * uniform(draw(key, first + i)));
      break;
  }
}

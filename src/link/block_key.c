#include "link/block_key.h"

#include <sodium.h>

#include "link/bytes.h"

struct block_key block_key_extend(const struct block_key *previous, const uint32_t tokens[KV_BLOCK]) {
  uint8_t text[BLOCK_KEY_BYTES + 4 * KV_BLOCK];
  struct block_key key;
  memcpy(text, previous->bytes, BLOCK_KEY_BYTES);
  for (size_t i = 0; i < KV_BLOCK; i++) bytes_put32(text + BLOCK_KEY_BYTES + 4 * i, tokens[i]);
  crypto_generichash(key.bytes, sizeof key.bytes, text, sizeof text, NULL, 0);
  return key;
}

/* Names of KV blocks by what they hold: the same on every stage and after every restart.
 *
 * A full block's key is BLAKE2b-128 of the key of the block before it (zeros for a sequence's first) and of its
 * KV_BLOCK token ids (u32, little-endian). So it stands for all tokens of the sequence up to the block's last, and for
 * nothing else: not for the model, and not for where the block lies.
 */
#ifndef KAIJU_LINK_BLOCK_KEY_H
#define KAIJU_LINK_BLOCK_KEY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "compute/batch.h"

enum { BLOCK_KEY_BYTES = 16 };

struct block_key {
  uint8_t bytes[BLOCK_KEY_BYTES];
};

/* The key before a sequence's first block. */
static inline struct block_key block_key_start(void) { return (struct block_key){{0}}; }

struct block_key block_key_extend(const struct block_key *previous, const uint32_t tokens[KV_BLOCK]);

static inline bool block_key_equal(const struct block_key *a, const struct block_key *b) {
  return memcmp(a->bytes, b->bytes, BLOCK_KEY_BYTES) == 0;
}

#endif

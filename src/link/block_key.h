/* Names of KV blocks by what they hold: the same on every stage and after every restart.
 *
 * A full block's key is BLAKE2b-128 of the key of the block before it and of its KV_BLOCK token ids (u32,
 * little-endian). For a sequence's first block a value that stands for the whole model takes the place of the key
 * before it (sched/disk_index.h). So a key stands for the model and for all tokens of the sequence up to the block's
 * last, not for where the block lies.
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

/* Zeros: the key of no block. */
static inline struct block_key block_key_start(void) { return (struct block_key){{0}}; }

struct block_key block_key_extend(const struct block_key *previous, const uint32_t tokens[KV_BLOCK]);

static inline bool block_key_equal(const struct block_key *a, const struct block_key *b) {
  return memcmp(a->bytes, b->bytes, BLOCK_KEY_BYTES) == 0;
}

#endif

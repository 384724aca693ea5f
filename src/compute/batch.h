/* A micro-batch: the tokens that one step takes through a stage.
 *
 * A span is a run of consecutive positions of one sequence: one token in decode, a chunk in prefill. The rows of every
 * activation tensor of the step are the spans' tokens, in order. The block table names the KV blocks of the sequence
 * from position 0 on: position p lies in slot p % KV_BLOCK of block blocks[p / KV_BLOCK], and the table covers every
 * position up to the span's last. Block ids mean the same on every stage.
 */
#ifndef KAIJU_COMPUTE_BATCH_H
#define KAIJU_COMPUTE_BATCH_H

#include <stdint.h>

enum {
  KV_BLOCK = 64 /* positions in a KV block */
};

/* KV blocks that so many positions take. */
static inline uint64_t kv_blocks_for(uint64_t positions) { return positions / KV_BLOCK + (positions % KV_BLOCK != 0); }

struct span {
  uint32_t first_position;
  uint32_t tokens;           /* rows of this span, at least 1 */
  uint32_t outputs;          /* its last rows whose final hidden state the lead wants, 0…tokens */
  uint32_t block_count;      /* kv_blocks_for(first_position + tokens) */
  const uint32_t *blocks;    /* [block_count] */
  const uint32_t *token_ids; /* [tokens] */
  uint64_t prefix_hash;      /* of the sequence's tokens before first_position; see stage/ledger.h */
};

struct batch {
  uint32_t span_count;
  uint32_t tokens;  /* rows in all: sum of the spans' tokens */
  uint32_t outputs; /* rows wanted in all */
  const struct span *spans;
};

#endif

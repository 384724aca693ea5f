/* What each KV block of a stage holds, so that a KV that has gone out of step is noticed before it is used.
 *
 * The tokens of a sequence are hashed as a chain: token_hash_start, then token_hash_extend for every token. The ledger
 * keeps for each block the chain's value before its first position and the ids of the tokens written to it. A span
 * names the chain's value before its first position; the ledger walks the span's block table and accepts it only if
 * every earlier position was written, in order, with exactly those tokens. Rewriting the tail of the last block (a
 * rejected draft, a replay) is allowed; skipping a position is not.
 */
#ifndef KAIJU_STAGE_LEDGER_H
#define KAIJU_STAGE_LEDGER_H

#include <stdint.h>

#include "base/error.h"
#include "compute/batch.h"

static inline uint64_t token_hash_start(void) { return 0x6b61696a75u; }

/* One round of splitmix64 over the running value and the token (Steele, Lea, Flood 2014). */
static inline uint64_t token_hash_extend(uint64_t hash, uint32_t token) {
  uint64_t z = hash + 0x9e3779b97f4a7c15u * ((uint64_t)token + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

struct ledger;

int ledger_create(struct ledger **ledger, uint32_t blocks, struct kj_error *error);
void ledger_destroy(struct ledger *ledger);
void ledger_reset(struct ledger *ledger); /* every block is empty again */

/* Checks all spans of a batch (block ids in range, no block written by two spans, prefixes as held) and, if all are
 * right, records their tokens as written. On an error nothing is recorded. */
int ledger_admit(struct ledger *ledger, const struct batch *batch, struct kj_error *error);

/* 0 if the block is full and holds exactly these tokens after a prefix with that hash; else KJ_INVALID. */
int ledger_check_block(const struct ledger *ledger, uint32_t block, uint64_t prefix_hash,
                       const uint32_t tokens[KV_BLOCK], struct kj_error *error);
/* Records that the block (in range) was filled with these tokens after that prefix, though not by computing. Spans that
 * build on it are checked as always. */
void ledger_restore(struct ledger *ledger, uint32_t block, uint64_t prefix_hash, const uint32_t tokens[KV_BLOCK]);

#endif

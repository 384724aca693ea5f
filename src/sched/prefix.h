/* The prefix cache: full KV blocks by the tokens that they and all blocks before them hold.
 *
 * A tree with one node a block; a path from the root spells a sequence of tokens, KV_BLOCK at a time. The cache holds
 * one reference on each of its blocks, so they stay when the sequences that computed them end; sequences that begin
 * with the same tokens share them without a copy. A block that nobody but the cache refers to is idle, and what was
 * used longest ago is given up first when blocks are needed, the end of a path before its beginning. A block in use
 * keeps all those before it in use, too. References on a sequence's blocks are taken and given back here, not with the
 * allocator, because the cache would not learn of it. Used by the engine's thread alone.
 */
#ifndef KAIJU_SCHED_PREFIX_H
#define KAIJU_SCHED_PREFIX_H

#include "base/error.h"
#include "compute/batch.h"
#include "sched/blocks.h"

struct prefix_cache;

/* `blocks` is borrowed and must outlive the cache. Allocates all it will ever need, about 300 bytes a block. */
int prefix_create(struct prefix_cache **cache, struct block_allocator *blocks, struct kj_error *error);
void prefix_destroy(struct prefix_cache *cache); /* gives its references back */

/* The held blocks that spell tokens[first · KV_BLOCK … ), where blocks[0 … first) spell those before: writes the ids
 * behind these, takes a reference on each for the caller, and returns how many there are in all (at least `first`, at
 * most `limit`). blocks[first - 1] need not be in the cache: then nothing is found. */
uint32_t prefix_share(struct prefix_cache *cache, const uint32_t *tokens, uint32_t *blocks, uint32_t first,
                      uint32_t limit);

/* Keeps a sequence's full block number `index` (blocks[index], computed, the caller has a reference on it), which holds
 * tokens[index · KV_BLOCK … ). If the cache holds another block with the same tokens there, the caller's reference
 * moves to that one: blocks[index] is replaced and its own block released (a micro-batch in flight may still read it:
 * stages work in the order of launching, so whoever gets it next writes later). Nothing changes if the block is in the
 * cache already, or blocks[index - 1] is not: keep them in order. */
void prefix_keep(struct prefix_cache *cache, const uint32_t *tokens, uint32_t *blocks, uint32_t index);

/* Gives back a reference of the caller's; whether the block is in the cache or not. */
void prefix_release(struct prefix_cache *cache, uint32_t block);

/* Blocks that are idle: all of them can be given up. */
uint32_t prefix_idle(const struct prefix_cache *cache);
/* Takes `count` blocks with one reference each, giving up idle ones where the allocator has too few; false, with
 * nothing changed, if there are not enough. */
bool prefix_take(struct prefix_cache *cache, uint32_t count, uint32_t *blocks);

/* Forgets everything: the KV caches of the stages are lost. Blocks that sequences hold stay theirs. */
void prefix_clear(struct prefix_cache *cache);

#endif

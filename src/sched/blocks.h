/* The lead's allocator of KV blocks. Ids are 0…count-1 and mean the same block on every stage. Blocks are
 * reference-counted, so that sequences can share them.
 */
#ifndef KAIJU_SCHED_BLOCKS_H
#define KAIJU_SCHED_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct block_allocator;

int blocks_create(struct block_allocator **allocator, uint32_t count, struct kj_error *error);
void blocks_destroy(struct block_allocator *allocator);
uint32_t blocks_total(const struct block_allocator *allocator);
uint32_t blocks_free(const struct block_allocator *allocator);
uint32_t blocks_references(const struct block_allocator *allocator, uint32_t id);

/* Takes `count` blocks with one reference each, or none and false if fewer are free. */
bool blocks_take(struct block_allocator *allocator, uint32_t count, uint32_t *ids);
void blocks_share(struct block_allocator *allocator, uint32_t id);   /* one reference more */
void blocks_release(struct block_allocator *allocator, uint32_t id); /* one less; free at zero */

#endif

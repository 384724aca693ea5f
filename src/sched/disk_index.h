/* Which KV blocks lie on the disks of which stages.
 *
 * A block can be restored only if every stage that has layers has it, so the index believes nothing but what stages
 * have reported: their inventories when an epoch begins, and what they say to have written since (MESSAGE_INVENTORY,
 * and the lead's own store). A block whose writing was asked for, dropped by a full queue or lost with a stage simply
 * never becomes restorable.
 *
 * Stages never give up a block on their own while an epoch lasts: the lead decides what is dropped, and its orders
 * (MESSAGE_BLOCKS) reach every stage in order with its micro-batches, so that a block which is about to be restored
 * cannot go meanwhile. All stages keep the same blocks, as many as the smallest disk holds; what was unused longest
 * goes first, after what an earlier epoch has left on some stages only. (Should a file be damaged or removed by
 * somebody, restoring it fails, that ends the epoch, and the next inventory no longer has it.)
 *
 * Used by the engine's thread alone.
 */
#ifndef KAIJU_SCHED_DISK_INDEX_H
#define KAIJU_SCHED_DISK_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "link/message.h"

struct disk_index;

enum { DISK_INDEX_MOST_DROPS = 16 };

/* For this many stages, the lead included; at most MESSAGE_MAX_STAGES. */
int disk_index_create(struct disk_index **index, uint32_t stages, struct kj_error *error);
void disk_index_destroy(struct disk_index *index);

/* A new epoch: nothing is known any more. */
void disk_index_begin(struct disk_index *index);
/* A stage without layers has every block. */
void disk_index_exempt(struct disk_index *index, uint32_t stage);
/* A stage has these blocks, longest unused first, and room for `capacity` in all. Ignored are keys beyond what a
 * healthy cluster can have and, once all inventories are in, those that are not wanted or no longer. */
int disk_index_add(struct disk_index *index, uint32_t stage, uint32_t capacity, const struct block_key *keys,
                   size_t count, struct kj_error *error);
/* The identity of the stage's layers (stage/kv_identity.h). */
void disk_index_identify(struct disk_index *index, uint32_t stage, const uint8_t identity[MESSAGE_IDENTITY]);
/* All inventories are in. Before this call, and where a stage has reported none (it keeps nothing on disk), no block is
 * found or wanted. Returns the first stage that has reported none, or `stages`. */
uint32_t disk_index_ready(struct disk_index *index);

/* What takes the place of the key before a sequence's first block: stands for the layers of all stages. A stage knows
 * its own layers, but what it keeps depends on those before, too. Valid once ready. */
struct block_key disk_index_start(const struct disk_index *index);

/* True if all stages have the block; it then counts as used now. */
bool disk_index_find(struct disk_index *index, const struct block_key *key);
/* Whether all stages should keep the block; false if they have it. Before that they must drop the keys in drops
 * [DISK_INDEX_MOST_DROPS], to make room: *drop_count may be above 0 even if the answer is false. */
bool disk_index_want(struct disk_index *index, const struct block_key *key, struct block_key *drops,
                     uint32_t *drop_count);
/* The block is of no use any more; the caller has all stages drop it. */
void disk_index_remove(struct disk_index *index, const struct block_key *key);

uint32_t disk_index_count(const struct disk_index *index);    /* blocks that can be restored */
uint32_t disk_index_capacity(const struct disk_index *index); /* blocks that all stages have room for; 0: not ready */

#endif

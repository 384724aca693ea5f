/* KV blocks of a stage on disk, so that prompts need not be computed again after a restart of the whole cluster.
 *
 * One file a block (stage/kv_file.h) in a directory that is this process's alone (stage/kv_directory.h). Blocks are
 * named by their keys, so what is looked for is found by the tokens that it stands for, and a file that does not hold
 * exactly these tokens for exactly this stage is removed, not used.
 *
 * A block is copied by the caller into memory of the store, and a thread of the store writes it: under another name,
 * synced, then renamed, so that a name with its ending is a whole file whenever the process or the machine dies. At
 * most PLAN_KV_QUEUE_BYTES, or two blocks if these are larger, wait to be written; a block beyond that is not kept. It
 * is only a cache: a full or failing disk costs blocks, never the run. The page cache is told to forget what was
 * written and read: the weights need it.
 *
 * The store never gives up a block by itself while it is open, so that what it has said to have stays true: the lead
 * says what is to be dropped (sched/disk_index.h). At opening it removes the longest unused beyond the limit. The
 * limit counts the subdirectories of other models and layers in the same root, too: where there is no room, those go
 * first, as far as no process uses them.
 *
 * One thread uses a store; the writing goes on beside it.
 */
#ifndef KAIJU_STAGE_KV_STORE_H
#define KAIJU_STAGE_KV_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "link/message.h"
#include "stage/kv_file.h"

struct kv_store;

#define STORE_DEFAULT_SIZE ((uint64_t)32 << 30)

struct kv_store_options {
  const char *root;                   /* directory; borrowed while the store is open */
  uint64_t limit;                     /* bytes in the root; 0: STORE_DEFAULT_SIZE; less where less is free */
  uint8_t identity[KV_FILE_IDENTITY]; /* stage/kv_identity.h */
  uint32_t first_layer, layer_count;
  uint64_t payload_bytes;        /* of a block: stage_block_bytes */
  void (*notify)(void *context); /* called on the store's thread when a block was written; may be NULL */
  void *context;
};

/* KJ_REFUSED if another process has this stage's subdirectory, KJ_INVALID if no block fits into the limit. */
int kv_store_open(struct kv_store **store, const struct kv_store_options *options, struct kj_error *error);
void kv_store_close(struct kv_store *store); /* writes what is queued first */

const uint8_t *kv_store_identity(const struct kv_store *store); /* [KV_FILE_IDENTITY] as at opening */
uint32_t kv_store_capacity(const struct kv_store *store);       /* blocks: at most MESSAGE_MAX_DISK_BLOCKS */

/* The keys of all blocks, longest unused first; the caller frees *keys. Waits until everything that was submitted is on
 * disk or has failed: kv_store_take_written reports what is submitted from now on. */
int kv_store_inventory(struct kv_store *store, struct block_key **keys, size_t *count, struct kj_error *error);
/* Moves up to `most` keys of blocks that were written since the last call to `keys`; returns how many. */
size_t kv_store_take_written(struct kv_store *store, struct block_key *keys, size_t most);

/* Memory for the payload of the operation's block, to be filled and given to kv_store_submit at once; NULL where the
 * block is not to be written: it is there already, or there is no room on disk, in the queue or in memory. */
uint8_t *kv_store_prepare(struct kv_store *store, const struct block_operation *operation);
void kv_store_submit(struct kv_store *store, uint8_t *payload);

/* Reads and verifies the operation's block; *payload is valid until the next read. On an error, which names the file,
 * the store has the block no more. */
int kv_store_read(struct kv_store *store, const struct block_operation *operation, const uint8_t **payload,
                  struct kj_error *error);

void kv_store_drop(struct kv_store *store, const struct block_key *key); /* also while it waits to be written */

/* Waits until everything that was submitted is on disk or has failed. */
void kv_store_flush(struct kv_store *store);

#endif

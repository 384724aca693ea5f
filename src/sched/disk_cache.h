/* The lead's side of KV blocks on disk (--kv-disk): its own store, the index of what all stages have, and the orders to
 * the nodes. What the schedule calls is at the end.
 *
 * Order of calls: disk_cache_create → for each epoch: disk_cache_begin, before cluster_assign; disk_cache_attach, once
 * the lead's own stage is warm (later: reset); disk_cache_ready, when the cluster is → during the epoch:
 * disk_cache_poll now and then, and before every cluster_send disk_cache_send. Used by the engine's thread alone.
 *
 * Nothing here makes an answer depend on the disk: a block is restored only if all stages have it, each verifies its
 * part against the tokens, and what cannot be restored is computed. If a node cannot restore what it has reported to
 * have (a damaged file), it ends the epoch and has the block no more; the next epoch computes it.
 */
#ifndef KAIJU_SCHED_DISK_CACHE_H
#define KAIJU_SCHED_DISK_CACHE_H

#include "sched/cluster.h"
#include "stage/stage.h"

struct disk_cache;

struct disk_cache_options {
  const char *root; /* --kv-disk; borrowed */
  uint64_t limit;   /* --kv-disk-size; 0: STORE_DEFAULT_SIZE */
  struct checkpoint *checkpoint;
  struct backend *backend;
  struct cluster *cluster;       /* or NULL: the lead is alone */
  void (*notify)(void *context); /* called on another thread when disk_cache_poll has something to do */
  void *context;
};

/* Checks that the directory can be used, so that it is refused before anything is loaded. */
int disk_cache_create(struct disk_cache **cache, const struct disk_cache_options *options, struct kj_error *error);
void disk_cache_destroy(struct disk_cache *cache); /* before the cluster is closed */

/* A new epoch. Orders that were not sent are forgotten. */
void disk_cache_begin(struct disk_cache *cache);
/* The lead's own layers (layer_count may be 0); opens its store the first time. The stage is borrowed and must stay the
 * same. */
int disk_cache_attach(struct disk_cache *cache, struct stage *stage, uint32_t first_layer, uint32_t layer_count,
                      struct kj_error *error);
/* All nodes are ready: says in the log what there is to restore, or which node keeps nothing on disk. */
void disk_cache_ready(struct disk_cache *cache);
/* Takes note of what the lead's store has written. */
void disk_cache_poll(struct disk_cache *cache);
/* Sends the orders that have gathered. KJ_NETWORK as from cluster_send. */
int disk_cache_send(struct disk_cache *cache, struct kj_error *error);

/* How far a sequence's tokens have been hashed, so that this is done once. The caller keeps one with each sequence,
 * zero at first, and passes it with that sequence's tokens only; tokens of full blocks never change. */
struct block_chain {
  struct block_key start; /* disk_index_start of the epoch */
  uint32_t blocks;        /* so many of the sequence's */
  struct block_key key;   /* of the last of these */
  uint64_t hash;          /* of their tokens (stage/ledger.h) */
};

/* `tokens` are those of a sequence from its first on, up to the last block that is named at least. */

/* How many of the blocks first, first + 1, … below `limit`, one after the other, can be restored. Those, and the ones
 * before `first`, count as used now: call it for what is found in memory, too. */
uint32_t disk_cache_find(struct disk_cache *cache, const uint32_t *tokens, uint32_t first, uint32_t limit);

/* Restores the sequence's block number `index` into pool block `block`, which nobody else uses: on the lead at once, on
 * the nodes before any micro-batch that is sent later. The block then is full and computed for all purposes, with no
 * micro-batch in flight. False where the lead's part cannot be read (the log says why): the block holds nothing, and
 * what comes after it is to be computed. Reading takes time: some milliseconds a block of a large model. */
bool disk_cache_restore(struct disk_cache *cache, struct block_chain *chain, const uint32_t *tokens, uint32_t index,
                        uint32_t block);

/* The sequence's block number `index` is full, in pool block `block`, with tokens that are final: the micro-batches
 * that filled it were sent, and none that rewrites it was sent since. Keeps it on all disks unless it is there.
 * KJ_INVALID if the lead's pool does not hold these tokens. */
int disk_cache_store(struct disk_cache *cache, struct block_chain *chain, const uint32_t *tokens, uint32_t index,
                     uint32_t block, struct kj_error *error);

#endif

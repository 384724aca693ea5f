#include "sched/disk_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "stage/kv_directory.h"
#include "stage/kv_identity.h"
#include "stage/ledger.h"

struct disk_cache {
  struct disk_cache_options options;
  struct disk_index *index;
  struct stage *stage;
  struct kv_store *store;             /* NULL: no layers, or not attached */
  uint8_t identity[KV_FILE_IDENTITY]; /* of the lead's layers and the embedding, once `identified` */
  bool identified;
  struct block_operation *orders; /* [room] to the nodes, not sent yet */
  size_t count, room;
  bool told; /* in the log */
};

static uint32_t stage_count(const struct disk_cache *cache) {
  size_t nodes = 0;
  if (cache->options.cluster) cluster_nodes(cache->options.cluster, &nodes);
  return (uint32_t)nodes + 1;
}

int disk_cache_create(struct disk_cache **result, const struct disk_cache_options *options, struct kj_error *error) {
  *result = NULL;
  int code = kv_root_prepare(options->root, error);
  if (code) return kj_fail_context(error, "--kv-disk");
  struct disk_cache *cache = calloc(1, sizeof *cache);
  if (!cache) return kj_fail_memory(error, "KV blocks on disk");
  cache->options = *options;
  code = disk_index_create(&cache->index, stage_count(cache), error);
  if (code) {
    free(cache);
    return code;
  }
  if (options->cluster) cluster_use_disk_index(options->cluster, cache->index);
  *result = cache;
  return 0;
}

void disk_cache_destroy(struct disk_cache *cache) {
  if (!cache) return;
  if (cache->options.cluster) cluster_use_disk_index(cache->options.cluster, NULL);
  kv_store_close(cache->store);
  disk_index_destroy(cache->index);
  free(cache->orders);
  free(cache);
}

void disk_cache_begin(struct disk_cache *cache) {
  cache->count = 0;
  disk_index_begin(cache->index);
}

static int open_store(struct disk_cache *cache, uint32_t first_layer, uint32_t layer_count, struct kj_error *error) {
  const struct disk_cache_options *options = &cache->options;
  struct kv_store_options store = {.root = options->root,
                                   .limit = options->limit,
                                   .first_layer = first_layer,
                                   .layer_count = layer_count,
                                   .payload_bytes = stage_block_bytes(cache->stage),
                                   .notify = options->notify,
                                   .context = options->context};
  memcpy(store.identity, cache->identity, sizeof store.identity);
  return kv_store_open(&cache->store, &store, error);
}

int disk_cache_attach(struct disk_cache *cache, struct stage *stage, uint32_t first_layer, uint32_t layer_count,
                      struct kj_error *error) {
  int code = 0;
  cache->stage = stage;
  if (!cache->identified)
    code = kv_identity(cache->identity, cache->options.checkpoint, cache->options.backend, first_layer, layer_count,
                       true, error);
  if (code) return code;
  cache->identified = true;
  disk_index_identify(cache->index, 0, cache->identity);
  if (layer_count == 0) {
    disk_index_exempt(cache->index, 0);
    return 0;
  }
  if (!cache->store && (code = open_store(cache, first_layer, layer_count, error))) return code;
  struct block_key *keys;
  size_t count;
  if ((code = kv_store_inventory(cache->store, &keys, &count, error))) return code;
  code = disk_index_add(cache->index, 0, kv_store_capacity(cache->store), keys, count, error);
  free(keys);
  return code;
}

void disk_cache_ready(struct disk_cache *cache) {
  uint32_t missing = disk_index_ready(cache->index);
  if (missing > 0 && missing < stage_count(cache)) {
    size_t count;
    const struct cluster_node *nodes = cluster_nodes(cache->options.cluster, &count);
    if (!cache->told)
      log_warning("%s keeps no KV blocks on disk (--kv-disk), so that nobody does", nodes[missing - 1].address);
  } else if (missing == stage_count(cache) && !cache->told) {
    log_info("%u KV blocks (%u tokens) can be restored from disk; there is room for %u", disk_index_count(cache->index),
             disk_index_count(cache->index) * KV_BLOCK, disk_index_capacity(cache->index));
  }
  cache->told = true;
}

void disk_cache_poll(struct disk_cache *cache) {
  enum { MOST = 64 };
  struct block_key keys[MOST];
  size_t count;
  while (cache->store && (count = kv_store_take_written(cache->store, keys, MOST)) > 0)
    disk_index_add(cache->index, 0, kv_store_capacity(cache->store), keys, count, NULL); /* at worst not restorable */
}

int disk_cache_send(struct disk_cache *cache, struct kj_error *error) {
  if (cache->count == 0) return 0;
  int code = cluster_send_blocks(cache->options.cluster, cache->orders, cache->count, error);
  cache->count = 0;
  return code;
}

/* False without memory. Without nodes there is nobody to give orders to. */
static bool reserve_order(struct disk_cache *cache) {
  if (!cache->options.cluster || cache->count < cache->room) return true;
  size_t room = cache->room ? 2 * cache->room : 16;
  struct block_operation *larger = realloc(cache->orders, room * sizeof *larger);
  if (!larger) return false;
  cache->orders = larger;
  cache->room = room;
  return true;
}

/* Has the nodes do it, too. Without memory they do not: for what is kept and dropped that is only a loss. */
static void order(struct disk_cache *cache, const struct block_operation *operation) {
  if (cache->options.cluster && reserve_order(cache)) cache->orders[cache->count++] = *operation;
}

/* Goes on, or back to the start, so that the chain stands before block `index`. */
static void chain_move(const struct disk_cache *cache, struct block_chain *chain, const uint32_t *tokens,
                       uint32_t index) {
  struct block_key start = disk_index_start(cache->index);
  if (chain->blocks == 0 || chain->blocks > index || !block_key_equal(&chain->start, &start))
    *chain = (struct block_chain){.start = start, .key = start, .hash = token_hash_start()};
  for (; chain->blocks < index; chain->blocks++) {
    const uint32_t *block = tokens + (size_t)chain->blocks * KV_BLOCK;
    chain->key = block_key_extend(&chain->key, block);
    for (int i = 0; i < KV_BLOCK; i++) chain->hash = token_hash_extend(chain->hash, block[i]);
  }
}

static struct block_operation operation_on(const struct disk_cache *cache, enum block_action action,
                                           struct block_chain *chain, const uint32_t *tokens, uint32_t index,
                                           uint32_t block) {
  chain_move(cache, chain, tokens, index);
  struct block_operation operation = {
      .action = action, .previous = chain->key, .prefix_hash = chain->hash, .block = block};
  memcpy(operation.tokens, tokens + (size_t)index * KV_BLOCK, sizeof operation.tokens);
  operation.key = block_key_extend(&operation.previous, operation.tokens);
  return operation;
}

/* On all stages. */
static void drop(struct disk_cache *cache, const struct block_key *key) {
  struct block_operation operation = {.action = BLOCK_DROP, .key = *key};
  stage_blocks(cache->stage, cache->store, &operation, 1, NULL, NULL);
  order(cache, &operation);
}

uint32_t disk_cache_find(struct disk_cache *cache, const uint32_t *tokens, uint32_t first, uint32_t limit) {
  if (disk_index_count(cache->index) == 0) return 0;
  struct block_key key = disk_index_start(cache->index);
  uint32_t index;
  for (index = 0; index < limit; index++) {
    key = block_key_extend(&key, tokens + (size_t)index * KV_BLOCK);
    if (!disk_index_find(cache->index, &key) && index >= first) break;
  }
  return index > first ? index - first : 0;
}

bool disk_cache_restore(struct disk_cache *cache, struct block_chain *chain, const uint32_t *tokens, uint32_t index,
                        uint32_t block) {
  struct block_operation operation = operation_on(cache, BLOCK_RESTORE, chain, tokens, index, block);
  struct kj_error error;
  if (!reserve_order(cache)) return false;
  if (stage_blocks(cache->stage, cache->store, &operation, 1, NULL, &error)) {
    log_warning("%s; it is computed again", error.message);
    disk_index_remove(cache->index, &operation.key);
    drop(cache, &operation.key);
    return false;
  }
  order(cache, &operation);
  return true;
}

int disk_cache_store(struct disk_cache *cache, struct block_chain *chain, const uint32_t *tokens, uint32_t index,
                     uint32_t block, struct kj_error *error) {
  struct block_key drops[DISK_INDEX_MOST_DROPS];
  uint32_t drop_count;
  if (disk_index_capacity(cache->index) == 0) return 0;
  struct block_operation operation = operation_on(cache, BLOCK_STORE, chain, tokens, index, block);
  bool wanted = disk_index_want(cache->index, &operation.key, drops, &drop_count);
  for (uint32_t i = 0; i < drop_count; i++) drop(cache, &drops[i]);
  if (!wanted) return 0;
  int code = stage_blocks(cache->stage, cache->store, &operation, 1, NULL, error);
  if (!code) order(cache, &operation);
  return code;
}

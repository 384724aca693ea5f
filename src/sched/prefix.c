#include "sched/prefix.h"

#include <stdlib.h>
#include <string.h>

#include "stage/ledger.h"

#define NONE UINT32_MAX

/* What the cache knows of a block. Its number is the block's id.
 *
 * A block with uses is in use; one without stands in the list of idle ones. Since a child in use counts as a use of its
 * parent, a parent becomes idle after all its children and stands behind them: the first of the list is always a leaf,
 * whatever the order in which references come and go. */
struct node {
  bool held;
  uint32_t parent;         /* or NONE: the block holds a sequence's first tokens */
  uint32_t uses;           /* references of others than the cache, and children in use */
  uint32_t next_in_bucket; /* or NONE */
  uint32_t older, newer;   /* in the list of idle blocks; NONE at its ends */
  uint32_t tokens[KV_BLOCK];
};

struct prefix_cache {
  struct block_allocator *blocks;
  struct node *nodes; /* [blocks_total] */
  uint32_t *buckets;  /* [bucket_mask + 1] first node whose parent and tokens hash to it, or NONE */
  uint32_t bucket_mask;
  uint32_t oldest, newest; /* ends of the list of idle blocks */
  uint32_t idle;           /* its length */
};

int prefix_create(struct prefix_cache **result, struct block_allocator *blocks, struct kj_error *error) {
  *result = NULL;
  uint32_t count = blocks_total(blocks), last = 1;
  while (last < count && last < UINT32_MAX / 2) last = 2 * last + 1;
  struct prefix_cache *cache = calloc(1, sizeof *cache);
  if (!cache) return kj_fail_memory(error, "the prefix cache");
  cache->blocks = blocks;
  cache->bucket_mask = last;
  cache->nodes = calloc((size_t)count + 1, sizeof *cache->nodes);
  cache->buckets = malloc(((size_t)last + 1) * sizeof *cache->buckets);
  if (!cache->nodes || !cache->buckets) {
    free(cache->nodes);
    free(cache->buckets);
    free(cache);
    return kj_fail_memory(error, "the prefix cache");
  }
  for (size_t i = 0; i <= last; i++) cache->buckets[i] = NONE;
  cache->oldest = cache->newest = NONE;
  *result = cache;
  return 0;
}

void prefix_destroy(struct prefix_cache *cache) {
  if (!cache) return;
  prefix_clear(cache);
  free(cache->nodes);
  free(cache->buckets);
  free(cache);
}

static void idle_append(struct prefix_cache *cache, uint32_t id) {
  struct node *node = &cache->nodes[id];
  node->older = cache->newest;
  node->newer = NONE;
  if (cache->newest == NONE)
    cache->oldest = id;
  else
    cache->nodes[cache->newest].newer = id;
  cache->newest = id;
  cache->idle++;
}

static void idle_remove(struct prefix_cache *cache, uint32_t id) {
  const struct node *node = &cache->nodes[id];
  if (node->older == NONE)
    cache->oldest = node->newer;
  else
    cache->nodes[node->older].newer = node->newer;
  if (node->newer == NONE)
    cache->newest = node->older;
  else
    cache->nodes[node->newer].older = node->older;
  cache->idle--;
}

/* A use more, of ancestors too as far as they were idle. Every step up moves a block that an earlier release made idle,
 * so that both walks take a constant time a reference on average. */
static void add_use(struct prefix_cache *cache, uint32_t id) {
  for (; id != NONE && cache->nodes[id].uses++ == 0; id = cache->nodes[id].parent) idle_remove(cache, id);
}

static void drop_use(struct prefix_cache *cache, uint32_t id) {
  for (; id != NONE && --cache->nodes[id].uses == 0; id = cache->nodes[id].parent) idle_append(cache, id);
}

static uint32_t *bucket(struct prefix_cache *cache, uint32_t parent, const uint32_t *tokens) {
  uint64_t hash = token_hash_extend(token_hash_start(), parent);
  for (uint32_t i = 0; i < KV_BLOCK; i++) hash = token_hash_extend(hash, tokens[i]);
  return &cache->buckets[hash & cache->bucket_mask];
}

/* In the bucket that begins with `first`. Equal hashes prove nothing: the tokens are compared. */
static uint32_t find_child(const struct prefix_cache *cache, uint32_t first, uint32_t parent, const uint32_t *tokens) {
  uint32_t id = first;
  while (id != NONE && (cache->nodes[id].parent != parent ||
                        memcmp(cache->nodes[id].tokens, tokens, sizeof cache->nodes[id].tokens) != 0))
    id = cache->nodes[id].next_in_bucket;
  return id;
}

uint32_t prefix_share(struct prefix_cache *cache, const uint32_t *tokens, uint32_t *blocks, uint32_t first,
                      uint32_t limit) {
  uint32_t found = first, parent = first > 0 ? blocks[first - 1] : NONE;
  for (; found < limit; found++) {
    const uint32_t *block = tokens + (size_t)found * KV_BLOCK;
    uint32_t child = find_child(cache, *bucket(cache, parent, block), parent, block);
    if (child == NONE) break;
    add_use(cache, child);
    blocks_share(cache->blocks, child);
    blocks[found] = parent = child;
  }
  return found;
}

void prefix_keep(struct prefix_cache *cache, const uint32_t *tokens, uint32_t *blocks, uint32_t index) {
  uint32_t id = blocks[index], parent = index > 0 ? blocks[index - 1] : NONE;
  struct node *node = &cache->nodes[id];
  if (node->held || (parent != NONE && !cache->nodes[parent].held)) return;
  tokens += (size_t)index * KV_BLOCK;
  uint32_t *first = bucket(cache, parent, tokens), other = find_child(cache, *first, parent, tokens);
  if (other != NONE) {
    add_use(cache, other);
    blocks_share(cache->blocks, other);
    blocks_release(cache->blocks, id);
    blocks[index] = other;
    return;
  }
  node->held = true;
  node->parent = parent;
  node->uses = blocks_references(cache->blocks, id);
  memcpy(node->tokens, tokens, sizeof node->tokens);
  node->next_in_bucket = *first;
  *first = id;
  blocks_share(cache->blocks, id);
  add_use(cache, parent);
}

void prefix_release(struct prefix_cache *cache, uint32_t block) {
  if (cache->nodes[block].held) drop_use(cache, block);
  blocks_release(cache->blocks, block);
}

uint32_t prefix_idle(const struct prefix_cache *cache) { return cache->idle; }

static void give_up_oldest(struct prefix_cache *cache) {
  uint32_t id = cache->oldest;
  struct node *node = &cache->nodes[id];
  uint32_t *link = bucket(cache, node->parent, node->tokens);
  while (*link != id) link = &cache->nodes[*link].next_in_bucket;
  *link = node->next_in_bucket;
  idle_remove(cache, id);
  node->held = false;
  blocks_release(cache->blocks, id);
}

bool prefix_take(struct prefix_cache *cache, uint32_t count, uint32_t *blocks) {
  uint32_t available = blocks_free(cache->blocks);
  if (count > available && count - available > cache->idle) return false;
  for (; available < count; available++) give_up_oldest(cache);
  return blocks_take(cache->blocks, count, blocks);
}

void prefix_clear(struct prefix_cache *cache) {
  uint32_t count = blocks_total(cache->blocks);
  for (uint32_t id = 0; id < count; id++) {
    if (!cache->nodes[id].held) continue;
    cache->nodes[id].held = false;
    blocks_release(cache->blocks, id);
  }
  for (size_t i = 0; i <= cache->bucket_mask; i++) cache->buckets[i] = NONE;
  cache->oldest = cache->newest = NONE;
  cache->idle = 0;
}

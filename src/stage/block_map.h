/* A hash table from block keys (link/block_key.h) to places in an array of the caller's. Keys are hashes themselves, so
 * their first bytes spread evenly. Zero-initialise to create. */
#ifndef KAIJU_STAGE_BLOCK_MAP_H
#define KAIJU_STAGE_BLOCK_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "link/block_key.h"

#define BLOCK_MAP_NONE UINT32_MAX

struct block_map {
  struct block_map_slot *slots; /* a power of two of them, at most half full */
  size_t size, count;
};

void block_map_free(struct block_map *map);
void block_map_clear(struct block_map *map);
/* The key's place, or BLOCK_MAP_NONE. */
uint32_t block_map_find(const struct block_map *map, const struct block_key *key);
/* Sets the key's place; only adding a key can fail. */
int block_map_put(struct block_map *map, const struct block_key *key, uint32_t place, struct kj_error *error);
void block_map_remove(struct block_map *map, const struct block_key *key);

#endif

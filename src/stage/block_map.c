#include "stage/block_map.h"

#include <stdlib.h>

struct block_map_slot {
  struct block_key key;
  uint32_t place; /* BLOCK_MAP_NONE: the slot is free */
};

enum { SMALLEST = 64 };

void block_map_free(struct block_map *map) {
  free(map->slots);
  *map = (struct block_map){0};
}

void block_map_clear(struct block_map *map) {
  for (size_t i = 0; i < map->size; i++) map->slots[i].place = BLOCK_MAP_NONE;
  map->count = 0;
}

static size_t home(const struct block_map *map, const struct block_key *key) {
  uint64_t hash;
  memcpy(&hash, key->bytes, sizeof hash);
  return (size_t)hash & (map->size - 1);
}

/* The slot that has the key, or the free one where it would be. */
static size_t locate(const struct block_map *map, const struct block_key *key) {
  size_t slot = home(map, key);
  while (map->slots[slot].place != BLOCK_MAP_NONE && !block_key_equal(&map->slots[slot].key, key))
    slot = (slot + 1) & (map->size - 1);
  return slot;
}

uint32_t block_map_find(const struct block_map *map, const struct block_key *key) {
  return map->size ? map->slots[locate(map, key)].place : BLOCK_MAP_NONE;
}

static int grow(struct block_map *map, struct kj_error *error) {
  struct block_map larger = {.size = map->size ? 2 * map->size : SMALLEST, .count = map->count};
  larger.slots = malloc(larger.size * sizeof *larger.slots);
  if (!larger.slots) return kj_fail_memory(error, "the table of KV blocks");
  for (size_t i = 0; i < larger.size; i++) larger.slots[i].place = BLOCK_MAP_NONE;
  for (size_t i = 0; i < map->size; i++)
    if (map->slots[i].place != BLOCK_MAP_NONE) larger.slots[locate(&larger, &map->slots[i].key)] = map->slots[i];
  free(map->slots);
  *map = larger;
  return 0;
}

int block_map_put(struct block_map *map, const struct block_key *key, uint32_t place, struct kj_error *error) {
  if (2 * (map->count + 1) > map->size && block_map_find(map, key) == BLOCK_MAP_NONE) {
    int code = grow(map, error);
    if (code) return code;
  }
  struct block_map_slot *slot = &map->slots[locate(map, key)];
  map->count += slot->place == BLOCK_MAP_NONE;
  *slot = (struct block_map_slot){*key, place};
  return 0;
}

void block_map_remove(struct block_map *map, const struct block_key *key) {
  if (block_map_find(map, key) == BLOCK_MAP_NONE) return;
  size_t mask = map->size - 1, hole = locate(map, key);
  /* Those behind it move up as far as their home allows, so that no search ends at the hole. */
  for (size_t next = (hole + 1) & mask; map->slots[next].place != BLOCK_MAP_NONE; next = (next + 1) & mask) {
    if (((next - home(map, &map->slots[next].key)) & mask) < ((next - hole) & mask)) continue;
    map->slots[hole] = map->slots[next];
    hole = next;
  }
  map->slots[hole].place = BLOCK_MAP_NONE;
  map->count--;
}

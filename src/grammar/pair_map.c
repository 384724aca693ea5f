#include "grammar/pair_map.h"

#include <stdint.h>
#include <stdlib.h>

void pair_map_free(struct pair_map *map) {
  free(map->entries);
  *map = (struct pair_map){0};
}

/* Where the pair is or would be. */
static struct pair_map_entry *place(const struct pair_map *map, const void *first, const void *second) {
  uint64_t hash = (uint64_t)(uintptr_t)first * 0x9e3779b97f4a7c15u ^ (uint64_t)(uintptr_t)second * 0xc2b2ae3d27d4eb4fu;
  size_t at = (size_t)(hash ^ hash >> 29) & (map->capacity - 1);
  while (map->entries[at].first && (map->entries[at].first != first || map->entries[at].second != second))
    at = (at + 1) & (map->capacity - 1);
  return &map->entries[at];
}

const struct pair_map_entry *pair_map_find(const struct pair_map *map, const void *first, const void *second) {
  if (!map->capacity) return NULL;
  const struct pair_map_entry *entry = place(map, first, second);
  return entry->first ? entry : NULL;
}

bool pair_map_add(struct pair_map *map, const void *first, const void *second, size_t number) {
  if (2 * map->count >= map->capacity) {
    struct pair_map grown = {.capacity = map->capacity ? 2 * map->capacity : 64, .count = map->count};
    grown.entries = calloc(grown.capacity, sizeof *grown.entries);
    if (!grown.entries) return false;
    for (size_t i = 0; i < map->capacity; i++)
      if (map->entries[i].first) *place(&grown, map->entries[i].first, map->entries[i].second) = map->entries[i];
    free(map->entries);
    *map = grown;
  }
  *place(map, first, second) = (struct pair_map_entry){first, second, number};
  map->count++;
  return true;
}

/* From pairs of addresses to numbers. Zero-initialise to create. */
#ifndef KAIJU_GRAMMAR_PAIR_MAP_H
#define KAIJU_GRAMMAR_PAIR_MAP_H

#include <stdbool.h>
#include <stddef.h>

struct pair_map_entry {
  const void *first, *second;
  size_t number;
};

struct pair_map {
  struct pair_map_entry *entries; /* a power of two of them; `first` NULL: free */
  size_t count, capacity;
};

void pair_map_free(struct pair_map *map);
/* The entry of the pair, or NULL. */
const struct pair_map_entry *pair_map_find(const struct pair_map *map, const void *first, const void *second);
/* Adds a pair that is not there; `first` is not NULL. False without memory. */
bool pair_map_add(struct pair_map *map, const void *first, const void *second, size_t number);

#endif

#include "text/jinja_arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct arena_block {
  struct arena_block *next;
  size_t used, size;
  _Alignas(max_align_t) unsigned char bytes[];
};

enum { FIRST_BLOCK = 8 * 1024, LARGEST_BLOCK = 1024 * 1024 };

static bool add_block(struct arena *arena, size_t needed) {
  size_t size = arena->blocks ? arena->blocks->size * 2 : FIRST_BLOCK;
  if (size > LARGEST_BLOCK) size = LARGEST_BLOCK;
  if (size < needed) size = needed;
  if (size > arena->limit - arena->total) size = needed;
  if (size > arena->limit - arena->total) return false;
  struct arena_block *block = calloc(1, sizeof *block + size);
  if (!block) return false;
  block->size = size;
  block->next = arena->blocks;
  arena->blocks = block;
  arena->total += size;
  return true;
}

void *arena_allocate(struct arena *arena, size_t count, size_t size) {
  size_t bytes = 0;
  size_t alignment = _Alignof(max_align_t);
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4) return NULL;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  struct arena_block *block = arena->blocks;
  if (!block || block->size - block->used < bytes) {
    if (!add_block(arena, bytes)) return NULL;
    block = arena->blocks;
  }
  void *piece = block->bytes + block->used;
  block->used += bytes;
  return piece;
}

void arena_free(struct arena *arena) {
  while (arena->blocks) {
    struct arena_block *next = arena->blocks->next;
    free(arena->blocks);
    arena->blocks = next;
  }
  arena->total = 0;
}

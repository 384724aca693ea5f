#include "sched/blocks.h"

#include <stdlib.h>

struct block_allocator {
  uint32_t count, free_count;
  uint32_t *free_ids;   /* [count] a stack of the free ones */
  uint32_t *references; /* [count] */
};

int blocks_create(struct block_allocator **result, uint32_t count, struct kj_error *error) {
  *result = NULL;
  struct block_allocator *allocator = calloc(1, sizeof *allocator);
  if (!allocator) return kj_fail_memory(error, "the KV block allocator");
  allocator->count = allocator->free_count = count;
  allocator->free_ids = calloc(count, sizeof *allocator->free_ids);
  allocator->references = calloc(count, sizeof *allocator->references);
  if (!allocator->free_ids || !allocator->references) {
    blocks_destroy(allocator);
    return kj_fail_memory(error, "the KV block allocator");
  }
  for (uint32_t i = 0; i < count; i++) allocator->free_ids[i] = count - 1 - i;
  *result = allocator;
  return 0;
}

void blocks_destroy(struct block_allocator *allocator) {
  if (!allocator) return;
  free(allocator->free_ids);
  free(allocator->references);
  free(allocator);
}

uint32_t blocks_total(const struct block_allocator *allocator) { return allocator->count; }
uint32_t blocks_free(const struct block_allocator *allocator) { return allocator->free_count; }
uint32_t blocks_references(const struct block_allocator *allocator, uint32_t id) { return allocator->references[id]; }

bool blocks_take(struct block_allocator *allocator, uint32_t count, uint32_t *ids) {
  if (count > allocator->free_count) return false;
  for (uint32_t i = 0; i < count; i++) {
    ids[i] = allocator->free_ids[--allocator->free_count];
    allocator->references[ids[i]] = 1;
  }
  return true;
}

void blocks_share(struct block_allocator *allocator, uint32_t id) { allocator->references[id]++; }

void blocks_release(struct block_allocator *allocator, uint32_t id) {
  if (--allocator->references[id] == 0) allocator->free_ids[allocator->free_count++] = id;
}

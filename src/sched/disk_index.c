#include "sched/disk_index.h"

#include <sodium.h>
#include <stdlib.h>

#include "stage/block_map.h"

static const uint32_t NONE = BLOCK_MAP_NONE;
enum {
  /* Stages that were not always together may have different blocks. */
  MOST_ENTRIES = 2 * MESSAGE_MAX_DISK_BLOCKS
};

struct entry {
  struct block_key key;
  uint64_t stages;       /* bit by bit: who has it */
  uint32_t older, newer; /* in order of use; of a free entry, newer is the next free one */
};

struct disk_index {
  uint32_t stage_count;
  uint64_t all, exempt;                  /* stages; those without layers */
  uint32_t capacity[MESSAGE_MAX_STAGES]; /* 0: not reported */
  uint8_t identities[MESSAGE_MAX_STAGES][MESSAGE_IDENTITY];
  struct block_key start; /* of all these, once ready */
  uint32_t smallest;      /* of the capacities; 0: not ready */
  struct block_map places;
  struct entry *entries; /* [room], `used` of which are or were in use */
  uint32_t room, used, free;
  uint32_t oldest, newest;
  uint32_t complete; /* entries that all stages have */
};

int disk_index_create(struct disk_index **result, uint32_t stages, struct kj_error *error) {
  *result = NULL;
  if (stages == 0 || stages > MESSAGE_MAX_STAGES)
    return kj_fail(error, KJ_INVALID, "%u stages: KV blocks on disk are kept of 1 to %d", stages, MESSAGE_MAX_STAGES);
  struct disk_index *index = calloc(1, sizeof *index);
  if (!index) return kj_fail_memory(error, "the index of KV blocks on disk");
  index->stage_count = stages;
  index->all = stages == 64 ? UINT64_MAX : ((uint64_t)1 << stages) - 1;
  disk_index_begin(index);
  *result = index;
  return 0;
}

void disk_index_destroy(struct disk_index *index) {
  if (!index) return;
  block_map_free(&index->places);
  free(index->entries);
  free(index);
}

void disk_index_begin(struct disk_index *index) {
  block_map_clear(&index->places);
  memset(index->capacity, 0, sizeof index->capacity);
  memset(index->identities, 0, sizeof index->identities);
  index->exempt = 0;
  index->smallest = index->used = index->complete = 0;
  index->free = index->oldest = index->newest = NONE;
}

void disk_index_exempt(struct disk_index *index, uint32_t stage) { index->exempt |= (uint64_t)1 << stage; }

static void take_out(struct disk_index *index, uint32_t place) {
  const struct entry *entry = &index->entries[place];
  *(entry->older == NONE ? &index->oldest : &index->entries[entry->older].newer) = entry->newer;
  *(entry->newer == NONE ? &index->newest : &index->entries[entry->newer].older) = entry->older;
}

static void put_newest(struct disk_index *index, uint32_t place) {
  struct entry *entry = &index->entries[place];
  entry->older = index->newest;
  entry->newer = NONE;
  *(index->newest == NONE ? &index->oldest : &index->entries[index->newest].newer) = place;
  index->newest = place;
}

static void put_oldest(struct disk_index *index, uint32_t place) {
  struct entry *entry = &index->entries[place];
  entry->newer = index->oldest;
  entry->older = NONE;
  *(index->oldest == NONE ? &index->newest : &index->entries[index->oldest].older) = place;
  index->oldest = place;
}

static bool is_complete(const struct disk_index *index, const struct entry *entry) {
  return (entry->stages | index->exempt) == index->all;
}

static int grow(struct disk_index *index, struct kj_error *error) {
  uint32_t room = index->room ? 2 * index->room : 256;
  struct entry *larger = realloc(index->entries, room * sizeof *larger);
  if (!larger) return kj_fail_memory(error, "the index of KV blocks on disk");
  index->entries = larger;
  index->room = room;
  return 0;
}

/* A new entry, the newest, that no stage has. */
static int insert(struct disk_index *index, const struct block_key *key, uint32_t *place, struct kj_error *error) {
  int code = 0;
  if (index->free == NONE && index->used == index->room) code = grow(index, error);
  if (code) return code;
  *place = index->free != NONE ? index->free : index->used;
  if ((code = block_map_put(&index->places, key, *place, error))) return code;
  if (index->free != NONE)
    index->free = index->entries[*place].newer;
  else
    index->used++;
  index->entries[*place] = (struct entry){.key = *key};
  put_newest(index, *place);
  return 0;
}

static void remove_entry(struct disk_index *index, uint32_t place) {
  struct entry *entry = &index->entries[place];
  index->complete -= is_complete(index, entry);
  block_map_remove(&index->places, &entry->key);
  take_out(index, place);
  entry->newer = index->free;
  index->free = place;
}

int disk_index_add(struct disk_index *index, uint32_t stage, uint32_t capacity, const struct block_key *keys,
                   size_t count, struct kj_error *error) {
  if (stage >= index->stage_count) return kj_fail(error, KJ_INVALID, "stage %u of %u", stage, index->stage_count);
  index->capacity[stage] = capacity;
  for (size_t i = 0; i < count; i++) {
    uint32_t place = block_map_find(&index->places, &keys[i]);
    if (place == NONE) {
      /* Once ready, stages write only what is in the index: this one was dropped while the news was on its way. */
      if (index->smallest > 0 || index->places.count >= MOST_ENTRIES) continue;
      int code = insert(index, &keys[i], &place, error);
      if (code) return code;
    }
    struct entry *entry = &index->entries[place];
    bool before = is_complete(index, entry);
    entry->stages |= (uint64_t)1 << stage;
    index->complete += !before && is_complete(index, entry);
  }
  return 0;
}

void disk_index_identify(struct disk_index *index, uint32_t stage, const uint8_t identity[MESSAGE_IDENTITY]) {
  if (stage < index->stage_count) memcpy(index->identities[stage], identity, MESSAGE_IDENTITY);
}

struct block_key disk_index_start(const struct disk_index *index) {
  return index->start;
}

uint32_t disk_index_ready(struct disk_index *index) {
  uint32_t smallest = UINT32_MAX, missing = index->stage_count;
  for (uint32_t i = index->stage_count; i-- > 0;) {
    if (index->exempt >> i & 1) continue;
    if (index->capacity[i] == 0) missing = i;
    if (index->capacity[i] < smallest) smallest = index->capacity[i];
  }
  index->smallest = smallest == UINT32_MAX ? 0 : smallest;
  crypto_generichash(index->start.bytes, sizeof index->start.bytes, index->identities[0],
                     (size_t)index->stage_count * MESSAGE_IDENTITY, NULL, 0);
  /* What only some stages have becomes the oldest, in the order that it has. */
  uint32_t older, place = index->newest;
  for (size_t left = index->places.count; left > 0; left--, place = older) {
    older = index->entries[place].older;
    if (is_complete(index, &index->entries[place])) continue;
    take_out(index, place);
    put_oldest(index, place);
  }
  return missing;
}

bool disk_index_find(struct disk_index *index, const struct block_key *key) {
  uint32_t place = index->smallest ? block_map_find(&index->places, key) : NONE;
  if (place == NONE || !is_complete(index, &index->entries[place])) return false;
  take_out(index, place);
  put_newest(index, place);
  return true;
}

bool disk_index_want(struct disk_index *index, const struct block_key *key, struct block_key *drops,
                     uint32_t *drop_count) {
  *drop_count = 0;
  if (!index->smallest) return false;
  uint32_t place = block_map_find(&index->places, key);
  if (place != NONE) {
    take_out(index, place);
    put_newest(index, place);
    return !is_complete(index, &index->entries[place]);
  }
  while (index->places.count >= index->smallest && *drop_count < DISK_INDEX_MOST_DROPS) {
    drops[(*drop_count)++] = index->entries[index->oldest].key;
    remove_entry(index, index->oldest);
  }
  return index->places.count < index->smallest && insert(index, key, &place, NULL) == 0;
}

void disk_index_remove(struct disk_index *index, const struct block_key *key) {
  uint32_t place = block_map_find(&index->places, key);
  if (place != NONE) remove_entry(index, place);
}

uint32_t disk_index_count(const struct disk_index *index) { return index->smallest ? index->complete : 0; }

uint32_t disk_index_capacity(const struct disk_index *index) { return index->smallest; }

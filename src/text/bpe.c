#include "text/bpe.h"

#include <stdbool.h>
#include <stdlib.h>

#define NO_SYMBOL UINT32_MAX
#define NO_PAIR UINT64_MAX

struct merge {
  uint64_t pair; /* left << 32 | right, or NO_PAIR in a free slot */
  uint32_t rank;
};

struct merges {
  struct merge *slots; /* hash table with linear probing */
  uint64_t mask;
  unsigned shift;
  uint32_t *results; /* by rank */
  uint32_t count;
};

int merges_create(struct merges **merges, size_t capacity, struct kj_error *error) {
  *merges = NULL;
  if (capacity > UINT32_MAX / 4) return kj_fail(error, KJ_INVALID, "%zu merges are too many", capacity);
  struct merges *made = calloc(1, sizeof *made);
  if (!made) return kj_fail_memory(error, "the merges");
  unsigned bits = 4;
  while (((uint64_t)1 << bits) < (uint64_t)capacity * 2) bits++;
  uint64_t slot_count = (uint64_t)1 << bits;
  made->mask = slot_count - 1;
  made->shift = 64 - bits;
  made->slots = malloc(slot_count * sizeof *made->slots);
  made->results = malloc((capacity ? capacity : 1) * sizeof *made->results);
  if (!made->slots || !made->results) {
    merges_free(made);
    return kj_fail_memory(error, "the merges");
  }
  for (uint64_t i = 0; i < slot_count; i++) made->slots[i].pair = NO_PAIR;
  *merges = made;
  return 0;
}

void merges_free(struct merges *merges) {
  if (!merges) return;
  free(merges->slots);
  free(merges->results);
  free(merges);
}

static uint64_t pair_of(uint32_t left, uint32_t right) { return (uint64_t)left << 32 | right; }

/* The pair's slot, or the free one where it belongs. */
static struct merge *slot_of(const struct merges *merges, uint64_t pair) {
  uint64_t at = (pair ^ pair >> 29) * 0x9e3779b97f4a7c15u >> merges->shift;
  while (merges->slots[at].pair != pair && merges->slots[at].pair != NO_PAIR) at = (at + 1) & merges->mask;
  return &merges->slots[at];
}

void merges_add(struct merges *merges, uint32_t left, uint32_t right, uint32_t result) {
  struct merge *slot = slot_of(merges, pair_of(left, right));
  *slot = (struct merge){pair_of(left, right), merges->count};
  merges->results[merges->count++] = result;
}

static bool find_rank(const struct merges *merges, uint32_t left, uint32_t right, uint32_t *rank) {
  const struct merge *slot = slot_of(merges, pair_of(left, right));
  *rank = slot->rank;
  return slot->pair != NO_PAIR;
}

void merge_scratch_free(struct merge_scratch *scratch) {
  free(scratch->previous);
  free(scratch->next);
  free(scratch->queue);
  *scratch = (struct merge_scratch){0};
}

/* The queue holds at most count - 1 pairs at first and one more for each of at most count - 1 merges. */
static int reserve(struct merge_scratch *scratch, size_t count, struct kj_error *error) {
  if (count <= scratch->capacity) return 0;
  merge_scratch_free(scratch);
  size_t capacity = 64;
  while (capacity < count) capacity *= 2;
  scratch->previous = malloc(capacity * sizeof *scratch->previous);
  scratch->next = malloc(capacity * sizeof *scratch->next);
  scratch->queue = malloc(capacity * 2 * sizeof *scratch->queue);
  if (!scratch->previous || !scratch->next || !scratch->queue) {
    merge_scratch_free(scratch);
    return kj_fail_memory(error, "the pairs of a long piece of text");
  }
  scratch->capacity = capacity;
  return 0;
}

/* A binary min-heap of rank << 32 | position: the order in which pairs merge. */
static void sift_down(uint64_t *queue, size_t count, size_t at) {
  uint64_t item = queue[at];
  for (;;) {
    size_t child = at * 2 + 1;
    if (child >= count) break;
    if (child + 1 < count && queue[child + 1] < queue[child]) child++;
    if (queue[child] >= item) break;
    queue[at] = queue[child];
    at = child;
  }
  queue[at] = item;
}

static void sift_up(uint64_t *queue, size_t at) {
  uint64_t item = queue[at];
  while (at && queue[(at - 1) / 2] > item) {
    queue[at] = queue[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  queue[at] = item;
}

static void push(const struct merges *merges, const uint32_t *ids, uint32_t left, uint32_t right, uint64_t *queue,
                 size_t *queued) {
  uint32_t rank;
  if (!find_rank(merges, ids[left], ids[right], &rank)) return;
  queue[*queued] = (uint64_t)rank << 32 | left;
  sift_up(queue, (*queued)++);
}

int merges_apply(const struct merges *merges, struct merge_scratch *scratch, uint32_t *ids, size_t *count,
                 struct kj_error *error) {
  if (*count < 2) return 0;
  int code = reserve(scratch, *count, error);
  if (code) return code;
  uint32_t *previous = scratch->previous, *next = scratch->next;
  uint64_t *queue = scratch->queue;
  uint32_t symbols = (uint32_t)*count;
  size_t queued = 0;
  for (uint32_t i = 0; i < symbols; i++) {
    uint32_t rank;
    previous[i] = i ? i - 1 : NO_SYMBOL;
    next[i] = i + 1 < symbols ? i + 1 : NO_SYMBOL;
    if (i + 1 < symbols && find_rank(merges, ids[i], ids[i + 1], &rank)) queue[queued++] = (uint64_t)rank << 32 | i;
  }
  for (size_t i = queued / 2; i-- > 0;) sift_down(queue, queued, i);
  while (queued) {
    uint32_t left = (uint32_t)queue[0], result = merges->results[queue[0] >> 32];
    queue[0] = queue[--queued];
    if (queued) sift_down(queue, queued, 0);
    /* The entry may have expired: its left symbol merged away (it then is its own successor), or other symbols are
     * there now. Like `tokenizers`, any pair at this place with the same result is still taken. */
    uint32_t right = next[left], rank;
    if (right == left || right == NO_SYMBOL) continue;
    if (!find_rank(merges, ids[left], ids[right], &rank) || merges->results[rank] != result) continue;
    ids[left] = result;
    next[left] = next[right];
    if (next[right] != NO_SYMBOL) previous[next[right]] = left;
    next[right] = right;
    if (previous[left] != NO_SYMBOL) push(merges, ids, previous[left], left, queue, &queued);
    if (next[left] != NO_SYMBOL) push(merges, ids, left, next[left], queue, &queued);
  }
  size_t kept = 0;
  for (uint32_t i = 0; i != NO_SYMBOL; i = next[i]) ids[kept++] = ids[i];
  *count = kept;
  return 0;
}

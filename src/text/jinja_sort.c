#include "text/jinja_sort.h"

/* Merges the sorted halves of `order` (positions into keys) that begin at `start` and `middle`. With `reverse`, larger
 * keys come first and equal ones still keep their order. */
static void merge(struct run *run, const struct value *keys, bool reverse, const size_t *order, size_t *merged,
                  size_t start, size_t middle, size_t end) {
  size_t left = start, right = middle;
  for (size_t i = start; i < end; i++) {
    bool take_right = left == middle;
    if (left < middle && right < end && run_step(run, 1)) {
      struct value a = keys[order[left]], b = keys[order[right]];
      take_right = reverse ? value_compare(run, a, b, "<") == -1 : value_compare(run, b, a, "<") == -1;
    }
    merged[i] = take_right ? order[right++] : order[left++];
  }
}

/* The positions of the keys in their order; NULL once the run has failed. */
static const size_t *sorted_order(struct run *run, const struct value *keys, size_t count, bool reverse) {
  size_t *order = run_allocate(run, count + 1, sizeof *order);
  size_t *other = run_allocate(run, count + 1, sizeof *other);
  if (!order || !other) return NULL;
  for (size_t i = 0; i < count; i++) order[i] = i;
  for (size_t width = 1; width < count; width *= 2) {
    for (size_t start = 0; start < count; start += 2 * width) {
      size_t middle = start + width < count ? start + width : count;
      size_t end = middle + width < count ? middle + width : count;
      merge(run, keys, reverse, order, other, start, middle, end);
    }
    size_t *swap = order;
    order = other;
    other = swap;
  }
  return run->failed ? NULL : order;
}

struct sequence *sort_items(struct run *run, const struct sequence *items, const struct value *keys, bool reverse) {
  struct sequence *sorted = sequence_make(run, SEQUENCE_LIST, items->count);
  const size_t *order = sorted_order(run, keys, items->count, reverse);
  for (size_t i = 0; order && i < items->count; i++) sequence_add(run, sorted, items->items[order[i]]);
  return sorted;
}

const struct pair *sort_pairs(struct run *run, const struct mapping *mapping) {
  struct value *keys = run_allocate(run, mapping->count + 1, sizeof *keys);
  struct pair *sorted = run_allocate(run, mapping->count + 1, sizeof *sorted);
  if (!keys || !sorted) return NULL;
  for (size_t i = 0; i < mapping->count; i++) keys[i] = mapping->pairs[i].key;
  const size_t *order = sorted_order(run, keys, mapping->count, false);
  for (size_t i = 0; order && i < mapping->count; i++) sorted[i] = mapping->pairs[order[i]];
  return order ? sorted : NULL;
}

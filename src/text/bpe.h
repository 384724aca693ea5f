/* Byte pair encoding (Sennrich et al. 2016): the merges of a vocabulary, applied to a piece of text by rank.
 *
 * Time is O(n log n) in the length of a piece, whatever it holds.
 */
#ifndef KAIJU_TEXT_BPE_H
#define KAIJU_TEXT_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct merges;

int merges_create(struct merges **merges, size_t capacity, struct kj_error *error); /* room for `capacity` merges */
void merges_free(struct merges *merges);
/* The next lower-ranking merge: tokens `left` and `right` become `result`. A pair that was there counts as new. At
 * most `capacity` calls. */
void merges_add(struct merges *merges, uint32_t left, uint32_t right, uint32_t result);

/* Working memory of one thread. Zero-initialise. */
struct merge_scratch {
  uint32_t *previous, *next;
  uint64_t *queue;
  size_t capacity;
};
void merge_scratch_free(struct merge_scratch *scratch);

/* Merges neighbours among `ids` in place, the lowest rank first and the leftmost of equals, until none is left to
 * merge; sets *count to how many ids remain. *count must be below 2^31. */
int merges_apply(const struct merges *merges, struct merge_scratch *scratch, uint32_t *ids, size_t *count,
                 struct kj_error *error);

#endif

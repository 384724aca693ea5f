/* The masks of a grammar over a vocabulary: which tokens may follow in which state. Behind `struct grammar_masks`
 * (grammar/constraint.h); used by one thread at a time. */
#ifndef KAIJU_GRAMMAR_MASK_H
#define KAIJU_GRAMMAR_MASK_H

#include "grammar/constraint.h"
#include "grammar/parse_states.h"
#include "grammar/vocabulary_parts.h"

enum { MASK_CACHE_BYTES = 8 << 20 };

struct kept_mask {
  uint32_t state; /* canonical */
  uint64_t used;
  uint64_t *bits;
};

struct constraint; /* in grammar/constraint.c */

struct grammar_masks {
  atomic_uint references;
  struct grammar *grammar;
  struct token_vocabulary *vocabulary;
  uint32_t *end_tokens;
  size_t end_count, words;
  struct token_slice *slices[AUTOMATON_CLASSES]; /* of the grammar's repeated classes, or NULL */
  bool sliced;                                   /* whether there is any */
  struct parse_states *states;
  uint32_t *path; /* [longest token + 1] states along the bytes of a token */
  struct kept_mask *kept;
  size_t kept_count, kept_capacity;
  uint64_t clock;
  size_t collect_at;        /* bytes of states at which those are forgotten that no constraint is in */
  struct constraint *users; /* those whose states are numbers of `states` */
};

/* The mask of a state, valid until the next call; NULL after a failure. */
const uint64_t *mask_of(struct grammar_masks *masks, uint32_t state, struct kj_error *error);
/* All states have new numbers, or none. */
void mask_forget(struct grammar_masks *masks);

#endif

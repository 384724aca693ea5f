/* What the engine asks of whoever constrains a sequence's tokens: which may come next, and what came. Implemented above
 * (grammar/constraint.h). Used on the engine's thread alone once it has been submitted.
 */
#ifndef KAIJU_SCHED_TOKEN_CONSTRAINT_H
#define KAIJU_SCHED_TOKEN_CONSTRAINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct token_constraint;

struct token_constraint_operations {
  /* *bits: bit i % 64 of word i / 64 says whether token i may come next, for `vocabulary` tokens and zero beyond; valid
   * until the next call. End tokens are among them exactly where the text is complete. No bit at all is possible: no
   * token fits. An error (too ambiguous, out of memory) ends the sequence. */
  int (*allowed)(struct token_constraint *constraint, uint32_t vocabulary, const uint64_t **bits,
                 struct kj_error *error);
  /* The token, one of those allowed, came. Not called for an end token. */
  int (*accept)(struct token_constraint *constraint, uint32_t token, struct kj_error *error);
  void (*release)(struct token_constraint *constraint);
};

/* The beginning of the implementation's own struct. */
struct token_constraint {
  const struct token_constraint_operations *operations;
};

static inline void token_constraint_release(struct token_constraint *constraint) {
  if (constraint) constraint->operations->release(constraint);
}

#endif

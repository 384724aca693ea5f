/* A constraint for tests of the engine: which tokens it allows depends on the last one and on how many came, so that
 * another token, one that is accepted twice or one that is left out changes the answer. It counts itself. */
#ifndef KAIJU_TESTS_COUNTED_CONSTRAINT_H
#define KAIJU_TESTS_COUNTED_CONSTRAINT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sched/token_constraint.h"

enum { COUNTED_WORDS = 1 << 12 };

struct counted_constraint {
  struct token_constraint base;
  atomic_int *living; /* how many there are */
  uint32_t end_token, last, count;
  uint64_t bits[COUNTED_WORDS];
};

static bool counted_allows(uint32_t last, uint32_t count, uint32_t token, uint32_t end_token) {
  if (token == end_token) return count % 5 == 4;
  uint64_t mixed = ((uint64_t)last * 0x9e3779b97f4a7c15u) ^ ((uint64_t)token * 0xbf58476d1ce4e5b9u) ^ (count % 3);
  return (mixed * 0x94d049bb133111ebu >> 61) != 0;
}

static int counted_allowed(struct token_constraint *base, uint32_t vocabulary, const uint64_t **bits,
                           struct kj_error *error) {
  struct counted_constraint *constraint = (struct counted_constraint *)base;
  if (vocabulary > COUNTED_WORDS * 64) return kj_fail(error, KJ_INTERNAL, "a vocabulary of %u", vocabulary);
  memset(constraint->bits, 0, sizeof constraint->bits);
  for (uint32_t i = 0; i < vocabulary; i++)
    if (counted_allows(constraint->last, constraint->count, i, constraint->end_token))
      constraint->bits[i / 64] |= (uint64_t)1 << i % 64;
  *bits = constraint->bits;
  return 0;
}

static int counted_accept(struct token_constraint *base, uint32_t token, struct kj_error *error) {
  struct counted_constraint *constraint = (struct counted_constraint *)base;
  if (token == constraint->end_token ||
      !counted_allows(constraint->last, constraint->count, token, constraint->end_token))
    return kj_fail(error, KJ_INTERNAL, "token %u comes, which was not allowed", token);
  constraint->last = token;
  constraint->count++;
  return 0;
}

static void counted_release(struct token_constraint *base) {
  atomic_fetch_sub(((struct counted_constraint *)base)->living, 1);
  free(base);
}

/* NULL when out of memory. */
static inline struct token_constraint *counted_constraint_create(uint32_t end_token, atomic_int *living) {
  static const struct token_constraint_operations operations = {counted_allowed, counted_accept, counted_release};
  struct counted_constraint *constraint = calloc(1, sizeof *constraint);
  if (!constraint) return NULL;
  constraint->base.operations = &operations;
  constraint->end_token = end_token;
  constraint->living = living;
  atomic_fetch_add(living, 1);
  return &constraint->base;
}

#endif

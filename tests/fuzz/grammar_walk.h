/* A walk through the masks of a grammar over single bytes: every byte that is allowed is accepted. */
#ifndef KAIJU_FUZZ_GRAMMAR_WALK_H
#define KAIJU_FUZZ_GRAMMAR_WALK_H

#include <stdlib.h>

#include "grammar/constraint.h"

enum { WALK_STEPS = 48, WALK_END = 256, WALK_TOKENS = 257 };

static void check(bool holds) {
  if (!holds) abort();
}

/* Writes the text and returns its length; *complete: it is in the grammar. */
static size_t walk(struct grammar *grammar, uint64_t random, char text[WALK_STEPS], bool *complete) {
  struct token_text tokens[WALK_TOKENS] = {0};
  char bytes[256];
  for (int i = 0; i < 256; i++) {
    bytes[i] = (char)i;
    tokens[i] = (struct token_text){&bytes[i], 1};
  }
  const uint32_t end = WALK_END;
  struct token_vocabulary *vocabulary;
  struct grammar_masks *masks;
  struct token_constraint *constraint;
  check(!token_vocabulary_create_from(&vocabulary, tokens, WALK_TOKENS, NULL));
  check(!grammar_masks_create(&masks, grammar, vocabulary, &end, 1, NULL));
  check(!constraint_create(&constraint, masks, NULL));
  size_t length = 0;
  *complete = false;
  while (length < WALK_STEPS) {
    const uint64_t *bits;
    if (constraint->operations->allowed(constraint, WALK_TOKENS, &bits, NULL)) break; /* too ambiguous */
    *complete = bits[WALK_END / 64] >> WALK_END % 64 & 1;
    random = random * 6364136223846793005u + 1442695040888963407u;
    uint32_t token = (uint32_t)(random >> 33) % 256, tried = 0;
    while (tried++ < 256 && !(bits[token / 64] >> token % 64 & 1)) token = (token + 1) % 256;
    if (!(bits[token / 64] >> token % 64 & 1)) {
      check(*complete); /* every text can be finished */
      break;
    }
    if (*complete && random >> 60 == 0) break;
    if (constraint->operations->accept(constraint, token, NULL)) break;
    text[length++] = (char)token;
    *complete = false;
  }
  token_constraint_release(constraint);
  grammar_masks_release(masks);
  token_vocabulary_release(vocabulary);
  return length;
}

#endif

/* The tokens of a vocabulary that consist of characters of one class alone, prepared for masks: where such characters
 * may follow each other, as within a string, these tokens are known by a bitmap, and only the rest has to be tried one
 * by one. Slices are immutable; a vocabulary remembers those that were used last. */
#ifndef KAIJU_GRAMMAR_TOKEN_SLICE_H
#define KAIJU_GRAMMAR_TOKEN_SLICE_H

#include <stdatomic.h>

#include "grammar/grammar.h"
#include "grammar/token_tree.h"
#include "grammar/token_vocabulary.h"

enum {
  SLICE_BITMAPS = 16,
  SLICE_WIDE = 4 /* a wide class leaves at most one part in so many of the tokens */
};

struct token_slice {
  atomic_uint references;
  uint32_t members; /* tokens */
  /* [nodes of the vocabulary's tree] 1 + the number of characters that follow the node in the token where they are
   * most, if whatever follows it consists of characters of the class alone; otherwise 0. */
  uint8_t *runs;
  /* Whether there is what stands below it here. Of a narrow class the rest is nearly everything, and a walk of the
   * whole tree with the help of `runs` is as good. */
  bool wide;
  uint32_t longest; /* characters of a token of the slice */
  /* [i]: tokens of at most i + 1 characters; the last: all of them. */
  uint64_t *bitmaps[SLICE_BITMAPS + 1];
  uint32_t *long_tokens; /* those of more than SLICE_BITMAPS characters, short ones first */
  uint32_t *long_lengths;
  uint32_t long_count;
  struct token_tree rest; /* tokens that are not in the slice */
};

/* The slice of a normalized class (grammar/class_ranges.h), to be given back. *slice is NULL where the class has too
 * few tokens to be worth it. */
int token_slice_get(struct token_slice **slice, struct token_vocabulary *vocabulary, const struct code_range *ranges,
                    size_t count, struct kj_error *error);
void token_slice_release(struct token_slice *slice); /* NULL is fine */

/* Sets the bits of the slice's tokens of at most `characters` characters. */
void token_slice_add(const struct token_slice *slice, uint32_t characters, uint64_t *bits, size_t words);

#endif

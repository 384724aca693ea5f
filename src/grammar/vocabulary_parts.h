/* What a token vocabulary consists of, for the modules that use it. */
#ifndef KAIJU_GRAMMAR_VOCABULARY_PARTS_H
#define KAIJU_GRAMMAR_VOCABULARY_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "grammar/token_slice.h"

enum { VOCABULARY_SLICES = 24 };

struct kept_slice {
  struct code_range *ranges;
  size_t count;
  struct token_slice *slice; /* NULL: not worth it */
  uint64_t used;
};

struct token_vocabulary {
  atomic_uint references;
  uint32_t size;
  unsigned char *bytes;
  uint32_t *offsets;           /* [size + 1] of the tokens' bytes; none: matches nothing */
  struct sorted_token *sorted; /* [tree.token_count] */
  struct token_tree tree;
  pthread_mutex_t mutex; /* of the slices */
  struct kept_slice slices[VOCABULARY_SLICES];
  uint64_t clock; /* under the mutex: counts uses of slices */
};

#endif

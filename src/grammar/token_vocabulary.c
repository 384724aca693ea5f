#include "grammar/token_vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/vocabulary_parts.h"
#include "text/tokenizer.h"

static int by_bytes(const void *a, const void *b) {
  const struct sorted_token *left = a, *right = b;
  int order = memcmp(left->bytes, right->bytes, left->length < right->length ? left->length : right->length);
  if (order) return order;
  if (left->length != right->length) return left->length < right->length ? -1 : 1;
  return left->id < right->id ? -1 : left->id > right->id;
}

static int fill(struct token_vocabulary *vocabulary, const struct token_text *tokens, struct kj_error *error) {
  uint64_t total = 0, count = 0;
  for (uint32_t i = 0; i < vocabulary->size; i++) {
    if (tokens[i].length == 0 || tokens[i].length > TOKEN_MAX_BYTES) continue;
    total += tokens[i].length;
    count++;
  }
  if (total >= UINT32_MAX) return kj_fail(error, KJ_UNSUPPORTED, "the tokens of the vocabulary are too long");
  vocabulary->bytes = malloc(total + 1);
  vocabulary->offsets = calloc((size_t)vocabulary->size + 1, sizeof *vocabulary->offsets);
  vocabulary->sorted = calloc(count + 1, sizeof *vocabulary->sorted);
  if (!vocabulary->bytes || !vocabulary->offsets || !vocabulary->sorted)
    return kj_fail_memory(error, "a vocabulary of constraints");
  uint32_t at = 0, next = 0;
  for (uint32_t i = 0; i < vocabulary->size; i++) {
    vocabulary->offsets[i] = at;
    if (tokens[i].length == 0 || tokens[i].length > TOKEN_MAX_BYTES) continue;
    uint32_t length = (uint32_t)tokens[i].length;
    memcpy(vocabulary->bytes + at, tokens[i].bytes, length);
    vocabulary->sorted[next++] = (struct sorted_token){vocabulary->bytes + at, length, i};
    at += length;
  }
  vocabulary->offsets[vocabulary->size] = at;
  qsort(vocabulary->sorted, count, sizeof *vocabulary->sorted, by_bytes);
  return token_tree_build(&vocabulary->tree, vocabulary->sorted, count, error);
}

int token_vocabulary_create_from(struct token_vocabulary **result, const struct token_text *tokens, uint32_t size,
                                 struct kj_error *error) {
  *result = NULL;
  struct token_vocabulary *vocabulary = calloc(1, sizeof *vocabulary);
  if (!vocabulary) return kj_fail_memory(error, "a vocabulary of constraints");
  atomic_init(&vocabulary->references, 1);
  pthread_mutex_init(&vocabulary->mutex, NULL);
  vocabulary->size = size;
  int code = fill(vocabulary, tokens, error);
  if (code)
    token_vocabulary_release(vocabulary);
  else
    *result = vocabulary;
  return code;
}

int token_vocabulary_create(struct token_vocabulary **result, const struct tokenizer *tokenizer, uint32_t size,
                            struct kj_error *error) {
  *result = NULL;
  struct token_text *tokens = calloc((size_t)size + 1, sizeof *tokens);
  if (!tokens) return kj_fail_memory(error, "a vocabulary of constraints");
  for (uint32_t i = 0; i < size && i < tokenizer_size(tokenizer); i++)
    if (!tokenizer_is_special(tokenizer, i)) tokens[i].bytes = tokenizer_bytes(tokenizer, i, &tokens[i].length);
  int code = token_vocabulary_create_from(result, tokens, size, error);
  free(tokens);
  return code;
}

struct token_vocabulary *token_vocabulary_keep(struct token_vocabulary *vocabulary) {
  atomic_fetch_add(&vocabulary->references, 1);
  return vocabulary;
}

void token_vocabulary_release(struct token_vocabulary *vocabulary) {
  if (!vocabulary || atomic_fetch_sub(&vocabulary->references, 1) != 1) return;
  for (size_t i = 0; i < VOCABULARY_SLICES; i++) {
    free(vocabulary->slices[i].ranges);
    token_slice_release(vocabulary->slices[i].slice);
  }
  token_tree_free(&vocabulary->tree);
  free(vocabulary->bytes);
  free(vocabulary->offsets);
  free(vocabulary->sorted);
  pthread_mutex_destroy(&vocabulary->mutex);
  free(vocabulary);
}

uint32_t token_vocabulary_size(const struct token_vocabulary *vocabulary) { return vocabulary->size; }

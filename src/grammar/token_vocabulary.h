/* A vocabulary as constraints see it: the tokens' bytes in a tree, built once for a tokenizer.
 *
 * Special tokens never match text (the end of a text is the constraint's matter), nor do ids that have no bytes or that
 * lie beyond the tokenizer; added tokens that are not special match by their bytes. Immutable but for a store of
 * prepared classes (grammar/token_slice.h) under a lock of its own: any thread may use it.
 */
#ifndef KAIJU_GRAMMAR_TOKEN_VOCABULARY_H
#define KAIJU_GRAMMAR_TOKEN_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct token_vocabulary;
struct tokenizer;

enum { TOKEN_MAX_BYTES = 1024 }; /* longer tokens match nothing */

struct token_text {
  const char *bytes;
  size_t length; /* 0: matches nothing */
};

/* `size` is the number of logits of the model, which may have more than the tokenizer has tokens. The tokenizer is not
 * used after the call. Takes some 50 ms and 15 MB for 150,000 tokens. */
int token_vocabulary_create(struct token_vocabulary **vocabulary, const struct tokenizer *tokenizer, uint32_t size,
                            struct kj_error *error);
/* From the tokens' bytes themselves, [size], copied. */
int token_vocabulary_create_from(struct token_vocabulary **vocabulary, const struct token_text *tokens, uint32_t size,
                                 struct kj_error *error);
struct token_vocabulary *token_vocabulary_keep(struct token_vocabulary *vocabulary);
void token_vocabulary_release(struct token_vocabulary *vocabulary); /* NULL is fine */
uint32_t token_vocabulary_size(const struct token_vocabulary *vocabulary);

#endif

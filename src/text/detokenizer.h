/* A stream of tokens to a stream of text.
 *
 * Text is released only in whole characters: the bytes of an unfinished one are held back until the next tokens
 * complete it. Bytes that can never become a character turn into U+FFFD, one per maximal ill-formed part as Unicode
 * recommends (and as Python's errors="replace" does). Special tokens are skipped. The concatenation of all released
 * text equals decoding the tokens at once.
 *
 * With stop strings, text that is or may become the beginning of one is held back as well, the least that suffices;
 * when one is complete, the text before it is released and the stream is stopped. Of several, the one that ends first
 * wins; of those that end together, the longest.
 */
#ifndef KAIJU_TEXT_DETOKENIZER_H
#define KAIJU_TEXT_DETOKENIZER_H

#include "base/buffer.h"
#include "text/tokenizer.h"

struct detokenizer;

int detokenizer_create(struct detokenizer **detokenizer, const struct tokenizer *tokenizer, const char *const *stops,
                       size_t stop_count, struct kj_error *error);
void detokenizer_free(struct detokenizer *detokenizer);

/* Appends to `out` what the token releases. Returns true once a stop string is complete; later tokens are ignored. */
bool detokenizer_push(struct detokenizer *detokenizer, uint32_t token, struct buffer *out);
/* The end of the tokens: releases what is still held back; an unfinished character becomes U+FFFD. */
void detokenizer_finish(struct detokenizer *detokenizer, struct buffer *out);
/* The same for tokens that were cut off: an unfinished character is left out. */
void detokenizer_finish_cut(struct detokenizer *detokenizer, struct buffer *out);
bool detokenizer_stopped(const struct detokenizer *detokenizer);
/* The stop string that is complete, not ended by NUL, as long as the detokenizer lives; NULL before. */
const char *detokenizer_stop(const struct detokenizer *detokenizer, size_t *length);

/* Appends the text of all tokens, special ones included. */
void detokenize(const struct tokenizer *tokenizer, const uint32_t *tokens, size_t count, struct buffer *out);

#endif

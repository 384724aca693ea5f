/* Tokens that are found in the text itself, before it is split into pieces: <|im_start|>, <tool_call>… At a place where
 * several begin, the longest counts.
 */
#ifndef KAIJU_TEXT_ADDED_TOKENS_H
#define KAIJU_TEXT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { ADDED_TOKEN_LENGTH_LIMIT = 4096 }; /* bytes; bounds the work at each place of a text */

struct added_token {
  char *content; /* UTF-8, not empty */
  size_t length;
  uint32_t id;
  bool single_word;    /* counts only where no character of a word touches it */
  bool lstrip, rstrip; /* swallows the white space before it, after it */
  bool normalized;     /* found in the normalized text rather than in the text as given */
  bool special;        /* controls the model: not shown */
};

/* Zero-initialise; add all, then sort once, then find. */
struct added_tokens {
  struct added_token *tokens; /* ordered by content */
  size_t count, capacity;
  uint32_t first[257]; /* tokens that begin with byte b are first[b] … first[b + 1] - 1 */
};

/* Copies the content. */
int added_tokens_add(struct added_tokens *set, const struct added_token *token, struct kj_error *error);
void added_tokens_sort(struct added_tokens *set);
void added_tokens_free(struct added_tokens *set);

/* The first token in text[from…]; its beginning goes to *start. NULL if there is none. */
const struct added_token *added_tokens_find(const struct added_tokens *set, const char *text, size_t length,
                                            size_t from, size_t *start);

/* Whether the token counts at text[start…], its single_word obeyed, and the span start…*end that it stands for with
 * the white space that it swallows, never before `taken`. */
bool added_token_span(const struct added_token *token, const char *text, size_t length, size_t taken, size_t *start,
                      size_t *end);

#endif

/* Tokens by id and by content. Ids are below VOCABULARY_LIMIT and may have gaps.
 *
 * A token has a content, the string that the tokenizer's file names it by, and the bytes that it stands for: those
 * that the content spells (text/byte_level.h), or the content itself where it spells none.
 */
#ifndef KAIJU_TEXT_VOCABULARY_H
#define KAIJU_TEXT_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { VOCABULARY_LIMIT = 1 << 21 };

struct vocabulary;

int vocabulary_create(struct vocabulary **vocabulary, struct kj_error *error);
void vocabulary_free(struct vocabulary *vocabulary);
/* Refused: an id that is too large or has a token already, a content that is a token already. `content` is copied. */
int vocabulary_add(struct vocabulary *vocabulary, uint32_t id, const char *content, size_t length,
                   struct kj_error *error);

uint32_t vocabulary_size(const struct vocabulary *vocabulary);  /* largest id + 1 */
uint32_t vocabulary_count(const struct vocabulary *vocabulary); /* tokens */
bool vocabulary_has(const struct vocabulary *vocabulary, uint32_t id);
bool vocabulary_find(const struct vocabulary *vocabulary, const char *content, size_t length, uint32_t *id);
/* Not NUL-terminated, valid until the next vocabulary_add; length 0 if the id has no token. */
const char *vocabulary_bytes(const struct vocabulary *vocabulary, uint32_t id, size_t *length);

#endif

/* The tokenizer of a checkpoint's tokenizer.json: byte-level BPE with added tokens, as Hugging Face `tokenizers`
 * computes it. Immutable after loading, so any number of threads may use it.
 *
 * Supported: normalizer NFC or none; pre_tokenizer ByteLevel, alone (with its own expression or none) or after up to 8
 * Splits by a regular expression or a string (Isolated); model BPE (ignore_merges too; no dropout, byte_fallback,
 * prefix or suffix); decoder ByteLevel; added tokens with lstrip, rstrip, single_word, normalized, special. Anything
 * else is refused by name, and so is a file that `tokenizers` would read in a way that its author cannot have meant:
 * two tokens with one id, an id other than the one that an added token gets, a byte without a token. `truncation` and
 * `padding` are not obeyed: a server neither cuts nor fills prompts. A post-processor that adds tokens is refused.
 */
#ifndef KAIJU_TEXT_TOKENIZER_H
#define KAIJU_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct tokenizer;

struct token_list {
  uint32_t *ids;
  size_t count, capacity;
};
void token_list_free(struct token_list *list);
int token_list_push(struct token_list *list, uint32_t id, struct kj_error *error);

/* Reads DIRECTORY/tokenizer.json. */
int tokenizer_load(struct tokenizer **tokenizer, const char *directory, struct kj_error *error);
int tokenizer_parse(struct tokenizer **tokenizer, const char *name, const char *json, size_t length,
                    struct kj_error *error);
void tokenizer_free(struct tokenizer *tokenizer);

uint32_t tokenizer_size(const struct tokenizer *tokenizer); /* largest id + 1 */

/* Appends the ids of `text` (valid UTF-8 of `length` bytes; NULs allowed; KJ_INVALID with the offset otherwise). With
 * `special`, added tokens that occur in the text become their ids, as with `tokenizers`' encode(text,
 * add_special_tokens=False); without, only those not marked special do and the others are plain text, as with its
 * encode_special_tokens. After a failure the list is as it was. */
int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t length, bool special,
                     struct token_list *list, struct kj_error *error);

/* The bytes of a token: those that its content spells in byte-level's alphabet (text/byte_level.h), or the content
 * itself where it has other characters. Not NUL-terminated; may be part of a character. *length is 0 for an id that
 * names no token. */
const char *tokenizer_bytes(const struct tokenizer *tokenizer, uint32_t id, size_t *length);
bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id); /* an added token marked special */
/* The id of an added token or BPE string by its content; false if there is none. */
bool tokenizer_find(const struct tokenizer *tokenizer, const char *content, uint32_t *id);

#endif

/* A tokenizer's split expression, written for Oniguruma with Ruby's syntax, in the words of PCRE2.
 *
 * What means the same in both is kept, `\s` `\S` `\p{L}` `\p{M}` `\p{N}` become the characters that Oniguruma knows
 * under these names (text/unicode.h), and whatever could mean something else is refused by name.
 */
#ifndef KAIJU_TEXT_SPLIT_SYNTAX_H
#define KAIJU_TEXT_SPLIT_SYNTAX_H

#include "base/buffer.h"
#include "base/error.h"

/* Appends to `out`, whose failed flag the caller checks. KJ_UNSUPPORTED names what there is no translation for. */
int split_syntax_translate(const char *expression, size_t length, struct buffer *out, struct kj_error *error);

#endif

/* What the tokenizer needs to know of characters, fixed where Hugging Face `tokenizers` and the C libraries follow
 * different versions of Unicode, so that the ids do not depend on the versions installed.
 */
#ifndef KAIJU_TEXT_UNICODE_H
#define KAIJU_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_range {
  uint32_t first, last; /* both included, ascending and disjoint in a table */
};
struct code_table {
  const struct code_range *ranges;
  size_t count;
};

/* White_Space of Unicode: `\s` of a tokenizer's expressions. PCRE2's own also has U+180E. */
struct code_table unicode_white_space(void);
bool unicode_is_white_space(uint32_t code_point);

/* A character of a word, `\w` of Rust's regex crate: Alphabetic, Mark, Decimal_Number, Connector_Punctuation,
 * Join_Control. Decides the added tokens' single_word. */
bool unicode_is_word(uint32_t code_point);

/* The characters of general category `category` ('L', 'M' or 'N') that Unicode 15 to 16 added: `tokenizers` (Oniguruma
 * 6.9.10, Unicode 16) knows them, PCRE2 10.42 (Unicode 14) does not. Empty for other letters. */
struct code_table unicode_newer(char category);

/* True for a character newer than Unicode 9 that takes part in normalization. The normalizer of `tokenizers` dates from
 * Unicode 9: it neither reorders nor composes around these. */
bool unicode_is_opaque_to_normalizer(uint32_t code_point);

#endif

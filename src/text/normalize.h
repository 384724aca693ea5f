/* Unicode normalization form C, as the normalizer of Hugging Face `tokenizers` computes it (text/unicode.h). Time and
 * memory are linear in the text, also for long runs of combining marks. */
#ifndef KAIJU_TEXT_NORMALIZE_H
#define KAIJU_TEXT_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/* True if the text certainly is in form C already: it has no character above U+02FF. */
bool normalize_is_trivial(const char *text, size_t length);
/* Appends form C of `text`, which must be valid UTF-8. */
int normalize_nfc(const char *text, size_t length, struct buffer *out, struct kj_error *error);

#endif

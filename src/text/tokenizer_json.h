/* Reads a tokenizer.json into a tokenizer's parts (text/tokenizer.h says what of it is supported). The format is the
 * serialization of Hugging Face `tokenizers`, version "1.0"; merges in both of its forms, ["a", "b"] and "a b".
 */
#ifndef KAIJU_TEXT_TOKENIZER_JSON_H
#define KAIJU_TEXT_TOKENIZER_JSON_H

#include <jansson.h>

#include "text/tokenizer_parts.h"

/* Fills a zero-initialised tokenizer; on failure it is partly filled. */
int tokenizer_json_read(struct tokenizer *tokenizer, const json_t *root, struct kj_error *error);

#endif

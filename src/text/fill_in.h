/* The tokens around a prompt for filling in the middle: before the text in front of the gap, between it and the text
 * behind the gap, and after that, where the model writes what belongs between.
 */
#ifndef KAIJU_TEXT_FILL_IN_H
#define KAIJU_TEXT_FILL_IN_H

#include <stdbool.h>
#include <stdint.h>

#include "text/tokenizer.h"

struct fill_in_tokens {
  uint32_t before, between, after;
};

/* False if the vocabulary has none of the known sets: those of Qwen, StarCoder and DeepSeek. */
bool fill_in_tokens_find(struct fill_in_tokens *tokens, const struct tokenizer *tokenizer);

#endif

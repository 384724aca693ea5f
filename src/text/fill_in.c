#include "text/fill_in.h"

#include <stddef.h>

bool fill_in_tokens_find(struct fill_in_tokens *tokens, const struct tokenizer *tokenizer) {
  static const char *const sets[][3] = {
      {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
      {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
      {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
  };
  for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
    if (tokenizer_find(tokenizer, sets[i][0], &tokens->before) &&
        tokenizer_find(tokenizer, sets[i][1], &tokens->between) &&
        tokenizer_find(tokenizer, sets[i][2], &tokens->after))
      return true;
  return false;
}

/* Log-probabilities of generated tokens in OpenAI's two shapes, that of chat and that of legacy completions.
 *
 * A token whose bytes are not whole characters is written "bytes:\xf0\x9f"; its `bytes` are exact. An end token has no
 * entry; the tokens of a stop string have. Negative infinity, which JSON lacks, is -9999.
 */
#ifndef KAIJU_HTTP_LOGPROBS_H
#define KAIJU_HTTP_LOGPROBS_H

#include <jansson.h>

#include "http/request.h"
#include "text/tokenizer.h"

struct logprobs {
  enum completion_endpoint endpoint;
  const struct tokenizer *tokenizer;
  json_t *value;      /* since the last logprobs_take, or NULL */
  size_t text_offset; /* characters before the next token, for legacy completions */
};

/* The first token of an echoed prompt, which nothing foresees: its log-probability is null. */
void logprobs_first(struct logprobs *logprobs, uint32_t token);
/* The next one. Unlike in an answer, special tokens are part of the text. */
void logprobs_echo(struct logprobs *logprobs, const struct sampled *sampled);
void logprobs_add(struct logprobs *logprobs, const struct sampled *sampled);
/* The value for the next chunk or the response, JSON null if there is nothing. */
json_t *logprobs_take(struct logprobs *logprobs);
void logprobs_free(struct logprobs *logprobs);

/* The JSON string for a token. */
json_t *logprobs_token_text(const struct tokenizer *tokenizer, uint32_t token);

#endif

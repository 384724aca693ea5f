/* The objects that OpenAI's API answers with: whole responses, chunks of a stream, the list of models. */
#ifndef KAIJU_HTTP_OPENAI_H
#define KAIJU_HTTP_OPENAI_H

#include <jansson.h>
#include <stdint.h>

#include "http/request.h"

/* What all objects of one completion have in common. */
struct completion_identity {
  enum completion_endpoint endpoint;
  char id[48];
  int64_t created; /* seconds since 1970 */
  const char *model;
  const char *fingerprint; /* or NULL */
};

struct completion_usage {
  uint32_t prompt_tokens, completion_tokens;
  uint32_t cached_tokens;                  /* of the prompt, taken from the prefix cache */
  uint32_t drafted_tokens, draft_accepted; /* proposed by speculative decoding, and confirmed by the model */
};

/* A new id; -1 if the system has no random bytes. */
int completion_identify(struct completion_identity *identity, enum completion_endpoint endpoint, const char *model);

/* `logprobs` is taken over and may be JSON null, `calls` (the message's tool_calls) as well and may be NULL. NULL only
 * without memory. */
json_t *openai_response(const struct completion_identity *identity, const char *text, size_t length, json_t *calls,
                        json_t *logprobs, const char *finish_reason, const struct completion_usage *usage);

/* One chunk. `text` NULL: none (the last one). `first`: names the role. `finish_reason` NULL: more follow.
 * `usage_follows`: a usage chunk ends the stream, so this one says null. */
json_t *openai_chunk(const struct completion_identity *identity, bool first, const char *text, size_t length,
                     json_t *logprobs, const char *finish_reason, bool usage_follows);
/* One chunk with a part of a tool call, which is taken over. */
json_t *openai_call_chunk(const struct completion_identity *identity, json_t *call, bool usage_follows);
json_t *openai_usage_chunk(const struct completion_identity *identity, const struct completion_usage *usage);

json_t *openai_model(const char *name, int64_t created, uint32_t context);

#endif

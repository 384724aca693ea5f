/* What OpenAI's chat completions and legacy completions answer with, and what both have in common. */
#ifndef KAIJU_HTTP_OPENAI_H
#define KAIJU_HTTP_OPENAI_H

#include <jansson.h>
#include <stdint.h>

#include "http/answer.h"

extern const struct answer_dialect openai_chat_dialect, openai_completions_dialect;

/* The object around choices, which are taken over. NULL only without memory, as all of these. */
json_t *openai_envelope(const struct answer *answer, const char *object, json_t *choices);
json_t *openai_usage(const struct answer *answer);
/* "stop", "length" or "tool_calls"; NULL while more comes. */
const char *openai_finish_reason(const struct choice *choice);
/* Appends a chunk of a stream with one choice, which is taken over. */
void openai_chunk(const struct answer *answer, const char *object, json_t *choice, struct buffer *out);
/* The usage chunk, if it was asked for, and the mark of the end. */
void openai_close(const struct answer *answer, const char *object, struct buffer *out);
/* The event of an error. */
void openai_fail(struct answer *answer, const struct api_error *error, struct buffer *out);

json_t *openai_model(const char *name, int64_t created, uint32_t context);

#endif

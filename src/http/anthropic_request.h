/* A request of Anthropic's Messages API as the chat request that it stands for: what http/request.h takes.
 *
 * Every field that differs from OpenAI's is checked here, with its path in this API. Service fields (metadata,
 * service_tier, cache_control…) and unknown ones are left out. docs/api.md says what becomes of each field.
 * https://platform.claude.com/docs/en/api/messages
 *
 * A pure function, safe on any thread.
 */
#ifndef KAIJU_HTTP_ANTHROPIC_REQUEST_H
#define KAIJU_HTTP_ANTHROPIC_REQUEST_H

#include <jansson.h>
#include <stdbool.h>

#include "http/api_error.h"
#include "http/request.h"

/* The request that the body's object stands for, as completion_request_parse gives it. `counts`: of
 * /v1/messages/count_tokens, which needs no max_tokens. 0, or -1 and `error`. */
int anthropic_request(struct completion_request **request, const json_t *object, bool counts,
                      const struct config *config, struct api_error *error);

/* A new object, or NULL and `error`. */
json_t *anthropic_translate(const json_t *object, bool counts, struct api_error *error);

#endif

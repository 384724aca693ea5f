/* What Anthropic's Messages API answers with: messages, their streams, errors and models.
 *
 * https://platform.claude.com/docs/en/api/messages, …/build-with-claude/streaming, …/api/errors
 */
#ifndef KAIJU_HTTP_ANTHROPIC_H
#define KAIJU_HTTP_ANTHROPIC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "http/answer.h"
#include "http/prepare.h"

/* /v1/messages. A call that was cut is told as far as it came: in a stream its input_json_deltas do not join to JSON,
 * and in a whole message its input is {"partial_json": TEXT}, which nobody can take for the arguments. */
extern const struct answer_dialect anthropic_dialect;

/* Work of the preparer, /v1/messages/count_tokens: {"input_tokens": n}, the tokens of the prompt that the same message
 * request has. */
void anthropic_count_tokens(const struct preparer_options *options, struct preparation *preparation);

/* The body of an error. `request_id` may be NULL. */
json_t *anthropic_error_json(const struct api_error *error, const char *request_id);

/* True if a request's first line (or what there is of it) asks for a path of this API. */
bool anthropic_asked(const char *line, size_t length);

/* Adds to OpenAI's object of a model, or of the list of models, what Anthropic's clients look for. */
void anthropic_add_to_model(json_t *model, int64_t created, uint32_t context);
void anthropic_add_to_models(json_t *models);

#endif

/* The conversation of Anthropic's Messages API as messages of OpenAI's chat API.
 *
 * Turns of one role that follow each other are one turn, as that API has it. What is joined stands on lines of its own,
 * but for the blocks of an assistant's message, which are the model's own text. A user's turn is cut where tool results
 * stand in it: they become messages of the role tool, in order. Thoughts go back as reasoning_content; what is redacted
 * in them is lost. Text is all that the model can read: blocks of other kinds are refused by name.
 */
#ifndef KAIJU_HTTP_ANTHROPIC_MESSAGES_H
#define KAIJU_HTTP_ANTHROPIC_MESSAGES_H

#include <jansson.h>
#include <stdbool.h>

#include "http/api_error.h"

/* From `system` and `messages` of the request. A new array, or NULL and `error` with the path of what is wrong.
 * `continues`: the last message is the beginning of the answer. */
json_t *anthropic_messages(const json_t *request, bool *continues, struct api_error *error);

#endif

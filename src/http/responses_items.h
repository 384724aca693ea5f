/* The items of a /v1/responses conversation as the messages of chat.
 *
 * - Messages of one role each, their content a string or parts input_text, output_text and refusal. The instructions
 * and the system or developer messages that come first are one system message, with an empty line between: templates
 *   expect a single one, at the beginning.
 * - What the model has said in one turn (reasoning, text, calls) is one assistant message. Text after a call joins that
 *   before it, as in chat.
 * - The output of a function or custom tool is a message of role tool.
 * - Of reasoning, the text counts; summaries, and content that another server has encrypted, do not.
 * - Items about tools that responses_tools.h leaves out are left out as well. Others are refused.
 */
#ifndef KAIJU_HTTP_RESPONSES_ITEMS_H
#define KAIJU_HTTP_RESPONSES_ITEMS_H

#include <jansson.h>

#include "http/api_error.h"

/* What stands before the text of a reasoning item in its `encrypted_content`, if that is asked for. Nothing is
 * encrypted: it is for clients that send only this field back. */
#define RESPONSES_PLAIN_REASONING "kaiju:"

/* A new array of messages; `instructions` may be NULL. The first `known` items are of earlier requests, errors name the
 * others "input[0]" and so on. NULL and the error. */
json_t *responses_items_translate(const json_t *items, size_t known, const char *instructions, struct api_error *error);

#endif

/* The messages and tools of a chat request: checked, and brought into the form that chat templates expect.
 *
 * Roles are system (also written developer), user, assistant and tool. Content is a string, an array of parts {"type":
 * "text", "text": …} which are joined without a separator, or, for an assistant, null or absent. Arguments of tool
 * calls become objects where they are written as the text of one, so that both forms give the same prompt. Other
 * fields of a message are kept for the template.
 */
#ifndef KAIJU_HTTP_MESSAGES_H
#define KAIJU_HTTP_MESSAGES_H

#include <jansson.h>

#include "http/api_error.h"

/* A new array, or NULL and a 400 with the path of what is wrong, "messages[2].content[0].type". */
json_t *messages_check(const json_t *messages, struct api_error *error);

/* 0 if `tools` is an array of {"type": "function", "function": {"name": …}}. */
int tools_check(const json_t *tools, struct api_error *error);

#endif

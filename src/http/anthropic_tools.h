/* Tools and tool_choice of Anthropic's Messages API in OpenAI's form.
 *
 * Besides tools with a schema of their own there are those that Anthropic defines. The ones that the client runs (bash,
 * text_editor, memory) get the schema that Anthropic documents for them; the ones that Anthropic's service runs
 * (web_search, code_execution…) or that need pictures are refused by name.
 */
#ifndef KAIJU_HTTP_ANTHROPIC_TOOLS_H
#define KAIJU_HTTP_ANTHROPIC_TOOLS_H

#include <jansson.h>

#include "http/api_error.h"

/* Sets tools, tool_choice and parallel_tool_calls in `chat` as `request` has them. 0, or -1 and `error`. */
int anthropic_tools(const json_t *request, json_t *chat, struct api_error *error);

#endif

/* The tools of /v1/responses as tools of chat, and back from the name of a call to the tool.
 *
 * - function: the same, flat.
 * - custom (its input is free text): a function with one string, `input`; a grammar of the input is told in the
 *   description.
 * - namespace: each of its tools, under the namespace's name and its own in one ("mcp__files__" and "read": one that
 *   ends with "_" or a name that begins with it needs no "__" between).
 * - All others only the service itself or its clients' own models know how to use: they are left out.
 */
#ifndef KAIJU_HTTP_RESPONSES_TOOLS_H
#define KAIJU_HTTP_RESPONSES_TOOLS_H

#include <jansson.h>
#include <stdbool.h>

#include "http/api_error.h"
#include "http/fields.h"

/* The parameter of the function that stands for a custom tool. */
#define RESPONSES_CUSTOM_INPUT "input"

/* Sets `tools` and `tool_choice` of the chat request as the body's fields of these names say; -1 and the error in
 * `fields` if they are wrong. */
int responses_tools_translate(struct fields *body, json_t *chat);

struct responses_tool {
  bool custom;
  const char *name;       /* without the namespace */
  const char *name_space; /* or NULL */
};

/* What a call under this name is a call of; `tools` as the request has them, or NULL. One that is not there counts as a
 * function. Borrowed from the arguments. */
struct responses_tool responses_tool_find(const json_t *tools, const char *called);

/* The name that stands for both; `name_space` may be NULL. NULL without memory. */
json_t *responses_tool_name(const char *name_space, const char *name);

#endif

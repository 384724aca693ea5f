/* What JSON types the parameters of a request's tools take, from their JSON schemas: all that is needed to read calls
 * whose values are written as plain text.
 *
 * Understood are type (one or several), enum, const, anyOf, oneOf, allOf, $ref within the tool's schema, nullable, and
 * properties or items where no type is given. What cannot be known (a reference that leads nowhere, a schema that winds
 * on without end) counts as any type.
 */
#ifndef KAIJU_TEXT_TOOL_SCHEMAS_H
#define KAIJU_TEXT_TOOL_SCHEMAS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "text/json_types.h"

struct tool_schemas; /* immutable */

/* `tools` is an array of {"function": {"name", "parameters"}}; nothing of it is kept. Fails only without memory. */
int tool_schemas_compile(struct tool_schemas **schemas, const json_t *tools, struct kj_error *error);
void tool_schemas_free(struct tool_schemas *schemas); /* NULL is allowed */

bool tool_schemas_know(const struct tool_schemas *schemas, const char *tool);
/* True if the tool's schema names the parameter. */
bool tool_schemas_know_parameter(const struct tool_schemas *schemas, const char *tool, const char *parameter);
/* A set of enum json_types. A parameter that the schema does not name has the types of additionalProperties where that
 * is a schema, otherwise, as those of an unknown tool, TYPE_STRING: it stays as it was written. Never 0. */
unsigned tool_schemas_types(const struct tool_schemas *schemas, const char *tool, const char *parameter);

#endif

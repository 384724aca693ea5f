/* What a request says that its answer must be: response_format (OpenAI), json_schema and grammar (llama.cpp), and
 * tool_choice where it wants calls. Other APIs' requests are translated to these fields.
 */
#ifndef KAIJU_HTTP_CONSTRAINT_FIELDS_H
#define KAIJU_HTTP_CONSTRAINT_FIELDS_H

#include <jansson.h>
#include <stdbool.h>

#include "http/fields.h"

enum constraint_kind {
  CONSTRAINT_NONE,
  CONSTRAINT_JSON_OBJECT,
  CONSTRAINT_JSON_SCHEMA, /* value: the schema */
  CONSTRAINT_GRAMMAR,     /* value: a string, GBNF */
  CONSTRAINT_TOOL_CALLS   /* value: an array of the names that may be called, or NULL: any */
};

/* Zero-initialise; to be freed. */
struct output_constraint {
  enum constraint_kind kind;
  json_t *value;
  bool only_one;  /* of tool calls: exactly one */
  char path[160]; /* of the value, "response_format.json_schema.schema" */
};

/* Reads the fields of a completion, or, with `tools` (an array, or NULL), of a chat. Of them one at most may constrain.
 * tool_choice must be of tools that there are. */
void constraint_fields_parse(struct fields *fields, bool is_chat, const json_t *tools,
                             struct output_constraint *constraint);
void output_constraint_free(struct output_constraint *constraint);

#endif

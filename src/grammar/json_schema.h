/* JSON Schema to a grammar of the JSON texts that are valid: what structured outputs and the arguments of tools obey.
 *
 * Read are (of drafts 4 to 2020-12 and OpenAPI 3.0): boolean schemas, type, enum, const, nullable; properties,
 * required, additionalProperties, propertyNames and patternProperties where they are the only word on names,
 * minProperties and maxProperties likewise; items, prefixItems, additionalItems, minItems, maxItems; pattern
 * (grammar/pattern.h), minLength, maxLength, format (grammar/string_format.h); minimum, maximum and the exclusive ones;
 * anyOf, oneOf, allOf, $ref within the document, recursion included. Everything else that would narrow what is valid is
 * refused by name; words that are no part of JSON Schema are annotations and ignored.
 *
 * Of the valid texts, these are in the grammar:
 * - members of an object in the order of `properties` (of required ones that are not there: behind them), then others;
 *   none of `properties` twice;
 * - white space and numbers as in grammar/json_value.h; numbers that have bounds without an exponent, integers without
 *   fraction and exponent, and of 64 bits;
 * - names, and values of enum and const, with the fewest escapes; other strings with any.
 * Wider than the schema are: oneOf, which is read as anyOf, and names of additional members, which may come twice.
 * A schema without a type whose other words are all about one type has that type.
 */
#ifndef KAIJU_GRAMMAR_JSON_SCHEMA_H
#define KAIJU_GRAMMAR_JSON_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>

#include "grammar/grammar.h"

enum { JSON_SCHEMA_PATH = 160 };

struct json_schema_options {
  /* True: what is not supported or ill-formed is left out, so that more is valid; nothing is refused but what is too
   * large. For tools, whose schemas are written for models to read. */
  bool lenient;
  const json_t *root; /* what references begin at; NULL: the schema itself */
};

/* The expression of the valid texts. `path` comes with the schema's own place in the request, for messages
 * ("response_format.json_schema.schema"), and leaves, on an error, with the place of what is wrong. The schema is not
 * needed afterwards. */
int json_schema_compile(struct grammar_builder *builder, const json_t *schema,
                        const struct json_schema_options *options, char path[JSON_SCHEMA_PATH],
                        grammar_expression *expression, struct kj_error *error);

#endif

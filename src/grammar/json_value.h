/* Whole JSON values as grammar expressions, and the white space between them.
 *
 * White space is what people and libraries write, compact or indented, and never more: after { [ and a comma and before
 * } and ] nothing, one space, or a newline and up to JSON_VALUE_INDENT spaces or tabs; after a colon nothing or one
 * space. A model can lose itself in white space that has no end.
 *
 * Numbers are those that a double holds: at most 18 digits before the point and 17 behind it, an exponent of at most
 * 289 either way. Integers are those of 64 bits.
 */
#ifndef KAIJU_GRAMMAR_JSON_VALUE_H
#define KAIJU_GRAMMAR_JSON_VALUE_H

#include <jansson.h>

#include "grammar/grammar.h"

enum { JSON_VALUE_INDENT = 40 };

/* Made once for a builder, used in any number of places. */
struct json_values {
  struct grammar_builder *builder;
  grammar_expression comma, colon;                           /* with the white space behind them */
  grammar_expression open_object, close_object;              /* brackets with the white space inside */
  grammar_expression open_array, close_array;                /* the same */
  grammar_expression empty_object, empty_array;              /* both brackets */
  grammar_expression string, number, integer, boolean, null; /* any of these */
  grammar_expression object, array, any;                     /* any, nested as deep as it comes */
};
struct json_values json_values_make(struct grammar_builder *builder);

/* One after the other. At most 8. */
#define GRAMMAR_SEQUENCE(builder, ...)                                   \
  grammar_sequence((builder), (const grammar_expression[]){__VA_ARGS__}, \
                   sizeof(const grammar_expression[]){__VA_ARGS__} / sizeof(grammar_expression))
#define GRAMMAR_CHOICE(builder, ...)                                   \
  grammar_choice((builder), (const grammar_expression[]){__VA_ARGS__}, \
                 sizeof(const grammar_expression[]){__VA_ARGS__} / sizeof(grammar_expression))

/* A string of this text, quotes included, written with the fewest escapes. */
grammar_expression json_value_string(const struct json_values *values, const char *text, size_t length);
/* "name": with the white space behind the colon. */
grammar_expression json_value_key(const struct json_values *values, const char *name);
/* This very value. The members of an object come in its order; numbers are written as shortly as a double allows. */
grammar_expression json_value_literal(const struct json_values *values, const json_t *value);

#endif

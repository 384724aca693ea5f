/* Pieces of JSON texts as grammar expressions: what stands between the quotes of a JSON string. */
#ifndef KAIJU_GRAMMAR_JSON_TEXT_H
#define KAIJU_GRAMMAR_JSON_TEXT_H

#include "grammar/grammar.h"

/* One character of a JSON string, as itself or as any escape that RFC 8259 has for it. A pair of escaped surrogates is
 * one character; a surrogate alone is none. */
grammar_expression json_text_character(struct grammar_builder *builder);
/* `minimum` to `maximum` characters (GRAMMAR_UNBOUNDED), without the quotes. Masks are fastest for this expression and
 * for any other repetition of a choice that has a wide class among its parts. */
grammar_expression json_text_characters(struct grammar_builder *builder, uint32_t minimum, uint32_t maximum);
/* One character of the class (grammar_class) as it is written within a JSON string: as itself where that is allowed,
 * otherwise as its shortest escape (\" \\ \b \f \n \r \t, or \u00XX in either case). */
grammar_expression json_text_class(struct grammar_builder *builder, const struct code_range *ranges, size_t count,
                                   bool negated);
/* The text (UTF-8, whole characters) written in that way (\\u00xx in lower case), as one literal: a property name or
 * the value of an enum, without quotes. */
grammar_expression json_text_literal(struct grammar_builder *builder, const char *text, size_t length);

#endif

/* Strings as a schema wants them: pattern, format and length, all of them together. */
#ifndef KAIJU_GRAMMAR_STRING_RULES_H
#define KAIJU_GRAMMAR_STRING_RULES_H

#include <stdint.h>

#include "grammar/grammar.h"
#include "grammar/pattern.h"

struct string_rules {
  const char *pattern;             /* or NULL */
  const char *format;              /* of grammar/string_format.h, or NULL; beside a pattern it says nothing */
  uint32_t min_length, max_length; /* characters; GRAMMAR_UNBOUNDED */
};

/* 0 if string_rules_expression can write them down; otherwise which of them it cannot, in *culprit ("pattern",
 * "format", "maxLength"), and why. */
int string_rules_check(const struct string_rules *rules, const char **culprit, struct kj_error *error);

/* The strings as they stand in the place, without quotes. What string_rules_check refuses is the builder's failure. */
grammar_expression string_rules_expression(struct grammar_builder *builder, const struct string_rules *rules,
                                           enum pattern_place place);

#endif

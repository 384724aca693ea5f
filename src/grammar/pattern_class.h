/* The characters, escapes and classes of regular expressions (grammar/pattern.h), as they are read off the text. */
#ifndef KAIJU_GRAMMAR_PATTERN_CLASS_H
#define KAIJU_GRAMMAR_PATTERN_CLASS_H

#include "grammar/grammar.h"

struct pattern_text {
  const char *text; /* UTF-8 */
  size_t length, at;
  struct grammar_builder *builder; /* its failures are the pattern's */
};

/* Ranges of code points, in no order. */
struct pattern_set {
  struct code_range *ranges;
  size_t count, capacity;
};
void pattern_set_free(struct pattern_set *set);

/* "pattern, character N: message" as the builder's failure. */
grammar_expression pattern_fail(struct pattern_text *text, enum kj_code code, const char *message);

/* The byte `ahead` of the position; 0 at the end and after a failure. */
char pattern_peek(const struct pattern_text *text, size_t ahead);
bool pattern_take(struct pattern_text *text, char byte);
/* Decimal digits, bounded; false where there are none. */
bool pattern_read_number(struct pattern_text *text, uint32_t *number);
/* One character that stands for itself. */
uint32_t pattern_read_character(struct pattern_text *text);
/* An escape, from its backslash on: a code point, or a set (\d \w \s and their complements) whose ranges are added. */
uint32_t pattern_read_escape(struct pattern_text *text, struct pattern_set *set);
/* A class from its [ on; whether it is negated. */
bool pattern_read_class(struct pattern_text *text, struct pattern_set *set);

#endif

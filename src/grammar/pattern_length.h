/* The texts of a pattern that have so many characters. */
#ifndef KAIJU_GRAMMAR_PATTERN_LENGTH_H
#define KAIJU_GRAMMAR_PATTERN_LENGTH_H

#include "grammar/grammar.h"
#include "grammar/pattern.h"

/* As pattern_compile, of the texts with `minimum` to `maximum` characters. Where several parts of the pattern may be
 * longer or shorter, their lengths are combined: KJ_UNSUPPORTED if that comes to too much. */
grammar_expression pattern_compile_bounded(struct grammar_builder *builder, const char *pattern, size_t length,
                                           enum pattern_place place, uint32_t minimum, uint32_t maximum);

#endif

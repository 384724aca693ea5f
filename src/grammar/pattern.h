/* Regular expressions as JSON Schema's `pattern` has them (ECMA-262 with the u flag), as an expression of a grammar.
 *
 * Read: literals; `.`; classes with ranges, \d \w \s \D \W \S (ECMA-262's: \d and \w are ASCII, \s is its white space);
 * escapes \t \n \v \f \r \0 \cX \xHH \uHHHH (pairs of surrogates too) \u{H…} and every punctuation; groups ( ) (?: )
 * (?<name> ); alternation; * + ? {m} {m,} {m,n}, greedy or lazy, which is the same set of texts; ^ and $ where an
 * alternative of the whole begins or ends. Without ^ (or $) anything may stand before (or after). Refused by name:
 * lookahead and lookbehind, backreferences, \b and \B, \p{…}, flags, ^ and $ elsewhere.
 */
#ifndef KAIJU_GRAMMAR_PATTERN_H
#define KAIJU_GRAMMAR_PATTERN_H

#include "grammar/grammar.h"

enum pattern_place {
  PATTERN_IN_TEXT,       /* the text itself matches */
  PATTERN_IN_JSON_STRING /* what stands between the quotes of a JSON string, whose value matches: characters that must
                            be escaped there are written as json_text_class has them */
};

enum { PATTERN_MAX_LENGTH = 1 << 16 }; /* bytes */

/* The texts that the pattern (UTF-8 of `length` bytes) matches. A fault is the builder's failure: KJ_INVALID with the
 * offset in characters, KJ_UNSUPPORTED with the name of what is not supported. */
grammar_expression pattern_compile(struct grammar_builder *builder, const char *pattern, size_t length,
                                   enum pattern_place place);

#endif

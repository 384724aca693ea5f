/* All names but a few: those that an object may have besides what its schema names. */
#ifndef KAIJU_GRAMMAR_NAME_EXCLUSION_H
#define KAIJU_GRAMMAR_NAME_EXCLUSION_H

#include "grammar/grammar.h"
#include "grammar/pattern.h"

enum { NAME_EXCLUSION_LENGTH = 1000 }; /* bytes of a name, when there are others */

/* PATTERN_IN_JSON_STRING: what stands between the quotes of a JSON string that is none of the names, written with the
 * fewest escapes: were every escape allowed, a name could come disguised. PATTERN_IN_TEXT: ASCII letters, digits, and
 * _ - . of one character at least. `names` is in the order of strcmp, each once. */
grammar_expression name_exclusion(struct grammar_builder *builder, const char *const *names, size_t count,
                                  enum pattern_place place);

#endif

/* Texts of a grammar, walked byte by byte through a constraint's masks. */
#ifndef KAIJU_TESTS_TOOLS_WALK_GRAMMAR_H
#define KAIJU_TESTS_TOOLS_WALK_GRAMMAR_H

#include <stdint.h>

#include "base/buffer.h"
#include "grammar/grammar.h"

/* Walks at random until the text is complete, more eager for that the longer it gets; appends it. False, with the error
 * set, if it is not within `limit` bytes (KJ_TIMEOUT) or no byte fits. */
int walk_grammar(struct grammar *grammar, uint64_t seed, size_t limit, struct buffer *text, struct kj_error *error);

/* Is the text one that the grammar has, 2; the beginning of one, 1; or neither, 0? Negative: an error. */
int follow_grammar(struct grammar *grammar, const char *text, size_t length, struct kj_error *error);

#endif

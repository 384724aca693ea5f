/* Texts that a grammar has and has not. */
#ifndef KAIJU_TESTS_GRAMMAR_CHECK_H
#define KAIJU_TESTS_GRAMMAR_CHECK_H

#include "grammar/grammar.h"
#include "unit/unit.h"

/* Lists end with NULL. */
static inline void check_texts(const struct grammar *grammar, const char *const *inside, const char *const *outside) {
  for (; *inside; inside++)
    if (grammar_matches(grammar, *inside, strlen(*inside)) != 1) fail_msg("not in the grammar: \"%s\"", *inside);
  for (; *outside; outside++)
    if (grammar_matches(grammar, *outside, strlen(*outside)) != 0) fail_msg("in the grammar: \"%s\"", *outside);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif

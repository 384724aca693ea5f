#include "grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

struct grammar *grammar_keep(struct grammar *grammar) {
  atomic_fetch_add(&grammar->references, 1);
  return grammar;
}

void grammar_release(struct grammar *grammar) {
  if (!grammar || atomic_fetch_sub(&grammar->references, 1) != 1) return;
  free(grammar->states);
  free(grammar->edges);
  free(grammar->targets);
  free(grammar->sites);
  free(grammar->ranges);
  free(grammar);
}

int grammar_finish(struct grammar_builder *builder, grammar_expression root, struct grammar **grammar,
                   struct kj_error *error) {
  *grammar = NULL;
  if (!grammar_failed(builder) && root >= builder->expression_count)
    grammar_fail(builder, KJ_INTERNAL, "a grammar is built from an expression that does not exist");
  if (grammar_failed(builder)) {
    if (error) *error = builder->failure;
    return builder->failure.code;
  }
  int code = grammar_check(builder, root, error);
  return code ? code : automaton_compile(builder, root, grammar, error);
}

/* Answers of models that think: a thought, as text/thought.h reads it, before what is constrained. */
#ifndef KAIJU_GRAMMAR_THOUGHT_FIRST_H
#define KAIJU_GRAMMAR_THOUGHT_FIRST_H

#include "grammar/grammar.h"

enum thought_place {
  THOUGHT_NONE,     /* the answer alone */
  THOUGHT_MAY_BE,   /* <think>…</think> or nothing before it */
  THOUGHT_HAS_BEGUN /* the prompt ends within a thought: its rest, </think>, and the answer */
};

grammar_expression thought_first(struct grammar_builder *builder, enum thought_place place, grammar_expression answer);

#endif

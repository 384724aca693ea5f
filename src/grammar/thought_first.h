/* Answers of models that think: a thought, as text/thought.h reads it, before what is constrained. */
#ifndef KAIJU_GRAMMAR_THOUGHT_FIRST_H
#define KAIJU_GRAMMAR_THOUGHT_FIRST_H

#include "grammar/grammar.h"
#include "text/thought.h"

grammar_expression thought_first(struct grammar_builder *builder, enum thought_place place, grammar_expression answer);

#endif

/* Expressions that a parser collects for a sequence or a choice: one list for all levels, each of which takes its own
 * off the end. */
#ifndef KAIJU_GRAMMAR_PART_LIST_H
#define KAIJU_GRAMMAR_PART_LIST_H

#include "grammar/grammar.h"

struct part_list {
  grammar_expression *parts;
  size_t count, capacity;
};

void part_list_free(struct part_list *list);
/* Out of memory is the builder's failure. */
void part_list_push(struct part_list *list, struct grammar_builder *builder, grammar_expression part);
/* The parts from `begin` on as one expression, taken off. */
grammar_expression part_list_sequence(struct part_list *list, struct grammar_builder *builder, size_t begin);
grammar_expression part_list_choice(struct part_list *list, struct grammar_builder *builder, size_t begin);

#endif

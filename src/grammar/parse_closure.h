/* Scratch memory of parse_states.c: the configurations that a byte leads to, with everything that the automaton does
 * without a byte. */
#ifndef KAIJU_GRAMMAR_PARSE_CLOSURE_H
#define KAIJU_GRAMMAR_PARSE_CLOSURE_H

#include "grammar/parse_states.h"

bool parse_closures_create(struct parse_states *states); /* closure, part and known */
void parse_closures_free(struct parse_states *states);

/* Begins anew. */
void parse_closure_clear(struct parse_closure *closure);
/* Follows a configuration as far as it goes, as a byte has led to it, and adds what it finds to states->closure; false
 * after a failure, which is in states->failure. What is found is remembered. */
bool parse_closure_add(struct parse_states *states, uint32_t automaton_state, uint32_t stack);
/* Forgets what was remembered: stacks have new numbers. */
void parse_closure_forget(struct parse_states *states);
size_t parse_closure_bytes(const struct parse_states *states); /* of what is remembered */
/* Adds a configuration that reads, as it is. */
bool parse_closure_keep(struct parse_states *states, parse_configuration configuration);
void parse_closure_complete(struct parse_closure *closure, bool complete); /* whether the text may end here */
/* Sorts what was found. */
const parse_configuration *parse_closure_result(struct parse_closure *closure, uint32_t *count, bool *complete);

/* The number of the stack with this top, AUTOMATON_NONE after a failure (parse_states.c). */
uint32_t parse_stack_push(struct parse_states *states, uint32_t below, uint32_t label, uint32_t rounds);

#endif

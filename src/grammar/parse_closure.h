/* Scratch memory of parse_states.c: the configurations that a byte leads to, with everything that the automaton does
 * without a byte. */
#ifndef KAIJU_GRAMMAR_PARSE_CLOSURE_H
#define KAIJU_GRAMMAR_PARSE_CLOSURE_H

#include "grammar/parse_states.h"

struct parse_closure *parse_closure_create(void); /* NULL: out of memory */
void parse_closure_free(struct parse_closure *closure);

/* Begins anew. */
void parse_closure_clear(struct parse_closure *closure);
/* Follows a configuration as far as it goes; false after a failure, which is in states->failure. */
bool parse_closure_add(struct parse_states *states, uint32_t automaton_state, uint32_t stack);
/* Adds a configuration that reads, as it is. */
bool parse_closure_keep(struct parse_states *states, parse_configuration configuration);
void parse_closure_complete(struct parse_closure *closure, bool complete); /* whether the text may end here */
/* Sorts what was found. */
const parse_configuration *parse_closure_result(struct parse_closure *closure, uint32_t *count, bool *complete);

/* The number of the stack with this top, AUTOMATON_NONE after a failure (parse_states.c). */
uint32_t parse_stack_push(struct parse_states *states, uint32_t below, uint32_t label, uint32_t rounds);

#endif

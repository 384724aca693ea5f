/* What a grammar compiles to: a pushdown automaton over bytes.
 *
 * A configuration is a state and a stack. A state reads a byte, goes on without one to other states, calls a rule (the
 * state after the call goes onto the stack), returns, or begins or ends one round of a counted repetition (site and
 * number of rounds lie on the stack). The text is in the grammar when the return state is reached with an empty stack.
 * Every configuration that can be reached can also be finished.
 */
#ifndef KAIJU_GRAMMAR_AUTOMATON_H
#define KAIJU_GRAMMAR_AUTOMATON_H

#include <stdatomic.h>

#include "grammar/expression.h"

enum automaton_kind {
  AUTOMATON_READ,   /* edges [first, first + count) */
  AUTOMATON_FORK,   /* targets [first, first + count); none: nothing matches */
  AUTOMATON_CALL,   /* target: the rule's entry; first: the state after it */
  AUTOMATON_RETURN, /* state 0 alone */
  AUTOMATON_ROUNDS, /* first: the site, whose rounds begin */
  AUTOMATON_ROUND   /* first: the site, one round of which has ended */
};

#define AUTOMATON_NONE UINT32_MAX
enum { AUTOMATON_CLASSES = 64 };

struct automaton_state {
  uint8_t kind;
  uint32_t first, count, target;
  /* Of a state that begins a class which is repeated, so that many of its characters may follow each other: the class,
   * and the site that counts them (AUTOMATON_NONE: any number of them). No class: AUTOMATON_NONE. */
  uint32_t loop_class, loop_site;
};

struct automaton_edge {
  uint8_t low, high;
  uint32_t target;
};

struct automaton_site {
  uint32_t minimum, maximum; /* rounds; GRAMMAR_UNBOUNDED: those beyond the minimum are not counted */
  uint32_t body, after;
  bool nullable; /* a round may take no byte */
};

struct automaton_class {
  uint32_t first, count; /* ranges */
};

struct grammar {
  atomic_uint references;
  struct automaton_state *states;
  struct automaton_edge *edges;
  uint32_t *targets;
  struct automaton_site *sites;
  struct automaton_class classes[AUTOMATON_CLASSES]; /* those that are repeated: the first ones, if there are more */
  struct code_range *ranges;
  uint32_t state_count, edge_count, target_count, site_count, class_count, range_count;
  uint32_t start;
  /* Bytes that no edge tells apart. */
  uint8_t byte_class[256];
  uint32_t byte_class_count;
};

/* Compiles a checked grammar (grammar/expression.h). */
int automaton_compile(const struct grammar_builder *builder, grammar_expression root, struct grammar **grammar,
                      struct kj_error *error);

#endif

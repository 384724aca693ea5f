/* The state of a compilation (grammar/automaton.h), shared by what compiles expressions (compile.c) and what compiles
 * classes and literals to states that read bytes (compile_bytes.c). States are made from the end of a text to its
 * beginning: every function takes the state that follows and returns the one that begins; AUTOMATON_NONE after a
 * failure, which `code` and `error` keep.
 */
#ifndef KAIJU_GRAMMAR_COMPILE_H
#define KAIJU_GRAMMAR_COMPILE_H

#include "grammar/automaton.h"

struct compilation {
  const struct grammar_builder *builder;
  struct grammar *grammar;
  size_t state_capacity, edge_capacity, target_capacity, site_capacity;
  uint32_t *entry;   /* [expressions] of what is called: its entry, AUTOMATON_NONE if it has none yet */
  uint32_t *waiting; /* [expressions] called, but not compiled yet */
  size_t waiting_count;
  uint8_t *weight; /* [expressions] what a copy costs, 0: not known yet */
  int code;
  struct kj_error *error;
};

/* The repetition of whose rounds a class may be one by itself. */
struct loop {
  bool repeated;
  uint32_t site; /* or AUTOMATON_NONE */
};

uint32_t compile_fail_size(struct compilation *compilation);
uint32_t compile_state(struct compilation *compilation, struct automaton_state state);
uint32_t compile_read(struct compilation *compilation, const struct automaton_edge *edges, size_t count);
uint32_t compile_fork(struct compilation *compilation, const uint32_t *targets, size_t count);

uint32_t compile_literal(struct compilation *compilation, const char *bytes, size_t length, uint32_t next);
/* Literals that are not empty, merged by their beginnings; sorted in place. */
struct literal {
  const char *bytes;
  size_t length;
};
uint32_t compile_literals(struct compilation *compilation, struct literal *literals, size_t count, uint32_t next);
uint32_t compile_class(struct compilation *compilation, const struct code_range *ranges, size_t count, uint32_t next,
                       struct loop loop);
/* The automaton of Knuth, Morris and Pratt over code points: text up to the stop, or (`without`) text
 * without it, which may end anywhere. */
uint32_t compile_stop(struct compilation *compilation, const char *stop, size_t length, bool without, uint32_t next);
/* Finds the bytes that no edge tells apart. */
void compile_byte_classes(struct grammar *grammar);

#endif

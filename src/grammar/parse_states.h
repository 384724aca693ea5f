/* The states that a text can bring a grammar's automaton to, found as they are needed.
 *
 * A state is a set of configurations (grammar/automaton.h): all the ways in which the text so far can be read. Stacks
 * and states are interned, so that equal ones have one number and what a byte leads to is looked up in a table once it
 * is known. Numbers stay valid until parse_states_collect. Memory, the ways of one state and the work of one step are
 * bounded; beyond that a function fails with KJ_UNSUPPORTED, or KJ_MEMORY. Used by one thread at a time.
 */
#ifndef KAIJU_GRAMMAR_PARSE_STATES_H
#define KAIJU_GRAMMAR_PARSE_STATES_H

#include "grammar/automaton.h"

enum {
  PARSE_FAILED = 0, /* also: not known yet, in the table */
  PARSE_DEAD = 1,   /* no text of the grammar begins like this */
  PARSE_FIRST = 2,

  PARSE_MAX_WAYS = 1 << 13,       /* configurations of a state */
  PARSE_MAX_WORK = 1 << 19,       /* between two calls of parse_states_begin_step; a unit takes some 50 ns */
  PARSE_MAX_BYTES = 64 << 20,     /* of everything here */
  PARSE_COLLECT_BYTES = 24 << 20, /* worth parse_states_collect */
  PARSE_KEPT_BYTES = 8 << 20      /* at most, while nobody uses them */
};

#define PARSE_NO_RUN UINT32_MAX

struct parse_state {
  uint32_t first, count; /* configurations */
  uint32_t canonical;    /* 0: not known yet */
  uint32_t mask;         /* for grammar_masks: the place of its mask, or UINT32_MAX */
  const uint8_t
      *runs;     /* for grammar_masks: of the slice (grammar/token_slice.h) whose characters it can read, or NULL */
  uint32_t run;  /* how many of these; PARSE_NO_RUN: not known yet */
  bool complete; /* the text so far is in the grammar */
};

/* Bits 32…63: the automaton's state, which reads; 0…31: the stack. */
typedef uint64_t parse_configuration;

/* The top of a stack and what lies below it. Stack 0 is the empty one. */
struct parse_stack {
  uint32_t below;
  uint32_t label;  /* the state to return to, or PARSE_SITE + a site */
  uint32_t rounds; /* of the site that are complete */
  uint32_t canonical;
};
#define PARSE_SITE 0x80000000u

struct parse_states {
  const struct grammar *grammar;
  uint32_t class_count; /* of bytes */
  /* [state_count, class_count] by state and byte class: the next state, or PARSE_FAILED: not known yet. Moves when
   * states are made. */
  uint32_t *table;
  struct parse_state *states;
  parse_configuration *configurations;
  struct parse_stack *stacks;
  uint32_t state_count, configuration_count, stack_count;
  size_t table_capacity, state_capacity, configuration_capacity, stack_capacity;
  uint32_t *state_slots, *stack_slots; /* hash tables with linear probing; 0: empty */
  size_t state_slot_count, stack_slot_count;
  uint32_t *path; /* scratch */
  size_t path_capacity;
  uint64_t work; /* since parse_states_begin_step: configurations and edges looked at, and states made */
  struct parse_closure *closure, *part; /* scratch: of a state, and of one of its configurations */
  struct parse_closures *known;         /* of configurations (grammar/parse_closure.h) */
  struct kj_error failure;              /* of the last function that failed */
};

int parse_states_create(struct parse_states **states, const struct grammar *grammar, struct kj_error *error);
void parse_states_free(struct parse_states *states);
void parse_states_begin_step(struct parse_states *states);
/* Counts work; false, and a failure, once a step has taken too much. */
bool parse_states_work(struct parse_states *states, size_t amount);
size_t parse_states_bytes(const struct parse_states *states);

uint32_t parse_states_start(struct parse_states *states);
/* What the byte leads to; a state that is neither dead nor failed. Also enters it into the table. */
uint32_t parse_states_step(struct parse_states *states, uint32_t state, uint8_t byte);
static inline uint32_t parse_states_next(struct parse_states *states, uint32_t state, uint8_t byte) {
  uint32_t next = states->table[(size_t)state * states->class_count + states->grammar->byte_class[byte]];
  return next != PARSE_FAILED ? next : parse_states_step(states, state, byte);
}
/* The state that the one configuration alone, which may be anything, not only one that reads, amounts to. */
uint32_t parse_states_of(struct parse_states *states, uint32_t automaton_state, uint32_t stack);
/* The state without the configuration at `index`. */
uint32_t parse_states_without(struct parse_states *states, uint32_t state, uint32_t index);

/* The state that stands for all that go the same way over the next `longest` bytes: numbers of rounds that come neither
 * near the minimum nor near the maximum are all one. */
uint32_t parse_states_canonical(struct parse_states *states, uint32_t state, uint32_t longest);

/* Forgets everything but the given states, whose numbers are changed to the new ones. */
int parse_states_collect(struct parse_states *states, uint32_t *live[], size_t count, struct kj_error *error);

#endif

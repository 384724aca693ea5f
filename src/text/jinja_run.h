/* What all parts of one evaluation share: its memory, its first failure, its limits, the line it is at.
 *
 * A failure is remembered and everything after it does nothing useful but ends soon: a function that failed returns a
 * harmless value, and whoever loops or is about to show a result looks at `failed`. So the many small steps of an
 * evaluation need no check each.
 */
#ifndef KAIJU_TEXT_JINJA_RUN_H
#define KAIJU_TEXT_JINJA_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "text/jinja_arena.h"

enum {
  JINJA_DEPTH = 1500,               /* nested evaluations, calls and values */
  JINJA_TREE_DEPTH = 250,           /* nested statements and expressions of a template */
  JINJA_PARSE_DEPTH = 600,          /* nested functions of the parser, of which a bracket takes two */
  JINJA_STEPS = 10 * 1000 * 1000,   /* nodes evaluated, loop iterations, items handled by filters */
  JINJA_MEMORY = 256 * 1024 * 1024, /* bytes of values of one rendering */
  JINJA_OUTPUT = 64 * 1024 * 1024,  /* bytes of text of one rendering */
};

struct run {
  struct arena arena;
  const char *name; /* of the template, for messages */
  struct kj_error *error;
  enum kj_code code; /* of the first failure */
  bool failed;
  uint32_t line;
  uint32_t depth, depth_limit;
  uint64_t steps;
};

/* Remember a failure, unless there is one already: "NAME line LINE: …". */
void run_fail(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with a code of one's own, and without name and line. */
void run_fail_plain(struct run *run, enum kj_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Memory for `count` objects of `size` bytes, zeroed; NULL after a failure is remembered. */
void *run_allocate(struct run *run, size_t count, size_t size);

/* Room for one more in an array of `count` items of `size` bytes: the array, elsewhere if it was full (*capacity then
 * says how many fit), or NULL after a failure. */
void *run_grow(struct run *run, void *items, size_t count, size_t *capacity, size_t size);

/* Counts `steps`; false when the run has failed or has had too many. */
bool run_step(struct run *run, uint64_t steps);

/* Around everything that recurses: false, and then no `run_leave`, when it is too deep. */
bool run_enter(struct run *run);
static inline void run_leave(struct run *run) { run->depth--; }

#endif

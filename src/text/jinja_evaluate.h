/* Evaluating expressions and calling macros; jinja_render.c has the statements. The two call each other: a macro's
 * body are statements, and statements hold expressions. */
#ifndef KAIJU_TEXT_JINJA_EVALUATE_H
#define KAIJU_TEXT_JINJA_EVALUATE_H

#include "base/buffer.h"
#include "text/jinja_arguments.h"
#include "text/jinja_parser.h"

struct binding {
  uint32_t symbol;
  struct value value;
};

/* The names of a template, loop body, macro call…, and those around it. */
struct scope {
  struct scope *parent;
  struct binding *bindings;
  size_t count, capacity;
  bool captured; /* a macro keeps pointing to it, so that its memory cannot serve again */
};

struct renderer {
  struct run *run;
  struct scope *outermost;                /* the template's own, whose parent holds the variables given */
  uint32_t loop, caller, varargs, kwargs; /* symbols, or NO_SYMBOL if the template never names them */
};

#define NO_SYMBOL UINT32_MAX

enum outcome { OUTCOME_NEXT, OUTCOME_BREAK, OUTCOME_CONTINUE };

struct value evaluate(struct renderer *renderer, struct scope *scope, const struct node *node);
/* A filter node with the value that it has no child for. */
struct value evaluate_filters(struct renderer *renderer, struct scope *scope, const struct node *node,
                              struct value text);
/* Evaluates a call with one more keyword argument, `caller`. */
struct value evaluate_call(struct renderer *renderer, struct scope *scope, const struct node *node,
                           const struct value *caller);

struct scope *scope_make(struct run *run, struct scope *parent);
void scope_set(struct run *run, struct scope *scope, uint32_t symbol, struct value value);
const struct value *scope_find(const struct scope *scope, uint32_t symbol);

/* Executes a body. In jinja_render.c. */
enum outcome execute(struct renderer *renderer, struct scope *scope, const struct node *node, struct buffer *out);
/* The text of a body. */
struct value execute_to_text(struct renderer *renderer, struct scope *scope, const struct node *body);

#endif

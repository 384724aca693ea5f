/* The arguments of a call, and binding them to a function's parameters as Python does. */
#ifndef KAIJU_TEXT_JINJA_ARGUMENTS_H
#define KAIJU_TEXT_JINJA_ARGUMENTS_H

#include "text/jinja_value.h"

struct keyword {
  const struct text *name;
  struct value value;
};

struct arguments {
  const struct value *positional;
  size_t count;
  const struct keyword *keywords;
  size_t keyword_count;
};

enum { PARAMETERS_MAXIMUM = 8 };

/* `parameters` are names separated by commas, of which the first `required` must be given. Values go to `values` in
 * that order, VALUE_MISSING where none is given. Fails, naming the `function`, when they do not fit. */
bool arguments_bind(struct run *run, const struct arguments *arguments, const char *function, const char *parameters,
                    size_t required, struct value *values);

/* What most functions ask of a bound value; a missing one gives the fallback, one of another type fails. */
const struct text *argument_text(struct run *run, struct value value, const struct text *fallback);
int64_t argument_integer(struct run *run, struct value value, int64_t fallback);
bool argument_truth(struct value value, bool fallback);

#endif

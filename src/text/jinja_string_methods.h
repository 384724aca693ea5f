/* The methods of Python's str. */
#ifndef KAIJU_TEXT_JINJA_STRING_METHODS_H
#define KAIJU_TEXT_JINJA_STRING_METHODS_H

#include "text/jinja_arguments.h"

/* `variant` is the entry's: methods that differ in little share a body. */
typedef struct value method_body(struct run *run, struct value object, const struct arguments *arguments, int variant);

struct method_entry {
  const char *name;
  method_body *body;
  int variant;
};

/* Ends with a NULL name. */
extern const struct method_entry STRING_METHODS[];

#endif

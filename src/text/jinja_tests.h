/* The tests of Jinja: what may follow `is`. */
#ifndef KAIJU_TEXT_JINJA_TESTS_H
#define KAIJU_TEXT_JINJA_TESTS_H

#include "text/jinja_arguments.h"

/* The number of a test, or -1 if there is none of that name. */
int test_find(const struct text *name);
bool test_apply(struct run *run, int which, struct value value, const struct arguments *arguments);

#endif

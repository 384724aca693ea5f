/* The global functions of a chat template: range, dict, namespace, joiner and cycler of Jinja, raise_exception and
 * strftime_now of Transformers. */
#ifndef KAIJU_TEXT_JINJA_FUNCTIONS_H
#define KAIJU_TEXT_JINJA_FUNCTIONS_H

#include "text/jinja_arguments.h"

/* The number of a function, or -1 if there is none of that name. */
int function_find(const struct text *name);
struct value function_call(struct run *run, uint32_t which, const struct arguments *arguments);
/* What a joiner gives: nothing the first time, its separator later. */
struct value joiner_call(struct run *run, struct cycler *joiner, const struct arguments *arguments);

#endif

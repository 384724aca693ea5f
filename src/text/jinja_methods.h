/* The methods of Python's str, dict, list and tuple that templates call, and those of loop, cycler and joiner.
 *
 * Methods that change a value are known but forbidden, as in the sandbox that chat templates are written for.
 */
#ifndef KAIJU_TEXT_JINJA_METHODS_H
#define KAIJU_TEXT_JINJA_METHODS_H

#include "text/jinja_arguments.h"

/* The method of that name bound to the object, or an undefined that says it is forbidden; false if there is none. */
bool method_attribute(struct run *run, struct value object, const struct text *name, struct value *value);
struct value method_call(struct run *run, const struct method *method, const struct arguments *arguments);
/* A method that Python has and this module has not: a template that calls it is refused. */
bool method_is_lacking(const struct text *name);

#endif

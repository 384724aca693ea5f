/* The filters of Jinja that chat templates use, with the `tojson` that Transformers puts in place of Jinja's. */
#ifndef KAIJU_TEXT_JINJA_FILTERS_H
#define KAIJU_TEXT_JINJA_FILTERS_H

#include "text/jinja_arguments.h"

/* The number of a filter, or -1 if there is none of that name. */
int filter_find(const struct text *name);
struct value filter_apply(struct run *run, int which, struct value value, const struct arguments *arguments);

#endif

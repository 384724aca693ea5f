/* Stable sorting by a key, as Python's sorted(). */
#ifndef KAIJU_TEXT_JINJA_SORT_H
#define KAIJU_TEXT_JINJA_SORT_H

#include "text/jinja_value.h"

/* The items in the order of their keys, items[i] having keys[i]; NULL once the run has failed. */
struct sequence *sort_items(struct run *run, const struct sequence *items, const struct value *keys, bool reverse);
/* A mapping's pairs in the order of their keys. */
const struct pair *sort_pairs(struct run *run, const struct mapping *mapping);

#endif

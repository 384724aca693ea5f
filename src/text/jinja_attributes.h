/* Looking into values: `x.name`, `x[key]` and `x[from:to:step]`, as the sandboxed Jinja environment does it. */
#ifndef KAIJU_TEXT_JINJA_ATTRIBUTES_H
#define KAIJU_TEXT_JINJA_ATTRIBUTES_H

#include "text/jinja_value.h"

/* A Python attribute or method first, else the item of that name, else undefined. */
struct value value_attribute(struct run *run, struct value object, const struct text *name);
/* An item first, else the attribute of that name, else undefined. */
struct value value_item(struct run *run, struct value object, struct value key);
/* Bounds that are left out are VALUE_NONE. */
struct value value_slice(struct run *run, struct value object, struct value from, struct value to, struct value step);
/* A path such as "user.name" or "0.text", or an integer, as map, selectattr, sort… take it. */
struct value value_path(struct run *run, struct value object, struct value path);

#endif

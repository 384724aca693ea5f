/* The types that JSON Schema tells apart, as sets: what a schema allows. */
#ifndef KAIJU_TEXT_JSON_TYPES_H
#define KAIJU_TEXT_JSON_TYPES_H

#include <jansson.h>

enum json_types {
  TYPE_STRING = 1,
  TYPE_INTEGER = 2,
  TYPE_NUMBER = 4, /* that is no integer: the type "number" is both */
  TYPE_BOOLEAN = 8,
  TYPE_NULL = 16,
  TYPE_OBJECT = 32,
  TYPE_ARRAY = 64,
  TYPE_ANY = 127
};

/* What `type` means by the name; 0 for another one, or NULL. */
unsigned json_types_named(const char *name);
/* The one type of the value; 1.0 is an integer. */
unsigned json_type_of(const json_t *value);

#endif

#include "text/json_types.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

unsigned json_types_named(const char *name) {
  static const struct {
    const char *name;
    unsigned types;
  } NAMES[] = {{"string", TYPE_STRING},   {"integer", TYPE_INTEGER}, {"number", TYPE_NUMBER | TYPE_INTEGER},
               {"boolean", TYPE_BOOLEAN}, {"null", TYPE_NULL},       {"object", TYPE_OBJECT},
               {"array", TYPE_ARRAY}};
  for (size_t i = 0; name && i < sizeof NAMES / sizeof *NAMES; i++)
    if (strcmp(name, NAMES[i].name) == 0) return NAMES[i].types;
  return 0;
}

unsigned json_type_of(const json_t *value) {
  switch (json_typeof(value)) {
    case JSON_OBJECT:
      return TYPE_OBJECT;
    case JSON_ARRAY:
      return TYPE_ARRAY;
    case JSON_STRING:
      return TYPE_STRING;
    case JSON_INTEGER:
      return TYPE_INTEGER;
    case JSON_REAL:
      return json_real_value(value) == trunc(json_real_value(value)) ? TYPE_INTEGER : TYPE_NUMBER;
    case JSON_NULL:
      return TYPE_NULL;
    default:
      return TYPE_BOOLEAN;
  }
}

/* Typed, range-checked access to the fields of a JSON object, for flat parsing code.
 *
 * A field that is absent or null leaves *value as it is, so callers set defaults first. The first field that is wrong
 * fills the error (400, with the field's path) and makes all later calls do nothing: check `failed` once at the end.
 */
#ifndef KAIJU_HTTP_FIELDS_H
#define KAIJU_HTTP_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "http/api_error.h"

struct fields {
  const json_t *object;
  const char *path; /* of the object, "" for the body itself; names are joined to it with a dot */
  struct api_error *error;
  bool failed;
};

void field_number(struct fields *fields, const char *name, double minimum, double maximum, double *value);
/* Integers may be written as 5 or 5.0; nothing is rounded. */
void field_integer(struct fields *fields, const char *name, int64_t minimum, int64_t maximum, int64_t *value);
void field_boolean(struct fields *fields, const char *name, bool *value);
/* Borrowed. */
void field_string(struct fields *fields, const char *name, const char **value);
/* The field if it is present, not null and of the type; `type_name` is for the message ("an array"). Borrowed. */
json_t *field_value(struct fields *fields, const char *name, json_type type, const char *type_name);
/* The field if it is present and not null. */
json_t *field_any(const struct fields *fields, const char *name);

/* A 400 of the caller's own, unless one was found before. */
void field_fail(struct fields *fields, const char *code, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void field_fail_memory(struct fields *fields);

/* "an integer", "a string"…, for messages. */
const char *json_type_name(const json_t *value);
/* The whole path of a field. `out` has the size of api_error.param. */
void field_path(const struct fields *fields, const char *name, char out[160]);

/* `path` followed by `suffix`; too long a path is cut. */
void path_join(char out[160], const char *path, const char *suffix);

#endif

#include "http/fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

const char *json_type_name(const json_t *value) {
  switch (json_typeof(value)) {
    case JSON_OBJECT:
      return "an object";
    case JSON_ARRAY:
      return "an array";
    case JSON_STRING:
      return "a string";
    case JSON_INTEGER:
      return "an integer";
    case JSON_REAL:
      return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
      return "a boolean";
    default:
      return "null";
  }
}

void field_path(const struct fields *fields, const char *name, char out[160]) {
  snprintf(out, 160, "%s%s%s", fields->path, fields->path[0] ? "." : "", name);
}

json_t *field_any(const struct fields *fields, const char *name) {
  json_t *value = fields->failed ? NULL : json_object_get(fields->object, name);
  return json_is_null(value) ? NULL : value;
}

static void wrong_type(struct fields *fields, const char *name, const char *expected, const json_t *value) {
  char path[160];
  field_path(fields, name, path);
  fields->failed = true;
  api_fail(fields->error, 400, "invalid_type", path, "'%s' must be %s, not %s", path, expected, json_type_name(value));
}

static void out_of_range(struct fields *fields, const char *name, double minimum, double maximum) {
  char path[160];
  field_path(fields, name, path);
  fields->failed = true;
  api_fail(fields->error, 400, "invalid_value", path, "'%s' must be between %.17g and %.17g", path, minimum, maximum);
}

void field_number(struct fields *fields, const char *name, double minimum, double maximum, double *value) {
  const json_t *field = field_any(fields, name);
  if (!field) return;
  if (!json_is_number(field)) {
    wrong_type(fields, name, "a number", field);
    return;
  }
  double number = json_number_value(field);
  if (!(number >= minimum && number <= maximum)) {
    out_of_range(fields, name, minimum, maximum);
    return;
  }
  *value = number;
}

void field_integer(struct fields *fields, const char *name, int64_t minimum, int64_t maximum, int64_t *value) {
  const json_t *field = field_any(fields, name);
  if (!field) return;
  int64_t number = 0;
  if (json_is_integer(field)) {
    number = json_integer_value(field);
  } else if (json_is_real(field) && json_real_value(field) == trunc(json_real_value(field))) {
    /* Beyond 2^53 a double no longer says which integer was meant. */
    double real = json_real_value(field);
    if (fabs(real) > 9007199254740992.0) {
      out_of_range(fields, name, (double)minimum, (double)maximum);
      return;
    }
    number = (int64_t)real;
  } else {
    wrong_type(fields, name, "an integer", field);
    return;
  }
  if (number < minimum || number > maximum) {
    out_of_range(fields, name, (double)minimum, (double)maximum);
    return;
  }
  *value = number;
}

void field_boolean(struct fields *fields, const char *name, bool *value) {
  const json_t *field = field_any(fields, name);
  if (!field) return;
  if (!json_is_boolean(field)) {
    wrong_type(fields, name, "a boolean", field);
    return;
  }
  *value = json_is_true(field);
}

void field_string(struct fields *fields, const char *name, const char **value) {
  const json_t *field = field_value(fields, name, JSON_STRING, "a string");
  if (field) *value = json_string_value(field);
}

json_t *field_value(struct fields *fields, const char *name, json_type type, const char *type_name) {
  json_t *field = field_any(fields, name);
  if (!field) return NULL;
  if (json_typeof(field) != type) {
    wrong_type(fields, name, type_name, field);
    return NULL;
  }
  return field;
}

void path_join(char out[160], const char *path, const char *suffix) { snprintf(out, 160, "%s%s", path, suffix); }

void field_fail(struct fields *fields, const char *code, const char *param, const char *format, ...) {
  if (fields->failed) return;
  char message[sizeof fields->error->message];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  fields->failed = true;
  api_fail(fields->error, 400, code, param, "%s", message);
}

void field_fail_memory(struct fields *fields) {
  fields->failed = true;
  api_fail_memory(fields->error);
}

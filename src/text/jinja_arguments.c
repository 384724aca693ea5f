#include "text/jinja_arguments.h"

#include <string.h>

/* The position of a name in a list of names separated by commas, or -1. */
static int find_parameter(const char *parameters, const struct text *name) {
  for (int position = 0; *parameters; position++) {
    size_t length = strcspn(parameters, ",");
    if (length == name->length && memcmp(parameters, name->bytes, length) == 0) return position;
    parameters += length + (parameters[length] == ',');
  }
  return -1;
}

static size_t count_parameters(const char *parameters) {
  size_t count = *parameters ? 1 : 0;
  for (; *parameters; parameters++) count += *parameters == ',';
  return count;
}

bool arguments_bind(struct run *run, const struct arguments *arguments, const char *function, const char *parameters,
                    size_t required, struct value *values) {
  size_t count = count_parameters(parameters);
  for (size_t i = 0; i < count; i++) values[i] = (struct value){.kind = VALUE_MISSING};
  if (arguments->count > count) {
    run_fail(run, "%s takes at most %zu arguments but %zu were given", function, count, arguments->count);
    return false;
  }
  for (size_t i = 0; i < arguments->count; i++) values[i] = arguments->positional[i];
  for (size_t i = 0; i < arguments->keyword_count; i++) {
    const struct text *name = arguments->keywords[i].name;
    int position = find_parameter(parameters, name);
    if (position < 0) {
      run_fail(run, "%s has no argument '%.*s'", function, (int)name->length, name->bytes);
      return false;
    }
    if (values[position].kind != VALUE_MISSING) {
      run_fail(run, "%s got two values for '%.*s'", function, (int)name->length, name->bytes);
      return false;
    }
    values[position] = arguments->keywords[i].value;
  }
  for (size_t i = 0; i < required; i++) {
    if (values[i].kind != VALUE_MISSING) continue;
    run_fail(run, "%s needs at least %zu arguments", function, required);
    return false;
  }
  return !run->failed;
}

const struct text *argument_text(struct run *run, struct value value, const struct text *fallback) {
  if (value.kind == VALUE_MISSING) return fallback;
  if (value.kind == VALUE_STRING) return value.text;
  if (value.kind == VALUE_UNDEFINED) {
    value_fail_undefined(run, value);
  } else {
    run_fail(run, "an argument must be a string, not '%s'", value_type(value));
  }
  return text_view(run, "", 0);
}

int64_t argument_integer(struct run *run, struct value value, int64_t fallback) {
  int64_t integer = fallback;
  if (value.kind == VALUE_MISSING || value_is_integer(value, &integer)) return integer;
  if (value.kind == VALUE_UNDEFINED) {
    value_fail_undefined(run, value);
  } else {
    run_fail(run, "an argument must be an integer, not '%s'", value_type(value));
  }
  return fallback;
}

bool argument_truth(struct value value, bool fallback) {
  return value.kind == VALUE_MISSING ? fallback : value_truth(&value);
}

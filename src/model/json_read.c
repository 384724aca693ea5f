#include "model/json_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

int json_read_bytes(char **bytes, size_t *length, const char *path, size_t limit, struct kj_error *error) {
  *bytes = NULL;
  *length = 0;
  char *memory = NULL;
  struct stat status;
  int descriptor;
  int result = file_open(&descriptor, &status, path, error);
  if (result) return result;
  if ((uint64_t)status.st_size > limit) {
    result = kj_fail(error, KJ_INVALID, "%s: has %lld bytes; more than %zu is not accepted", path,
                     (long long)status.st_size, limit);
    goto done;
  }
  memory = malloc((size_t)status.st_size + 1);
  if (!memory) {
    result = kj_fail_memory(error, path);
    goto done;
  }
  result = file_read(descriptor, memory, (size_t)status.st_size, path, error);
  if (result) goto done;
  memory[status.st_size] = '\0';
  *bytes = memory;
  *length = (size_t)status.st_size;
  memory = NULL;
done:
  free(memory);
  close(descriptor);
  return result;
}

int json_read_object(json_t **root, const char *name, const char *text, size_t length, struct kj_error *error) {
  json_error_t problem;
  *root = NULL;
  json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES, &problem);
  if (!value) {
    if (json_error_code(&problem) == json_error_out_of_memory) return kj_fail_memory(error, name);
    return kj_fail(error, KJ_INVALID, "%s: line %d, column %d: %s", name, problem.line, problem.column, problem.text);
  }
  if (!json_is_object(value)) {
    json_decref(value);
    return kj_fail(error, KJ_INVALID, "%s: must be a JSON object", name);
  }
  *root = value;
  return 0;
}

int json_read_file(json_t **root, const char *path, size_t limit, struct kj_error *error) {
  char *bytes = NULL;
  size_t length = 0;
  *root = NULL;
  int result = json_read_bytes(&bytes, &length, path, limit, error);
  if (!result) result = json_read_object(root, path, bytes, length, error);
  free(bytes);
  return result;
}

const json_t *json_read_field(const struct json_place *place, const char *key) {
  const json_t *value = json_object_get(place->object, key);
  return json_is_null(value) ? NULL : value;
}

int json_read_required(const struct json_place *place, const char *key, struct kj_error *error) {
  if (json_read_field(place, key)) return 0;
  return kj_fail(error, KJ_INVALID, "%s: has no %s", place->name, key);
}

int json_read_fail(const struct json_place *place, const char *key, const char *expected, const json_t *value,
                   struct kj_error *error) {
  if (json_is_object(value) || json_is_array(value))
    return kj_fail(error, KJ_INVALID, "%s: %s must be %s, not %s", place->name, key, expected,
                   json_is_object(value) ? "an object" : "a list");
  char *text = json_dumps(value, JSON_ENCODE_ANY);
  int result = kj_fail(error, KJ_INVALID, "%s: %s must be %s, not %.80s%s", place->name, key, expected,
                       text ? text : "what it is", text && strlen(text) > 80 ? "…" : "");
  free(text);
  return result;
}

int json_read_whole(const struct json_place *place, const char *key, uint32_t lowest, uint32_t highest, uint32_t *value,
                    struct kj_error *error) {
  const json_t *field = json_read_field(place, key);
  if (!field) return 0;
  json_int_t number = json_integer_value(field);
  if (!json_is_integer(field) || number < (json_int_t)lowest || number > (json_int_t)highest) {
    char expected[80];
    snprintf(expected, sizeof expected, "a whole number from %u to %u", lowest, highest);
    return json_read_fail(place, key, expected, field, error);
  }
  *value = (uint32_t)number;
  return 0;
}

int json_read_real(const struct json_place *place, const char *key, double lowest, double highest, double *value,
                   struct kj_error *error) {
  const json_t *field = json_read_field(place, key);
  if (!field) return 0;
  double number = json_number_value(field);
  if (!json_is_number(field) || !isfinite(number) || number < lowest || number > highest) {
    char expected[80];
    snprintf(expected, sizeof expected, "a number from %g to %g", lowest, highest);
    return json_read_fail(place, key, expected, field, error);
  }
  *value = number;
  return 0;
}

int json_read_truth(const struct json_place *place, const char *key, bool *value, struct kj_error *error) {
  const json_t *field = json_read_field(place, key);
  if (!field) return 0;
  if (!json_is_boolean(field)) return json_read_fail(place, key, "true or false", field, error);
  *value = json_is_true(field);
  return 0;
}

int json_read_text(const struct json_place *place, const char *key, const char **value, struct kj_error *error) {
  const json_t *field = json_read_field(place, key);
  if (!field) return 0;
  if (!json_is_string(field)) return json_read_fail(place, key, "a string", field, error);
  *value = json_string_value(field);
  return 0;
}

#include "http/json.h"

#include <stdlib.h>
#include <string.h>

/* Counts without parsing: separators and brackets outside strings. */
bool json_spend(struct json_budget *budget, const char *bytes, size_t length) {
  size_t values = 0, containers = 0;
  bool quoted = false;
  for (size_t i = 0; i < length; i++) {
    switch (bytes[i]) {
      case '\\':
        if (quoted) i++;
        break;
      case '"':
        quoted = !quoted;
        break;
      case '[':
      case '{':
        if (!quoted) containers++;
        break;
      case ',':
        if (!quoted) values++;
        break;
      default:
        break;
    }
  }
  if (values > budget->values || containers > budget->containers) return false;
  budget->values -= values;
  budget->containers -= containers;
  return true;
}

json_t *json_decode(const char *bytes, size_t length, struct api_error *error) {
  struct json_budget budget = json_budget();
  if (!json_spend(&budget, bytes, length)) {
    api_fail(error, 400, "invalid_json", NULL, "the body has more than %d values or more than %d arrays and objects",
             JSON_MAX_VALUES, JSON_MAX_CONTAINERS);
    return NULL;
  }
  json_error_t cause;
  json_t *value = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &cause);
  if (!value) {
    api_fail(error, 400, "invalid_json", NULL, "the body is not valid JSON: %s at line %d, column %d (byte %d)",
             cause.text, cause.line, cause.column, cause.position);
    return NULL;
  }
  if (!json_is_object(value)) {
    json_decref(value);
    api_fail(error, 400, "invalid_json", NULL, "the body must be a JSON object");
    return NULL;
  }
  return value;
}

json_t *json_text(const char *text) {
  json_t *value = json_string(text);
  if (value) return value;
  char *plain = strdup(text);
  if (!plain) return NULL;
  for (char *c = plain; *c; c++)
    if ((unsigned char)*c >= 0x80) *c = '?';
  value = json_string(plain);
  free(plain);
  return value;
}

static int append_bytes(const char *bytes, size_t length, void *context) {
  struct buffer *out = context;
  buffer_append(out, bytes, length);
  return buffer_failed(out) ? -1 : 0;
}

static bool append_json(struct buffer *out, json_t *value, size_t flags) {
  if (!value) return false;
  /* 9 digits give every float back exactly. */
  int result = json_dump_callback(value, append_bytes, out, JSON_COMPACT | JSON_REAL_PRECISION(9) | flags);
  json_decref(value);
  return result == 0;
}

bool json_append(struct buffer *out, json_t *value) { return append_json(out, value, 0); }

bool json_append_value(struct buffer *out, json_t *value) { return append_json(out, value, JSON_ENCODE_ANY); }

bool json_append_members(struct buffer *out, json_t *object) { return append_json(out, object, JSON_EMBED); }

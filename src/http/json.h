/* JSON in and out, on top of jansson: bounded decoding with the position of an error, encoding into a buffer. */
#ifndef KAIJU_HTTP_JSON_H
#define KAIJU_HTTP_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "http/api_error.h"

enum {
  /* A parsed value costs tens of times the bytes of its text: these bounds keep a hostile body from multiplying. */
  JSON_MAX_VALUES = 1 << 21,
  JSON_MAX_CONTAINERS = 1 << 17
};

/* What the texts of one request may still hold together. */
struct json_budget {
  size_t values, containers;
};
static inline struct json_budget json_budget(void) {
  return (struct json_budget){JSON_MAX_VALUES, JSON_MAX_CONTAINERS};
}
/* Takes what a parser would make of the text from the budget; false if that is more than is left. */
bool json_spend(struct json_budget *budget, const char *bytes, size_t length);

/* The JSON object in `bytes`; otherwise NULL and a 400 with line, column and byte offset. Ill-formed UTF-8, unpaired
 * surrogates, "\u0000", duplicate keys, and numbers that no double or 64-bit integer holds are errors. */
json_t *json_decode(const char *bytes, size_t length, struct api_error *error);

/* A JSON string of any text: bytes of ill-formed UTF-8 (a message that was cut) become '?'. */
json_t *json_text(const char *text);

/* Appends the value as compact JSON and releases it. False (nothing useful appended) if it is NULL or memory ran out.
 */
bool json_append(struct buffer *out, json_t *value);
/* The same for a value that may stand inside another one: a string too. */
bool json_append_value(struct buffer *out, json_t *value);
/* The members of an object without the braces, so that others can follow. */
bool json_append_members(struct buffer *out, json_t *object);

#endif

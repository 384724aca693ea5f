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

/* The JSON object in `bytes`; otherwise NULL and a 400 with line, column and byte offset. Ill-formed UTF-8, unpaired
 * surrogates, "\u0000", duplicate keys, and numbers that no double or 64-bit integer holds are errors. */
json_t *json_decode(const char *bytes, size_t length, struct api_error *error);

/* A JSON string of any text: bytes of ill-formed UTF-8 (a message that was cut) become '?'. */
json_t *json_text(const char *text);

/* Appends the value as compact JSON and releases it. False (nothing useful appended) if it is NULL or memory ran out.
 */
bool json_append(struct buffer *out, json_t *value);

#endif

/* Typed reads of JSON files that a checkpoint brings: config.json, the index, safetensors headers.
 *
 * Objects with a repeated key, nesting deeper than the parser's limit, NUL characters and invalid UTF-8 are refused. A
 * field that is missing or null keeps the value that the caller put in; one of the wrong type or out of range is
 * KJ_INVALID, and the message names the file, the key, the value and what would be right.
 */
#ifndef KAIJU_MODEL_JSON_READ_H
#define KAIJU_MODEL_JSON_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* An object and how to call it in a message ("models/a/config.json: rope_scaling"). Owns neither. */
struct json_place {
  const json_t *object;
  const char *name;
};

/* The whole file, which must be a regular one of at most `limit` bytes; free() it. */
int json_read_bytes(char **bytes, size_t *length, const char *path, size_t limit, struct kj_error *error);
/* The root, which must be an object; json_decref it. */
int json_read_object(json_t **root, const char *name, const char *text, size_t length, struct kj_error *error);
/* Both steps. */
int json_read_file(json_t **root, const char *path, size_t limit, struct kj_error *error);

/* The value of a key, or NULL where it is missing or null. */
const json_t *json_read_field(const struct json_place *place, const char *key);
/* KJ_INVALID where the key is missing or null. */
int json_read_required(const struct json_place *place, const char *key, struct kj_error *error);

int json_read_whole(const struct json_place *place, const char *key, uint32_t lowest, uint32_t highest, uint32_t *value,
                    struct kj_error *error);
/* Any finite number from lowest to highest, whole ones too. */
int json_read_real(const struct json_place *place, const char *key, double lowest, double highest, double *value,
                   struct kj_error *error);
int json_read_truth(const struct json_place *place, const char *key, bool *value, struct kj_error *error);
/* *value stays owned by the object. */
int json_read_text(const struct json_place *place, const char *key, const char **value, struct kj_error *error);

/* "PLACE: KEY must be EXPECTED, not VALUE", the value as JSON and cut where it is long. */
int json_read_fail(const struct json_place *place, const char *key, const char *expected, const json_t *value,
                   struct kj_error *error);

#endif

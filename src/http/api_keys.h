/* API keys: who may use the server.
 *
 * A key file has one key a line: 1…512 visible ASCII characters. What follows a '#' at the start of a line or after a
 * space is a comment. In memory there are digests of the keys only, under a secret of this process, and a key is looked
 * for in time that tells neither which keys there are nor how much of one was right. No message ever holds a key.
 */
#ifndef KAIJU_HTTP_API_KEYS_H
#define KAIJU_HTTP_API_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { API_KEY_MAX = 512, API_KEYS_MAX = 10000 };

struct api_keys; /* immutable: may be used by many threads */

/* KJ_INVALID, with the number of the line, for a file that others may read, that breaks the format or has no key. */
int api_keys_load(struct api_keys **keys, const char *path, struct kj_error *error);
/* The same from memory; messages call it `name`. */
int api_keys_parse(struct api_keys **keys, const char *name, const char *text, size_t length, struct kj_error *error);
void api_keys_free(struct api_keys *keys); /* NULL is allowed */

bool api_keys_contain(const struct api_keys *keys, const char *key, size_t length);

/* For a client: the file's first key. */
int api_keys_first(const char *path, char key[API_KEY_MAX + 1], struct kj_error *error);

/* The credentials in an Authorization header "Bearer KEY" (RFC 6750, 2.1): false for another scheme, no key or more
 * than one word. *key leads into `value`. */
bool api_key_from_authorization(const char *value, const char **key, size_t *length);

#endif

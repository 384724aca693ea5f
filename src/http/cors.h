/* Which web pages may use the server from a browser (the Fetch standard's CORS protocol): a list of origins. Without
 * one no page of another origin can read an answer.
 *
 * Answers name the one origin that asked, and always vary by it. They never allow credentials: cookies mean nothing
 * here, and keys travel in a header that pages set themselves.
 */
#ifndef KAIJU_HTTP_CORS_H
#define KAIJU_HTTP_CORS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"

struct cors; /* immutable */

/* "https://app.example,http://localhost:3000": schemes, hosts and ports only; or "*" for every page. KJ_INVALID with
 * the entry that is wrong. */
int cors_create(struct cors **cors, const char *list, struct kj_error *error);
void cors_free(struct cors *cors); /* NULL is allowed */

/* `origin`: the request's Origin header, or NULL. `cors` NULL allows none. */
bool cors_allows(const struct cors *cors, const char *origin);

/* Appends the header lines of an answer to a request of that origin: none without a list. */
void cors_write(const struct cors *cors, const char *origin, struct buffer *lines);
/* And what the answer to a preflight has besides: `methods` is a list for people and browsers, "GET, HEAD". */
void cors_write_preflight(const struct cors *cors, const char *origin, const char *methods, struct buffer *lines);

#endif

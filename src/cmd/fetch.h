/* HTTP GETs from one server, one at a time, on an event loop (libevent's client): for commands that watch a server. */
#ifndef KAIJU_CMD_FETCH_H
#define KAIJU_CMD_FETCH_H

#include <event2/event.h>
#include <stddef.h>

#include "base/error.h"

struct fetcher;

/* `url`: "http://HOST[:PORT][/PATH]", the scheme may be left out; KJ_INVALID, KJ_UNSUPPORTED for another scheme. Names
 * are resolved when a request begins. */
int fetcher_create(struct fetcher **fetcher, struct event_base *base, const char *url, struct kj_error *error);
void fetcher_free(struct fetcher *fetcher); /* a request that is not done ends without a call; NULL is allowed */

/* The API key that requests carry from now on; copied. */
int fetcher_set_key(struct fetcher *fetcher, const char *key, struct kj_error *error);

/* "http://host:port", as it is shown. */
const char *fetcher_url(const struct fetcher *fetcher);

/* The answer: its status and body, which is valid during the call; or, with status 0, why there is none. */
typedef void fetch_done(void *context, int status, const char *body, size_t length, const struct kj_error *error);

/* Begins GET `path`; `done` is called from the loop, once. Not while another request is being made. */
int fetch(struct fetcher *fetcher, const char *path, fetch_done *done, void *context, struct kj_error *error);

#endif

/* The responses that /v1/responses has given, by id, so that a client can go on from one (previous_response_id) or
 * fetch it again: in memory only, of bounded number and size, the least recently used forgotten first.
 *
 * Each has its whole conversation, so that it can be gone on from whatever has been forgotten before it. All is kept as
 * JSON text, which takes a fraction of what parsed values do.
 *
 * Safe on any threads.
 */
#ifndef KAIJU_HTTP_RESPONSE_STORE_H
#define KAIJU_HTTP_RESPONSE_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

struct response_store;

struct response_text {
  struct buffer response; /* the response object */
  struct buffer items;    /* an array: the items that it was made from, then those of its output */
  size_t input_count;     /* of the items */
};

/* At most `max_count` responses (0: none is kept) of `max_bytes` together. NULL without memory. */
struct response_store *response_store_create(size_t max_count, size_t max_bytes);
void response_store_free(struct response_store *store); /* NULL is allowed */

/* Moves the text out. One that is larger than all may be is not kept, nor one for which there is no memory. */
void response_store_put(struct response_store *store, const char *id, struct response_text *text);
/* Fills the parts of an empty text that are asked for. False if there is no such response or, `failed` being set in a
 * buffer, no memory. */
bool response_store_get(struct response_store *store, const char *id, bool response, bool items,
                        struct response_text *text);
/* False if there was none. */
bool response_store_delete(struct response_store *store, const char *id);

size_t response_store_count(struct response_store *store);
size_t response_store_bytes(struct response_store *store);

static inline void response_text_free(struct response_text *text) {
  buffer_free(&text->response);
  buffer_free(&text->items);
}

#endif

/* What a /v1/responses request refers to by id: the conversation that led to an earlier response, and single items
 * (item_reference), out of the store.
 *
 * Items of a conversation that came without an id have one of their place in it, so that they can be listed.
 */
#ifndef KAIJU_HTTP_RESPONSES_HISTORY_H
#define KAIJU_HTTP_RESPONSES_HISTORY_H

#include <jansson.h>

#include "http/api_error.h"
#include "http/response_store.h"

enum { RESPONSES_MAX_ID = 64 };

/* "resp_" and digits to "msg_", the same digits and the index of the item in the output: it tells the response that it
 * is of. */
void responses_item_id(char id[RESPONSES_MAX_ID], const char *prefix, const char *response_id, size_t index);

/* A new array: the items of the conversation up to and with the response `previous` (NULL: none), *known of them, then
 * those of `input`, references resolved. `store` may be NULL. NULL and an error about `previous_response_id` or
 * "input[3].id". */
json_t *responses_history_join(struct response_store *store, const char *previous, const json_t *input, size_t *known,
                               struct api_error *error);

/* A new array of the first `count` items of a conversation, each with type, id and status, and content as parts. NULL
 * without memory. */
json_t *responses_history_list(const char *response_id, const struct response_text *text, size_t count);

#endif

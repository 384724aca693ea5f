/* What /v1/responses/ID has of a stored response: itself, its input items, its removal.
 *
 * Answers are JSON appended to a buffer; 0, or -1 and the error, a 404 where there is no such response.
 */
#ifndef KAIJU_HTTP_RESPONSES_CALLS_H
#define KAIJU_HTTP_RESPONSES_CALLS_H

#include "base/buffer.h"
#include "http/api_error.h"
#include "http/prepare.h"
#include "http/response_store.h"

/* `store` may be NULL. */
int responses_call_get(struct response_store *store, const char *id, struct buffer *answer, struct api_error *error);
int responses_call_delete(struct response_store *store, const char *id, struct buffer *answer, struct api_error *error);
/* Always fails: nothing runs in the background. */
int responses_call_cancel(struct response_store *store, const char *id, struct api_error *error);

/* Reads a conversation, so it is work for the preparer. The body is the id, "?" and the query: limit (1…100, 20), order
 * ("desc" or "asc"), after (the id of an item). */
void responses_list_input(const struct preparer_options *options, struct preparation *preparation);

#endif

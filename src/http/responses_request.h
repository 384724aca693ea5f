/* A request of OpenAI's Responses API (/v1/responses) as one of chat. docs/api.md lists its fields.
 *
 * Safe on any thread. The members of `mirror`, for http/responses.c:
 *   response      the fields that the response object repeats
 *   conversation  the items that it is made from, a string with the JSON text of an array; absent: it is not to be kept
 *   input_count   of them
 *   plain_reasoning  true: reasoning items get `encrypted_content`
 */
#ifndef KAIJU_HTTP_RESPONSES_REQUEST_H
#define KAIJU_HTTP_RESPONSES_REQUEST_H

#include <jansson.h>

#include "http/request.h"
#include "http/response_store.h"

/* As completion_request_parse: a request with its mirror. `store` may be NULL. */
int responses_request_parse(struct completion_request **request, struct response_store *store, const char *body,
                            size_t length, const struct config *config, struct api_error *error);

/* Calls the fields in an error about what comes later of the request by the names that they have here. */
void responses_error_rename(struct api_error *error);

/* A new object for completion_request_from, and another for its `mirror`; `store` may be NULL. NULL and the error. */
json_t *responses_request_translate(const json_t *body, struct response_store *store, json_t **mirror,
                                    struct api_error *error);

#endif

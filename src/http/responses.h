/* OpenAI's Responses API: how an answer is told as a response object and its stream of events. http/responses_request.h
 * reads the request, http/responses_output.h makes the items.
 *
 * The stream has no "[DONE]": response.completed, response.incomplete or response.failed is its last event.
 */
#ifndef KAIJU_HTTP_RESPONSES_H
#define KAIJU_HTTP_RESPONSES_H

#include "http/answer.h"

extern const struct answer_dialect responses_dialect;

#endif

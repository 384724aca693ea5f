/* The prompts of a legacy completions request: a text, token ids, or an array of both kinds, and the text that follows
 * where one is to be filled in.
 */
#ifndef KAIJU_HTTP_PROMPT_FIELDS_H
#define KAIJU_HTTP_PROMPT_FIELDS_H

#include <stdint.h>

#include "http/fields.h"
#include "http/request.h"

/* Fills the request's prompts, suffix and echo. */
void prompt_fields_parse(struct fields *fields, struct completion_request *request, uint32_t vocabulary);

#endif

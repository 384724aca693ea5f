/* The fields that requests of other APIs have in common with a chat request, under the same names: model, stream, and
 * what steers sampling, Kaiju's own fields included. */
#ifndef KAIJU_HTTP_SHARED_FIELDS_H
#define KAIJU_HTTP_SHARED_FIELDS_H

#include "http/fields.h"

/* Copies those that the object has to `chat`, where they are checked. */
void shared_fields_copy(struct fields *fields, json_t *chat);

#endif

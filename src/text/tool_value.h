/* The value of a parameter, written as plain text in a call, as JSON of a type that its schema allows.
 *
 * The most definite type that fits wins: null (written null or None), booleans (also True and False), numbers, objects
 * and arrays (JSON, or Python's notation), and last a string, which everything fits. 5.0 is the integer 5. A text that
 * fits none of the types becomes a string, so that a call is never lost.
 */
#ifndef KAIJU_TEXT_TOOL_VALUE_H
#define KAIJU_TEXT_TOOL_VALUE_H

#include "base/buffer.h"

/* Appends the JSON. `types` is a set of enum json_types. */
void tool_value_append(struct buffer *out, unsigned types, const char *text, size_t length);

#endif

/* Python's notation of a value (dict, list, tuple, string, number, True, False, None) as JSON: models that were trained
 * on code write arguments that way.
 */
#ifndef KAIJU_TEXT_PYTHON_LITERAL_H
#define KAIJU_TEXT_PYTHON_LITERAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/* Appends the JSON of the whole text. False, with `out` as before, if it is no literal or has no JSON: keys that are no
 * strings, sets, bytes, prefixed or triple-quoted strings, sums. */
bool python_literal_to_json(const char *text, size_t length, struct buffer *out);

#endif

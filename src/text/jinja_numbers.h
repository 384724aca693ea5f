/* Reading numbers from text as Python's int() and float() do. */
#ifndef KAIJU_TEXT_JINJA_NUMBERS_H
#define KAIJU_TEXT_JINJA_NUMBERS_H

#include "text/jinja_value.h"

enum number_result { NUMBER_READ, NUMBER_MALFORMED, NUMBER_TOO_LARGE };

/* Base 0 means by prefix. */
enum number_result read_integer(const struct text *text, int base, int64_t *integer);
enum number_result read_float(const struct text *text, double *number);

#endif

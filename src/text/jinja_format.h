/* Python's two ways of formatting: str.format with its {fields}, and the % operator with its %conversions. */
#ifndef KAIJU_TEXT_JINJA_FORMAT_H
#define KAIJU_TEXT_JINJA_FORMAT_H

#include "text/jinja_arguments.h"

const struct text *format_braces(struct run *run, const struct text *format, const struct arguments *arguments);
/* `operand` is a tuple of values, a mapping for %(name)s, or the one value. */
const struct text *format_percent(struct run *run, const struct text *format, struct value operand);

#endif

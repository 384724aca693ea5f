/* Python's operators on values. */
#ifndef KAIJU_TEXT_JINJA_OPERATORS_H
#define KAIJU_TEXT_JINJA_OPERATORS_H

#include "text/jinja_lexer.h"

/* a OPERATION b, the operation being TOKEN_ADD … TOKEN_POWER. */
struct value value_binary(struct run *run, enum token_kind operation, struct value a, struct value b);
struct value value_negative(struct run *run, struct value value);
struct value value_positive(struct run *run, struct value value);
/* item in container */
bool value_contains(struct run *run, struct value item, struct value container);
/* Integer division and remainder that round down; false on overflow. The divisor is not zero. */
bool divide_floor(int64_t a, int64_t b, int64_t *quotient, int64_t *remainder);

#endif

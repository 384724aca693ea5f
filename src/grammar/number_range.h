/* The numbers between two bounds as JSON writes them, exactly: digit by digit, in a size that grows with the digits of
 * the bounds.
 */
#ifndef KAIJU_GRAMMAR_NUMBER_RANGE_H
#define KAIJU_GRAMMAR_NUMBER_RANGE_H

#include <jansson.h>
#include <stdbool.h>

#include "grammar/grammar.h"

struct number_bound {
  const json_t *value; /* a number, or NULL: no bound */
  bool exclusive;
};

/* <0, 0 or >0 as `left` is less than, equal to or more than `right`. */
int number_compare(const json_t *left, const json_t *right);

/* Integers, those of 64 bits at most: without sign, leading zeros, fraction or exponent that they need not have. */
grammar_expression number_range_integers(struct grammar_builder *builder, struct number_bound minimum,
                                         struct number_bound maximum);
/* All numbers, with a fraction or without, without an exponent. The fraction has so many digits that a reader's double
 * cannot be rounded onto a bound that is exclusive. False if a bound has more digits than can be kept apart: more than
 * 18 before the point, more than 25 behind it, or more than 15 in all where it is exclusive. */
bool number_range_decimals(struct grammar_builder *builder, struct number_bound minimum, struct number_bound maximum,
                           grammar_expression *decimals);

#endif

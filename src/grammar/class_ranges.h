/* Sets of code points as sorted ranges, and the sequences of bytes that UTF-8 writes them with. Surrogates belong to no
 * set. */
#ifndef KAIJU_GRAMMAR_CLASS_RANGES_H
#define KAIJU_GRAMMAR_CLASS_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grammar/grammar.h"

/* Sorts the ranges, joins those that touch, takes the surrogates out, and with `negated` turns the set into its
 * complement. In place: there must be room for count + 2 ranges. Returns how many they are now. */
size_t class_ranges_normalize(struct code_range *ranges, size_t count, bool negated);
/* Is the code point in the normalized set? */
bool class_ranges_contain(const struct code_range *ranges, size_t count, uint32_t code_point);

/* The code points whose encodings are low[0]…high[0], low[1]…high[1], … */
struct utf8_span {
  uint8_t length;
  uint8_t low[4], high[4];
};
enum { UTF8_SPANS = 16 }; /* that one range makes at most */
/* Writes the spans of a range that has no surrogates, ascending and disjoint. */
size_t class_range_spans(struct code_range range, struct utf8_span spans[UTF8_SPANS]);

#endif

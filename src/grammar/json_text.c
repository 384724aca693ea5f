#include "grammar/json_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "grammar/class_ranges.h"

/* What stands for itself within a JSON string. */
static const struct code_range PLAIN_RANGES[] = {{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x10ffff}};
enum { PLAIN_COUNT = sizeof PLAIN_RANGES / sizeof *PLAIN_RANGES };

static grammar_expression hex_digits(struct grammar_builder *builder, uint32_t count) {
  static const struct code_range DIGITS[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  return grammar_repeat(builder, grammar_class(builder, DIGITS, 3, false), count, count);
}

static grammar_expression one_of(struct grammar_builder *builder, const char *characters) {
  struct code_range ranges[32];
  size_t count = 0;
  for (; characters[count]; count++)
    ranges[count] = (struct code_range){(uint8_t)characters[count], (uint8_t)characters[count]};
  return grammar_class(builder, ranges, count, false);
}

/* \uXXXX of anything but a surrogate, or of a pair of surrogates. */
static grammar_expression code_unit_escape(struct grammar_builder *builder) {
  grammar_expression other[] = {one_of(builder, "0123456789abcefABCEF"), hex_digits(builder, 3)};
  grammar_expression below[] = {one_of(builder, "dD"), one_of(builder, "01234567"), hex_digits(builder, 2)};
  grammar_expression pair[] = {one_of(builder, "dD"),        one_of(builder, "89abAB"), hex_digits(builder, 2),
                               grammar_text(builder, "\\u"), one_of(builder, "dD"),     one_of(builder, "cdefCDEF"),
                               hex_digits(builder, 2)};
  grammar_expression ways[] = {grammar_sequence(builder, other, 2), grammar_sequence(builder, below, 3),
                               grammar_sequence(builder, pair, 7)};
  grammar_expression parts[] = {grammar_text(builder, "u"), grammar_choice(builder, ways, 3)};
  return grammar_sequence(builder, parts, 2);
}

grammar_expression json_text_character(struct grammar_builder *builder) {
  grammar_expression escapes[] = {one_of(builder, "\"\\/bfnrt"), code_unit_escape(builder)};
  grammar_expression escaped[] = {grammar_text(builder, "\\"), grammar_choice(builder, escapes, 2)};
  grammar_expression ways[] = {grammar_class(builder, PLAIN_RANGES, PLAIN_COUNT, false),
                               grammar_sequence(builder, escaped, 2)};
  return grammar_choice(builder, ways, 2);
}

grammar_expression json_text_characters(struct grammar_builder *builder, uint32_t minimum, uint32_t maximum) {
  return grammar_repeat(builder, json_text_character(builder), minimum, maximum);
}

/* The letter of a character's short escape, or 0. */
static char short_escape(uint32_t code_point) {
  switch (code_point) {
    case '"':
    case '\\':
      return (char)code_point;
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

static bool is_plain(uint32_t code_point) { return class_ranges_contain(PLAIN_RANGES, PLAIN_COUNT, code_point); }

/* \u00XX in either case. */
static grammar_expression control_escape(struct grammar_builder *builder, uint32_t code_point) {
  static const char DIGITS[] = "0123456789abcdef";
  char low = DIGITS[code_point & 15], start[8] = "\\u00";
  start[4] = DIGITS[code_point >> 4];
  struct code_range digit[] = {{(uint8_t)low, (uint8_t)low}, {(uint8_t)low, (uint8_t)low}};
  if (low >= 'a') digit[1].first = digit[1].last = (uint32_t)(low - 'a' + 'A');
  grammar_expression parts[] = {grammar_text(builder, start), grammar_class(builder, digit, 2, false)};
  return grammar_sequence(builder, parts, 2);
}

/* The class, with room for two ranges more, as the builder stores it; NULL after a failure. */
static struct code_range *normalized(struct grammar_builder *builder, const struct code_range *ranges, size_t *count,
                                     bool negated) {
  struct code_range *own = calloc(*count + 2, sizeof *own);
  if (!own) {
    grammar_fail(builder, KJ_MEMORY, "out of memory while building a grammar");
    return NULL;
  }
  if (*count > 0) memcpy(own, ranges, *count * sizeof *own);
  *count = class_ranges_normalize(own, *count, negated);
  return own;
}

grammar_expression json_text_class(struct grammar_builder *builder, const struct code_range *ranges, size_t count,
                                   bool negated) {
  struct code_range *class = normalized(builder, ranges, &count, negated);
  if (!class) return UINT32_MAX;
  grammar_expression ways[1 + 0x20 + 2 + 1];
  size_t way_count = 0;
  /* The plain characters of the class are what is in neither complement. */
  struct code_range *plain = calloc(count + 4, sizeof *plain);
  size_t plain_count = 0;
  for (size_t i = 0; i < count && plain; i++)
    for (size_t j = 0; j < PLAIN_COUNT; j++) {
      uint32_t first = class[i].first > PLAIN_RANGES[j].first ? class[i].first : PLAIN_RANGES[j].first;
      uint32_t last = class[i].last < PLAIN_RANGES[j].last ? class[i].last : PLAIN_RANGES[j].last;
      if (first <= last) plain[plain_count++] = (struct code_range){first, last};
    }
  if (!plain) grammar_fail(builder, KJ_MEMORY, "out of memory while building a grammar");
  if (plain_count > 0) ways[way_count++] = grammar_class(builder, plain, plain_count, false);
  for (uint32_t code_point = 0; code_point <= '\\'; code_point++) {
    if (is_plain(code_point) || !class_ranges_contain(class, count, code_point)) continue;
    char escape[3] = {'\\', short_escape(code_point), 0};
    ways[way_count++] = escape[1] ? grammar_text(builder, escape) : control_escape(builder, code_point);
  }
  free(plain);
  free(class);
  return grammar_choice(builder, ways, way_count);
}

grammar_expression json_text_literal(struct grammar_builder *builder, const char *text, size_t length) {
  struct buffer written = {0};
  for (size_t i = 0; i < length; i++) {
    uint8_t byte = (uint8_t)text[i];
    char escape = short_escape(byte);
    if (escape)
      buffer_append_format(&written, "\\%c", escape);
    else if (byte < 0x20)
      buffer_append_format(&written, "\\u%04x", byte);
    else
      buffer_append(&written, &text[i], 1);
  }
  if (buffer_failed(&written)) grammar_fail(builder, KJ_MEMORY, "out of memory while building a grammar");
  grammar_expression literal = grammar_bytes(builder, buffer_text(&written), written.length);
  buffer_free(&written);
  return literal;
}

#include "grammar/pattern_class.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/class_ranges.h"
#include "text/utf8.h"

static const struct code_range DIGITS[] = {{'0', '9'}};
static const struct code_range WORDS[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
/* WhiteSpace and LineTerminator of ECMA-262 (2024), 12.2 and 12.3. */
static const struct code_range SPACES[] = {{0x09, 0x0d},     {0x20, 0x20},     {0xa0, 0xa0},     {0x1680, 0x1680},
                                           {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                           {0x3000, 0x3000}, {0xfeff, 0xfeff}};
enum { MOST_RANGES = 16 }; /* of one of these, or its complement */

void pattern_set_free(struct pattern_set *set) {
  free(set->ranges);
  *set = (struct pattern_set){0};
}

static void add(struct pattern_text *text, struct pattern_set *set, struct code_range range) {
  if (set->count == set->capacity) {
    size_t capacity = set->capacity ? set->capacity * 2 : 16;
    struct code_range *grown = realloc(set->ranges, capacity * sizeof *grown);
    if (!grown) {
      grammar_fail(text->builder, KJ_MEMORY, "out of memory while reading a pattern");
      return;
    }
    set->ranges = grown;
    set->capacity = capacity;
  }
  set->ranges[set->count++] = range;
}

grammar_expression pattern_fail(struct pattern_text *text, enum kj_code code, const char *message) {
  size_t characters = 0;
  for (size_t i = 0; i < text->at && i < text->length; i++) characters += (text->text[i] & 0xc0) != 0x80;
  return grammar_fail(text->builder, code, "pattern, character %zu: %s", characters + 1, message);
}

char pattern_peek(const struct pattern_text *text, size_t ahead) {
  return text->length - text->at > ahead && !grammar_failed(text->builder) ? text->text[text->at + ahead] : 0;
}

bool pattern_take(struct pattern_text *text, char byte) {
  if (pattern_peek(text, 0) != byte) return false;
  text->at++;
  return true;
}

bool pattern_read_number(struct pattern_text *text, uint32_t *number) {
  uint64_t value = 0;
  size_t begin = text->at;
  while (pattern_peek(text, 0) >= '0' && pattern_peek(text, 0) <= '9') {
    value = value * 10 + (uint64_t)(text->text[text->at++] - '0');
    if (value > GRAMMAR_MAX_REPEAT) pattern_fail(text, KJ_UNSUPPORTED, "a repetition of more than 16777216 times");
  }
  *number = (uint32_t)value;
  return text->at > begin;
}

uint32_t pattern_read_character(struct pattern_text *text) {
  uint32_t code_point = 0;
  size_t length = utf8_read(text->text + text->at, text->length - text->at, &code_point);
  if (length == 0) pattern_fail(text, KJ_INVALID, "a character is missing here");
  text->at += length;
  return length > 0 ? code_point : 0;
}

static bool hex_digit(char byte, uint32_t *value) {
  char lower = (char)(byte | 0x20);
  bool digit = byte >= '0' && byte <= '9';
  if (!digit && (lower < 'a' || lower > 'f')) return false;
  *value = *value << 4 | (uint32_t)(digit ? byte - '0' : lower - 'a' + 10);
  return true;
}

static uint32_t read_hex(struct pattern_text *text, unsigned digits) {
  uint32_t value = 0;
  for (unsigned i = 0; i < digits; i++, text->at++) {
    if (hex_digit(pattern_peek(text, 0), &value)) continue;
    pattern_fail(text, KJ_INVALID, "a hexadecimal digit is missing here");
    return 0;
  }
  return value;
}

/* Behind \u: four digits, two surrogates of four digits each, or digits in braces. */
static uint32_t read_unicode(struct pattern_text *text) {
  uint32_t value = 0;
  if (pattern_take(text, '{')) {
    while (value <= 0x10ffff && hex_digit(pattern_peek(text, 0), &value)) text->at++;
    if (!pattern_take(text, '}')) pattern_fail(text, KJ_INVALID, "\\u{…} needs hexadecimal digits up to 10FFFF");
  } else {
    value = read_hex(text, 4);
    if (value >= 0xd800 && value <= 0xdbff && pattern_peek(text, 0) == '\\' && pattern_peek(text, 1) == 'u') {
      text->at += 2;
      uint32_t low = read_hex(text, 4);
      if (low >= 0xdc00 && low <= 0xdfff) value = 0x10000 + ((value - 0xd800) << 10) + (low - 0xdc00);
    }
  }
  if (value <= 0x10ffff && (value < 0xd800 || value > 0xdfff)) return value;
  pattern_fail(text, KJ_INVALID, "the number before this is no character of Unicode");
  return 0;
}

static void add_set(struct pattern_text *text, struct pattern_set *set, char letter) {
  struct code_range ranges[MOST_RANGES + 2];
  char kind = (char)(letter | 0x20);
  const struct code_range *source = kind == 'd' ? DIGITS : kind == 'w' ? WORDS : SPACES;
  size_t count = kind == 'd'   ? sizeof DIGITS / sizeof *DIGITS
                 : kind == 'w' ? sizeof WORDS / sizeof *WORDS
                               : sizeof SPACES / sizeof *SPACES;
  memcpy(ranges, source, count * sizeof *ranges);
  count = class_ranges_normalize(ranges, count, letter != kind);
  for (size_t i = 0; i < count; i++) add(text, set, ranges[i]);
}

uint32_t pattern_read_escape(struct pattern_text *text, struct pattern_set *set) {
  char letter = pattern_peek(text, 1), next = pattern_peek(text, 2);
  text->at += letter ? 2 : 1;
  switch (letter) {
    case 'd':
    case 'D':
    case 'w':
    case 'W':
    case 's':
    case 'S':
      add_set(text, set, letter);
      return 0;
    case 't':
      return '\t';
    case 'n':
      return '\n';
    case 'v':
      return '\v';
    case 'f':
      return '\f';
    case 'r':
      return '\r';
    case '0':
      if (next >= '0' && next <= '9') break;
      return 0;
    case 'c':
      if ((next | 0x20) < 'a' || (next | 0x20) > 'z') break;
      text->at++;
      return (uint32_t)next & 31;
    case 'x':
      return read_hex(text, 2);
    case 'u':
      return read_unicode(text);
    case 'p':
    case 'P':
      pattern_fail(text, KJ_UNSUPPORTED, "properties of characters (\\p) are not supported");
      return 0;
    default:
      /* The punctuation of ASCII stands for itself. */
      if (letter > ' ' && letter < 0x7f && ((letter | 0x20) < 'a' || (letter | 0x20) > 'z') &&
          (letter < '0' || letter > '9'))
        return (uint32_t)letter;
  }
  pattern_fail(text, KJ_INVALID, "an escape that does not exist");
  return 0;
}

/* A character or set within a class; whether it is one character, which can begin or end a range. */
static bool read_member(struct pattern_text *text, struct pattern_set *set, uint32_t *code_point) {
  if (pattern_peek(text, 0) != '\\') {
    *code_point = pattern_read_character(text);
    return true;
  }
  if (pattern_peek(text, 1) == 'b') {
    text->at += 2;
    *code_point = '\b';
    return true;
  }
  size_t before = set->count;
  *code_point = pattern_read_escape(text, set);
  return set->count == before;
}

bool pattern_read_class(struct pattern_text *text, struct pattern_set *set) {
  text->at++;
  bool negated = pattern_take(text, '^');
  while (pattern_peek(text, 0) && pattern_peek(text, 0) != ']') {
    struct code_range range;
    bool single = read_member(text, set, &range.first);
    range.last = range.first;
    if (single && pattern_peek(text, 0) == '-' && pattern_peek(text, 1) && pattern_peek(text, 1) != ']') {
      text->at++;
      if (!read_member(text, set, &range.last)) pattern_fail(text, KJ_INVALID, "a range that ends with a set");
      if (range.first > range.last) pattern_fail(text, KJ_INVALID, "a range whose end comes before its beginning");
    }
    if (single && !grammar_failed(text->builder)) add(text, set, range);
  }
  if (!pattern_take(text, ']')) pattern_fail(text, KJ_INVALID, "a class is not closed");
  return negated;
}

#include "text/python_literal.h"

#include <string.h>

#include "text/json_scanner.h"
#include "text/utf8.h"

enum { DEPTH_MAXIMUM = 64 };

struct reader {
  const char *text;
  size_t length, at;
  struct buffer *out;
};

static bool read_value(struct reader *reader, unsigned depth);

static char next(struct reader *reader) {
  while (reader->at < reader->length && json_space(reader->text[reader->at])) reader->at++;
  return reader->at < reader->length ? reader->text[reader->at] : '\0';
}

static bool take(struct reader *reader, char byte) {
  if (next(reader) != byte) return false;
  reader->at++;
  return true;
}

/* \xhh, \uhhhh or \Uhhhhhhhh, behind the letter. */
static bool read_code_point(struct reader *reader, size_t digits) {
  static const char HEXADECIMAL[] = "0123456789abcdef";
  uint32_t value = 0;
  for (size_t i = 0; i < digits; i++) {
    char digit = reader->at < reader->length ? reader->text[reader->at++] : '\0';
    const char *found = digit ? strchr(HEXADECIMAL, digit >= 'A' && digit <= 'F' ? digit | 0x20 : digit) : NULL;
    if (!found || value > 0x10ffff) return false;
    value = value * 16 + (uint32_t)(found - HEXADECIMAL);
  }
  if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return false;
  char bytes[4];
  json_escape(reader->out, bytes, utf8_write(value, bytes));
  return true;
}

static bool read_escape(struct reader *reader) {
  static const char LETTERS[] = "ntrbfav0\\'\"", MEANINGS[] = "\n\t\r\b\f\a\v\0\\'\"";
  char letter = reader->at < reader->length ? reader->text[reader->at++] : '\0';
  if (letter == '\n') return true;
  if (letter == 'x' || letter == 'u' || letter == 'U')
    return read_code_point(reader, letter == 'x' ? 2 : letter == 'u' ? 4 : 8);
  const char *found = letter ? strchr(LETTERS, letter) : NULL;
  if (found) {
    json_escape(reader->out, &MEANINGS[found - LETTERS], 1);
  } else {
    /* Python keeps the backslash of an escape that it does not know. */
    json_escape(reader->out, "\\", 1);
    json_escape(reader->out, &letter, letter ? 1 : 0);
  }
  return letter != '\0';
}

static bool read_string(struct reader *reader) {
  char quote = next(reader);
  reader->at++;
  buffer_append(reader->out, "\"", 1);
  while (reader->at < reader->length) {
    char byte = reader->text[reader->at++];
    if (byte == quote) {
      buffer_append(reader->out, "\"", 1);
      return true;
    }
    if (byte == '\n') return false;
    if (byte != '\\')
      json_escape(reader->out, &byte, 1);
    else if (!read_escape(reader))
      return false;
  }
  return false;
}

static bool read_items(struct reader *reader, char end, unsigned depth) {
  buffer_append(reader->out, "[", 1);
  bool several = false;
  for (size_t count = 0; !take(reader, end); count++) {
    /* Without a comma, parentheses are no tuple. */
    if (count > 0 && !several) return false;
    if (count > 0) buffer_append(reader->out, ",", 1);
    if (!read_value(reader, depth)) return false;
    several = take(reader, ',');
    if (!several && (end == ')' && count == 0)) return false;
  }
  buffer_append(reader->out, "]", 1);
  return true;
}

static bool read_members(struct reader *reader, unsigned depth) {
  buffer_append(reader->out, "{", 1);
  bool more = true;
  for (size_t count = 0; !take(reader, '}'); count++) {
    if (!more) return false;
    if (count > 0) buffer_append(reader->out, ",", 1);
    char quote = next(reader);
    if ((quote != '"' && quote != '\'') || !read_string(reader) || !take(reader, ':')) return false;
    buffer_append(reader->out, ":", 1);
    if (!read_value(reader, depth)) return false;
    more = take(reader, ',');
  }
  buffer_append(reader->out, "}", 1);
  return true;
}

static bool ends_word(char byte) {
  return json_space(byte) || byte == ',' || byte == ':' || byte == ']' || byte == '}' || byte == ')';
}

static bool read_word(struct reader *reader) {
  static const char *const WORDS[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                         {"true", "true"}, {"false", "false"}, {"null", "null"}};
  const char *begin = reader->text + reader->at;
  size_t length = 0, left = reader->length - reader->at;
  while (length < left && !ends_word(begin[length])) length++;
  reader->at += length;
  for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
    if (length != strlen(WORDS[i][0]) || memcmp(begin, WORDS[i][0], length) != 0) continue;
    buffer_append_text(reader->out, WORDS[i][1]);
    return true;
  }
  if (!json_text_whole(begin, length) || !json_begins_number(begin[0])) return false;
  buffer_append(reader->out, begin, length);
  return true;
}

static bool read_value(struct reader *reader, unsigned depth) {
  if (depth == DEPTH_MAXIMUM) return false;
  switch (next(reader)) {
    case '{':
      reader->at++;
      return read_members(reader, depth + 1);
    case '[':
      reader->at++;
      return read_items(reader, ']', depth + 1);
    case '(':
      reader->at++;
      return read_items(reader, ')', depth + 1);
    case '"':
    case '\'':
      return read_string(reader);
    default:
      return read_word(reader);
  }
}

bool python_literal_to_json(const char *text, size_t length, struct buffer *out) {
  struct reader reader = {.text = text, .length = length, .out = out};
  size_t before = out->length;
  if (read_value(&reader, 0)) {
    next(&reader);
    if (reader.at == length) return true;
  }
  if (out->data) {
    out->length = before;
    out->data[before] = '\0';
  }
  return false;
}

#include "text/json_scanner.h"

#include <string.h>

static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

static bool is_number(enum scan_place place) { return place >= SCAN_MINUS; }

static bool number_may_end(enum scan_place place) {
  return place == SCAN_ZERO || place == SCAN_WHOLE || place == SCAN_FRACTION || place == SCAN_EXPONENT_DIGITS;
}

static bool go(struct json_scanner *scanner, enum scan_place place) {
  scanner->place = place;
  return true;
}

static bool begin_string(struct json_scanner *scanner, bool is_key) {
  scanner->is_key = is_key;
  return go(scanner, SCAN_STRING);
}

static bool open_container(struct json_scanner *scanner, char bracket) {
  if (scanner->depth == JSON_SCANNER_DEPTH) return false;
  scanner->containers[scanner->depth++] = bracket;
  return go(scanner, bracket == '{' ? SCAN_FIRST_KEY : SCAN_FIRST_ITEM);
}

static bool begin_literal(struct json_scanner *scanner, const char *letters) {
  scanner->letters = letters;
  scanner->count = 1;
  return go(scanner, SCAN_LITERAL);
}

static bool begin_value(struct json_scanner *scanner, char byte) {
  switch (byte) {
    case '{':
    case '[':
      return open_container(scanner, byte);
    case '"':
      return begin_string(scanner, false);
    case 't':
      return begin_literal(scanner, "true");
    case 'f':
      return begin_literal(scanner, "false");
    case 'n':
      return begin_literal(scanner, "null");
    case '-':
      return go(scanner, SCAN_MINUS);
    case '0':
      return go(scanner, SCAN_ZERO);
    default:
      return is_digit(byte) && go(scanner, SCAN_WHOLE);
  }
}

static bool close_container(struct json_scanner *scanner, char byte) {
  if (scanner->depth == 0 || byte != (scanner->containers[scanner->depth - 1] == '{' ? '}' : ']')) return false;
  scanner->depth--;
  return go(scanner, SCAN_AFTER);
}

static bool after_value(struct json_scanner *scanner, char byte) {
  if (byte == ',' && scanner->depth > 0)
    return go(scanner, scanner->containers[scanner->depth - 1] == '{' ? SCAN_KEY : SCAN_VALUE);
  return close_container(scanner, byte);
}

static bool in_number(struct json_scanner *scanner, char byte) {
  enum scan_place place = scanner->place;
  if (is_digit(byte)) {
    if (place == SCAN_MINUS) return go(scanner, byte == '0' ? SCAN_ZERO : SCAN_WHOLE);
    if (place == SCAN_ZERO) return false;
    if (place == SCAN_POINT) return go(scanner, SCAN_FRACTION);
    if (place == SCAN_EXPONENT || place == SCAN_EXPONENT_SIGN) return go(scanner, SCAN_EXPONENT_DIGITS);
    return true;
  }
  if (byte == '.' && (place == SCAN_ZERO || place == SCAN_WHOLE)) return go(scanner, SCAN_POINT);
  if ((byte == 'e' || byte == 'E') && (place == SCAN_ZERO || place == SCAN_WHOLE || place == SCAN_FRACTION))
    return go(scanner, SCAN_EXPONENT);
  if ((byte == '+' || byte == '-') && place == SCAN_EXPONENT) return go(scanner, SCAN_EXPONENT_SIGN);
  if (!number_may_end(place)) return false;
  scanner->place = SCAN_AFTER;
  return json_space(byte) || after_value(scanner, byte);
}

static bool in_string(struct json_scanner *scanner, char byte) {
  switch (scanner->place) {
    case SCAN_ESCAPE:
      scanner->count = 0;
      if (byte == 'u') return go(scanner, SCAN_HEXADECIMAL);
      return byte && strchr("\"\\/bfnrt", byte) && go(scanner, SCAN_STRING);
    case SCAN_HEXADECIMAL:
      if (!is_digit(byte) && !(byte && strchr("abcdefABCDEF", byte))) return false;
      return ++scanner->count < 4 || go(scanner, SCAN_STRING);
    default:
      if (byte == '"') return go(scanner, scanner->is_key ? SCAN_COLON : SCAN_AFTER);
      if (byte == '\\') return go(scanner, SCAN_ESCAPE);
      return (unsigned char)byte >= 0x20;
  }
}

static bool in_literal(struct json_scanner *scanner, char byte) {
  if (scanner->letters[scanner->count] != byte) return false;
  return scanner->letters[++scanner->count] || go(scanner, SCAN_AFTER);
}

bool json_scanner_push(struct json_scanner *scanner, char byte) {
  enum scan_place place = scanner->place;
  if (place == SCAN_STRING || place == SCAN_ESCAPE || place == SCAN_HEXADECIMAL) return in_string(scanner, byte);
  if (place == SCAN_LITERAL) return in_literal(scanner, byte);
  if (is_number(place)) return in_number(scanner, byte);
  if (json_space(byte)) return true;
  switch (place) {
    case SCAN_VALUE:
      return begin_value(scanner, byte);
    case SCAN_FIRST_ITEM:
      return byte == ']' ? close_container(scanner, byte) : begin_value(scanner, byte);
    case SCAN_FIRST_KEY:
      return byte == '}' ? close_container(scanner, byte) : byte == '"' && begin_string(scanner, true);
    case SCAN_KEY:
      return byte == '"' && begin_string(scanner, true);
    case SCAN_COLON:
      return byte == ':' && go(scanner, SCAN_VALUE);
    default:
      return after_value(scanner, byte);
  }
}

bool json_scanner_whole(const struct json_scanner *scanner) {
  return scanner->depth == 0 && (scanner->place == SCAN_AFTER || number_may_end(scanner->place));
}

bool json_scanner_close(const struct json_scanner *scanner, struct buffer *out) {
  enum scan_place place = scanner->place;
  if (place != SCAN_AFTER && place != SCAN_FIRST_KEY && place != SCAN_FIRST_ITEM && !number_may_end(place))
    return false;
  for (size_t i = scanner->depth; i > 0; i--) buffer_append(out, scanner->containers[i - 1] == '{' ? "}" : "]", 1);
  return true;
}

bool json_text_whole(const char *text, size_t length) {
  struct json_scanner scanner = {0};
  for (size_t i = 0; i < length; i++)
    if (!json_scanner_push(&scanner, text[i])) return false;
  return json_scanner_whole(&scanner);
}

void json_escape(struct buffer *out, const char *text, size_t length) {
  size_t plain = 0;
  for (size_t i = 0; i < length; i++) {
    unsigned char byte = (unsigned char)text[i];
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    buffer_append(out, text + plain, i - plain);
    plain = i + 1;
    if (byte == '"' || byte == '\\')
      buffer_append_format(out, "\\%c", byte);
    else if (byte == '\n')
      buffer_append_text(out, "\\n");
    else if (byte == '\t')
      buffer_append_text(out, "\\t");
    else if (byte == '\r')
      buffer_append_text(out, "\\r");
    else
      buffer_append_format(out, "\\u%04x", byte);
  }
  buffer_append(out, text + plain, length - plain);
}

/* Reads JSON (RFC 8259) byte by byte: what may follow, how deep it is, when a value is whole. Nothing is stored of the
 * values themselves, so that a caller can pass them on while they arrive.
 */
#ifndef KAIJU_TEXT_JSON_SCANNER_H
#define KAIJU_TEXT_JSON_SCANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

enum { JSON_SCANNER_DEPTH = 512 }; /* arrays and objects in each other; more are refused */

enum scan_place {
  SCAN_VALUE,       /* before a value */
  SCAN_FIRST_ITEM,  /* behind [ */
  SCAN_FIRST_KEY,   /* behind { */
  SCAN_KEY,         /* behind a comma of an object */
  SCAN_COLON,       /* behind a key */
  SCAN_AFTER,       /* behind a value; at depth 0 the end */
  SCAN_STRING,      /* in a string, also a key */
  SCAN_ESCAPE,      /* behind its backslash */
  SCAN_HEXADECIMAL, /* in the digits of \uXXXX */
  SCAN_LITERAL,     /* in true, false or null */
  SCAN_MINUS,       /* the parts of a number, in their order */
  SCAN_ZERO,
  SCAN_WHOLE,
  SCAN_POINT,
  SCAN_FRACTION,
  SCAN_EXPONENT,
  SCAN_EXPONENT_SIGN,
  SCAN_EXPONENT_DIGITS,
};

/* Zero-initialise to begin. */
struct json_scanner {
  enum scan_place place;
  uint16_t depth;
  bool is_key;                         /* of the string that is being read */
  uint8_t count;                       /* of the hexadecimal digits or the literal's letters so far */
  const char *letters;                 /* of the literal */
  char containers[JSON_SCANNER_DEPTH]; /* { or [ */
};

/* False if the byte cannot follow; the scanner then stays where it is, behind the number that the byte ended if it
 * ended one. */
bool json_scanner_push(struct json_scanner *scanner, char byte);
/* True if what was read is a whole value, with space around it. A number may yet go on. */
bool json_scanner_whole(const struct json_scanner *scanner);
/* Appends the brackets that are open; false if a value is missing before they can close. */
bool json_scanner_close(const struct json_scanner *scanner, struct buffer *out);

static inline bool json_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }
static inline bool json_begins_number(char byte) { return byte == '-' || (byte >= '0' && byte <= '9'); }
/* True if the text is one whole value. */
bool json_text_whole(const char *text, size_t length);

/* Appends the text as it stands between the quotes of a JSON string. Bytes from 0x80 on stay as they are. */
void json_escape(struct buffer *out, const char *text, size_t length);

#endif

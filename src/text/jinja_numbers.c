#include "text/jinja_numbers.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja_text.h"

enum { LONGEST_NUMBER = 400 };

/* The text without surrounding white space and without underscores, which may only stand between digits. */
static bool clean(const struct text *text, char *out) {
  size_t start = space_before(text->bytes, text->length);
  size_t end = text->length - (start < text->length ? space_after(text->bytes, text->length) : 0);
  size_t count = 0;
  for (size_t i = start; i < end; i++) {
    unsigned char c = (unsigned char)text->bytes[i];
    if (c == '_') {
      if (i == start || i + 1 == end || !isxdigit((unsigned char)text->bytes[i - 1]) ||
          !isxdigit((unsigned char)text->bytes[i + 1])) {
        return false;
      }
      continue;
    }
    if (c >= 0x80 || c <= ' ' || count + 1 == LONGEST_NUMBER) return false;
    out[count++] = (char)c;
  }
  out[count] = '\0';
  return count > 0;
}

enum number_result read_integer(const struct text *text, int base, int64_t *integer) {
  char digits[LONGEST_NUMBER], *end = NULL;
  if (base < 0 || base == 1 || base > 36 || !clean(text, digits)) return NUMBER_MALFORMED;
  char *at = digits;
  bool negative = *at == '-';
  if (*at == '-' || *at == '+') at++;
  char prefix = at[0] == '0' ? (char)(at[1] | 0x20) : ' ';
  int named = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
  if (named && (base == 0 || base == named)) {
    base = named;
    at += 2;
  } else if (base == 0) {
    base = at[0] == '0' && at[strspn(at, "0")] ? 37 : 10; /* leading zeros are no decimal number */
  }
  if (base == 37 || !isalnum((unsigned char)*at) || (base == 16 && (at[1] | 0x20) == 'x')) return NUMBER_MALFORMED;
  /* The sign goes back so that the smallest integer can be read. */
  if (negative) *--at = '-';
  errno = 0;
  *integer = strtoll(at, &end, base);
  if (*end) return NUMBER_MALFORMED;
  return errno ? NUMBER_TOO_LARGE : NUMBER_READ;
}

enum number_result read_float(const struct text *text, double *number) {
  char digits[LONGEST_NUMBER], *end = NULL;
  if (!clean(text, digits)) return NUMBER_MALFORMED;
  if (strpbrk(digits, "xXpP(")) return NUMBER_MALFORMED; /* what strtod reads but Python does not */
  *number = strtod(digits, &end);
  return *end ? NUMBER_MALFORMED : NUMBER_READ;
}

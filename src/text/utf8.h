/* UTF-8 (RFC 3629): reading, writing, and replacing what is ill-formed while bytes arrive one by one. */
#ifndef KAIJU_TEXT_UTF8_H
#define KAIJU_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the character that begins `text`; returns its length in bytes, or 0 if it is ill-formed, cut or `length` is 0.
 */
size_t utf8_read(const char *text, size_t length, uint32_t *code_point);
/* Writes a code point (≤ U+10FFFF, no surrogate) and returns its length in bytes. */
size_t utf8_write(uint32_t code_point, char bytes[4]);
/* False with the offset of the first ill-formed byte (not wanted: NULL). */
bool utf8_valid(const char *text, size_t length, size_t *offset);
/* The start of the character that ends before `end` in valid text; `end` > 0. */
size_t utf8_previous(const char *text, size_t end);

/* Whole characters out of single bytes. Zero-initialise to begin. Each maximal part of an ill-formed sequence becomes
 * one U+FFFD (Unicode 15, section 3.9), as with Python's errors="replace". */
struct utf8_replacer {
  unsigned char pending[4]; /* the beginning of a character */
  uint8_t count, missing;   /* bytes pending; bytes that it still needs */
  uint8_t low, high;        /* the next byte must lie between these */
};
/* Both write to `out` what becomes certain and return its length. */
size_t utf8_replacer_push(struct utf8_replacer *replacer, unsigned char byte, char out[8]);
size_t utf8_replacer_finish(struct utf8_replacer *replacer, char out[8]);

#endif

/* GPT-2's spelling of bytes as printable characters, in which byte-level vocabularies are written: a byte that prints
 * in Latin-1 is its own character, the other 68 become U+0100 … U+0143 in order (openai/gpt-2, encoder.py).
 */
#ifndef KAIJU_TEXT_BYTE_LEVEL_H
#define KAIJU_TEXT_BYTE_LEVEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint32_t byte_level_character(unsigned char byte);
/* Reads `spelling` (valid UTF-8) as bytes, at most as many as it has itself. False if it has a character that spells
 * no byte. */
bool byte_level_read(const char *spelling, size_t length, char *bytes, size_t *count);

#endif

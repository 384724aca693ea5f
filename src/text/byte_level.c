#include "text/byte_level.h"

#include "text/utf8.h"

uint32_t byte_level_character(unsigned char byte) {
  if (byte <= 0x20) return 0x100u + byte;
  if (byte >= 0x7f && byte <= 0xa0) return 0x121u + (byte - 0x7fu);
  if (byte == 0xad) return 0x143;
  return byte;
}

static bool character_byte(uint32_t character, unsigned char *byte) {
  if (character >= 0x100 && character <= 0x120)
    *byte = (unsigned char)(character - 0x100);
  else if (character >= 0x121 && character <= 0x142)
    *byte = (unsigned char)(character - 0x121 + 0x7f);
  else if (character == 0x143)
    *byte = 0xad;
  else if (character < 0x100 && byte_level_character((unsigned char)character) == character)
    *byte = (unsigned char)character;
  else
    return false;
  return true;
}

bool byte_level_read(const char *spelling, size_t length, char *bytes, size_t *count) {
  *count = 0;
  for (size_t at = 0; at < length;) {
    uint32_t character;
    unsigned char byte;
    size_t size = utf8_read(spelling + at, length - at, &character);
    if (!size || !character_byte(character, &byte)) return false;
    bytes[(*count)++] = (char)byte;
    at += size;
  }
  return true;
}

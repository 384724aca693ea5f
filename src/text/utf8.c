#include "text/utf8.h"

#include <string.h>

/* How many bytes follow a lead byte, and between which bounds the first of them lies (Unicode, table 3-7): the bounds
 * exclude overlong forms, surrogates and what lies above U+10FFFF. Returns 0 for ASCII and -1 for no lead byte. */
static int followers(unsigned char lead, uint8_t *low, uint8_t *high) {
  *low = 0x80;
  *high = 0xbf;
  if (lead < 0x80) return 0;
  if (lead < 0xc2 || lead > 0xf4) return -1;
  if (lead < 0xe0) return 1;
  if (lead == 0xe0) *low = 0xa0;
  if (lead == 0xed) *high = 0x9f;
  if (lead == 0xf0) *low = 0x90;
  if (lead == 0xf4) *high = 0x8f;
  return lead < 0xf0 ? 2 : 3;
}

size_t utf8_read(const char *text, size_t length, uint32_t *code_point) {
  if (!length) return 0;
  const unsigned char *bytes = (const unsigned char *)text;
  uint8_t low, high;
  int count = followers(bytes[0], &low, &high);
  if (count < 0 || (size_t)count >= length) return 0;
  if (!count) {
    *code_point = bytes[0];
    return 1;
  }
  uint32_t value = bytes[0] & (0x3fu >> count);
  for (int i = 1; i <= count; i++) {
    if (bytes[i] < low || bytes[i] > high) return 0;
    low = 0x80;
    high = 0xbf;
    value = value << 6 | (bytes[i] & 0x3fu);
  }
  *code_point = value;
  return (size_t)count + 1;
}

size_t utf8_write(uint32_t code_point, char bytes[4]) {
  if (code_point < 0x80) {
    bytes[0] = (char)code_point;
    return 1;
  }
  size_t count = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
  for (size_t i = count; i-- > 1; code_point >>= 6) bytes[i] = (char)(0x80 | (code_point & 0x3f));
  bytes[0] = (char)((0xf00u >> count & 0xf0u) | code_point);
  return count;
}

bool utf8_valid(const char *text, size_t length, size_t *offset) {
  size_t at = 0;
  while (at < length) {
    uint64_t word;
    if (length - at >= sizeof word) {
      memcpy(&word, text + at, sizeof word);
      if (!(word & 0x8080808080808080u)) {
        at += sizeof word;
        continue;
      }
    }
    uint32_t code_point;
    size_t count = utf8_read(text + at, length - at, &code_point);
    if (!count) {
      if (offset) *offset = at;
      return false;
    }
    at += count;
  }
  return true;
}

size_t utf8_previous(const char *text, size_t end) {
  do end--;
  while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80);
  return end;
}

static size_t write_replacement(char *out) { return utf8_write(0xfffd, out); }

size_t utf8_replacer_push(struct utf8_replacer *replacer, unsigned char byte, char out[8]) {
  size_t written = 0;
  if (replacer->count) {
    if (byte >= replacer->low && byte <= replacer->high) {
      replacer->pending[replacer->count++] = byte;
      replacer->low = 0x80;
      replacer->high = 0xbf;
      if (--replacer->missing) return 0;
      written = replacer->count;
      memcpy(out, replacer->pending, written);
      replacer->count = 0;
      return written;
    }
    written = write_replacement(out);
    replacer->count = 0;
  }
  int count = followers(byte, &replacer->low, &replacer->high);
  if (count < 0) return written + write_replacement(out + written);
  if (count == 0) {
    out[written] = (char)byte;
    return written + 1;
  }
  replacer->pending[0] = byte;
  replacer->count = 1;
  replacer->missing = (uint8_t)count;
  return written;
}

size_t utf8_replacer_finish(struct utf8_replacer *replacer, char out[8]) {
  if (!replacer->count) return 0;
  replacer->count = 0;
  return write_replacement(out);
}

#include "link/reader.h"

#include <string.h>

#include "link/bytes.h"

const uint8_t *reader_take(struct reader *reader, size_t length) {
  if (reader->failed || length > reader->left) {
    reader->failed = true;
    return NULL;
  }
  const uint8_t *start = reader->bytes;
  reader->bytes += length;
  reader->left -= length;
  return start;
}

uint32_t reader_32(struct reader *reader) {
  const uint8_t *bytes = reader_take(reader, 4);
  return bytes ? bytes_get32(bytes) : 0;
}

uint64_t reader_64(struct reader *reader) {
  const uint8_t *bytes = reader_take(reader, 8);
  return bytes ? bytes_get64(bytes) : 0;
}

float reader_float(struct reader *reader) {
  uint32_t bits = reader_32(reader);
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

double reader_double(struct reader *reader) {
  uint64_t bits = reader_64(reader);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Bytes of the UTF-8 character (RFC 3629) at the start of `bytes`; 0 if there is none. */
static size_t character(const uint8_t *bytes, size_t left) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  uint8_t first = bytes[0];
  size_t length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  if (length == 0 || length > left) return 0;
  uint32_t code = length == 1 ? first : first & (0x7fu >> length);
  for (size_t i = 1; i < length; i++) {
    if ((bytes[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (bytes[i] & 0x3f);
  }
  bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < least[length] || code > 0x10ffff || surrogate ? 0 : length;
}

static bool is_control(uint8_t c) { return c < 0x20 || c == 0x7f; }

static bool is_clean(const uint8_t *bytes, size_t length) {
  while (length > 0) {
    size_t step = character(bytes, length);
    if (step == 0 || is_control(bytes[0])) return false;
    bytes += step;
    length -= step;
  }
  return true;
}

void reader_text(struct reader *reader, char *text, size_t size) {
  text[0] = '\0';
  const uint8_t *head = reader_take(reader, 2);
  if (!head) return;
  size_t length = bytes_get16(head);
  const uint8_t *bytes = length < size ? reader_take(reader, length) : NULL;
  if (!bytes || !is_clean(bytes, length)) {
    reader->failed = true;
    return;
  }
  memcpy(text, bytes, length);
  text[length] = '\0';
}

int reader_end(const struct reader *reader, const char *message, struct kj_error *error) {
  if (reader->failed) return kj_fail(error, KJ_INVALID, "a %s message is cut short or malformed", message);
  if (reader->left) return kj_fail(error, KJ_INVALID, "a %s message has %zu bytes too many", message, reader->left);
  return 0;
}

void writer_32(struct buffer *out, uint32_t value) {
  uint8_t bytes[4];
  bytes_put32(bytes, value);
  buffer_append(out, bytes, sizeof bytes);
}

void writer_64(struct buffer *out, uint64_t value) {
  uint8_t bytes[8];
  bytes_put64(bytes, value);
  buffer_append(out, bytes, sizeof bytes);
}

void writer_float(struct buffer *out, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  writer_32(out, bits);
}

void writer_double(struct buffer *out, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  writer_64(out, bits);
}

void writer_text(struct buffer *out, const char *text, size_t size) {
  const uint8_t *bytes = (const uint8_t *)text;
  size_t left = strnlen(text, size), written = 0;
  uint8_t head[2] = {0};
  size_t start = out->length;
  buffer_append(out, head, sizeof head);
  while (left > 0) {
    size_t step = character(bytes, left);
    const uint8_t *copied = step == 0 ? (const uint8_t *)"?" : is_control(bytes[0]) ? (const uint8_t *)" " : bytes;
    if (step == 0) step = 1;
    if (written + step > size - 1) break;
    buffer_append(out, copied, step);
    written += step;
    bytes += step;
    left -= step;
  }
  if (buffer_failed(out)) return;
  bytes_put16((uint8_t *)out->data + start, (uint16_t)written);
}

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

uint8_t reader_8(struct reader *reader) {
  const uint8_t *bytes = reader_take(reader, 1);
  return bytes ? bytes[0] : 0;
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

static bool is_control(unsigned char c) { return c < 0x20 || c == 0x7f; }

void reader_text(struct reader *reader, char *text, size_t size) {
  text[0] = '\0';
  const uint8_t *head = reader_take(reader, 2);
  if (!head) return;
  size_t length = bytes_get16(head);
  const uint8_t *bytes = length < size ? reader_take(reader, length) : NULL;
  for (size_t i = 0; bytes && i < length; i++)
    if (is_control(bytes[i])) bytes = NULL;
  if (!bytes) {
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

void writer_8(struct buffer *out, uint8_t value) { buffer_append(out, &value, 1); }

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
  size_t length = strnlen(text, size - 1);
  uint8_t head[2];
  bytes_put16(head, (uint16_t)length);
  buffer_append(out, head, sizeof head);
  for (size_t i = 0; i < length; i++) writer_8(out, is_control((unsigned char)text[i]) ? ' ' : (uint8_t)text[i]);
}

#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buffer_free(struct buffer *buffer) {
  free(buffer->data);
  *buffer = (struct buffer){0};
}

void buffer_clear(struct buffer *buffer) {
  buffer->length = 0;
  buffer->failed = false;
  if (buffer->data) buffer->data[0] = '\0';
}

/* Makes room for `extra` bytes and the NUL. */
static bool reserve(struct buffer *buffer, size_t extra) {
  if (buffer->failed) return false;
  size_t needed = 0;
  if (__builtin_add_overflow(buffer->length, extra, &needed) || __builtin_add_overflow(needed, 1, &needed)) {
    buffer->failed = true;
    return false;
  }
  if (needed <= buffer->capacity) return true;
  size_t capacity = buffer->capacity ? buffer->capacity : 64;
  while (capacity < needed) {
    if (capacity > SIZE_MAX / 2) {
      capacity = needed;
      break;
    }
    capacity *= 2;
  }
  char *data = realloc(buffer->data, capacity);
  if (!data) {
    buffer->failed = true;
    return false;
  }
  buffer->data = data;
  buffer->capacity = capacity;
  return true;
}

void buffer_append(struct buffer *buffer, const void *bytes, size_t length) {
  if (!reserve(buffer, length)) return;
  if (length) memcpy(buffer->data + buffer->length, bytes, length);
  buffer->length += length;
  buffer->data[buffer->length] = '\0';
}

void buffer_append_text(struct buffer *buffer, const char *text) { buffer_append(buffer, text, strlen(text)); }

void buffer_append_format(struct buffer *buffer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (length < 0) {
    buffer->failed = true;
    return;
  }
  if (!reserve(buffer, (size_t)length)) return;
  va_start(arguments, format);
  vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, arguments);
  va_end(arguments);
  buffer->length += (size_t)length;
}

void buffer_consume(struct buffer *buffer, size_t count) {
  if (count > buffer->length) count = buffer->length;
  if (!count) return;
  memmove(buffer->data, buffer->data + count, buffer->length - count);
  buffer->length -= count;
  buffer->data[buffer->length] = '\0';
}

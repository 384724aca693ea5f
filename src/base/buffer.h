/* A growable byte string: what is appended is kept in one allocation and always followed by a NUL byte.
 * A failed allocation is remembered: further appends do nothing and `buffer_failed` says so, so that a writer checks
 * once at its end. Zero-initialise to create; `buffer_free` releases the memory and makes it empty again.
 */
#ifndef KAIJU_BASE_BUFFER_H
#define KAIJU_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
  char *data; /* NULL while empty */
  size_t length;
  size_t capacity;
  bool failed;
};

void buffer_free(struct buffer *buffer);
void buffer_clear(struct buffer *buffer); /* keeps the memory */
void buffer_append(struct buffer *buffer, const void *bytes, size_t length);
void buffer_append_text(struct buffer *buffer, const char *text);
void buffer_append_format(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Drops the first `count` bytes. */
void buffer_consume(struct buffer *buffer, size_t count);
static inline bool buffer_failed(const struct buffer *buffer) { return buffer->failed; }
/* The text so far, never NULL. */
static inline const char *buffer_text(const struct buffer *buffer) { return buffer->data ? buffer->data : ""; }

#endif

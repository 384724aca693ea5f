/* Reading a payload: a cursor that never passes the end, and remembers that it would have. */
#ifndef KAIJU_LINK_READER_H
#define KAIJU_LINK_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

struct reader {
  const uint8_t *bytes;
  size_t left;
  bool failed; /* read past the end; every value since is 0 */
};

const uint8_t *reader_take(struct reader *reader, size_t length); /* NULL past the end */
uint32_t reader_32(struct reader *reader);
uint64_t reader_64(struct reader *reader);
float reader_float(struct reader *reader);
double reader_double(struct reader *reader);

/* Reads a length and a text of less than `size` bytes of UTF-8 without control characters; fails otherwise. */
void reader_text(struct reader *reader, char *text, size_t size);

/* KJ_INVALID, naming the message, if something was missing, wrong or left over. */
int reader_end(const struct reader *reader, const char *message, struct kj_error *error);

void writer_32(struct buffer *out, uint32_t value);
void writer_64(struct buffer *out, uint64_t value);
void writer_float(struct buffer *out, float value);
void writer_double(struct buffer *out, double value);
/* Writes what reader_text reads: the whole characters among the first size - 1 bytes; control characters become spaces,
 * bytes that are no UTF-8 question marks. */
void writer_text(struct buffer *out, const char *text, size_t size);

#endif

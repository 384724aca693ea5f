#include "text/normalize.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/unicode.h"
#include "text/utf8.h"

enum {
  LONE_TRAILING_BASE = 0x11a7, /* composes with nothing, but utf8proc 2.8 takes it for a Hangul final and drops it */
  DECOMPOSED_MAX = 4,          /* code points of the longest canonical decomposition */
  LONG_RUN = 16                /* a run of marks from which counting sort beats insertion sort */
};

/* Decomposed code points that belong together: from one character that normalization cannot see through to the next. */
struct segment {
  utf8proc_int32_t *code_points, *sorted;
  size_t count, capacity;
};

bool normalize_is_trivial(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)text[i] >= 0xcc) return false; /* U+0300 begins with 0xcc */
  return true;
}

static int reserve(struct segment *segment, struct kj_error *error) {
  if (segment->capacity - segment->count >= DECOMPOSED_MAX) return 0;
  size_t capacity = segment->capacity ? segment->capacity * 2 : 256;
  utf8proc_int32_t *code_points = realloc(segment->code_points, capacity * sizeof *code_points);
  if (!code_points) return kj_fail_memory(error, "text to normalize");
  segment->code_points = code_points;
  utf8proc_int32_t *sorted = realloc(segment->sorted, capacity * sizeof *sorted);
  if (!sorted) return kj_fail_memory(error, "text to normalize");
  segment->sorted = sorted;
  segment->capacity = capacity;
  return 0;
}

static unsigned combining_class(utf8proc_int32_t code_point) {
  return (unsigned)utf8proc_get_property(code_point)->combining_class & 0xff;
}

/* Sorts a run of marks by combining class, equal ones in their order. */
static void order_marks(utf8proc_int32_t *marks, size_t count, utf8proc_int32_t *sorted) {
  if (count < LONG_RUN) {
    for (size_t i = 1; i < count; i++) {
      utf8proc_int32_t mark = marks[i];
      size_t at = i;
      for (; at > 0 && combining_class(marks[at - 1]) > combining_class(mark); at--) marks[at] = marks[at - 1];
      marks[at] = mark;
    }
    return;
  }
  size_t starts[257] = {0};
  for (size_t i = 0; i < count; i++) starts[combining_class(marks[i]) + 1]++;
  for (size_t i = 1; i < 257; i++) starts[i] += starts[i - 1];
  for (size_t i = 0; i < count; i++) sorted[starts[combining_class(marks[i])]++] = marks[i];
  memcpy(marks, sorted, count * sizeof *marks);
}

/* Orders, composes and writes the segment, and empties it. */
static int flush(struct segment *segment, struct buffer *out, struct kj_error *error) {
  utf8proc_int32_t *code_points = segment->code_points;
  for (size_t i = 0; i < segment->count;) {
    size_t end = i;
    while (end < segment->count && combining_class(code_points[end])) end++;
    if (end - i > 1) order_marks(code_points + i, end - i, segment->sorted);
    i = end + 1;
  }
  utf8proc_ssize_t count =
      utf8proc_normalize_utf32(code_points, (utf8proc_ssize_t)segment->count, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  if (count < 0) return kj_fail(error, KJ_INTERNAL, "cannot compose text: %s", utf8proc_errmsg(count));
  for (utf8proc_ssize_t i = 0; i < count; i++) {
    char bytes[4];
    buffer_append(out, bytes, utf8_write((uint32_t)code_points[i], bytes));
  }
  segment->count = 0;
  return 0;
}

int normalize_nfc(const char *text, size_t length, struct buffer *out, struct kj_error *error) {
  struct segment segment = {0};
  int code = 0;
  for (size_t at = 0; at < length && !code;) {
    uint32_t code_point;
    size_t size = utf8_read(text + at, length - at, &code_point);
    if (!size) {
      code = kj_fail(error, KJ_INVALID, "text is not UTF-8 at byte %zu", at);
      break;
    }
    if (unicode_is_opaque_to_normalizer(code_point) || code_point == LONE_TRAILING_BASE) {
      if (segment.count) code = flush(&segment, out, error);
      buffer_append(out, text + at, size);
    } else if (!(code = reserve(&segment, error))) {
      int boundary;
      utf8proc_ssize_t added =
          utf8proc_decompose_char((utf8proc_int32_t)code_point, segment.code_points + segment.count, DECOMPOSED_MAX,
                                  UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &boundary);
      if (added < 0 || added > DECOMPOSED_MAX)
        code = kj_fail(error, KJ_INTERNAL, "cannot decompose U+%04X", (unsigned)code_point);
      else
        segment.count += (size_t)added;
    }
    at += size;
  }
  if (!code && segment.count) code = flush(&segment, out, error);
  if (!code && buffer_failed(out)) code = kj_fail_memory(error, "normalized text");
  free(segment.code_points);
  free(segment.sorted);
  return code;
}

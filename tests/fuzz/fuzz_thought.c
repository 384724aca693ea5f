// links: text
/* A model's text, whose first byte says whether a thought has begun and how it is cut: what comes out must not depend
 * on the cuts, and only white space and tags may be missing from it. */
#include <stdlib.h>
#include <string.h>

#include "text/thought.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

static void split(bool begun, const char *text, size_t length, size_t piece, struct buffer *inner,
                  struct buffer *answer) {
  struct thought thought = thought_start(begun);
  for (size_t at = 0; at < length; at += piece)
    thought_push(&thought, text + at, length - at < piece ? length - at : piece, inner, answer);
  thought_finish(&thought, inner, answer);
  check(!buffer_failed(&thought.held) && !buffer_failed(inner) && !buffer_failed(answer));
  thought_free(&thought);
}

static bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

/* Both parts lie in the text, one behind the other. */
static void check_parts(const char *text, size_t length, const struct buffer *inner, const struct buffer *answer) {
  if (inner->length > 0) {
    check(!is_space(inner->data[0]) && !is_space(inner->data[inner->length - 1]));
    const char *found = memmem(text, length, inner->data, inner->length);
    check(found != NULL);
    length -= (size_t)(found - text) + inner->length;
    text = found + inner->length;
  }
  check(answer->length <= length);
  if (answer->length > 0) check(memcmp(text + length - answer->length, answer->data, answer->length) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  const char *text = (const char *)data + 1;
  struct buffer inner = {0}, answer = {0}, inner_cut = {0}, answer_cut = {0};
  bool begun = data[0] & 1;
  split(begun, text, size - 1, size, &inner, &answer);
  split(begun, text, size - 1, 1 + (data[0] >> 1) % 16, &inner_cut, &answer_cut);
  check(inner.length == inner_cut.length && answer.length == answer_cut.length);
  check(strcmp(buffer_text(&inner), buffer_text(&inner_cut)) == 0 || memchr(buffer_text(&inner), 0, inner.length));
  if (answer.length > 0) check(memcmp(answer.data, answer_cut.data, answer.length) == 0);
  check_parts(text, size - 1, &inner, &answer);
  buffer_free(&inner);
  buffer_free(&answer);
  buffer_free(&inner_cut);
  buffer_free(&answer_cut);
  return 0;
}

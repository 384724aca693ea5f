/* The head of an HTTP request and its chunked body; the first byte picks the size of the pieces in which it comes. */
// links: http_server
#include <stdlib.h>
#include <string.h>

#include "http/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

/* The body in pieces: however it is cut, its length and its end are the same. */
static bool decode(const char *bytes, size_t length, size_t step, size_t *body, bool *complete) {
  struct chunk_decoder decoder = {0};
  struct api_error error;
  *body = 0;
  for (size_t at = 0; at < length && decoder.state != CHUNK_DONE;) {
    size_t piece = length - at < step ? length - at : step, used = 0, run = 0;
    const char *data = NULL;
    if (chunk_decode(&decoder, bytes + at, piece, &used, &data, &run, &error)) {
      check(error.status == 400 && error.message[0]);
      return false;
    }
    check(used > 0 && used <= piece);
    check(run == 0 || (data >= bytes + at && data + run <= bytes + at + used));
    *body += run;
    at += used;
  }
  *complete = decoder.state == CHUNK_DONE;
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  size_t step = (size_t)data[0] + 1;
  const char *bytes = (const char *)data + 1;
  size_t length = size - 1;
  const char *end = memmem(bytes, length, "\r\n\r\n", 4);
  if (end) {
    struct http_head head;
    struct api_error error;
    if (http_head_parse(&head, bytes, (size_t)(end + 4 - bytes), HTTP_DEFAULT_HEADERS, &error) == 0) {
      check(head.path[0] == '/' || strcmp(head.path, "*") == 0);
      check(!(head.chunked && head.has_length));
      http_decode_path(head.path);
      http_head_free(&head);
    } else {
      check(error.status >= 400 && error.message[0]);
    }
    length -= (size_t)(end + 4 - bytes);
    bytes = end + 4;
  }
  size_t body = 0, body_at_once = 0;
  bool complete = false, complete_at_once = false;
  bool taken = decode(bytes, length, step, &body, &complete);
  check(taken == decode(bytes, length, length + 1, &body_at_once, &complete_at_once));
  check(!taken || (body == body_at_once && complete == complete_at_once));
  return 0;
}

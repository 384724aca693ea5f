/* Who may use the server: a key file, a list of origins and the head of a request, each ended by a NUL. */
// links: http_server
#include <stdlib.h>
#include <string.h>

#include "http/access.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

/* The bytes up to the next NUL, which stay NUL-terminated; NULL at the end. */
static const char *next_part(const char **cursor, const char *end, size_t *length) {
  const char *part = *cursor, *nul = part < end ? memchr(part, 0, (size_t)(end - part)) : NULL;
  if (!nul) return NULL;
  *length = (size_t)(nul - part);
  *cursor = nul + 1;
  return part;
}

/* Keys that the file must have: those that stand alone in a line. */
static void check_keys(const struct api_keys *keys, const char *text, size_t length) {
  check(!api_keys_contain(keys, "", 0));
  for (size_t at = 0; at < length;) {
    size_t line = strcspn(text + at, "\n");
    if (line > 0 && !memchr(text + at, '#', line) && !memchr(text + at, ' ', line) && !memchr(text + at, '\t', line) &&
        !memchr(text + at, '\r', line))
      check(api_keys_contain(keys, text + at, line));
    at += line + 1;
  }
}

static void check_answer(const struct cors *cors, const char *origin) {
  struct buffer lines = {0};
  cors_write(cors, origin, &lines);
  cors_write_preflight(cors, origin, "POST", &lines);
  size_t breaks = 0;
  for (size_t i = 0; i < lines.length; i++) breaks += lines.data[i] == '\n';
  check(breaks <= 6 && (breaks == 0 || memcmp(lines.data + lines.length - 2, "\r\n", 2) == 0));
  check(cors_allows(cors, origin) == (strstr(buffer_text(&lines), "Access-Control-Allow-Methods: ") != NULL));
  buffer_free(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *cursor = (const char *)data, *end = cursor + size;
  size_t key_length = 0, origin_length = 0;
  const char *key_text = next_part(&cursor, end, &key_length), *origins = next_part(&cursor, end, &origin_length);
  if (!origins) return 0;
  struct api_keys *keys = NULL;
  struct cors *cors = NULL;
  struct kj_error error = {0};
  if (api_keys_parse(&keys, "keys", key_text, key_length, &error) == 0)
    check_keys(keys, key_text, key_length);
  else
    check(!keys && error.message[0]);
  if (cors_create(&cors, origins, &error)) check(!cors && error.message[0]);
  struct http_head head;
  struct api_error refusal = {0};
  if (http_head_parse(&head, cursor, (size_t)(end - cursor), HTTP_DEFAULT_HEADERS, &refusal) == 0) {
    struct access guarded = {.keys = keys, .cors = cors}, near = {.cors = cors}, open = {.open = true};
    if (access_check(&guarded, &head, &refusal)) check(refusal.status == (keys ? 401 : 403) && refusal.message[0]);
    if (access_check(&near, &head, &refusal)) check(refusal.status == 403 && !cors_allows(cors, head.origin));
    check(access_check(&open, &head, &refusal) == 0);
    check_answer(cors, head.origin);
    http_head_free(&head);
  }
  api_keys_free(keys);
  cors_free(cors);
  return 0;
}

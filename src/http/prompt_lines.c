#include "http/prompt_lines.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

enum { MOST_STEPS = 1000000, HEAP_KIB = 16 << 10 };

struct prompt_lines {
  pcre2_code *code;
};

/* What one thread needs to match. */
struct matcher {
  const struct prompt_lines *lines;
  pcre2_match_data *data;
  pcre2_match_context *context;
};

int prompt_lines_compile(struct prompt_lines **result, const char *expression, struct kj_error *error) {
  *result = NULL;
  struct prompt_lines *lines = calloc(1, sizeof *lines);
  if (!lines) return kj_fail_memory(error, "an expression");
  int reason = 0;
  PCRE2_SIZE offset = 0;
  lines->code = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &reason, &offset, NULL);
  if (!lines->code) {
    PCRE2_UCHAR message[128] = "";
    pcre2_get_error_message(reason, message, sizeof message);
    free(lines);
    return kj_fail(error, KJ_INVALID, "\"%.200s\" is not a regular expression: byte %zu: %s", expression, offset,
                   (const char *)message);
  }
  /* Without JIT the same matches come slower. */
  (void)pcre2_jit_compile(lines->code, PCRE2_JIT_COMPLETE);
  *result = lines;
  return 0;
}

void prompt_lines_free(struct prompt_lines *lines) {
  if (!lines) return;
  pcre2_code_free(lines->code);
  free(lines);
}

static int match(const struct matcher *matcher, const char *line, size_t length, bool *matches) {
  PCRE2_SPTR subject = (PCRE2_SPTR)line;
  int result =
      pcre2_match(matcher->lines->code, subject, length, 0, PCRE2_NO_UTF_CHECK, matcher->data, matcher->context);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter's stack is the heap */
    result = pcre2_match(matcher->lines->code, subject, length, 0, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, matcher->data,
                         matcher->context);
  *matches = result >= 0;
  return result < 0 && result != PCRE2_ERROR_NOMATCH ? result : 0;
}

/* Appends the lines that stay; a code of PCRE2 on failure. */
static int keep_lines(const struct matcher *matcher, const char *text, size_t length, struct buffer *kept) {
  for (size_t at = 0; at < length;) {
    const char *line = text + at, *newline = memchr(line, '\n', length - at);
    size_t whole = newline ? (size_t)(newline - line) + 1 : length - at;
    size_t content = newline ? whole - 1 : whole;
    if (newline && content > 0 && line[content - 1] == '\r') content--;
    bool matches = false;
    int code = match(matcher, line, content, &matches);
    if (code) return code;
    if (!matches) buffer_append(kept, line, whole);
    at += whole;
  }
  return 0;
}

static int drop_from(const struct matcher *matcher, json_t *message, size_t index, struct api_error *error) {
  const json_t *content = json_object_get(message, "content");
  size_t length = json_string_length(content);
  struct buffer kept = {0};
  int failed = 0, code = keep_lines(matcher, json_string_value(content), length, &kept);
  if (code) {
    char path[64];
    PCRE2_UCHAR reason[128] = "";
    snprintf(path, sizeof path, "messages[%zu].content", index);
    pcre2_get_error_message(code, reason, sizeof reason);
    failed = api_fail(error, 400, "invalid_value", path,
                      "the server's --drop-prompt-lines cannot be applied to '%s': %s", path, (const char *)reason);
  } else if (buffer_failed(&kept) ||
             (kept.length < length &&
              json_object_set_new(message, "content", json_stringn(buffer_text(&kept), kept.length)) != 0)) {
    failed = api_fail_memory(error);
  }
  buffer_free(&kept);
  return failed;
}

int prompt_lines_drop(const struct prompt_lines *lines, json_t *messages, struct api_error *error) {
  struct matcher matcher = {lines, pcre2_match_data_create(1, NULL), pcre2_match_context_create(NULL)};
  int failed = matcher.data && matcher.context ? 0 : api_fail_memory(error);
  if (!failed) {
    pcre2_set_match_limit(matcher.context, MOST_STEPS);
    pcre2_set_heap_limit(matcher.context, HEAP_KIB);
  }
  for (size_t i = 0; i < json_array_size(messages) && !failed; i++) {
    json_t *message = json_array_get(messages, i);
    const char *role = json_string_value(json_object_get(message, "role"));
    bool has_text = json_is_string(json_object_get(message, "content"));
    if (role && strcmp(role, "system") == 0 && has_text) failed = drop_from(&matcher, message, i, error);
  }
  pcre2_match_data_free(matcher.data);
  pcre2_match_context_free(matcher.context);
  return failed;
}

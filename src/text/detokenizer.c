#include "text/detokenizer.h"

#include <stdlib.h>

#include "text/stop.h"
#include "text/utf8.h"

struct detokenizer {
  const struct tokenizer *tokenizer;
  struct utf8_replacer replacer;
  struct stop_watch *watch;
};

int detokenizer_create(struct detokenizer **detokenizer, const struct tokenizer *tokenizer, const char *const *stops,
                       size_t stop_count, struct kj_error *error) {
  *detokenizer = NULL;
  struct detokenizer *made = calloc(1, sizeof *made);
  if (!made) return kj_fail_memory(error, "a detokenizer");
  made->tokenizer = tokenizer;
  int code = stop_watch_create(&made->watch, stops, stop_count, error);
  if (code) {
    free(made);
    return code;
  }
  *detokenizer = made;
  return 0;
}

void detokenizer_free(struct detokenizer *detokenizer) {
  if (!detokenizer) return;
  stop_watch_free(detokenizer->watch);
  free(detokenizer);
}

static bool watch_text(struct detokenizer *detokenizer, const char *text, size_t length, struct buffer *out) {
  for (size_t i = 0; i < length; i++)
    if (stop_watch_push(detokenizer->watch, text[i], out)) return true;
  return false;
}

bool detokenizer_push(struct detokenizer *detokenizer, uint32_t token, struct buffer *out) {
  if (stop_watch_stopped(detokenizer->watch)) return true;
  if (tokenizer_is_special(detokenizer->tokenizer, token)) return false;
  size_t length;
  const char *bytes = tokenizer_bytes(detokenizer->tokenizer, token, &length);
  for (size_t i = 0; i < length; i++) {
    char text[8];
    size_t count = utf8_replacer_push(&detokenizer->replacer, (unsigned char)bytes[i], text);
    if (watch_text(detokenizer, text, count, out)) return true;
  }
  return false;
}

void detokenizer_finish(struct detokenizer *detokenizer, struct buffer *out) {
  char text[8];
  size_t count = utf8_replacer_finish(&detokenizer->replacer, text);
  watch_text(detokenizer, text, count, out);
  stop_watch_finish(detokenizer->watch, out);
}

void detokenizer_finish_cut(struct detokenizer *detokenizer, struct buffer *out) {
  char replacement[8];
  utf8_replacer_finish(&detokenizer->replacer, replacement);
  stop_watch_finish(detokenizer->watch, out);
}

bool detokenizer_stopped(const struct detokenizer *detokenizer) { return stop_watch_stopped(detokenizer->watch); }

const char *detokenizer_stop(const struct detokenizer *detokenizer, size_t *length) {
  return stop_watch_match(detokenizer->watch, length);
}

void detokenize(const struct tokenizer *tokenizer, const uint32_t *tokens, size_t count, struct buffer *out) {
  struct utf8_replacer replacer = {0};
  char text[8];
  for (size_t i = 0; i < count; i++) {
    size_t length = 0;
    const char *bytes = tokenizer_bytes(tokenizer, tokens[i], &length);
    for (size_t at = 0; at < length; at++)
      buffer_append(out, text, utf8_replacer_push(&replacer, (unsigned char)bytes[at], text));
  }
  buffer_append(out, text, utf8_replacer_finish(&replacer, text));
}

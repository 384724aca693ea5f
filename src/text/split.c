#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/split.h"

#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "text/split_syntax.h"
#include "text/utf8.h"

enum {
  EXPRESSION_LIMIT = 65536, /* bytes */
  HEAP_LIMIT = 262144       /* KiB that a match may take to remember where to go back to */
};

struct split_expression {
  pcre2_code *code;
};

struct splitter {
  pcre2_match_data *match;
  pcre2_match_context *context;
};

int split_expression_compile(struct split_expression **expression, const char *text, size_t length, bool literal,
                             struct kj_error *error) {
  struct buffer translated = {0};
  pcre2_compile_context *context = NULL;
  int code = 0;
  *expression = calloc(1, sizeof **expression);
  if (!*expression) return kj_fail_memory(error, "a split expression");
  if (!length || length > EXPRESSION_LIMIT) {
    code = kj_fail(error, KJ_INVALID, "split expression of %zu bytes; 1 to %d are possible", length, EXPRESSION_LIMIT);
    goto done;
  }
  if (literal)
    buffer_append(&translated, text, length);
  else if ((code = split_syntax_translate(text, length, &translated, error)))
    goto done;
  context = pcre2_compile_context_create(NULL);
  if (buffer_failed(&translated) || !context) {
    code = kj_fail_memory(error, "a split expression");
    goto done;
  }
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int reason;
  PCRE2_SIZE offset;
  uint32_t options = literal ? PCRE2_UTF | PCRE2_LITERAL : PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  (*expression)->code =
      pcre2_compile((PCRE2_SPTR)translated.data, translated.length, options, &reason, &offset, context);
  if (!(*expression)->code) {
    PCRE2_UCHAR message[128] = "";
    pcre2_get_error_message(reason, message, sizeof message);
    code = kj_fail(error, KJ_INVALID, "split expression: %s: \"%.200s\"", (const char *)message, text);
    goto done;
  }
  /* Without JIT (an architecture or a system that forbids it) the same matches come slower. */
  (void)pcre2_jit_compile((*expression)->code, PCRE2_JIT_COMPLETE);
done:
  pcre2_compile_context_free(context);
  buffer_free(&translated);
  if (code) {
    split_expression_free(*expression);
    *expression = NULL;
  }
  return code;
}

void split_expression_free(struct split_expression *expression) {
  if (!expression) return;
  pcre2_code_free(expression->code);
  free(expression);
}

int splitter_create(struct splitter **splitter, size_t length, struct kj_error *error) {
  struct splitter *made = *splitter = calloc(1, sizeof *made);
  if (!made) return kj_fail_memory(error, "a splitter");
  made->match = pcre2_match_data_create(1, NULL);
  made->context = pcre2_match_context_create(NULL);
  if (!made->match || !made->context) {
    splitter_free(made);
    *splitter = NULL;
    return kj_fail_memory(error, "a splitter");
  }
  /* A sane expression goes back at most once over each byte of a run, so the steps of one match are linear. */
  uint64_t steps = 10000000u + 16u * (uint64_t)length;
  pcre2_set_match_limit(made->context, steps > UINT32_MAX ? UINT32_MAX : (uint32_t)steps);
  pcre2_set_heap_limit(made->context, HEAP_LIMIT);
  return 0;
}

void splitter_free(struct splitter *splitter) {
  if (!splitter) return;
  pcre2_match_data_free(splitter->match);
  pcre2_match_context_free(splitter->context);
  free(splitter);
}

/* The next match at or after `from`: sets found, *start and *end. */
static int search(struct splitter *splitter, const struct split_expression *expression, const char *text, size_t length,
                  size_t from, bool *found, size_t *start, size_t *end, struct kj_error *error) {
  PCRE2_SPTR subject = (PCRE2_SPTR)text;
  int result =
      pcre2_match(expression->code, subject, length, from, PCRE2_NO_UTF_CHECK, splitter->match, splitter->context);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter's stack is the heap */
    result = pcre2_match(expression->code, subject, length, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, splitter->match,
                         splitter->context);
  *found = result >= 0;
  if (result == PCRE2_ERROR_NOMATCH) return 0;
  if (result < 0) {
    PCRE2_UCHAR message[128] = "";
    pcre2_get_error_message(result, message, sizeof message);
    return kj_fail(error, result == PCRE2_ERROR_NOMEMORY ? KJ_MEMORY : KJ_INVALID,
                   "the tokenizer's split expression fails on the text from byte %zu on: %s", from,
                   (const char *)message);
  }
  const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(splitter->match);
  *start = offsets[0];
  *end = offsets[1];
  return 0;
}

int splitter_run(struct splitter *splitter, struct split_expression *const *expressions, size_t count, const char *text,
                 size_t length, split_visitor *visit, void *context, struct kj_error *error) {
  if (!count) return length ? visit(context, text, length, error) : 0;
  size_t taken = 0, from = 0, matched = SIZE_MAX; /* end of the last piece, of the search so far, of the last match */
  int code = 0;
  while (from <= length) {
    bool found;
    size_t start, end;
    if ((code = search(splitter, expressions[0], text, length, from, &found, &start, &end, error))) return code;
    if (!found) break;
    if (start == end && end == matched) { /* an empty match right behind a match does not count */
      uint32_t code_point;
      size_t size = utf8_read(text + end, length - end, &code_point);
      from = end + (size ? size : 1);
      continue;
    }
    if (start > taken &&
        (code = splitter_run(splitter, expressions + 1, count - 1, text + taken, start - taken, visit, context, error)))
      return code;
    if (end > start &&
        (code = splitter_run(splitter, expressions + 1, count - 1, text + start, end - start, visit, context, error)))
      return code;
    taken = from = matched = end;
  }
  if (length > taken)
    code = splitter_run(splitter, expressions + 1, count - 1, text + taken, length - taken, visit, context, error);
  return code;
}

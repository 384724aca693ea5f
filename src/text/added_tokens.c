#include "text/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "text/unicode.h"
#include "text/utf8.h"

int added_tokens_add(struct added_tokens *set, const struct added_token *token, struct kj_error *error) {
  if (!token->length || token->length > ADDED_TOKEN_LENGTH_LIMIT)
    return kj_fail(error, KJ_INVALID, "added token \"%.80s\" has %zu bytes; 1 to %d are possible", token->content,
                   token->length, ADDED_TOKEN_LENGTH_LIMIT);
  if (set->count == set->capacity) {
    size_t capacity = set->capacity ? set->capacity * 2 : 32;
    struct added_token *tokens = realloc(set->tokens, capacity * sizeof *tokens);
    if (!tokens) return kj_fail_memory(error, "the added tokens");
    set->tokens = tokens;
    set->capacity = capacity;
  }
  struct added_token copy = *token;
  copy.content = malloc(token->length + 1);
  if (!copy.content) return kj_fail_memory(error, "the added tokens");
  memcpy(copy.content, token->content, token->length);
  copy.content[token->length] = '\0';
  set->tokens[set->count++] = copy;
  return 0;
}

static int by_content(const void *left, const void *right) {
  const struct added_token *a = left, *b = right;
  int order = memcmp(a->content, b->content, a->length < b->length ? a->length : b->length);
  if (order) return order;
  return (a->length > b->length) - (a->length < b->length);
}

void added_tokens_sort(struct added_tokens *set) {
  if (set->count) qsort(set->tokens, set->count, sizeof *set->tokens, by_content);
  size_t at = 0;
  for (unsigned byte = 0; byte < 257; byte++) {
    while (at < set->count && (unsigned char)set->tokens[at].content[0] < byte) at++;
    set->first[byte] = (uint32_t)at;
  }
}

void added_tokens_free(struct added_tokens *set) {
  for (size_t i = 0; i < set->count; i++) free(set->tokens[i].content);
  free(set->tokens);
  *set = (struct added_tokens){0};
}

/* In low…high - 1, which agree up to `depth` and are longer, the first whose next byte is at least `byte`. */
static size_t lower_bound(const struct added_tokens *set, size_t low, size_t high, size_t depth, unsigned byte) {
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if ((unsigned char)set->tokens[middle].content[depth] < byte)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static const struct added_token *longest_at(const struct added_tokens *set, const char *text, size_t length) {
  unsigned byte = (unsigned char)text[0];
  size_t low = set->first[byte], high = set->first[byte + 1];
  const struct added_token *longest = NULL;
  for (size_t depth = 1; low < high; depth++) {
    if (set->tokens[low].length == depth) longest = &set->tokens[low++];
    if (depth == length) break;
    byte = (unsigned char)text[depth];
    low = lower_bound(set, low, high, depth, byte);
    high = lower_bound(set, low, high, depth, byte + 1);
  }
  return longest;
}

const struct added_token *added_tokens_find(const struct added_tokens *set, const char *text, size_t length,
                                            size_t from, size_t *start) {
  if (!set->count) return NULL;
  for (size_t at = from; at < length; at++) {
    const struct added_token *token = longest_at(set, text + at, length - at);
    if (!token) continue;
    *start = at;
    return token;
  }
  return NULL;
}

static bool word_before(const char *text, size_t end) {
  uint32_t code_point;
  if (!end) return false;
  size_t start = utf8_previous(text, end);
  return utf8_read(text + start, end - start, &code_point) && unicode_is_word(code_point);
}

static bool word_after(const char *text, size_t length) {
  uint32_t code_point;
  return utf8_read(text, length, &code_point) && unicode_is_word(code_point);
}

bool added_token_span(const struct added_token *token, const char *text, size_t length, size_t taken, size_t *start,
                      size_t *end) {
  uint32_t code_point;
  *end = *start + token->length;
  if (token->single_word && (word_before(text, *start) || word_after(text + *end, length - *end))) return false;
  if (token->lstrip) {
    while (*start > taken) {
      size_t before = utf8_previous(text, *start);
      if (!utf8_read(text + before, *start - before, &code_point) || !unicode_is_white_space(code_point)) break;
      *start = before;
    }
    if (*start < taken) *start = taken;
  }
  if (token->rstrip) {
    size_t size;
    while ((size = utf8_read(text + *end, length - *end, &code_point)) && unicode_is_white_space(code_point))
      *end += size;
  }
  return true;
}

#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "text/byte_level.h"
#include "text/normalize.h"
#include "text/text_file.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_parts.h"
#include "text/utf8.h"

#define FILE_LIMIT ((size_t)256 << 20) /* bytes; tokenizer.json files of large vocabularies have 35 MB */
#define TEXT_LIMIT ((size_t)1 << 30)   /* bytes; positions in a piece are 32-bit numbers */

void token_list_free(struct token_list *list) {
  free(list->ids);
  *list = (struct token_list){0};
}

static int reserve(struct token_list *list, size_t extra, struct kj_error *error) {
  if (extra <= list->capacity - list->count) return 0;
  size_t capacity = list->capacity ? list->capacity : 64;
  while (capacity - list->count < extra) {
    if (capacity > SIZE_MAX / 2 / sizeof *list->ids) return kj_fail_memory(error, "tokens");
    capacity *= 2;
  }
  uint32_t *ids = realloc(list->ids, capacity * sizeof *ids);
  if (!ids) return kj_fail_memory(error, "tokens");
  list->ids = ids;
  list->capacity = capacity;
  return 0;
}

int token_list_push(struct token_list *list, uint32_t id, struct kj_error *error) {
  int code = reserve(list, 1, error);
  if (!code) list->ids[list->count++] = id;
  return code;
}

int tokenizer_parse(struct tokenizer **tokenizer, const char *name, const char *json, size_t length,
                    struct kj_error *error) {
  json_error_t reason;
  *tokenizer = NULL;
  if (length > FILE_LIMIT)
    return kj_fail(error, KJ_INVALID, "%s: %zu bytes are more than the %zu that a tokenizer may have", name, length,
                   FILE_LIMIT);
  json_t *root = json_loadb(json, length, JSON_REJECT_DUPLICATES, &reason);
  if (!root)
    return kj_fail(error, KJ_INVALID, "%s: line %d, column %d: %s", name, reason.line, reason.column, reason.text);
  struct tokenizer *made = calloc(1, sizeof *made);
  int code = made ? tokenizer_json_read(made, root, error) : kj_fail_memory(error, "a tokenizer");
  json_decref(root);
  if (code) {
    if (error) kj_fail_context(error, "%s", name);
    tokenizer_free(made);
    return code;
  }
  *tokenizer = made;
  return 0;
}

int tokenizer_load(struct tokenizer **tokenizer, const char *directory, struct kj_error *error) {
  struct buffer path = {0}, content = {0};
  *tokenizer = NULL;
  buffer_append_format(&path, "%s/tokenizer.json", directory);
  int code =
      buffer_failed(&path) ? kj_fail_memory(error, "a path") : text_file_read(path.data, FILE_LIMIT, &content, error);
  if (!code) code = tokenizer_parse(tokenizer, path.data, buffer_text(&content), content.length, error);
  buffer_free(&content);
  buffer_free(&path);
  return code;
}

void tokenizer_free(struct tokenizer *tokenizer) {
  if (!tokenizer) return;
  vocabulary_free(tokenizer->vocabulary);
  merges_free(tokenizer->merges);
  for (size_t i = 0; i < tokenizer->split_count; i++) split_expression_free(tokenizer->splits[i]);
  added_tokens_free(&tokenizer->raw);
  added_tokens_free(&tokenizer->normalized);
  free(tokenizer->flags);
  free(tokenizer);
}

/* One call of tokenizer_encode. */
struct encoding {
  const struct tokenizer *tokenizer;
  bool special;
  struct token_list *list;
  struct splitter *splitter;
  struct merge_scratch scratch;
  struct buffer text;     /* a normalized stretch of text */
  struct buffer spelling; /* a piece in the vocabulary's alphabet */
};

/* The piece as one token of the model, where ignore_merges asks for that. */
static bool find_whole(struct encoding *encoding, const char *piece, size_t length, uint32_t *id) {
  const struct tokenizer *tokenizer = encoding->tokenizer;
  struct buffer *spelling = &encoding->spelling;
  if (!tokenizer->ignore_merges) return false;
  buffer_clear(spelling);
  for (size_t i = 0; i < length; i++) {
    char character[4];
    buffer_append(spelling, character, utf8_write(byte_level_character((unsigned char)piece[i]), character));
  }
  return vocabulary_find(tokenizer->vocabulary, buffer_text(spelling), spelling->length, id) &&
         !(tokenizer->flags[*id] & TOKEN_NEW);
}

static int encode_piece(void *context, const char *piece, size_t length, struct kj_error *error) {
  struct encoding *encoding = context;
  struct token_list *list = encoding->list;
  int code = reserve(list, length, error);
  if (code) return code;
  uint32_t *ids = list->ids + list->count;
  if (find_whole(encoding, piece, length, ids)) {
    list->count++;
    return 0;
  }
  if (buffer_failed(&encoding->spelling)) return kj_fail_memory(error, "a piece of text");
  for (size_t i = 0; i < length; i++) ids[i] = encoding->tokenizer->byte_ids[(unsigned char)piece[i]];
  code = merges_apply(encoding->tokenizer->merges, &encoding->scratch, ids, &length, error);
  if (!code) list->count += length;
  return code;
}

static int encode_plain(struct encoding *encoding, const char *text, size_t length, struct kj_error *error) {
  const struct tokenizer *tokenizer = encoding->tokenizer;
  return splitter_run(encoding->splitter, tokenizer->splits, tokenizer->split_count, text, length, encode_piece,
                      encoding, error);
}

typedef int encode_stretch(struct encoding *encoding, const char *text, size_t length, struct kj_error *error);

/* Appends the ids of the set's tokens in the text, and has `between` encode what lies between them. */
static int encode_around(struct encoding *encoding, const struct added_tokens *set, encode_stretch *between,
                         const char *text, size_t length, struct kj_error *error) {
  const struct added_token *token;
  size_t from = 0, taken = 0, start, end;
  int code = 0;
  while ((token = added_tokens_find(set, text, length, from, &start))) {
    from = start + token->length;
    if (token->special && !encoding->special) continue;
    if (!added_token_span(token, text, length, taken, &start, &end)) continue;
    if (start > taken && (code = between(encoding, text + taken, start - taken, error))) return code;
    if ((code = reserve(encoding->list, 1, error))) return code;
    encoding->list->ids[encoding->list->count++] = token->id;
    taken = end;
  }
  return taken < length ? between(encoding, text + taken, length - taken, error) : 0;
}

static int encode_normalized(struct encoding *encoding, const char *text, size_t length, struct kj_error *error) {
  if (encoding->tokenizer->normalize_nfc && !normalize_is_trivial(text, length)) {
    buffer_clear(&encoding->text);
    int code = normalize_nfc(text, length, &encoding->text, error);
    if (code) return code;
    text = buffer_text(&encoding->text);
    length = encoding->text.length;
  }
  return encode_around(encoding, &encoding->tokenizer->normalized, encode_plain, text, length, error);
}

int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t length, bool special,
                     struct token_list *list, struct kj_error *error) {
  size_t offset, count = list->count;
  if (length > TEXT_LIMIT)
    return kj_fail(error, KJ_INVALID, "a text of %zu bytes is longer than %zu, the most at a time", length, TEXT_LIMIT);
  if (!utf8_valid(text, length, &offset))
    return kj_fail(error, KJ_INVALID, "the text is not UTF-8 at byte %zu", offset);
  struct encoding encoding = {.tokenizer = tokenizer, .special = special, .list = list};
  int code = splitter_create(&encoding.splitter, length, error);
  if (!code) code = encode_around(&encoding, &tokenizer->raw, encode_normalized, text, length, error);
  if (code) list->count = count;
  splitter_free(encoding.splitter);
  merge_scratch_free(&encoding.scratch);
  buffer_free(&encoding.text);
  buffer_free(&encoding.spelling);
  return code;
}

uint32_t tokenizer_size(const struct tokenizer *tokenizer) { return vocabulary_size(tokenizer->vocabulary); }

const char *tokenizer_bytes(const struct tokenizer *tokenizer, uint32_t id, size_t *length) {
  return vocabulary_bytes(tokenizer->vocabulary, id, length);
}

bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id) {
  return id < tokenizer_size(tokenizer) && tokenizer->flags[id] & TOKEN_SPECIAL;
}

bool tokenizer_find(const struct tokenizer *tokenizer, const char *content, uint32_t *id) {
  return vocabulary_find(tokenizer->vocabulary, content, strlen(content), id);
}

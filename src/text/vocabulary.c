#include "text/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "text/byte_level.h"

struct token {
  uint32_t content, content_length; /* in `text` */
  uint32_t bytes, bytes_length;     /* in `text`; the content's own where it spells no bytes */
  bool present;
};

struct vocabulary {
  struct token *tokens; /* by id */
  uint32_t size, capacity, count;
  struct buffer text;
  uint32_t *slots; /* hash table with linear probing: id + 1, or 0 */
  uint32_t slot_count;
};

int vocabulary_create(struct vocabulary **vocabulary, struct kj_error *error) {
  *vocabulary = calloc(1, sizeof **vocabulary);
  return *vocabulary ? 0 : kj_fail_memory(error, "the vocabulary");
}

void vocabulary_free(struct vocabulary *vocabulary) {
  if (!vocabulary) return;
  free(vocabulary->tokens);
  free(vocabulary->slots);
  buffer_free(&vocabulary->text);
  free(vocabulary);
}

static uint32_t hash(const char *content, size_t length) {
  uint64_t value = 0xcbf29ce484222325u ^ length;
  for (size_t i = 0; i < length; i++) value = (value ^ (unsigned char)content[i]) * 0x100000001b3u;
  value ^= value >> 32;
  return (uint32_t)(value * 0x9e3779b97f4a7c15u >> 32);
}

/* The slot of the content, or the empty one where it belongs. */
static uint32_t slot_of(const struct vocabulary *vocabulary, const char *content, size_t length) {
  uint32_t mask = vocabulary->slot_count - 1;
  for (uint32_t slot = hash(content, length) & mask;; slot = (slot + 1) & mask) {
    if (!vocabulary->slots[slot]) return slot;
    const struct token *token = &vocabulary->tokens[vocabulary->slots[slot] - 1];
    if (token->content_length == length &&
        (!length || !memcmp(buffer_text(&vocabulary->text) + token->content, content, length)))
      return slot;
  }
}

/* Makes room for the id and for one more token at a load of at most one half. */
static bool grow(struct vocabulary *vocabulary, uint32_t id) {
  if (id >= vocabulary->capacity) {
    uint32_t capacity = vocabulary->capacity ? vocabulary->capacity : 1024;
    while (capacity <= id) capacity *= 2;
    struct token *tokens = realloc(vocabulary->tokens, capacity * sizeof *tokens);
    if (!tokens) return false;
    memset(tokens + vocabulary->capacity, 0, (capacity - vocabulary->capacity) * sizeof *tokens);
    vocabulary->tokens = tokens;
    vocabulary->capacity = capacity;
  }
  if ((vocabulary->count + 1) * 2 <= vocabulary->slot_count) return true;
  uint32_t slot_count = vocabulary->slot_count ? vocabulary->slot_count * 2 : 2048;
  uint32_t *slots = calloc(slot_count, sizeof *slots);
  if (!slots) return false;
  free(vocabulary->slots);
  vocabulary->slots = slots;
  vocabulary->slot_count = slot_count;
  for (uint32_t i = 0; i < vocabulary->size; i++) {
    const struct token *token = &vocabulary->tokens[i];
    if (token->present)
      slots[slot_of(vocabulary, buffer_text(&vocabulary->text) + token->content, token->content_length)] = i + 1;
  }
  return true;
}

int vocabulary_add(struct vocabulary *vocabulary, uint32_t id, const char *content, size_t length,
                   struct kj_error *error) {
  if (id >= VOCABULARY_LIMIT)
    return kj_fail(error, KJ_INVALID, "token \"%.80s\" has id %u, above the limit of %d", content, id,
                   VOCABULARY_LIMIT - 1);
  if (vocabulary_has(vocabulary, id))
    return kj_fail(error, KJ_INVALID, "id %u belongs to two tokens, one of them \"%.80s\"", id, content);
  struct buffer *text = &vocabulary->text;
  if (length > UINT32_MAX / 4 || text->length > UINT32_MAX / 4)
    return kj_fail(error, KJ_INVALID, "the tokens are longer than a vocabulary may be");
  if (!grow(vocabulary, id)) return kj_fail_memory(error, "the vocabulary");
  uint32_t slot = slot_of(vocabulary, content, length);
  if (vocabulary->slots[slot])
    return kj_fail(error, KJ_INVALID, "token \"%.80s\" is there twice, with ids %u and %u", content,
                   vocabulary->slots[slot] - 1, id);
  struct token token = {(uint32_t)text->length, (uint32_t)length, (uint32_t)text->length, (uint32_t)length, true};
  buffer_append(text, content, length);
  size_t bytes_at = text->length, bytes_length;
  buffer_append(text, content, length);
  if (buffer_failed(text)) return kj_fail_memory(error, "the vocabulary");
  if (length && byte_level_read(text->data + token.content, length, text->data + bytes_at, &bytes_length)) {
    token.bytes = (uint32_t)bytes_at;
    token.bytes_length = (uint32_t)bytes_length;
    text->length = bytes_at + bytes_length;
  } else {
    text->length = bytes_at;
  }
  vocabulary->tokens[id] = token;
  vocabulary->slots[slot] = id + 1;
  vocabulary->count++;
  if (id >= vocabulary->size) vocabulary->size = id + 1;
  return 0;
}

uint32_t vocabulary_size(const struct vocabulary *vocabulary) { return vocabulary->size; }

uint32_t vocabulary_count(const struct vocabulary *vocabulary) { return vocabulary->count; }

bool vocabulary_has(const struct vocabulary *vocabulary, uint32_t id) {
  return id < vocabulary->size && vocabulary->tokens[id].present;
}

bool vocabulary_find(const struct vocabulary *vocabulary, const char *content, size_t length, uint32_t *id) {
  if (!vocabulary->slot_count) return false;
  uint32_t slot = slot_of(vocabulary, content, length);
  if (!vocabulary->slots[slot]) return false;
  *id = vocabulary->slots[slot] - 1;
  return true;
}

const char *vocabulary_bytes(const struct vocabulary *vocabulary, uint32_t id, size_t *length) {
  if (!vocabulary_has(vocabulary, id)) {
    *length = 0;
    return "";
  }
  const struct token *token = &vocabulary->tokens[id];
  *length = token->bytes_length;
  return buffer_text(&vocabulary->text) + token->bytes;
}

#include "walk_grammar.h"

#include <stdbool.h>
#include <string.h>

#include "grammar/constraint.h"

/* Tokens are the bytes, and texts that end what has no end of its own: by chance they would not come. */
static const char *const ENDINGS[] = {"</parameter>", "</think>"};
enum { BYTES = 256, ENDING_COUNT = 2, END = BYTES + ENDING_COUNT, TOKENS = END + 1 };

struct walker {
  struct token_vocabulary *vocabulary;
  struct grammar_masks *masks;
  struct token_constraint *constraint;
};

static int begin(struct walker *walker, struct grammar *grammar, struct kj_error *error) {
  static const uint32_t end[] = {END};
  char bytes[BYTES];
  struct token_text tokens[TOKENS] = {0};
  for (size_t i = 0; i < BYTES; i++) {
    bytes[i] = (char)i;
    tokens[i] = (struct token_text){&bytes[i], 1};
  }
  for (size_t i = 0; i < ENDING_COUNT; i++) tokens[BYTES + i] = (struct token_text){ENDINGS[i], strlen(ENDINGS[i])};
  int result = token_vocabulary_create_from(&walker->vocabulary, tokens, TOKENS, error);
  if (!result) result = grammar_masks_create(&walker->masks, grammar, walker->vocabulary, end, 1, error);
  if (!result) result = constraint_create(&walker->constraint, walker->masks, error);
  return result;
}

static void end_walk(struct walker *walker) {
  token_constraint_release(walker->constraint);
  grammar_masks_release(walker->masks);
  token_vocabulary_release(walker->vocabulary);
}

static bool has(const uint64_t *bits, uint32_t token) { return bits[token / 64] >> token % 64 & 1; }

/* Splitmix64. */
static uint64_t draw(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* One of the tokens that fit: mostly printable ones, and after a while those that bring things to an end. */
static uint32_t choose(const uint64_t *bits, uint64_t *state, size_t length) {
  static const char ENDS[] = "\"}],:<>/\n";
  for (uint32_t i = BYTES; i < END; i++)
    if (has(bits, i) && draw(state) % (length > 60 ? 2 : 16) == 0) return i;
  if (length > 60 && draw(state) % 4) {
    for (const char *c = ENDS; *c; c++)
      if (has(bits, (uint8_t)*c) && draw(state) % 2) return (uint8_t)*c;
  }
  for (int tries = 0; tries < 400; tries++) {
    uint32_t byte = (uint32_t)(draw(state) % (draw(state) % 8 ? 128 : BYTES));
    if (has(bits, byte)) return byte;
  }
  for (uint32_t byte = 0; byte < BYTES; byte++)
    if (has(bits, byte)) return byte;
  return END;
}

int walk_grammar(struct grammar *grammar, uint64_t seed, size_t limit, struct buffer *text, struct kj_error *error) {
  struct walker walker = {0};
  int result = begin(&walker, grammar, error);
  size_t start = text->length;
  const uint64_t *bits = NULL;
  while (!result) {
    size_t length = text->length - start;
    result = walker.constraint->operations->allowed(walker.constraint, TOKENS, &bits, error);
    if (result) break;
    uint32_t next = choose(bits, &seed, length);
    if (has(bits, END) && (next == END || draw(&seed) % 3 == 0 || length > 60)) break;
    if (next == END) result = kj_fail(error, KJ_INTERNAL, "no byte fits after '%s'", buffer_text(text) + start);
    if (!result && length == limit) result = kj_fail(error, KJ_TIMEOUT, "it does not end");
    if (result) break;
    char byte = (char)next;
    if (next < BYTES)
      buffer_append(text, &byte, 1);
    else
      buffer_append_text(text, ENDINGS[next - BYTES]);
    result = walker.constraint->operations->accept(walker.constraint, next, error);
  }
  end_walk(&walker);
  return result;
}

int follow_grammar(struct grammar *grammar, const char *text, size_t length, struct kj_error *error) {
  struct walker walker = {0};
  const uint64_t *bits = NULL;
  int found = begin(&walker, grammar, error) ? -1 : 1;
  for (size_t i = 0; found == 1 && i <= length; i++) {
    if (walker.constraint->operations->allowed(walker.constraint, TOKENS, &bits, error)) {
      found = -1;
    } else if (i == length) {
      found = has(bits, END) ? 2 : 1;
    } else if (!has(bits, (uint8_t)text[i])) {
      found = 0;
    } else if (walker.constraint->operations->accept(walker.constraint, (uint8_t)text[i], error)) {
      found = -1;
    }
  }
  end_walk(&walker);
  return found;
}

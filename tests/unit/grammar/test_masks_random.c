/* Random grammars over random vocabularies: the tokens that a mask allows are exactly those with which the text is
 * still the beginning of one that a naive matcher finds in the grammar, and the end tokens are there exactly where the
 * text is one. */
#include "grammar/constraint.h"
#include "unit/grammar/reference_grammar.h"

enum { MAX_TOKENS = 4096, TEXT = 64, STEPS = 5, END = 1 };

struct tokens {
  struct token_text texts[MAX_TOKENS];
  char bytes[MAX_TOKENS][24];
  uint32_t count;
};

static void add_token(struct tokens *tokens, const char *bytes, size_t length) {
  assert_true(tokens->count < MAX_TOKENS && length < 24);
  memcpy(tokens->bytes[tokens->count], bytes, length);
  tokens->texts[tokens->count] = (struct token_text){tokens->bytes[tokens->count], length};
  tokens->count++;
}

/* Characters and pieces of characters; token 0 has no bytes, token 1 is the end. */
static void random_tokens(struct reference *reference, struct tokens *tokens, uint32_t count, uint32_t cut) {
  tokens->count = 0;
  add_token(tokens, "", 0);
  add_token(tokens, "", 0);
  for (int i = 0; i < CHARACTER_COUNT; i++)
    for (size_t j = 0; j < strlen(CHARACTERS[i]); j++) add_token(tokens, CHARACTERS[i] + j, 1);
  while (tokens->count < count) {
    char bytes[24];
    size_t length = 0;
    for (uint32_t i = 1 + reference_random(reference, 5); i > 0; i--) {
      const char *character = CHARACTERS[reference_random(reference, CHARACTER_COUNT)];
      memcpy(bytes + length, character, strlen(character));
      length += strlen(character);
    }
    size_t cut_begin = reference_random(reference, cut) ? 0 : 1, cut_end = reference_random(reference, cut) ? 0 : 1;
    if (length > cut_begin + cut_end) add_token(tokens, bytes + cut_begin, length - cut_begin - cut_end);
  }
}

static bool has(const uint64_t *bits, uint32_t token) { return bits[token / 64] >> token % 64 & 1; }

/* Compares one mask; false if the reference takes too long for this grammar. */
static bool compare(struct reference *reference, const struct tokens *tokens, const uint64_t *bits, char *text,
                    size_t length, uint64_t seed) {
  assert_false(has(bits, 0));
  bool complete = reference_matches(reference, text, length, true);
  if (reference->work > 2000000) return false;
  if (complete != has(bits, END)) fail_msg("seed %llu: the end at %zu", (unsigned long long)seed, length);
  for (uint32_t i = 2; i < tokens->count; i++) {
    memcpy(text + length, tokens->texts[i].bytes, tokens->texts[i].length);
    bool viable = reference_matches(reference, text, length + tokens->texts[i].length, false);
    if (reference->work > 2000000) return false;
    if (viable != has(bits, i))
      fail_msg("seed %llu: token %u after %zu bytes is %s", (unsigned long long)seed, i, length,
               viable ? "missing" : "too much");
  }
  return true;
}

/* A walk through the masks; returns the number of masks compared. */
static unsigned walk(struct reference *reference, struct grammar *grammar, const struct tokens *tokens, uint64_t seed) {
  struct token_vocabulary *vocabulary;
  struct grammar_masks *masks;
  struct token_constraint *constraint;
  const uint32_t end = END;
  const uint64_t *bits;
  char text[TEXT + 32];
  size_t length = 0;
  unsigned compared = 0;
  assert_int_equal(token_vocabulary_create_from(&vocabulary, tokens->texts, tokens->count, NULL), 0);
  assert_int_equal(grammar_masks_create(&masks, grammar, vocabulary, &end, 1, NULL), 0);
  assert_int_equal(constraint_create(&constraint, masks, NULL), 0);
  for (int step = 0; step < STEPS && length < TEXT; step++) {
    struct kj_error error;
    if (constraint->operations->allowed(constraint, tokens->count, &bits, &error)) fail_msg("%s", error.message);
    if (!compare(reference, tokens, bits, text, length, seed)) break;
    compared++;
    uint32_t token = reference_random(reference, tokens->count), tried = 0;
    while (tried++ < tokens->count && (token < 2 || !has(bits, token))) token = (token + 1) % tokens->count;
    if (token < 2 || !has(bits, token)) break;
    assert_int_equal(constraint->operations->accept(constraint, token, NULL), 0);
    memcpy(text + length, tokens->texts[token].bytes, tokens->texts[token].length);
    length += tokens->texts[token].length;
  }
  token_constraint_release(constraint);
  grammar_masks_release(masks);
  token_vocabulary_release(vocabulary);
  return compared;
}

static struct reference reference;
static struct tokens tokens;

static void few_tokens(void **state) {
  (void)state;
  unsigned compared = 0;
  for (uint64_t seed = 1; seed <= 500; seed++) {
    struct grammar *grammar = reference_make(&reference, seed);
    random_tokens(&reference, &tokens, 60, 4);
    compared += walk(&reference, grammar, &tokens, seed);
    grammar_release(grammar);
  }
  assert_true(compared > 1000);
}

/* Enough tokens that classes are prepared (grammar/token_slice.h). */
static void many_tokens(void **state) {
  (void)state;
  unsigned compared = 0;
  for (uint64_t seed = 1; seed <= 30; seed++) {
    struct grammar *grammar = reference_make(&reference, seed * 7919);
    random_tokens(&reference, &tokens, MAX_TOKENS, 4);
    compared += walk(&reference, grammar, &tokens, seed * 7919);
    grammar_release(grammar);
  }
  assert_true(compared > 60);
}

/* Runs of a class that its tokens are known for without a walk, and what may end or cross them. */
static void runs_of_a_class(void **state) {
  (void)state;
  unsigned compared = 0;
  for (uint64_t seed = 1; seed <= 50; seed++) {
    struct grammar *grammar = reference_make_runs(&reference, seed * 104729);
    random_tokens(&reference, &tokens, MAX_TOKENS, 24);
    compared += walk(&reference, grammar, &tokens, seed * 104729);
    grammar_release(grammar);
  }
  assert_true(compared > 130);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(few_tokens),
      cmocka_unit_test(many_tokens),
      cmocka_unit_test(runs_of_a_class),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A constraint over a tokenizer's vocabulary: which kinds of tokens it knows, characters that are cut by tokens, ends,
 * bounds of memory and ambiguity, and random walks of the masks, which always end in JSON. */
#include "grammar/constraint.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/buffer.h"

#include "grammar/gbnf.h"
#include "grammar/parse_states.h"
#include "text/tokenizer.h"
#include "text/utf8.h"
#include "unit/unit.h"

static struct tokenizer *tokenizer;
static struct token_vocabulary *vocabulary;
static uint32_t size, end_token;

static int setup(void **state) {
  (void)state;
  struct kj_error error;
  if (tokenizer_load(&tokenizer, KAIJU_SOURCE_DIR "/models/kaiju-mini", &error)) fail_msg("%s", error.message);
  size = tokenizer_size(tokenizer) + 100; /* as a model with padded logits has */
  assert_true(tokenizer_find(tokenizer, "<|im_end|>", &end_token));
  return token_vocabulary_create(&vocabulary, tokenizer, size, NULL);
}

static int teardown(void **state) {
  (void)state;
  token_vocabulary_release(vocabulary);
  tokenizer_free(tokenizer);
  return 0;
}

static struct token_constraint *constrain(const char *gbnf, struct token_vocabulary *tokens) {
  struct grammar *grammar;
  struct grammar_masks *masks;
  struct token_constraint *constraint;
  struct kj_error error;
  if (gbnf_compile(gbnf, strlen(gbnf), &grammar, &error)) fail_msg("%s", error.message);
  if (grammar_masks_create(&masks, grammar, tokens, &end_token, 1, &error)) fail_msg("%s", error.message);
  assert_int_equal(constraint_create(&constraint, masks, NULL), 0);
  grammar_masks_release(masks);
  grammar_release(grammar);
  return constraint;
}

static const uint64_t *allowed(struct token_constraint *constraint) {
  const uint64_t *bits;
  struct kj_error error;
  if (constraint->operations->allowed(constraint, size, &bits, &error)) fail_msg("%s", error.message);
  return bits;
}

static bool has(const uint64_t *bits, uint32_t token) { return bits[token / 64] >> token % 64 & 1; }

static int accept(struct token_constraint *constraint, uint32_t token) {
  return constraint->operations->accept(constraint, token, NULL);
}

/* Special tokens, ids without a token and padding are never text; added tokens that are not special are. */
static void test_kinds_of_tokens(void **state) {
  (void)state;
  struct token_constraint *constraint = constrain("root ::= .{0,50}", vocabulary);
  const uint64_t *bits = allowed(constraint);
  uint32_t specials = 0, texts = 0;
  for (uint32_t i = 0; i < size; i++) {
    size_t length = 0, offset;
    const char *bytes = i < tokenizer_size(tokenizer) ? tokenizer_bytes(tokenizer, i, &length) : "";
    if (i == end_token) continue;
    bool special = i < tokenizer_size(tokenizer) && tokenizer_is_special(tokenizer, i);
    specials += special;
    if (special || length == 0) {
      assert_false(has(bits, i));
      continue;
    }
    texts++;
    assert_true(has(bits, i) || !utf8_valid(bytes, length, &offset) || length > 50);
  }
  assert_true(specials > 0 && texts > 10000);
  for (uint32_t i = size; i % 64; i++) assert_false(bits[i / 64] >> i % 64 & 1);
  uint32_t added;
  assert_true(tokenizer_find(tokenizer, "<tool_call>", &added));
  assert_true(!tokenizer_is_special(tokenizer, added) && has(bits, added));
  assert_int_equal(accept(constraint, added), 0);
  token_constraint_release(constraint);
}

static void test_ends(void **state) {
  (void)state;
  uint32_t a = 0, b = 0;
  assert_true(tokenizer_find(tokenizer, "a", &a) && tokenizer_find(tokenizer, "b", &b));
  struct token_constraint *constraint = constrain("root ::= \"a\" \"b\"?", vocabulary);
  assert_false(has(allowed(constraint), end_token));
  assert_int_equal(accept(constraint, b), KJ_INVALID);
  assert_int_equal(accept(constraint, end_token), KJ_INVALID);
  assert_int_equal(accept(constraint, a), 0);
  const uint64_t *bits = allowed(constraint);
  assert_true(has(bits, end_token) && has(bits, b));
  assert_int_equal(accept(constraint, b), 0);
  bits = allowed(constraint);
  for (uint32_t i = 0; i < size; i++) assert_int_equal(has(bits, i), i == end_token);
  token_constraint_release(constraint);
}

/* An end token that has bytes is no text. */
static void test_an_end_token_that_is_not_special(void **state) {
  (void)state;
  uint32_t special = end_token, a = 0;
  assert_true(tokenizer_find(tokenizer, "</tool_call>", &end_token) && tokenizer_find(tokenizer, "a", &a));
  assert_false(tokenizer_is_special(tokenizer, end_token));
  struct token_constraint *constraint = constrain("root ::= .* \"a\"", vocabulary);
  assert_false(has(allowed(constraint), end_token));
  assert_int_equal(accept(constraint, a), 0);
  assert_true(has(allowed(constraint), end_token));
  token_constraint_release(constraint);
  end_token = special;
}

/* A character comes byte by byte, and only such bytes come as belong to one that may be there. */
static void test_characters_in_pieces(void **state) {
  (void)state;
  static const struct token_text TOKENS[] = {{"\xf0\x9f", 2}, {"\x98", 1}, {"\x80", 1}, {"\x98\x80\x22", 3},
                                             {"\"", 1},       {"\xc3", 1}, {"\xa9", 1}, {"", 0}};
  struct token_vocabulary *bytes;
  uint32_t whole_size = size, whole_end = end_token;
  size = 8;
  end_token = 7;
  assert_int_equal(token_vocabulary_create_from(&bytes, TOKENS, size, NULL), 0);
  struct token_constraint *constraint = constrain("root ::= [\\U0001F600-\\U0001F64F]+ \"\\\"\"", bytes);
  assert_int_equal(*allowed(constraint), 1 << 0);
  assert_int_equal(accept(constraint, 0), 0);
  assert_int_equal(*allowed(constraint), 1 << 1 | 1 << 3);
  assert_int_equal(accept(constraint, 1), 0);
  assert_int_equal(*allowed(constraint), 1 << 1 | 1 << 2 | 1 << 6);
  assert_int_equal(accept(constraint, 2), 0);
  assert_int_equal(*allowed(constraint), 1 << 0 | 1 << 4);
  assert_int_equal(accept(constraint, 4), 0);
  assert_int_equal(*allowed(constraint), 1 << 7);
  token_constraint_release(constraint);
  token_vocabulary_release(bytes);
  size = whole_size;
  end_token = whole_end;
}

/* Two sequences share what is known; one of them leaves early. */
static void test_sequences_of_one_grammar(void **state) {
  (void)state;
  struct grammar *grammar;
  struct grammar_masks *masks;
  struct token_constraint *first, *second, *unused;
  uint32_t a = 0, b = 0;
  assert_true(tokenizer_find(tokenizer, "a", &a) && tokenizer_find(tokenizer, "b", &b));
  assert_int_equal(gbnf_compile("root ::= \"a\"* \"b\"", 17, &grammar, NULL), 0);
  assert_int_equal(grammar_masks_create(&masks, grammar, vocabulary, &end_token, 1, NULL), 0);
  assert_int_equal(constraint_create(&first, masks, NULL), 0);
  assert_int_equal(constraint_create(&second, masks, NULL), 0);
  assert_int_equal(constraint_create(&unused, masks, NULL), 0);
  grammar_release(grammar);
  assert_int_equal(accept(first, a), 0);
  assert_int_equal(accept(second, b), 0);
  assert_true(has(allowed(first), a) && !has(allowed(second), a));
  token_constraint_release(second);
  token_constraint_release(unused);
  assert_true(has(allowed(first), b));
  token_constraint_release(first);
  grammar_masks_release(masks);
}

/* A text whose every step is a state of its own goes on for ever in bounded memory. */
static void test_memory_is_given_back(void **state) {
  (void)state;
  uint32_t opens = 0, closes = 0;
  assert_true(tokenizer_find(tokenizer, "[", &opens) && tokenizer_find(tokenizer, "]", &closes));
  struct token_constraint *constraint = constrain("root ::= \"[\" root{0,1000} \"]\"", vocabulary);
  enum { DEEP = 120000 };
  for (int i = 0; i < DEEP; i++) {
    assert_int_equal(accept(constraint, opens), 0);
    if (i % 10000 == 0) assert_true(has(allowed(constraint), closes));
  }
  for (int i = 0; i < DEEP; i++) assert_int_equal(accept(constraint, closes), 0);
  const uint64_t *bits = allowed(constraint);
  assert_true(has(bits, end_token) && !has(bits, opens) && !has(bits, closes));
  token_constraint_release(constraint);
}

/* Ambiguity beyond all bounds is an error of the sequence. */
static void test_too_ambiguous(void **state) {
  (void)state;
  uint32_t a = 0;
  assert_true(tokenizer_find(tokenizer, "a", &a));
  struct token_constraint *constraint =
      constrain("root ::= ((((([a-z]{1,99} \"b\"?){1,99}){1,99}){1,99} \"c\"?){1,99}) \"d\"", vocabulary);
  struct kj_error error = {0};
  const uint64_t *bits;
  int code = 0;
  for (int i = 0; i < 200 && !code; i++) {
    code = constraint->operations->accept(constraint, a, &error);
    if (!code) code = constraint->operations->allowed(constraint, size, &bits, &error);
  }
  assert_int_equal(code, KJ_UNSUPPORTED);
  assert_non_null(strstr(error.message, "too ambiguous"));
  token_constraint_release(constraint);
}

/* Hundreds of classes that differ in a few letters: every beginning of a token is a state of its own with hundreds of
 * ways. It is the work that is bounded, long before the memory. */
static void test_a_mask_that_takes_too_long(void **state) {
  (void)state;
  struct buffer source = {0};
  uint32_t random = 1;
  buffer_append_text(&source, "root ::= (");
  for (int i = 0; i < 120; i++) {
    buffer_append_text(&source, i ? " | [" : "[");
    for (char letter = 'a'; letter <= 'z'; letter++) {
      random = random * 1664525 + 1013904223;
      if (random >> 29) buffer_append(&source, &letter, 1);
    }
    buffer_append_format(&source, " ]{%d}", i % 7 + 2);
  }
  buffer_append_text(&source, ")*");
  struct token_constraint *constraint = constrain(buffer_text(&source), vocabulary);
  struct kj_error error = {0};
  const uint64_t *bits;
  assert_int_equal(constraint->operations->allowed(constraint, size, &bits, &error), KJ_UNSUPPORTED);
  assert_non_null(strstr(error.message, "too long"));
  token_constraint_release(constraint);
  buffer_free(&source);
}

/* Any token that is allowed, or after a while those that end what is open. */
static uint32_t choose(const uint64_t *bits, uint64_t *random, int step) {
  static const char *const CLOSING[] = {"\"", "}", "]", "1", ":"};
  uint32_t token;
  if (step > 40 && has(bits, end_token)) return end_token;
  for (size_t i = 0; step > 40 && i < sizeof CLOSING / sizeof *CLOSING; i++)
    if (tokenizer_find(tokenizer, CLOSING[i], &token) && has(bits, token)) return token;
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  token = (uint32_t)((*random >> 33) % size);
  for (uint32_t i = 0; i < size && !has(bits, token); i++) token = (token + 1) % size;
  assert_true(has(bits, token));
  return token;
}

static void test_random_walks_end_in_json(void **state) {
  (void)state;
  static const char JSON[] =
      "root ::= value\n"
      "value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
      "object ::= \"{\" (string \": \" value (\", \" string \": \" value)*)? \"}\"\n"
      "array ::= \"[\" (value (\", \" value)*)? \"]\"\n"
      "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-cA-C] [0-9a-fA-F]{3}))* "
      "\"\\\"\"\n"
      "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,14}) (\".\" [0-9]{1,10})? ([eE] [+-]? [0-9]{1,2})?\n";
  uint64_t random = 1;
  size_t bytes = 0;
  for (int walk = 0; walk < 60; walk++) {
    struct token_constraint *constraint = constrain(JSON, vocabulary);
    struct buffer text = {0};
    uint32_t token = 0;
    for (int step = 0; step < 2000 && token != end_token; step++) {
      token = choose(allowed(constraint), &random, step);
      if (token == end_token) break;
      size_t length;
      const char *spelled = tokenizer_bytes(tokenizer, token, &length);
      buffer_append(&text, spelled, length);
      assert_int_equal(accept(constraint, token), 0);
    }
    assert_int_equal(token, end_token);
    json_error_t reason;
    json_t *value = json_loadb(text.data, text.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &reason);
    if (!value && json_error_code(&reason) != json_error_numeric_overflow) fail_msg("%s: %s", text.data, reason.text);
    bytes += text.length;
    json_decref(value);
    buffer_free(&text);
    token_constraint_release(constraint);
  }
  assert_true(bytes > 5000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_kinds_of_tokens),
      cmocka_unit_test(test_ends),
      cmocka_unit_test(test_an_end_token_that_is_not_special),
      cmocka_unit_test(test_characters_in_pieces),
      cmocka_unit_test(test_sequences_of_one_grammar),
      cmocka_unit_test(test_memory_is_given_back),
      cmocka_unit_test(test_too_ambiguous),
      cmocka_unit_test(test_a_mask_that_takes_too_long),
      cmocka_unit_test(test_random_walks_end_in_json),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}

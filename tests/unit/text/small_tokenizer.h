/* A tokenizer.json small enough to change in a test: every byte, a few merges ("th", "the", "in"), <|end|> (special),
 * <call> (not special), Qwen's expression and NFC. */
#ifndef KAIJU_TESTS_SMALL_TOKENIZER_H
#define KAIJU_TESTS_SMALL_TOKENIZER_H

#include <jansson.h>
#include <stdlib.h>

#include "text/byte_level.h"
#include "text/tokenizer.h"
#include "text/utf8.h"
#include "unit/unit.h"

enum { SMALL_TH = 256, SMALL_THE, SMALL_IN, SMALL_END, SMALL_CALL, SMALL_SIZE };

static inline json_t *small_tokenizer_json(void) {
  static const char rest[] =
      "{\"version\": \"1.0\", \"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", "
      "\"pretokenizers\": ["
      "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\p{L}+|\\\\s+|[^\\\\s\\\\p{L}]+\"}, \"behavior\": "
      "\"Isolated\", \"invert\": false},"
      "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": false, \"use_regex\": false}]},"
      "\"post_processor\": null, \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": "
      "false},"
      "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, \"byte_fallback\": false, \"vocab\": {},"
      "\"merges\": [[\"t\", \"h\"], [\"th\", \"e\"], [\"i\", \"n\"]]}, \"added_tokens\": ["
      "{\"id\": 259, \"content\": \"<|end|>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
      "\"normalized\": false, \"special\": true},"
      "{\"id\": 260, \"content\": \"<call>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
      "\"normalized\": false, \"special\": false}]}";
  json_error_t error;
  json_t *root = json_loads(rest, 0, &error);
  assert_non_null(root);
  json_t *vocabulary = json_object_get(json_object_get(root, "model"), "vocab");
  for (unsigned byte = 0; byte < 256; byte++) {
    char spelling[5] = "";
    utf8_write(byte_level_character((unsigned char)byte), spelling);
    json_object_set_new(vocabulary, spelling, json_integer(byte));
  }
  json_object_set_new(vocabulary, "th", json_integer(SMALL_TH));
  json_object_set_new(vocabulary, "the", json_integer(SMALL_THE));
  json_object_set_new(vocabulary, "in", json_integer(SMALL_IN));
  return root;
}

/* Takes over `root`. */
static inline int small_tokenizer_parse(struct tokenizer **tokenizer, json_t *root, struct kj_error *error) {
  char *text = json_dumps(root, JSON_COMPACT);
  json_decref(root);
  assert_non_null(text);
  int code = tokenizer_parse(tokenizer, "small.json", text, strlen(text), error);
  free(text);
  return code;
}

static inline struct tokenizer *small_tokenizer(void) {
  struct tokenizer *tokenizer;
  struct kj_error error;
  assert_int_equal(small_tokenizer_parse(&tokenizer, small_tokenizer_json(), &error), 0);
  return tokenizer;
}

static inline void assert_encodes(const struct tokenizer *tokenizer, const char *text, size_t length, bool special,
                                  const uint32_t *ids, size_t count) {
  struct token_list list = {0};
  struct kj_error error;
  assert_int_equal(tokenizer_encode(tokenizer, text, length, special, &list, &error), 0);
  assert_int_equal(list.count, count);
  for (size_t i = 0; i < count; i++) assert_int_equal(list.ids[i], ids[i]);
  token_list_free(&list);
}

/* A group's fixture: the small tokenizer is its state. */
static inline int small_tokenizer_setup(void **state) {
  *state = small_tokenizer();
  return 0;
}

static inline int small_tokenizer_teardown(void **state) {
  tokenizer_free(*state);
  return 0;
}

#endif

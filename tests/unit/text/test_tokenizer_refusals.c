/* F2: a tokenizer.json that breaks a rule, or that needs what Kaiju does not have, is refused by name. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/text/small_tokenizer.h"

static void assert_refused(json_t *root, int code, const char *name) {
  struct tokenizer *tokenizer;
  struct kj_error error;
  int got = small_tokenizer_parse(&tokenizer, root, &error);
  assert_null(tokenizer);
  if (got != code || !strstr(error.message, name) || strncmp(error.message, "small.json: ", 12))
    fail_msg("%d instead of %d, and \"%s\" does not name \"%s\"", got, code, error.message, name);
}

static void assert_text_refused(const char *text, const char *name) {
  struct tokenizer *tokenizer;
  struct kj_error error;
  assert_int_equal(tokenizer_parse(&tokenizer, "small.json", text, strlen(text), &error), KJ_INVALID);
  assert_null(tokenizer);
  assert_non_null(strstr(error.message, name));
}

/* The small tokenizer with the value at a path like "model.vocab.a" or "added_tokens.0.id" replaced or, with "",
 * removed. */
static json_t *changed(const char *path, const char *value) {
  json_t *root = small_tokenizer_json(), *at = root;
  char key[64];
  for (;;) {
    size_t length = strcspn(path, ".");
    assert_true(length < sizeof key);
    memcpy(key, path, length);
    key[length] = '\0';
    if (!path[length]) break;
    at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key)) : json_object_get(at, key);
    path += length + 1;
  }
  if (!*value)
    assert_int_equal(json_object_del(at, key), 0);
  else if (json_is_array(at))
    assert_int_equal(json_array_append_new(at, json_loads(value, JSON_DECODE_ANY, NULL)), 0);
  else
    assert_int_equal(json_object_set_new(at, key, json_loads(value, JSON_DECODE_ANY, NULL)), 0);
  return root;
}

static void F2_refuses_vocabularies_that_are_not_one_token_an_id(void **state) {
  (void)state;
  assert_refused(changed("model.vocab.th", "5"), KJ_INVALID, "id 5");
  assert_refused(changed("model.vocab.th", "-1"), KJ_INVALID, "\"th\"");
  assert_refused(changed("model.vocab.th", "2097152"), KJ_INVALID, "\"th\"");
  assert_refused(changed("model.vocab.th", "4294967296"), KJ_INVALID, "\"th\"");
  assert_refused(changed("model.vocab.th", "9223372036854775807"), KJ_INVALID, "\"th\"");
  assert_refused(changed("model.vocab.th", "1.5"), KJ_INVALID, "\"th\"");
  assert_refused(changed("model.vocab.th", "\"7\""), KJ_INVALID, "\"th\"");
  assert_refused(changed("model.vocab.a", ""), KJ_INVALID, "byte 0x61");
  assert_refused(changed("model.vocab", "{}"), KJ_INVALID, "byte 0x00");
  assert_refused(changed("model.vocab", "[]"), KJ_INVALID, "vocab");
  assert_refused(changed("model.vocab", ""), KJ_INVALID, "vocab");
}

static void F2_refuses_merges_that_name_no_token(void **state) {
  (void)state;
  assert_refused(changed("model.merges.3", "[\"q\", \"nothing\"]"), KJ_INVALID, "merge 3");
  assert_refused(changed("model.merges.3", "[\"q\", \"q\"]"), KJ_INVALID, "merge 3");
  assert_refused(changed("model.merges.3", "[\"t\"]"), KJ_INVALID, "merge 3");
  assert_refused(changed("model.merges.3", "[\"t\", 5]"), KJ_INVALID, "merge 3");
  assert_refused(changed("model.merges.3", "\"t h\""), KJ_INVALID, "merge 3"); /* the other form */
  assert_refused(changed("model.merges", "[\"t h e\"]"), KJ_INVALID, "merge 0");
  assert_refused(changed("model.merges", "[\"the\"]"), KJ_INVALID, "merge 0");
  assert_refused(changed("model.merges", "{}"), KJ_INVALID, "merges");
  assert_refused(changed("model.vocab.the", ""), KJ_INVALID, "merge 1");
}

static void F2_refuses_added_tokens_that_contradict_the_vocabulary(void **state) {
  (void)state;
  assert_refused(changed("added_tokens.0.id", "300"), KJ_INVALID, "300");
  assert_refused(changed("added_tokens.0.content", "\"the\""), KJ_INVALID, "257");
  assert_refused(changed("added_tokens.1.content", "\"<|end|>\""), KJ_INVALID, "<|end|>");
  assert_refused(changed("model.vocab.in", "259"), KJ_INVALID, "259");
  assert_refused(changed("added_tokens.0.special", ""), KJ_INVALID, "special");
  assert_refused(changed("added_tokens.0.lstrip", "1"), KJ_INVALID, "lstrip");
  assert_refused(changed("added_tokens.0.id", "\"259\""), KJ_INVALID, "added token 0");
  assert_refused(changed("added_tokens.2", "7"), KJ_INVALID, "added token 2");
  assert_refused(changed("added_tokens", "{}"), KJ_INVALID, "added_tokens");
}

static void refuses_by_name_what_it_does_not_support(void **state) {
  (void)state;
  assert_refused(changed("normalizer", "{\"type\": \"NFKC\"}"), KJ_UNSUPPORTED, "NFKC");
  assert_refused(changed("pre_tokenizer", "{\"type\": \"Metaspace\"}"), KJ_UNSUPPORTED, "Metaspace");
  assert_refused(changed("pre_tokenizer", "null"), KJ_UNSUPPORTED, "ByteLevel");
  assert_refused(changed("pre_tokenizer.pretokenizers.0.invert", "true"), KJ_UNSUPPORTED, "invert");
  assert_refused(changed("pre_tokenizer.pretokenizers.0.behavior", "\"Removed\""), KJ_UNSUPPORTED, "behavior");
  assert_refused(changed("pre_tokenizer.pretokenizers.1.add_prefix_space", "true"), KJ_UNSUPPORTED, "add_prefix_space");
  assert_refused(changed("post_processor", "{\"type\": \"TemplateProcessing\"}"), KJ_UNSUPPORTED, "TemplateProcessing");
  assert_refused(changed("decoder", "null"), KJ_UNSUPPORTED, "decoder");
  assert_refused(changed("model.type", "\"Unigram\""), KJ_UNSUPPORTED, "Unigram");
  assert_refused(changed("model.dropout", "0.1"), KJ_UNSUPPORTED, "dropout");
  assert_refused(changed("model.byte_fallback", "true"), KJ_UNSUPPORTED, "byte_fallback");
  assert_refused(changed("model.end_of_word_suffix", "\"</w>\""), KJ_UNSUPPORTED, "end_of_word_suffix");
  assert_refused(changed("version", "\"2.0\""), KJ_UNSUPPORTED, "2.0");
}

static void refuses_what_is_not_json_or_says_a_thing_twice(void **state) {
  (void)state;
  assert_text_refused("", "small.json");
  assert_text_refused("{\"model\": ", "line 1");
  assert_text_refused("[]", "object");
  assert_text_refused("{\"model\": {\"vocab\": {\"a\": 1, \"a\": 2}}}", "duplicate");
  char deep[5000];
  memset(deep, '[', sizeof deep - 1);
  deep[sizeof deep - 1] = '\0';
  assert_text_refused(deep, "depth");
}

static void F2_refuses_a_file_that_is_too_long_unread(void **state) {
  (void)state;
  struct tokenizer *tokenizer;
  struct kj_error error;
  assert_int_equal(tokenizer_parse(&tokenizer, "small.json", "", SIZE_MAX, &error), KJ_INVALID);
  assert_null(tokenizer);
}

/* A merge with the empty token gives the token that it was made of, but no text ever holds the empty token. */
static void F2_does_not_wait_for_what_is_no_file(void **state) {
  struct tokenizer *tokenizer;
  struct kj_error error;
  char directory[] = "/tmp/kaiju-tokenizer-XXXXXX", path[64];
  (void)state;
  assert_non_null(mkdtemp(directory));
  assert_int_equal(tokenizer_load(&tokenizer, directory, &error), KJ_NOT_FOUND);
  snprintf(path, sizeof path, "%s/tokenizer.json", directory);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(tokenizer_load(&tokenizer, directory, &error), KJ_INVALID);
  assert_non_null(strstr(error.message, path));
  assert_null(tokenizer);
  unlink(path);
  rmdir(directory);
}

static void F2_comes_to_an_end_with_merges_that_go_in_a_circle(void **state) {
  (void)state;
  json_t *root = changed("added_tokens", "[]"), *model = json_object_get(root, "model");
  struct tokenizer *tokenizer;
  struct kj_error error;
  json_object_set_new(json_object_get(model, "vocab"), "", json_integer(1000));
  json_object_set_new(model, "merges", json_loads("[[\"\", \"a\"], [\"a\", \"\"], [\"\", \"\"]]", 0, NULL));
  assert_int_equal(small_tokenizer_parse(&tokenizer, root, &error), 0);
  assert_encodes(tokenizer, "aaa", 3, true, (uint32_t[]){'a', 'a', 'a'}, 3);
  tokenizer_free(tokenizer);
}

static void accepts_what_says_the_same_otherwise(void **state) {
  (void)state;
  static const char *const changes[][2] = {
      {"model.merges", "[\"#version: 0.2\", \"t h\", \"th e\", \"i n\"]"},
      {"model.continuing_subword_prefix", "\"\""},
      {"model.dropout", "0.0"},
      {"truncation", "{\"max_length\": 2}"},
      {"post_processor", "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": false}"},
  };
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    struct tokenizer *tokenizer;
    struct kj_error error;
    assert_int_equal(small_tokenizer_parse(&tokenizer, changed(changes[i][0], changes[i][1]), &error), 0);
    assert_encodes(tokenizer, "the thin", 8, true, (uint32_t[]){SMALL_THE, ' ', SMALL_TH, SMALL_IN}, 4);
    tokenizer_free(tokenizer);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(F2_refuses_vocabularies_that_are_not_one_token_an_id),
      cmocka_unit_test(F2_refuses_merges_that_name_no_token),
      cmocka_unit_test(F2_refuses_added_tokens_that_contradict_the_vocabulary),
      cmocka_unit_test(refuses_by_name_what_it_does_not_support),
      cmocka_unit_test(refuses_what_is_not_json_or_says_a_thing_twice),
      cmocka_unit_test(F2_refuses_a_file_that_is_too_long_unread),
      cmocka_unit_test(F2_does_not_wait_for_what_is_no_file),
      cmocka_unit_test(F2_comes_to_an_end_with_merges_that_go_in_a_circle),
      cmocka_unit_test(accepts_what_says_the_same_otherwise),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

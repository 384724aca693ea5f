/* The shipped model's tokenizer on the strings whose ids Hugging Face `tokenizers` gave. */
#include "text/detokenizer.h"
#include "unit/text/small_tokenizer.h"

#define MODEL KAIJU_SOURCE_DIR "/models/kaiju-mini"

static json_t *golden_cases(void) {
  json_error_t error;
  json_t *cases = json_load_file(MODEL "/golden_tokens.json", JSON_ALLOW_NUL, &error);
  assert_non_null(cases);
  assert_true(json_array_size(cases) > 200);
  return cases;
}

static void gives_the_golden_ids_and_text(void **state) {
  struct tokenizer *tokenizer = *state;
  json_t *cases = golden_cases(), *golden;
  size_t index;
  json_array_foreach(cases, index, golden) {
    const json_t *text = json_object_get(golden, "text"), *ids = json_object_get(golden, "ids");
    const json_t *decoded = json_object_get(golden, "decoded");
    struct token_list list = {0};
    struct kj_error error;
    struct buffer bytes = {0};
    assert_int_equal(
        tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), true, &list, &error), 0);
    assert_int_equal(list.count, json_array_size(ids));
    for (size_t i = 0; i < list.count; i++) {
      size_t length;
      const char *part = tokenizer_bytes(tokenizer, list.ids[i], &length);
      assert_int_equal(list.ids[i], json_integer_value(json_array_get(ids, i)));
      buffer_append(&bytes, part, length);
    }
    assert_int_equal(bytes.length, json_string_length(decoded));
    if (bytes.length) assert_memory_equal(bytes.data, json_string_value(decoded), bytes.length);
    buffer_free(&bytes);
    token_list_free(&list);
  }
  json_decref(cases);
}

static void knows_its_tokens_by_content_and_by_id(void **state) {
  struct tokenizer *tokenizer = *state;
  uint32_t id;
  size_t length;
  assert_true(tokenizer_find(tokenizer, "<|im_end|>", &id));
  assert_int_equal(id, 12264);
  assert_true(tokenizer_is_special(tokenizer, id));
  assert_true(tokenizer_find(tokenizer, "<tool_call>", &id));
  assert_false(tokenizer_is_special(tokenizer, id));
  assert_true(tokenizer_find(tokenizer, "\u0120", &id));
  assert_int_equal(*tokenizer_bytes(tokenizer, id, &length), ' ');
  assert_int_equal(length, 1);
  assert_false(tokenizer_find(tokenizer, "no such token", &id));
  tokenizer_bytes(tokenizer, tokenizer_size(tokenizer), &length);
  assert_int_equal(length, 0);
  tokenizer_bytes(tokenizer, UINT32_MAX, &length);
  assert_int_equal(length, 0);
  assert_false(tokenizer_is_special(tokenizer, UINT32_MAX));
}

static void names_the_file_that_is_missing(void **state) {
  (void)state;
  struct tokenizer *tokenizer;
  struct kj_error error;
  assert_int_equal(tokenizer_load(&tokenizer, "/nonexistent", &error), KJ_NOT_FOUND);
  assert_null(tokenizer);
  assert_non_null(strstr(error.message, "/nonexistent/tokenizer.json"));
}

static int load(void **state) {
  struct kj_error error;
  return tokenizer_load((struct tokenizer **)state, MODEL, &error);
}

static int unload(void **state) {
  tokenizer_free(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_the_golden_ids_and_text),
      cmocka_unit_test(knows_its_tokens_by_content_and_by_id),
      cmocka_unit_test(names_the_file_that_is_missing),
  };
  return cmocka_run_group_tests(tests, load, unload);
}

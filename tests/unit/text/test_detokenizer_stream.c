/* H2, H15: a stream of tokens gives whole characters only, and the same text as all tokens at once. */
#include "text/detokenizer.h"

#include "unit/text/small_tokenizer.h"

/* Decodes and checks that whatever is released consists of whole characters. */
static void decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t count, struct buffer *text) {
  struct detokenizer *detokenizer;
  struct kj_error error;
  struct buffer released = {0};
  assert_int_equal(detokenizer_create(&detokenizer, tokenizer, NULL, 0, &error), 0);
  for (size_t i = 0; i <= count; i++) {
    if (i < count)
      assert_false(detokenizer_push(detokenizer, ids[i], &released));
    else
      detokenizer_finish(detokenizer, &released);
    assert_true(utf8_valid(buffer_text(&released), released.length, NULL));
    buffer_append(text, released.data, released.length);
    buffer_clear(&released);
  }
  assert_false(detokenizer_stopped(detokenizer));
  buffer_free(&released);
  detokenizer_free(detokenizer);
}

static void H2_H15_releases_whole_characters_only(void **state) {
  static const char text[] = "the \U0001F469\u200D\U0001F680 \u4F60\u597D e\u0301\u0323 \U0001F1E9\U0001F1EA thin";
  struct token_list list = {0};
  struct kj_error error;
  struct buffer decoded = {0};
  static const char normal[] = "the \U0001F469\u200D\U0001F680 \u4F60\u597D \u1EB9\u0301 \U0001F1E9\U0001F1EA thin";
  assert_int_equal(tokenizer_encode(*state, text, strlen(text), true, &list, &error), 0);
  decode(*state, list.ids, list.count, &decoded);
  assert_string_equal(buffer_text(&decoded), normal);
  assert_null(strstr(buffer_text(&decoded), "\uFFFD"));
  buffer_free(&decoded);
  token_list_free(&list);
}

static void H2_a_character_cut_by_the_end_becomes_one_replacement(void **state) {
  static const uint32_t cut[] = {'a', 0xf0, 0x9f, 0x98};
  struct buffer decoded = {0};
  for (size_t count = 1; count <= 4; count++) {
    buffer_clear(&decoded);
    decode(*state, cut, count, &decoded);
    assert_string_equal(buffer_text(&decoded), count == 1 ? "a" : "a\uFFFD");
  }
  buffer_free(&decoded);
}

static void H2_a_character_cut_by_the_end_can_be_left_out(void **state) {
  static const uint32_t ids[] = {0xff, 'a', 0xf0, 0x9f, 0x98, 0x80};
  static const char *const texts[] = {"", "\uFFFD", "\uFFFDa", "\uFFFDa", "\uFFFDa", "\uFFFDa", "\uFFFDa\U0001F600"};
  for (size_t count = 0; count <= 6; count++) {
    struct detokenizer *detokenizer;
    struct kj_error error;
    struct buffer text = {0};
    assert_int_equal(detokenizer_create(&detokenizer, *state, NULL, 0, &error), 0);
    for (size_t i = 0; i < count; i++) detokenizer_push(detokenizer, ids[i], &text);
    detokenizer_finish_cut(detokenizer, &text);
    assert_string_equal(buffer_text(&text), texts[count]);
    buffer_free(&text);
    detokenizer_free(detokenizer);
  }
}

static void replaces_what_can_never_become_a_character(void **state) {
  static const uint32_t ids[] = {0xe4, 0xbd, 'x', 0xff, 0xed, 0xa0, 0x80};
  struct buffer decoded = {0};
  decode(*state, ids, 7, &decoded);
  assert_string_equal(buffer_text(&decoded), "\uFFFDx\uFFFD\uFFFD\uFFFD\uFFFD");
  buffer_free(&decoded);
}

static void skips_special_and_unknown_tokens_even_inside_a_character(void **state) {
  static const uint32_t ids[] = {0xe4, SMALL_END, 0xbd, SMALL_SIZE, UINT32_MAX, 0xa0, SMALL_CALL, SMALL_END};
  struct buffer decoded = {0};
  decode(*state, ids, 8, &decoded);
  assert_string_equal(buffer_text(&decoded), "\u4F60<call>");
  buffer_free(&decoded);
}

static void releases_each_character_with_its_last_token(void **state) {
  static const uint32_t ids[] = {0xe4, 0xbd, 0xa0, SMALL_THE};
  static const char *const expected[] = {"", "", "\u4F60", "the"};
  struct detokenizer *detokenizer;
  struct kj_error error;
  struct buffer released = {0};
  assert_int_equal(detokenizer_create(&detokenizer, *state, NULL, 0, &error), 0);
  for (size_t i = 0; i < 4; i++) {
    detokenizer_push(detokenizer, ids[i], &released);
    assert_string_equal(buffer_text(&released), expected[i]);
    buffer_clear(&released);
  }
  buffer_free(&released);
  detokenizer_free(detokenizer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(H2_H15_releases_whole_characters_only),
      cmocka_unit_test(H2_a_character_cut_by_the_end_becomes_one_replacement),
      cmocka_unit_test(H2_a_character_cut_by_the_end_can_be_left_out),
      cmocka_unit_test(replaces_what_can_never_become_a_character),
      cmocka_unit_test(skips_special_and_unknown_tokens_even_inside_a_character),
      cmocka_unit_test(releases_each_character_with_its_last_token),
  };
  return cmocka_run_group_tests(tests, small_tokenizer_setup, small_tokenizer_teardown);
}

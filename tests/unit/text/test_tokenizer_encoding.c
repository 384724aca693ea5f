#include "base/threads.h"
#include "unit/text/small_tokenizer.h"

#define ASSERT_IDS(tokenizer, text, special, ...)                                             \
  assert_encodes(tokenizer, text, sizeof(text) - 1, special, (const uint32_t[]){__VA_ARGS__}, \
                 sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void merges_by_rank_within_pieces(void **state) {
  ASSERT_IDS(*state, "the thin", true, SMALL_THE, ' ', SMALL_TH, SMALL_IN);
  ASSERT_IDS(*state, "t h", true, 't', ' ', 'h');
  ASSERT_IDS(*state, "\0a\0", true, 0, 'a', 0);
  assert_encodes(*state, "", 0, true, NULL, 0);
}

static void normalizes_to_form_c(void **state) {
  ASSERT_IDS(*state, "e\u0301", true, 0xc3, 0xa9);
  ASSERT_IDS(*state, "a\u0301\u0323", true, 0xe1, 0xba, 0xa1, 0xcc, 0x81);
}

static void finds_added_tokens(void **state) {
  ASSERT_IDS(*state, "<|end|>in<call>", true, SMALL_END, SMALL_IN, SMALL_CALL);
  ASSERT_IDS(*state, "<<|end|><|end", true, '<', SMALL_END, '<', '|', 'e', 'n', 'd');
}

static void takes_special_tokens_for_text_where_they_are_not_wanted(void **state) {
  ASSERT_IDS(*state, "<call><|end|>", false, SMALL_CALL, '<', '|', 'e', 'n', 'd', '|', '>');
}

static void refuses_text_that_is_not_utf8_and_keeps_the_list(void **state) {
  struct token_list list = {0};
  struct kj_error error;
  assert_int_equal(tokenizer_encode(*state, "the", 3, true, &list, &error), 0);
  assert_int_equal(tokenizer_encode(*state, "the\xed\xa0\x80", 6, true, &list, &error), KJ_INVALID);
  assert_non_null(strstr(error.message, "byte 3"));
  assert_int_equal(list.count, 1);
  token_list_free(&list);
}

/* Would take hours if a step of merging, normalizing or splitting went over the whole piece. */
static void works_in_time_near_linear_on_long_pieces(void **state) {
  enum { LENGTH = 1 << 20 };
  static const char *const units[] = {"t", "th", "the", " ", "=", "\u0301\u0323", "\u4f60", "\n ", "\u1112\u1161"};
  char *text = malloc(LENGTH);
  assert_non_null(text);
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    size_t unit = strlen(units[i]), count = LENGTH / unit;
    for (size_t j = 0; j < count; j++) memcpy(text + j * unit, units[i], unit);
    struct token_list list = {0};
    struct kj_error error;
    assert_int_equal(tokenizer_encode(*state, text, count * unit, true, &list, &error), 0);
    size_t bytes = 0;
    for (size_t j = 0; j < list.count; j++) {
      size_t length;
      tokenizer_bytes(*state, list.ids[j], &length);
      bytes += length;
    }
    assert_int_equal(bytes, i == 8 ? count * 3 : count * unit); /* the jamo compose */
    if (i == 2) assert_int_equal(list.count, count);
    token_list_free(&list);
  }
  free(text);
}

enum { TASKS = 16 };

struct shared {
  const struct tokenizer *tokenizer;
  unsigned wrong[TASKS];
};

static void encode_often(void *context, size_t task) {
  static const uint32_t expected[] = {SMALL_THE, ' ', SMALL_CALL, ' ', 0xc3, 0xa9, ' ', SMALL_IN};
  static const char text[] = "the <call> e\u0301 in";
  struct shared *shared = context;
  for (int i = 0; i < 200; i++) {
    struct token_list list = {0};
    struct kj_error error;
    int code = tokenizer_encode(shared->tokenizer, text, strlen(text), true, &list, &error);
    if (code || list.count != 8 || memcmp(list.ids, expected, sizeof expected) != 0) shared->wrong[task]++;
    token_list_free(&list);
  }
}

static void serves_many_threads_at_once(void **state) {
  struct shared shared = {.tokenizer = *state};
  struct threads *pool;
  struct kj_error error;
  assert_int_equal(threads_create(&pool, 4, &error), 0);
  threads_run(pool, TASKS, encode_often, &shared);
  threads_destroy(pool);
  for (size_t task = 0; task < TASKS; task++) assert_int_equal(shared.wrong[task], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(merges_by_rank_within_pieces),
      cmocka_unit_test(normalizes_to_form_c),
      cmocka_unit_test(finds_added_tokens),
      cmocka_unit_test(takes_special_tokens_for_text_where_they_are_not_wanted),
      cmocka_unit_test(refuses_text_that_is_not_utf8_and_keeps_the_list),
      cmocka_unit_test(serves_many_threads_at_once),
      cmocka_unit_test(works_in_time_near_linear_on_long_pieces),
  };
  return cmocka_run_group_tests(tests, small_tokenizer_setup, small_tokenizer_teardown);
}

/* H5: stop strings are found in the text, whatever tokens it comes in, and nothing else is lost. */
#include "text/detokenizer.h"

#include "unit/text/small_tokenizer.h"

struct stream {
  struct detokenizer *detokenizer;
  struct buffer released;
};

static struct stream open_stream(const struct tokenizer *tokenizer, size_t count, const char *const *stops) {
  struct stream stream = {0};
  struct kj_error error;
  assert_int_equal(detokenizer_create(&stream.detokenizer, tokenizer, stops, count, &error), 0);
  return stream;
}

static void close_stream(struct stream *stream) {
  detokenizer_free(stream->detokenizer);
  buffer_free(&stream->released);
}

/* Pushes one token and checks what it releases. */
static void assert_push(struct stream *stream, uint32_t token, const char *released, bool stops) {
  assert_int_equal(detokenizer_push(stream->detokenizer, token, &stream->released), stops);
  assert_string_equal(buffer_text(&stream->released), released);
  assert_int_equal(detokenizer_stopped(stream->detokenizer), stops);
  buffer_clear(&stream->released);
}

static void H5_finds_a_stop_string_that_spans_tokens(void **state) {
  struct stream stream = open_stream(*state, 1, (const char *const[]){"\nthe"});
  assert_push(&stream, 'a', "a", false);
  assert_push(&stream, '\n', "", false);
  assert_push(&stream, SMALL_THE, "", true);
  assert_push(&stream, 'b', "", true);
  detokenizer_finish(stream.detokenizer, &stream.released);
  assert_int_equal(stream.released.length, 0);
  close_stream(&stream);
}

static void H5_releases_a_beginning_that_does_not_complete(void **state) {
  struct stream stream = open_stream(*state, 1, (const char *const[]){"aab"});
  assert_push(&stream, 'a', "", false);
  assert_push(&stream, 'a', "", false);
  assert_push(&stream, 'a', "a", false); /* "aa" may still become the stop string */
  assert_push(&stream, 'x', "aax", false);
  assert_push(&stream, 'a', "", false);
  detokenizer_finish(stream.detokenizer, &stream.released);
  assert_string_equal(buffer_text(&stream.released), "a");
  close_stream(&stream);
}

static void H5_stops_inside_a_token(void **state) {
  struct stream stream = open_stream(*state, 1, (const char *const[]){"h"});
  assert_push(&stream, SMALL_THE, "t", true);
  close_stream(&stream);
}

static void H5_takes_the_stop_string_that_ends_first_then_the_longest(void **state) {
  struct stream first = open_stream(*state, 2, (const char *const[]){"abcd", "bc"});
  assert_push(&first, 'a', "", false);
  assert_push(&first, 'b', "", false);
  assert_push(&first, 'c', "a", true);
  close_stream(&first);
  struct stream longest = open_stream(*state, 3, (const char *const[]){"c", "abc", "bc"});
  assert_push(&longest, 'x', "x", false);
  assert_push(&longest, 'a', "", false);
  assert_push(&longest, 'b', "", false);
  assert_push(&longest, 'c', "", true);
  close_stream(&longest);
}

static void H5_finds_characters_of_several_bytes(void **state) {
  struct stream stream = open_stream(*state, 2, (const char *const[]){"\u4F60!", "\uFFFD"});
  assert_push(&stream, 0xe4, "", false);
  assert_push(&stream, 0xbd, "", false);
  assert_push(&stream, 0xa0, "", false);
  assert_push(&stream, '?', "\u4F60?", false);
  assert_push(&stream, 0xff, "", true);
  close_stream(&stream);
}

static void does_not_find_special_tokens(void **state) {
  struct stream stream = open_stream(*state, 1, (const char *const[]){"<|end|>"});
  assert_push(&stream, SMALL_END, "", false);
  assert_push(&stream, 'a', "a", false);
  close_stream(&stream);
}

static uint32_t next_random(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* The definition, byte for byte, over the whole text so far. Returns the length released; *stopped if at a stop. */
static size_t released_by_definition(const char *text, size_t length, const char *const *stops, size_t count,
                                     bool *stopped) {
  size_t held = 0;
  for (size_t i = 0; i < count; i++) {
    size_t stop = strlen(stops[i]);
    if (stop <= length && !memcmp(text + length - stop, stops[i], stop)) {
      held = *stopped && held > stop ? held : stop;
      *stopped = true;
    }
  }
  for (size_t i = 0; i < count && !*stopped; i++)
    for (size_t part = strlen(stops[i]); part > held; part--)
      if (part <= length && !memcmp(text + length - part, stops[i], part)) held = part;
  return length - held;
}

static void H5_holds_back_exactly_what_the_definition_says(void **state) {
  uint32_t seed = 7;
  for (int round = 0; round < 5000; round++) {
    char strings[4][8], text[64];
    const char *stops[4];
    size_t count = 1 + next_random(&seed) % 4, length = 0;
    for (size_t i = 0; i < count; i++) {
      size_t size = 2 + next_random(&seed) % 5;
      for (size_t j = 0; j < size; j++) strings[i][j] = (char)('a' + next_random(&seed) % 2);
      strings[i][size] = '\0';
      stops[i] = strings[i];
    }
    struct stream stream = open_stream(*state, count, stops);
    bool stopped = false, expected = false;
    while (!stopped && length < sizeof text) {
      text[length++] = next_random(&seed) % 9 ? (char)('a' + next_random(&seed) % 2) : 'z';
      stopped = detokenizer_push(stream.detokenizer, (uint32_t)text[length - 1], &stream.released);
      assert_int_equal(stream.released.length, released_by_definition(text, length, stops, count, &expected));
      assert_int_equal(stopped, expected);
      if (stream.released.length) assert_memory_equal(stream.released.data, text, stream.released.length);
    }
    detokenizer_finish(stream.detokenizer, &stream.released);
    if (!stopped) assert_int_equal(stream.released.length, length);
    close_stream(&stream);
  }
}

/* Would take hours if every byte were compared with the whole stop string again. */
static void works_in_linear_time_on_a_stop_string_that_almost_matches(void **state) {
  enum { STOP = 1 << 17, TEXT = 1 << 20 };
  char *stop = malloc(STOP + 1);
  assert_non_null(stop);
  memset(stop, 'a', STOP);
  stop[STOP - 1] = 'b';
  stop[STOP] = '\0';
  struct stream stream = open_stream(*state, 1, (const char *const[]){stop});
  for (size_t i = 0; i < TEXT; i++) assert_false(detokenizer_push(stream.detokenizer, 'a', &stream.released));
  assert_int_equal(stream.released.length, TEXT - (STOP - 1));
  assert_true(detokenizer_push(stream.detokenizer, 'b', &stream.released));
  assert_int_equal(stream.released.length, TEXT - (STOP - 1));
  close_stream(&stream);
  free(stop);
}

static void refuses_stop_strings_that_are_none(void **state) {
  struct detokenizer *detokenizer;
  struct kj_error error;
  assert_int_equal(detokenizer_create(&detokenizer, *state, (const char *const[]){"a", ""}, 2, &error), KJ_INVALID);
  assert_null(detokenizer);
  assert_non_null(strstr(error.message, "stop string 1"));
  assert_int_equal(detokenizer_create(&detokenizer, *state, (const char *const[]){"a\xff"}, 1, &error), KJ_INVALID);
  assert_null(detokenizer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(H5_finds_a_stop_string_that_spans_tokens),
      cmocka_unit_test(H5_releases_a_beginning_that_does_not_complete),
      cmocka_unit_test(H5_stops_inside_a_token),
      cmocka_unit_test(H5_takes_the_stop_string_that_ends_first_then_the_longest),
      cmocka_unit_test(H5_finds_characters_of_several_bytes),
      cmocka_unit_test(does_not_find_special_tokens),
      cmocka_unit_test(H5_holds_back_exactly_what_the_definition_says),
      cmocka_unit_test(works_in_linear_time_on_a_stop_string_that_almost_matches),
      cmocka_unit_test(refuses_stop_strings_that_are_none),
  };
  return cmocka_run_group_tests(tests, small_tokenizer_setup, small_tokenizer_teardown);
}

/* Prometheus' text format, from the text to its samples. */
#include "cmd/exposition.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit/unit.h"

/* The only sample of a text. */
static struct exposition_sample *only(const char *text) {
  struct exposition_sample *sample = calloc(1, sizeof *sample), *more = calloc(1, sizeof *more);
  assert_true(sample && more);
  struct exposition_reader reader = exposition_read(text, strlen(text));
  struct kj_error error = {0};
  bool found = false;
  if (exposition_next(&reader, sample, &found, &error)) fail_msg("%s: %s", text, error.message);
  assert_true(found);
  assert_int_equal(exposition_next(&reader, more, &found, &error), 0);
  assert_false(found);
  free(more);
  return sample;
}

static double value_of(const char *text) {
  struct exposition_sample *sample = only(text);
  double value = sample->value;
  free(sample);
  return value;
}

static void reads_names_and_values(void **state) {
  (void)state;
  struct exposition_sample *sample = only("http_requests:rate5m 17.5\n");
  assert_string_equal(sample->name, "http_requests:rate5m");
  assert_int_equal(sample->label_count, 0);
  assert_true(sample->value == 17.5);
  assert_null(exposition_label(sample, "le"));
  free(sample);
  assert_true(value_of("a -1.5e-3") == -1.5e-3);
  assert_true(value_of("a +2") == 2);
  assert_true(value_of("a 18446744073709551615") == 18446744073709551615.0);
  assert_true(value_of("a +Inf") == INFINITY && value_of("a -Inf") == -INFINITY);
  assert_true(isnan(value_of("a NaN")));
  assert_true(value_of("\t a \t 3 \t\r\n") == 3);
  assert_true(value_of("a 3 1700000000000") == 3);
  assert_true(value_of("a{} 3") == 3);
}

static void reads_labels(void **state) {
  (void)state;
  struct exposition_sample *sample =
      only("m{ a = \"x\" , _b2=\"quote \\\" slash \\\\ line\\nend\",c=\"{,}= #\", d=\"\", } 1");
  assert_string_equal(sample->name, "m");
  assert_int_equal(sample->label_count, 4);
  assert_string_equal(exposition_label(sample, "a"), "x");
  assert_string_equal(exposition_label(sample, "_b2"), "quote \" slash \\ line\nend");
  assert_string_equal(exposition_label(sample, "c"), "{,}= #");
  assert_string_equal(exposition_label(sample, "d"), "");
  assert_true(sample->value == 1);
  free(sample);
}

static void skips_comments_and_empty_lines(void **state) {
  (void)state;
  static const char text[] = "# HELP a What it is.\n# TYPE a counter\n\n   \n  # a comment\na 1\n\r\nb 2\n#";
  struct exposition_reader reader = exposition_read(text, sizeof text - 1);
  struct exposition_sample sample;
  struct kj_error error;
  bool found = false;
  assert_int_equal(exposition_next(&reader, &sample, &found, &error), 0);
  assert_true(found && strcmp(sample.name, "a") == 0);
  assert_int_equal(reader.line, 6);
  assert_int_equal(exposition_next(&reader, &sample, &found, &error), 0);
  assert_true(found && strcmp(sample.name, "b") == 0);
  assert_int_equal(exposition_next(&reader, &sample, &found, &error), 0);
  assert_false(found);
  reader = exposition_read("", 0);
  assert_int_equal(exposition_next(&reader, &sample, &found, &error), 0);
  assert_false(found);
}

static void reads_no_further_than_the_length(void **state) {
  (void)state;
  static const char text[] = "a 12";
  struct exposition_reader reader = exposition_read(text, 3);
  struct exposition_sample sample;
  struct kj_error error;
  bool found = false;
  assert_int_equal(exposition_next(&reader, &sample, &found, &error), 0);
  assert_true(found && sample.value == 1);
}

/* Each with its line in the message. */
static void refuses_what_breaks_the_format(void **state) {
  (void)state;
  static const char *const texts[] = {
      "1a 2",
      "a",
      "a ",
      "{} 1",
      "a{b=\"c\" 1",
      "a{b=\"c 1",
      "a{b=c} 1",
      "a{b} 1",
      "a{=\"c\"} 1",
      "a{b:c=\"\"} 1",
      "a{b=\"\\t\"} 1",
      "a{b=\"\\",
      "a 1 2 3",
      "a 1x",
      "a 0x10",
      "a inf",
      "a nan",
      "a 1,5",
      "a{,} 1",
      "a-b 1",
      "a{b=\"c\"}",
      "a 1 x",
      "a{b=\"\"c=\"\"} 1",
      "\xff 1",
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    char text[100];
    snprintf(text, sizeof text, "# one\n%s\nc 1\n", texts[i]);
    struct exposition_reader reader = exposition_read(text, strlen(text));
    struct exposition_sample sample;
    struct kj_error error = {0};
    bool found = false;
    if (exposition_next(&reader, &sample, &found, &error) != KJ_INVALID) fail_msg("taken: %s", texts[i]);
    assert_false(found);
    assert_non_null(strstr(error.message, "line 2 "));
  }
}

static int read_text(const char *text, size_t length) {
  struct exposition_reader reader = exposition_read(text, length);
  struct exposition_sample sample;
  struct kj_error error;
  bool found = false;
  return exposition_next(&reader, &sample, &found, &error);
}

static void refuses_what_is_too_long(void **state) {
  (void)state;
  static char text[2 * EXPOSITION_MAX_TEXT];
  /* A name takes its bytes and an end. */
  memset(text, 'a', sizeof text);
  memcpy(text + EXPOSITION_MAX_TEXT - 1, " 1", 3);
  assert_int_equal(read_text(text, strlen(text)), 0);
  memset(text, 'a', sizeof text);
  memcpy(text + EXPOSITION_MAX_TEXT, " 1", 3);
  assert_int_equal(read_text(text, strlen(text)), KJ_INVALID);
  for (size_t labels = EXPOSITION_MAX_LABELS; labels <= EXPOSITION_MAX_LABELS + 1; labels++) {
    size_t length = (size_t)sprintf(text, "a{");
    for (size_t i = 0; i < labels; i++) length += (size_t)sprintf(text + length, "l%zu=\"\",", i);
    length += (size_t)sprintf(text + length, "} 1");
    assert_int_equal(read_text(text, length), labels == EXPOSITION_MAX_LABELS ? 0 : KJ_INVALID);
  }
  memcpy(text, "a ", 2);
  memset(text + 2, '1', 200);
  assert_int_equal(read_text(text, 202), KJ_INVALID);
  static const char nul[] = "a{b=\"x\0y\"} 1";
  assert_int_equal(read_text(nul, sizeof nul - 1), KJ_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_names_and_values),         cmocka_unit_test(reads_labels),
      cmocka_unit_test(skips_comments_and_empty_lines), cmocka_unit_test(reads_no_further_than_the_length),
      cmocka_unit_test(refuses_what_breaks_the_format), cmocka_unit_test(refuses_what_is_too_long),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

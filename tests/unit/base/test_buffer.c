#include "base/buffer.h"
#include "unit/unit.h"

static void appends_and_consumes(void **state) {
  (void)state;
  struct buffer buffer = {0};
  assert_string_equal(buffer_text(&buffer), "");
  buffer_append_text(&buffer, "abc");
  buffer_append_format(&buffer, "-%d-%s", 42, "x");
  assert_string_equal(buffer_text(&buffer), "abc-42-x");
  buffer_consume(&buffer, 4);
  assert_string_equal(buffer_text(&buffer), "42-x");
  buffer_consume(&buffer, 100);
  assert_int_equal(buffer.length, 0);
  assert_string_equal(buffer_text(&buffer), "");
  buffer_free(&buffer);
}

static void grows_beyond_its_first_allocation(void **state) {
  (void)state;
  struct buffer buffer = {0};
  for (int i = 0; i < 1000; i++) buffer_append(&buffer, "0123456789", 10);
  assert_false(buffer_failed(&buffer));
  assert_int_equal(buffer.length, 10000);
  assert_int_equal(strlen(buffer.data), 10000);
  buffer_free(&buffer);
}

static void remembers_that_an_allocation_failed(void **state) {
  (void)state;
  struct buffer buffer = {0};
  buffer_append_text(&buffer, "kept");
  buffer_append(&buffer, "", SIZE_MAX);
  assert_true(buffer_failed(&buffer));
  buffer_append_text(&buffer, "ignored");
  assert_string_equal(buffer_text(&buffer), "kept");
  buffer_free(&buffer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(appends_and_consumes),
      cmocka_unit_test(grows_beyond_its_first_allocation),
      cmocka_unit_test(remembers_that_an_allocation_failed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

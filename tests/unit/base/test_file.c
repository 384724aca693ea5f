/* Only regular files are read, and only what is there. */
#include "base/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit/unit.h"

static char directory[] = "/tmp/kaiju-test-file-XXXXXX";
static char path[sizeof directory + 16];

static int setup(void **state) {
  (void)state;
  strcpy(directory + sizeof directory - 7, "XXXXXX");
  if (!mkdtemp(directory)) return -1;
  snprintf(path, sizeof path, "%s/file", directory);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  unlink(path);
  return rmdir(directory);
}

static void test_a_file_is_read_as_far_as_asked(void **state) {
  (void)state;
  struct stat status;
  struct kj_error error;
  int descriptor;
  char bytes[6] = "";
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("hello", file);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(file_open(&descriptor, &status, path, &error), 0);
  assert_int_equal(status.st_size, 5);
  assert_int_equal(file_read(descriptor, bytes, 4, path, &error), 0);
  assert_string_equal(bytes, "hell");
  assert_int_equal(file_read(descriptor, bytes, 6, path, &error), KJ_IO);
  assert_non_null(strstr(error.message, "became shorter"));
  close(descriptor);
}

static void test_what_is_written_follows_what_was_written_before(void **state) {
  (void)state;
  struct kj_error error;
  char bytes[6] = "";
  int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
  assert_true(descriptor >= 0);
  assert_int_equal(file_write(descriptor, "he", 2, path, &error), 0);
  assert_int_equal(file_write(descriptor, "", 0, path, &error), 0);
  assert_int_equal(file_write(descriptor, "llo", 3, path, &error), 0);
  assert_int_equal(file_read(descriptor, bytes, 5, path, &error), 0);
  assert_string_equal(bytes, "hello");
  close(descriptor);
  assert_int_equal(file_write(-1, "x", 1, path, &error), KJ_IO);
  assert_non_null(strstr(error.message, path));
}

static void test_what_is_no_regular_file_is_refused_without_waiting(void **state) {
  (void)state;
  struct stat status;
  struct kj_error error;
  int descriptor;
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(file_open(&descriptor, &status, path, &error), KJ_INVALID);
  assert_int_equal(descriptor, -1);
  assert_int_equal(file_open(&descriptor, &status, directory, &error), KJ_INVALID);
  assert_non_null(strstr(error.message, "is not a regular file"));
}

static void test_a_file_that_is_not_there(void **state) {
  (void)state;
  struct stat status;
  struct kj_error error;
  int descriptor;
  assert_int_equal(file_open(&descriptor, &status, path, &error), KJ_NOT_FOUND);
  assert_non_null(strstr(error.message, path));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_a_file_is_read_as_far_as_asked),
      TEST(test_what_is_written_follows_what_was_written_before),
      TEST(test_what_is_no_regular_file_is_refused_without_waiting),
      TEST(test_a_file_that_is_not_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Cluster key files: made private, never overwritten, refused when others may read them or when malformed. */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link/link.h"
#include "unit/unit.h"

static char directory[] = "/tmp/kaiju-key-XXXXXX";
static char path[64];

static int make_directory(void **state) {
  (void)state;
  if (!mkdtemp(directory)) return -1;
  snprintf(path, sizeof path, "%s/key", directory);
  return 0;
}

static int remove_directory(void **state) {
  (void)state;
  return rmdir(directory);
}

static int remove_key(void **state) {
  (void)state;
  unlink(path);
  return 0;
}

static void write_key(const char *text, size_t length, mode_t mode) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(file >= 0);
  assert_int_equal(write(file, text, length), length);
  assert_int_equal(fchmod(file, mode), 0);
  close(file);
}

#define DIGITS "00112233445566778899aabbccddeeff0123456789ABCDEFfedcba9876543210"

static void test_created_key_is_private_and_loads(void **state) {
  (void)state;
  struct kj_error error;
  uint8_t first[LINK_KEY_BYTES], second[LINK_KEY_BYTES];
  mode_t before = umask(0);
  assert_int_equal(link_key_create(path, &error), 0);
  umask(before);
  struct stat status;
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_mode & 07777, 0600);
  assert_int_equal(status.st_size, 2 * LINK_KEY_BYTES + 1);
  assert_int_equal(link_key_load(path, first, &error), 0);
  unlink(path);
  assert_int_equal(link_key_create(path, &error), 0);
  assert_int_equal(link_key_load(path, second, &error), 0);
  assert_memory_not_equal(first, second, LINK_KEY_BYTES);
}

static void test_create_does_not_overwrite(void **state) {
  (void)state;
  struct kj_error error;
  write_key("precious", 8, 0600);
  assert_int_equal(link_key_create(path, &error), KJ_IO);
  assert_non_null(strstr(error.message, path));
  char text[16] = {0};
  int file = open(path, O_RDONLY);
  assert_int_equal(read(file, text, sizeof text), 8);
  close(file);
  assert_string_equal(text, "precious");
  assert_int_equal(link_key_create("/nonexistent/key", &error), KJ_NOT_FOUND);
}

static void test_accepts_digits_and_line_end(void **state) {
  (void)state;
  static const char *const texts[] = {DIGITS, DIGITS "\n", DIGITS "\r\n"};
  uint8_t key[LINK_KEY_BYTES];
  for (size_t i = 0; i < 3; i++) {
    write_key(texts[i], strlen(texts[i]), 0400);
    assert_int_equal(link_key_load(path, key, NULL), 0);
    assert_int_equal(key[1], 0x11);
    assert_int_equal(key[31], 0x10);
    unlink(path);
  }
}

static void test_refuses_malformed(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t length;
  } texts[] = {{"", 0},
               {"\n", 1},
               {DIGITS, 63},
               {DIGITS "0", 65},
               {DIGITS "\n\n", 66},
               {DIGITS " \n", 66},
               {DIGITS "\n" DIGITS "\n", 130},
               {"g" DIGITS, 64},
               {"\0" DIGITS, 64},
               {DIGITS "\r", 65}};
  uint8_t key[LINK_KEY_BYTES];
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct kj_error error;
    write_key(texts[i].text, texts[i].length, 0600);
    assert_int_equal(link_key_load(path, key, &error), KJ_INVALID);
    assert_non_null(strstr(error.message, path));
    assert_non_null(strstr(error.message, "kaiju keygen"));
  }
}

static void test_refuses_readable_by_others(void **state) {
  (void)state;
  static const mode_t modes[] = {0640, 0604, 0644, 0620, 0602, 0610, 0601, 0777};
  uint8_t key[LINK_KEY_BYTES];
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    struct kj_error error;
    write_key(DIGITS, 64, modes[i]);
    assert_int_equal(link_key_load(path, key, &error), KJ_INVALID);
    assert_non_null(strstr(error.message, "chmod 600"));
  }
}

static void test_refuses_what_is_no_file(void **state) {
  (void)state;
  struct kj_error error;
  uint8_t key[LINK_KEY_BYTES];
  assert_int_equal(link_key_load(path, key, &error), KJ_NOT_FOUND);
  assert_int_equal(link_key_load(directory, key, &error), KJ_INVALID);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(link_key_load(path, key, &error), KJ_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_created_key_is_private_and_loads, remove_key),
      cmocka_unit_test_teardown(test_create_does_not_overwrite, remove_key),
      cmocka_unit_test_teardown(test_accepts_digits_and_line_end, remove_key),
      cmocka_unit_test_teardown(test_refuses_malformed, remove_key),
      cmocka_unit_test_teardown(test_refuses_readable_by_others, remove_key),
      cmocka_unit_test_teardown(test_refuses_what_is_no_file, remove_key),
  };
  return cmocka_run_group_tests_name("cluster key", tests, make_directory, remove_directory);
}

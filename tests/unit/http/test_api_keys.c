/* Key files, and what of a request counts as a key. */
#include "http/api_keys.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/unit.h"

static struct api_keys *parse(const char *text) {
  struct api_keys *keys = NULL;
  struct kj_error error = {0};
  if (api_keys_parse(&keys, "keys", text, strlen(text), &error)) fail_msg("%s", error.message);
  return keys;
}

static bool contain(const struct api_keys *keys, const char *key) { return api_keys_contain(keys, key, strlen(key)); }

static void takes_one_key_a_line_and_comments(void **state) {
  (void)state;
  struct api_keys *keys = parse(
      "# the keys\n"
      "\n"
      "first\r\n"
      "  second\t# of Alice's agent\n"
      "with#hash #\n"
      "\t# nothing\n"
      "last");
  const char *const held[] = {"first", "second", "with#hash", "last"};
  for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) assert_true(contain(keys, held[i]));
  const char *const others[] = {"",      "firs", "first ", "firstt",  "First", "first\r", "#",
                                "Alice", "keys", "with",   "nothing", "the",   "last\n",  "first\nsecond"};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) assert_false(contain(keys, others[i]));
  api_keys_free(keys);
}

static void the_longest_key(void **state) {
  (void)state;
  char text[API_KEY_MAX + 2];
  memset(text, 'k', sizeof text);
  text[API_KEY_MAX] = '\0';
  struct api_keys *keys = parse(text);
  assert_true(contain(keys, text));
  text[API_KEY_MAX - 1] = '\0';
  assert_false(contain(keys, text));
  api_keys_free(keys);
  text[API_KEY_MAX - 1] = text[API_KEY_MAX] = 'k';
  text[API_KEY_MAX + 1] = '\0';
  struct kj_error error;
  assert_int_equal(api_keys_parse(&keys, "keys", text, API_KEY_MAX + 1, &error), KJ_INVALID);
  assert_null(keys);
}

/* The message names file and line, and never the key. */
static void refuses_files_that_hold_no_keys(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t length;
    const char *message;
  } cases[] = {
      {"", 0, "holds no API key"},
      {"# only this\n\n", 13, "holds no API key"},
      {"good\nsecret secret\n", 19, "line 2: more than one word"},
      {"good\n\nsecret\xc3\xa9\n", 15, "line 3: a key holds a character"},
      {"secret\0secret\n", 14, "line 1: a key holds a character"},
      {"secret\x7f\n", 8, "line 1: a key holds a character"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct api_keys *keys = NULL;
    struct kj_error error = {0};
    assert_int_equal(api_keys_parse(&keys, "the.keys", cases[i].text, cases[i].length, &error), KJ_INVALID);
    assert_null(keys);
    assert_non_null(strstr(error.message, "the.keys: "));
    if (!strstr(error.message, cases[i].message)) fail_msg("%s", error.message);
    assert_null(strstr(error.message, "secret"));
  }
}

static void too_many_keys(void **state) {
  (void)state;
  size_t length = 2 * (API_KEYS_MAX + 1);
  char *text = malloc(length);
  struct api_keys *keys = NULL;
  struct kj_error error;
  assert_non_null(text);
  for (size_t i = 0; i < length; i += 2) memcpy(text + i, "k\n", 2);
  assert_int_equal(api_keys_parse(&keys, "keys", text, length, &error), KJ_INVALID);
  assert_int_equal(api_keys_parse(&keys, "keys", text, length - 2, &error), 0);
  api_keys_free(keys);
  free(text);
}

static void only_the_owner_may_read_the_file(void **state) {
  (void)state;
  char path[] = "/tmp/kaiju-keys-XXXXXX", key[API_KEY_MAX + 1];
  int file = mkstemp(path);
  struct api_keys *keys = NULL;
  struct kj_error error;
  assert_true(file >= 0);
  assert_int_equal(write(file, "# mine\nsecret\nother\n", 20), 20);
  static const mode_t open_modes[] = {0604, 0640, 0644, 0602, 0620};
  for (size_t i = 0; i < sizeof open_modes / sizeof open_modes[0]; i++) {
    assert_int_equal(fchmod(file, open_modes[i]), 0);
    assert_int_equal(api_keys_load(&keys, path, &error), KJ_INVALID);
    assert_null(keys);
    assert_non_null(strstr(error.message, "chmod 600"));
    assert_int_equal(api_keys_first(path, key, &error), KJ_INVALID);
  }
  assert_int_equal(fchmod(file, 0600), 0);
  assert_int_equal(api_keys_load(&keys, path, &error), 0);
  assert_true(contain(keys, "secret") && contain(keys, "other"));
  api_keys_free(keys);
  assert_int_equal(api_keys_first(path, key, &error), 0);
  assert_string_equal(key, "secret");
  assert_int_equal(ftruncate(file, 7), 0);
  assert_int_equal(api_keys_first(path, key, &error), KJ_INVALID);
  close(file);
  unlink(path);
  assert_int_equal(api_keys_load(&keys, path, &error), KJ_NOT_FOUND);
  assert_int_equal(api_keys_load(&keys, "/tmp", &error), KJ_INVALID);
}

static void a_bearer_key_is_one_word(void **state) {
  (void)state;
  static const char *const good[] = {"Bearer secret", "bearer secret", "BEARER   secret"};
  const char *key = NULL;
  size_t length = 0;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    assert_true(api_key_from_authorization(good[i], &key, &length));
    assert_int_equal(length, 6);
    assert_memory_equal(key, "secret", 6);
  }
  static const char *const bad[] = {
      "",           "Bearer",          "Bearer ",        "Bearersecret",    "Basic c2VjcmV0", "secret",
      "Bearer a b", "Bearer secret\t", "Bearer, secret", "Digest Bearer x", " Bearer secret"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert_false(api_key_from_authorization(bad[i], &key, &length));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(takes_one_key_a_line_and_comments), cmocka_unit_test(the_longest_key),
      cmocka_unit_test(refuses_files_that_hold_no_keys),   cmocka_unit_test(too_many_keys),
      cmocka_unit_test(only_the_owner_may_read_the_file),  cmocka_unit_test(a_bearer_key_is_one_word),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

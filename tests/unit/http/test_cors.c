/* Which pages may use the server, and what their browsers are told. */
#include "http/cors.h"

#include "unit/unit.h"

static struct cors *create(const char *list) {
  struct cors *cors = NULL;
  struct kj_error error = {0};
  if (cors_create(&cors, list, &error)) fail_msg("%s", error.message);
  return cors;
}

static void allows_what_is_listed_and_nothing_like_it(void **state) {
  (void)state;
  struct cors *cors = create("https://Chat.example,http://localhost:3000,http://[::1]:80,app://obsidian.md");
  static const char *const allowed[] = {"https://chat.example", "http://localhost:3000", "http://[::1]",
                                        "app://obsidian.md"};
  for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) assert_true(cors_allows(cors, allowed[i]));
  static const char *const others[] = {"http://chat.example",
                                       "https://chat.example:8443",
                                       "https://chat.example.evil",
                                       "https://evil.chat.example",
                                       "https://chat.exampl",
                                       "https://chat.example/",
                                       "https://chat.example https://evil.example",
                                       "http://localhost",
                                       "http://localhost:30000",
                                       "null",
                                       "*",
                                       ""};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) assert_false(cors_allows(cors, others[i]));
  assert_false(cors_allows(cors, NULL));
  assert_false(cors_allows(NULL, "https://chat.example"));
  cors_free(cors);
}

static void a_star_allows_every_page(void **state) {
  (void)state;
  struct cors *cors = create("*");
  assert_true(cors_allows(cors, "https://anything.example") && cors_allows(cors, "null"));
  assert_false(cors_allows(cors, NULL));
  cors_free(cors);
}

static void refuses_what_no_browser_sends(void **state) {
  (void)state;
  static const char *const bad[] = {"",
                                    "chat.example",
                                    "https://",
                                    "https:///",
                                    "://chat.example",
                                    "https://chat.example/",
                                    "https://chat.example/path",
                                    "https://user@chat.example",
                                    "https://chat.example:",
                                    "https://chat.example:http",
                                    "https://chat.example:99999",
                                    "https://chat.example:123456",
                                    "https://[::1",
                                    "https://[::1]x",
                                    "https://*.example",
                                    "https://chat.example,",
                                    ",https://chat.example",
                                    "https://chat.example, http://b",
                                    "https://chat.example,*",
                                    "null",
                                    "1http://a",
                                    "https://a\r\nX: y",
                                    "https://\xc3\xa9.example"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct cors *cors = NULL;
    struct kj_error error = {0};
    if (cors_create(&cors, bad[i], &error) != KJ_INVALID) fail_msg("taken: %s", bad[i]);
    assert_null(cors);
    assert_non_null(strstr(error.message, "is no origin"));
  }
}

static void expect_lines(const struct cors *cors, const char *origin, const char *lines, const char *preflight) {
  struct buffer text = {0};
  cors_write(cors, origin, &text);
  assert_string_equal(buffer_text(&text), lines);
  buffer_clear(&text);
  cors_write_preflight(cors, origin, "POST", &text);
  assert_string_equal(buffer_text(&text), preflight);
  buffer_free(&text);
}

static void answers_name_the_one_origin_and_vary_by_it(void **state) {
  (void)state;
  static const char preflight[] =
      "Access-Control-Allow-Methods: POST\r\nAccess-Control-Allow-Headers: Authorization, *\r\n"
      "Access-Control-Max-Age: 600\r\n";
  struct cors *cors = create("https://a.example,https://b.example");
  expect_lines(cors, "https://b.example",
               "Vary: Origin\r\nAccess-Control-Allow-Origin: https://b.example\r\n"
               "Access-Control-Expose-Headers: Retry-After\r\n",
               preflight);
  expect_lines(cors, "https://c.example", "Vary: Origin\r\n", "");
  expect_lines(cors, NULL, "Vary: Origin\r\n", "");
  cors_free(cors);
  cors = create("*");
  expect_lines(cors, "https://c.example",
               "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: Retry-After\r\n", preflight);
  expect_lines(cors, NULL, "", "");
  cors_free(cors);
  expect_lines(NULL, "https://c.example", "", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(allows_what_is_listed_and_nothing_like_it),
      cmocka_unit_test(a_star_allows_every_page),
      cmocka_unit_test(refuses_what_no_browser_sends),
      cmocka_unit_test(answers_name_the_one_origin_and_vary_by_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

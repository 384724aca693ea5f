/* Which requests are answered, with keys and without. */
#include "http/access.h"

#include <stdio.h>

#include "unit/unit.h"

/* 0, or the status and code of the refusal. */
static int check(const struct access *access, const char *request_line, const char *headers, const char **code) {
  char text[2048];
  struct http_head head;
  struct api_error error = {0};
  int length = snprintf(text, sizeof text, "%s HTTP/1.1\r\n%s%s\r\n", request_line,
                        strstr(headers, "Host:") ? "" : "Host: localhost:8080\r\n", headers);
  if (http_head_parse(&head, text, (size_t)length, HTTP_DEFAULT_HEADERS, &error)) fail_msg("%s", error.message);
  int refused = access_check(access, &head, &error);
  http_head_free(&head);
  *code = refused ? error.code : NULL;
  /* What was sent as a key comes back in no message. */
  assert_null(strstr(error.message, "wrong"));
  return refused ? error.status : 0;
}

static void expect(const struct access *access, int status, const char *request_line, const char *headers) {
  const char *code = NULL;
  int got = check(access, request_line, headers, &code);
  if (got != status) fail_msg("%d instead of %d for %s with %s", got, status, request_line, headers);
  if (status == 401) assert_string_equal(code, "invalid_api_key");
}

static const char chat[] = "POST /v1/chat/completions", models[] = "GET /v1/models";

static void with_keys_everything_but_health_needs_one(void **state) {
  (void)state;
  struct kj_error error;
  struct api_keys *keys = NULL;
  assert_int_equal(api_keys_parse(&keys, "keys", "right\nalso-right\n", 17, &error), 0);
  struct access access = {.keys = keys};
  static const char *const paths[] = {"GET /v1/models", "POST /v1/chat/completions",
                                      "GET /metrics",   "GET /nothing",
                                      "GET /",          "OPTIONS /v1/models",
                                      "OPTIONS *",      "POST /health",
                                      "GET /health/x",  "GET /healthx",
                                      "GET //health",   "BREW /health"};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    expect(&access, 401, paths[i], "");
    expect(&access, 401, paths[i], "Authorization: Bearer wrong\r\n");
    expect(&access, 401, paths[i], "Authorization: Basic cmlnaHQ=\r\n");
    expect(&access, 401, paths[i], "Authorization: right\r\n");
    expect(&access, 401, paths[i], "Authorization: Bearer\r\n");
    expect(&access, 401, paths[i], "X-Api-Key:\r\n");
    expect(&access, 401, paths[i], "x-api-key: wrong\r\nAuthorization: Bearer wrong\r\n");
    expect(&access, 0, paths[i], "Authorization: Bearer right\r\n");
    expect(&access, 0, paths[i], "authorization: bearer also-right\r\n");
    expect(&access, 0, paths[i], "X-Api-Key: right\r\n");
    /* SDKs that have a key of their own for one header, and were given ours for the other. */
    expect(&access, 0, paths[i], "x-api-key: right\r\nAuthorization: Bearer wrong\r\n");
    expect(&access, 0, paths[i], "x-api-key: wrong\r\nAuthorization: Bearer right\r\n");
  }
  expect(&access, 0, "GET /health", "");
  expect(&access, 0, "HEAD /health?x=1", "");
  /* A body of a stranger is not read. */
  expect(&access, 401, "GET /health", "Content-Length: 5\r\n");
  expect(&access, 401, "GET /health", "Transfer-Encoding: chunked\r\n");
  /* The page asks for the key itself. */
  access.has_page = true;
  expect(&access, 0, "GET /", "");
  expect(&access, 0, "HEAD /?x=1", "");
  expect(&access, 0, "GET /licenses.txt", "");
  static const char *const closed[] = {"GET /page",    "GET /page/../metrics", "GET //",       "POST /",
                                       "GET /cluster", "GET /metrics",         "GET /nothing", "OPTIONS /"};
  for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++) expect(&access, 401, closed[i], "");
  expect(&access, 401, "GET /", "Content-Length: 5\r\n");
  api_keys_free(keys);
}

static void preflights_carry_no_key(void **state) {
  (void)state;
  struct kj_error error;
  struct api_keys *keys = NULL;
  assert_int_equal(api_keys_parse(&keys, "keys", "right", 5, &error), 0);
  struct access access = {.keys = keys};
  static const char preflight[] = "Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n";
  expect(&access, 0, "OPTIONS /v1/chat/completions", preflight);
  expect(&access, 401, chat, preflight);
  expect(&access, 401, "OPTIONS /v1/chat/completions", "Access-Control-Request-Method: POST\r\n");
  expect(&access, 401, "OPTIONS /v1/chat/completions", "Origin: https://a.example\r\n");
  /* A key is all that a page needs, besides its browser's consent to show it the answer. */
  expect(&access, 0, chat, "Origin: https://a.example\r\nAuthorization: Bearer right\r\nHost: a.example\r\n");
  api_keys_free(keys);
}

static void h14_without_keys_pages_from_elsewhere_are_refused(void **state) {
  (void)state;
  struct access access = {0};
  static const char *const near[] = {"localhost", "localhost:8080", "LOCALHOST", "kaiju.localhost:1", "127.0.0.1:8080",
                                     "127.9.9.9", "[::1]:8080",     "[::1]",     "studio1:8080",      "192.168.1.5",
                                     ""};
  char headers[256];
  for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
    snprintf(headers, sizeof headers, "Host: %s\r\n", near[i]);
    expect(&access, 0, models, headers);
    expect(&access, 0, chat, headers);
  }
  static const char *const far[] = {
      "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.example", "notlocalhost.", "1.2.3",
      "[::1",         "[::1.evil.example"};
  for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
    snprintf(headers, sizeof headers, "Host: %s\r\n", far[i]);
    expect(&access, 403, models, headers);
    expect(&access, 403, chat, headers);
  }
  static const char *const local[] = {"http://localhost:8080", "http://127.0.0.1:3000", "http://[::1]",
                                      "https://dev.localhost"};
  for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
    snprintf(headers, sizeof headers, "Origin: %s\r\n", local[i]);
    expect(&access, 0, chat, headers);
  }
  static const char *const foreign[] = {"https://evil.example",  "http://192.168.1.5", "null", "http://localhost.evil",
                                        "http://127.0.0.1.evil", "app://obsidian.md",  ""};
  for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
    snprintf(headers, sizeof headers, "Origin: %s\r\n", foreign[i]);
    expect(&access, 403, chat, headers);
    expect(&access, 403, "DELETE /v1/responses/resp_1", headers);
    /* These change nothing, and the browser keeps the answer from the page. */
    expect(&access, 0, models, headers);
    expect(&access, 0, "OPTIONS /v1/chat/completions", headers);
  }
}

static void what_is_listed_or_open_is_answered(void **state) {
  (void)state;
  struct kj_error error;
  struct cors *cors = NULL;
  assert_int_equal(cors_create(&cors, "https://a.example", &error), 0);
  struct access listed = {.cors = cors}, open = {.open = true};
  expect(&listed, 0, chat, "Origin: https://a.example\r\n");
  expect(&listed, 0, chat, "Origin: https://a.example\r\nHost: kaiju.example\r\n");
  expect(&listed, 403, chat, "Origin: https://b.example\r\n");
  expect(&open, 0, chat, "Origin: https://b.example\r\nHost: kaiju.example\r\n");
  cors_free(cors);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(with_keys_everything_but_health_needs_one),
      cmocka_unit_test(preflights_carry_no_key),
      cmocka_unit_test(h14_without_keys_pages_from_elsewhere_are_refused),
      cmocka_unit_test(what_is_listed_or_open_is_answered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

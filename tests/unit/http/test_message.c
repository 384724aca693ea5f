/* The head of a request and the chunks of its body. */
#include "http/message.h"

#include <stdio.h>
#include <stdlib.h>

#include "unit/unit.h"

static int parse(struct http_head *head, const char *text, struct api_error *error) {
  return http_head_parse(head, text, strlen(text), HTTP_DEFAULT_HEADERS, error);
}

static void reads_a_request(void **state) {
  (void)state;
  struct http_head head;
  struct api_error error;
  assert_int_equal(parse(&head,
                         "POST /v1/completions?x=1 HTTP/1.1\r\nhost: a\r\nContent-Length:  12 \r\n"
                         "Expect: 100-Continue\r\nConnection: foo, CLOSE\r\n\r\n",
                         &error),
                   0);
  assert_int_equal(head.method, HTTP_POST);
  assert_string_equal(head.path, "/v1/completions");
  assert_string_equal(head.query, "x=1");
  assert_true(head.has_length && head.length == 12 && head.expect_continue);
  assert_false(head.keep_alive);
  http_head_free(&head);
  assert_int_equal(parse(&head, "DELETE http://a:1/health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &error), 0);
  assert_int_equal(head.method, HTTP_DELETE);
  assert_string_equal(head.path, "/health");
  assert_null(head.query);
  assert_true(head.keep_alive && head.version == 10);
  http_head_free(&head);
  assert_int_equal(parse(&head, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", &error), 0);
  assert_string_equal(head.path, "*");
  http_head_free(&head);
}

/* What two programs could read differently, or what only an attacker sends. */
static void refuses_malformed_heads(void **state) {
  (void)state;
  static const struct {
    const char *head;
    int status;
  } cases[] = {
      {"GET /\r\n\r\n", 400},
      {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"G\x01T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET health HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nnocolon\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x10\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n", 417},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct http_head head;
    struct api_error error;
    if (parse(&head, cases[i].head, &error) != -1) fail_msg("taken: %s", cases[i].head);
    if (error.status != cases[i].status) fail_msg("%d: %s", error.status, cases[i].head);
    assert_true(error.message[0]);
  }
}

static void h12_too_many_headers(void **state) {
  (void)state;
  struct buffer text = {0};
  buffer_append_text(&text, "GET / HTTP/1.1\r\nHost: a\r\n");
  for (int i = 0; i < HTTP_DEFAULT_HEADERS; i++) buffer_append_format(&text, "X-%d: y\r\n", i);
  buffer_append_text(&text, "\r\n");
  struct http_head head;
  struct api_error error;
  assert_int_equal(http_head_parse(&head, text.data, text.length, HTTP_DEFAULT_HEADERS, &error), -1);
  assert_int_equal(error.status, 431);
  buffer_free(&text);
}

/* Feeds the text in pieces of `step` bytes; the body, or NULL after a refusal. */
static char *decode(const char *text, size_t step, bool *complete) {
  struct chunk_decoder decoder = {0};
  struct buffer body = {0};
  struct api_error error;
  size_t length = strlen(text);
  for (size_t at = 0; at < length && decoder.state != CHUNK_DONE;) {
    size_t used = 0, run = 0, piece = length - at < step ? length - at : step;
    const char *data = NULL;
    if (chunk_decode(&decoder, text + at, piece, &used, &data, &run, &error)) {
      assert_int_equal(error.status, 400);
      buffer_free(&body);
      return NULL;
    }
    buffer_append(&body, data, run);
    at += used;
  }
  *complete = decoder.state == CHUNK_DONE;
  buffer_append(&body, "", 0);
  return body.data;
}

static void decodes_chunks_at_every_cut(void **state) {
  (void)state;
  const char *text = "5\r\nhello\r\n00A;x=y\r\n, world!!!\r\n1 \r\n?\r\n0\r\nTrailer: z\r\n\r\n";
  for (size_t step = 1; step <= strlen(text); step++) {
    bool complete = false;
    char *body = decode(text, step, &complete);
    assert_non_null(body);
    assert_string_equal(body, "hello, world!!!?");
    assert_true(complete);
    free(body);
  }
}

static void refuses_malformed_chunks(void **state) {
  (void)state;
  static const char *const cases[] = {"x\r\n",           "\r\n",          "-1\r\n",       "5\nhello",
                                      "2\r\nabc\r\n",    "1\r\na\n0\r\n", "1 2\r\na\r\n", "ffffffffffffffff\r\n",
                                      "0\r\nA: b\n\r\n", "0\r\n\rx"};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bool complete = false;
    char *body = decode(cases[i], 3, &complete);
    if (body) fail_msg("taken: %s", cases[i]);
  }
}

static void decodes_paths(void **state) {
  (void)state;
  char path[] = "Qwen%2FQwen3%20x", bad[] = "a%2", nul[] = "a%00b";
  assert_true(http_decode_path(path));
  assert_string_equal(path, "Qwen/Qwen3 x");
  assert_false(http_decode_path(bad));
  assert_false(http_decode_path(nul));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_a_request),          cmocka_unit_test(refuses_malformed_heads),
      cmocka_unit_test(h12_too_many_headers),     cmocka_unit_test(decodes_chunks_at_every_cut),
      cmocka_unit_test(refuses_malformed_chunks), cmocka_unit_test(decodes_paths),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

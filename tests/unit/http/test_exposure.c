/* Keys and origins as a client of the server sees them. */
#include <stdio.h>
#include <stdlib.h>

#include "unit/http/serve_fake.h"
#include "unit/unit.h"

static int start(void **state) {
  struct kj_error error;
  struct api_keys *keys = NULL;
  struct cors *cors = NULL;
  struct http_limits limits = {.max_head = 2000, .max_headers = 10, .max_body = 5000};
  struct serve_fake *serve = calloc(1, sizeof *serve);
  if (!serve || api_keys_parse(&keys, "keys", "right", 5, &error) || cors_create(&cors, "https://chat.example", &error))
    return -1;
  serve->keys = keys;
  serve->cors = cors;
  serve_fake_start(serve, &limits);
  serve_fake_say(serve, "Hello");
  *state = serve;
  return 0;
}

static int stop(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_stop(serve);
  api_keys_free((struct api_keys *)serve->keys);
  cors_free((struct cors *)serve->cors);
  free(serve);
  return 0;
}

/* Sends a head with these lines and a body, and reads the answer. */
static struct http_reply ask(struct serve_fake *serve, const char *request_line, const char *lines, const char *body) {
  struct http_reply reply;
  struct buffer request = {0};
  int client = client_connect(serve->port);
  buffer_append_format(&request, "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s", request_line, lines);
  if (body) buffer_append_format(&request, "Content-Length: %zu\r\n", strlen(body));
  buffer_append_format(&request, "\r\n%s", body ? body : "");
  assert_true(client_send(client, request.data, request.length));
  assert_true(client_read(client, true, &reply));
  assert_true(client_is_closed(client));
  client_close(client);
  buffer_free(&request);
  return reply;
}

static void expect_error(struct http_reply *reply, int status, const char *code) {
  if (reply->status != status) fail_msg("%d: %s", reply->status, buffer_text(&reply->body));
  json_t *body = http_reply_json(reply), *error = json_object_get(body, "error");
  assert_string_equal(json_string_value(json_object_get(error, "code")), code);
  assert_string_equal(json_string_value(json_object_get(error, "type")), "invalid_request_error");
  assert_true(json_is_null(json_object_get(error, "param")));
  json_decref(body);
}

static const char chat[] = "POST /v1/chat/completions",
                  message[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";

static void a_request_without_the_key_is_refused(void **state) {
  static const char *const lines[] = {"", "Authorization: Bearer wrong\r\n", "X-Api-Key: wrong\r\n"};
  for (size_t i = 0; i < 3; i++) {
    struct http_reply reply = ask(*state, chat, lines[i], message);
    expect_error(&reply, 401, "invalid_api_key");
    assert_string_equal(http_reply_header(&reply, "WWW-Authenticate"), "Bearer realm=\"kaiju\"");
    http_reply_free(&reply);
  }
  struct http_reply reply = ask(*state, "GET /health", "", NULL);
  assert_int_equal(reply.status, 200);
  http_reply_free(&reply);
}

static void a_request_with_the_key_is_answered(void **state) {
  static const char *const lines[] = {"Authorization: Bearer right\r\n", "X-Api-Key: right\r\n"};
  for (size_t i = 0; i < 2; i++) {
    struct http_reply reply = ask(*state, chat, lines[i], message);
    assert_int_equal(reply.status, 200);
    assert_null(http_reply_header(&reply, "WWW-Authenticate"));
    http_reply_free(&reply);
    reply = ask(*state, "GET /metrics", lines[i], NULL);
    assert_int_equal(reply.status, 200);
    http_reply_free(&reply);
  }
}

/* Otherwise strangers could make the server hold what they send. */
static void the_body_of_a_stranger_is_not_waited_for(void **state) {
  const struct serve_fake *serve = *state;
  struct http_reply reply;
  static const char head[] =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 4000\r\n\r\n";
  int client = client_connect(serve->port);
  assert_true(client_send(client, head, sizeof head - 1));
  assert_true(client_read(client, true, &reply));
  expect_error(&reply, 401, "invalid_api_key");
  http_reply_free(&reply);
  assert_true(client_is_closed(client));
  client_close(client);
}

static void one_key_a_request(void **state) {
  struct http_reply reply =
      ask(*state, "GET /v1/models", "Authorization: Bearer right\r\nAuthorization: Bearer right\r\n", NULL);
  expect_error(&reply, 400, "bad_request");
  http_reply_free(&reply);
}

static void the_allowed_page_reads_every_answer(void **state) {
  static const char *const requests[][2] = {{"GET /v1/models", "Authorization: Bearer right\r\n"},
                                            {"GET /v1/models", ""},
                                            {"GET /nothing", "Authorization: Bearer right\r\n"},
                                            {"POST /v1/models", "Authorization: Bearer right\r\n"},
                                            {"GET /health", ""}};
  for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
    char lines[200];
    snprintf(lines, sizeof lines, "%sOrigin: https://chat.example\r\n", requests[i][1]);
    struct http_reply reply = ask(*state, requests[i][0], lines, NULL);
    assert_string_equal(http_reply_header(&reply, "Access-Control-Allow-Origin"), "https://chat.example");
    assert_string_equal(http_reply_header(&reply, "Vary"), "Origin");
    assert_null(http_reply_header(&reply, "Access-Control-Allow-Credentials"));
    http_reply_free(&reply);
    snprintf(lines, sizeof lines, "%sOrigin: https://evil.example\r\n", requests[i][1]);
    reply = ask(*state, requests[i][0], lines, NULL);
    assert_null(http_reply_header(&reply, "Access-Control-Allow-Origin"));
    assert_string_equal(http_reply_header(&reply, "Vary"), "Origin");
    http_reply_free(&reply);
  }
}

static void the_allowed_page_reads_a_stream(void **state) {
  struct http_reply reply = ask(*state, chat, "Authorization: Bearer right\r\nOrigin: https://chat.example\r\n",
                                "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
  assert_int_equal(reply.status, 200);
  assert_string_equal(http_reply_header(&reply, "Access-Control-Allow-Origin"), "https://chat.example");
  http_reply_free(&reply);
}

static void h14_a_preflight_of_the_allowed_page(void **state) {
  static const char more[] = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n";
  char lines[300];
  snprintf(lines, sizeof lines, "Origin: https://chat.example\r\n%s", more);
  struct http_reply reply = ask(*state, "OPTIONS /v1/chat/completions", lines, NULL);
  assert_int_equal(reply.status, 204);
  assert_string_equal(http_reply_header(&reply, "Access-Control-Allow-Origin"), "https://chat.example");
  assert_string_equal(http_reply_header(&reply, "Access-Control-Allow-Methods"), "POST");
  assert_string_equal(http_reply_header(&reply, "Access-Control-Allow-Headers"), "Authorization, *");
  http_reply_free(&reply);
  snprintf(lines, sizeof lines, "Origin: https://evil.example\r\n%s", more);
  reply = ask(*state, "OPTIONS /v1/chat/completions", lines, NULL);
  assert_int_equal(reply.status, 204);
  assert_null(http_reply_header(&reply, "Access-Control-Allow-Origin"));
  assert_null(http_reply_header(&reply, "Access-Control-Allow-Methods"));
  http_reply_free(&reply);
}

static void limits_of_heads_and_bodies(void **state) {
  struct serve_fake *serve = *state;
  struct buffer lines = {0};
  buffer_append_text(&lines, "Authorization: Bearer right\r\nX: ");
  for (int i = 0; i < 2000; i++) buffer_append_text(&lines, "x");
  buffer_append_text(&lines, "\r\n");
  struct http_reply reply = ask(serve, "GET /v1/models", lines.data, NULL);
  assert_non_null(strstr(buffer_text(&reply.body), "larger than 2000 bytes"));
  expect_error(&reply, 431, "headers_too_large");
  http_reply_free(&reply);
  buffer_clear(&lines);
  for (int i = 0; i < 9; i++) buffer_append_format(&lines, "X-%d: y\r\n", i);
  reply = ask(serve, "GET /health", lines.data, NULL);
  assert_non_null(strstr(buffer_text(&reply.body), "more than 10 headers"));
  expect_error(&reply, 431, "headers_too_large");
  http_reply_free(&reply);
  reply = ask(serve, chat, "Authorization: Bearer right\r\nContent-Length: 5001\r\n", NULL);
  assert_non_null(strstr(buffer_text(&reply.body), "larger than 5000 bytes"));
  expect_error(&reply, 413, "body_too_large");
  http_reply_free(&reply);
  buffer_free(&lines);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_request_without_the_key_is_refused),     cmocka_unit_test(a_request_with_the_key_is_answered),
      cmocka_unit_test(the_body_of_a_stranger_is_not_waited_for), cmocka_unit_test(one_key_a_request),
      cmocka_unit_test(the_allowed_page_reads_every_answer),      cmocka_unit_test(the_allowed_page_reads_a_stream),
      cmocka_unit_test(h14_a_preflight_of_the_allowed_page),      cmocka_unit_test(limits_of_heads_and_bodies),
  };
  return cmocka_run_group_tests(tests, start, stop);
}

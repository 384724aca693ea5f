/* Routes, methods, limits and deadlines: what a client sees of HTTP itself. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "unit/http/serve_fake.h"
#include "unit/unit.h"

static const char chat_body[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";

static int start(void **state) {
  static const struct http_limits limits = {.request_deadline = 0.3, .idle_timeout = 30, .max_body = 100000};
  *state = calloc(1, sizeof(struct serve_fake));
  if (!*state) return -1;
  serve_fake_start(*state, &limits);
  serve_fake_say(*state, "Hello");
  return 0;
}

static int stop(void **state) {
  serve_fake_stop(*state);
  free(*state);
  return 0;
}

/* The reply is an error in OpenAI's shape. Frees it. */
static void expect_error(struct http_reply *reply, int status, const char *code) {
  if (reply->status != status) fail_msg("%d: %s", reply->status, buffer_text(&reply->body));
  assert_string_equal(http_reply_header(reply, "Content-Type"), "application/json");
  json_t *body = http_reply_json(reply), *error = json_object_get(body, "error");
  assert_string_equal(json_string_value(json_object_get(error, "code")), code);
  assert_true(json_string_length(json_object_get(error, "message")) > 0);
  assert_true(json_is_string(json_object_get(error, "type")));
  assert_non_null(json_object_get(error, "param"));
  json_decref(body);
  http_reply_free(reply);
}

/* Sends bytes as they are and reads one reply, after which the server closes. */
static struct http_reply ask_raw(struct serve_fake *serve, const char *bytes, size_t length) {
  struct http_reply reply;
  int client = client_connect(serve->port);
  client_send(client, bytes, length);
  assert_true(client_read(client, true, &reply));
  assert_string_equal(http_reply_header(&reply, "Connection"), "close");
  assert_true(client_is_closed(client));
  client_close(client);
  return reply;
}

static void lists_the_model(void **state) {
  struct serve_fake *serve = *state;
  struct http_reply reply = client_ask(serve->port, "GET", "/v1/models", NULL);
  assert_int_equal(reply.status, 200);
  json_t *list = http_reply_json(&reply);
  const json_t *model = json_array_get(json_object_get(list, "data"), 0);
  assert_string_equal(json_string_value(json_object_get(model, "id")), "org/kaiju-mini");
  json_decref(list);
  http_reply_free(&reply);
  static const char *const paths[] = {"/v1/models/org/kaiju-mini", "/v1/models/org%2Fkaiju%2dmini?x"};
  for (size_t i = 0; i < 2; i++) {
    reply = client_ask(serve->port, "GET", paths[i], NULL);
    assert_int_equal(reply.status, 200);
    http_reply_free(&reply);
  }
  reply = client_ask(serve->port, "GET", "/v1/models/other", NULL);
  expect_error(&reply, 404, "model_not_found");
  reply = client_ask(serve->port, "GET", "/v1/models/%zz", NULL);
  expect_error(&reply, 404, "model_not_found");
}

static void h13_unknown_paths_and_methods(void **state) {
  struct serve_fake *serve = *state;
  static const char *const paths[] = {"/page",     "/page/",    "/v1", "/v1/models/", "/v1/chat/completions/",
                                      "/health/x", "/V1/models"};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    struct http_reply reply = client_ask(serve->port, "GET", paths[i], NULL);
    expect_error(&reply, 404, "not_found");
  }
  static const char *const methods[][3] = {{"GET", "/v1/chat/completions", "POST, OPTIONS"},
                                           {"PUT", "/v1/completions", "POST, OPTIONS"},
                                           {"DELETE", "/v1/models", "GET, HEAD, OPTIONS"},
                                           {"POST", "/health", "GET, HEAD, OPTIONS"},
                                           {"get", "/health", "GET, HEAD, OPTIONS"}};
  for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
    struct http_reply reply = client_ask(serve->port, methods[i][0], methods[i][1], NULL);
    assert_string_equal(http_reply_header(&reply, "Allow"), methods[i][2]);
    expect_error(&reply, 405, "method_not_allowed");
  }
}

static void h13_bodies_that_are_wrong(void **state) {
  struct serve_fake *serve = *state;
  static const char *const cases[][2] = {
      {"", "invalid_json"},
      {"hello", "invalid_json"},
      {"{}", "missing_field"},
      {"{\"messages\":[]}", "invalid_value"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"temperature\":\"hot\"}", "invalid_type"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct http_reply reply = client_ask(serve->port, "POST", "/v1/chat/completions", cases[i][0]);
    expect_error(&reply, 400, cases[i][1]);
  }
}

static void h3_a_byte_that_is_no_text(void **state) {
  struct serve_fake *serve = *state;
  struct http_reply reply = client_ask(serve->port, "POST", "/v1/completions", "{\"prompt\":\"a\xff\"}");
  assert_non_null(strstr(buffer_text(&reply.body), "(byte "));
  expect_error(&reply, 400, "invalid_json");
}

static void answers_head_without_a_body(void **state) {
  struct serve_fake *serve = *state;
  int client = client_connect(serve->port);
  struct http_reply reply;
  for (int i = 0; i < 2; i++) {
    client_send_request(client, "HEAD", "/health", NULL);
    assert_true(client_read(client, false, &reply));
    assert_int_equal(reply.status, 200);
    assert_string_equal(http_reply_header(&reply, "Content-Length"), "15");
    http_reply_free(&reply);
  }
  client_close(client);
}

static void h14_preflight(void **state) {
  struct serve_fake *serve = *state;
  static const char request[] =
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: a\r\nOrigin: https://evil.example\r\n"
      "Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n";
  struct http_reply reply = ask_raw(serve, request, sizeof request - 1);
  assert_int_equal(reply.status, 204);
  assert_string_equal(http_reply_header(&reply, "Allow"), "POST, OPTIONS");
  assert_null(http_reply_header(&reply, "Access-Control-Allow-Origin"));
  assert_null(http_reply_header(&reply, "Access-Control-Allow-Credentials"));
  assert_null(http_reply_header(&reply, "Content-Length"));
  http_reply_free(&reply);
  static const char foreign[] =
      "GET /v1/models HTTP/1.1\r\nHost: a\r\nOrigin: https://evil.example\r\nConnection: close\r\n\r\n";
  reply = ask_raw(serve, foreign, sizeof foreign - 1);
  assert_int_equal(reply.status, 200);
  assert_null(http_reply_header(&reply, "Access-Control-Allow-Origin"));
  http_reply_free(&reply);
}

static void h12_huge_headers_431(void **state) {
  struct serve_fake *serve = *state;
  struct buffer request = {0};
  buffer_append_text(&request, "GET /health HTTP/1.1\r\nHost: a\r\nX: ");
  while (request.length < 200000) buffer_append_text(&request, "xxxxxxxxxxxxxxxxxxxxxxxx");
  struct http_reply reply = ask_raw(serve, request.data, request.length);
  expect_error(&reply, 431, "headers_too_large");
  buffer_append_text(&request, "\r\n\r\n");
  reply = ask_raw(serve, request.data, request.length);
  expect_error(&reply, 431, "headers_too_large");
  buffer_free(&request);
}

static void h12_huge_bodies_413(void **state) {
  struct serve_fake *serve = *state;
  static const char declared[] =
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999999\r\nExpect: 100-continue\r\n\r\n";
  struct http_reply reply = ask_raw(serve, declared, sizeof declared - 1);
  expect_error(&reply, 413, "body_too_large");
  struct buffer request = {0};
  buffer_append_text(&request, "POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 200; i++) {
    buffer_append_text(&request, "400\r\n");
    for (int j = 0; j < 64; j++) buffer_append_text(&request, "0123456789abcdef");
    buffer_append_text(&request, "\r\n");
  }
  reply = ask_raw(serve, request.data, request.length);
  expect_error(&reply, 413, "body_too_large");
  buffer_free(&request);
}

static void malformed_requests_have_openai_errors(void **state) {
  struct serve_fake *serve = *state;
  static const char nonsense[] = "nonsense\r\n\r\n",
                    chunk[] = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
  struct http_reply reply = ask_raw(serve, nonsense, sizeof nonsense - 1);
  expect_error(&reply, 400, "bad_request");
  reply = ask_raw(serve, chunk, sizeof chunk - 1);
  expect_error(&reply, 400, "bad_request");
}

/* The deadline is for the request as a whole: bytes that trickle in do not extend it. */
static void slow_senders_get_408(void **state) {
  struct serve_fake *serve = *state;
  static const char head[] = "GET /hea",
                    body[] = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{";
  struct http_reply reply = ask_raw(serve, head, sizeof head - 1);
  expect_error(&reply, 408, "request_timeout");
  reply = ask_raw(serve, body, sizeof body - 1);
  expect_error(&reply, 408, "request_timeout");
}

static void requests_share_a_connection(void **state) {
  struct serve_fake *serve = *state;
  int client = client_connect(serve->port);
  struct http_reply reply;
  for (int i = 0; i < 3; i++) {
    client_send_request(client, "POST", "/v1/chat/completions", chat_body);
    assert_true(client_read(client, true, &reply));
    assert_int_equal(reply.status, 200);
    http_reply_free(&reply);
  }
  client_send_request(client, "GET", "/nowhere", NULL);
  assert_true(client_read(client, true, &reply));
  assert_int_equal(reply.status, 404);
  http_reply_free(&reply);
  client_close(client);
}

/* Requests that come all at once are answered in their order. */
static void pipelined_requests_are_answered_in_order(void **state) {
  struct serve_fake *serve = *state;
  struct buffer requests = {0}, seen = {0};
  buffer_append_format(&requests,
                       "\r\nPOST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s"
                       "GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
                       "GET /nowhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                       strlen(chat_body), chat_body);
  int client = client_connect(serve->port);
  assert_true(client_send(client, requests.data, requests.length));
  assert_true(client_read_until(client, "there is nothing at", &seen));
  const char *chat = strstr(seen.data, "chat.completion"), *health = strstr(seen.data, "\"ok\"");
  assert_true(chat && health && chat < health);
  client_close(client);
  buffer_free(&requests);
  buffer_free(&seen);
}

/* Sends requests until the server takes no more; returns how many it began to take. */
static size_t send_until_blocked(int client, const char *request, size_t most) {
  size_t length = strlen(request), sent = 0;
  struct pollfd writable = {.fd = client, .events = POLLOUT};
  while (sent < most * length && poll(&writable, 1, 1000) == 1) {
    ssize_t count = send(client, request + sent % length, length - sent % length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) sent += (size_t)count;
  }
  return (sent + length - 1) / length;
}

static void responses_do_not_pile_up_for_who_does_not_read(void **state) {
  static const char request[] = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
  enum { MOST = 200000 };
  struct serve_fake *serve = *state;
  int client = client_connect(serve->port);
  assert_in_range(send_until_blocked(client, request, MOST), 1, MOST - 1);
  client_close(client);
  /* The server still serves, and who does read gets all. */
  struct buffer requests = {0}, seen = {0};
  for (int i = 0; i < 100; i++) buffer_append_text(&requests, request);
  buffer_append_text(&requests, "GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n");
  client = client_connect(serve->port);
  assert_true(client_send(client, requests.data, requests.length));
  assert_true(client_read_until(client, "there is nothing at", &seen));
  size_t answers = 0;
  for (const char *at = seen.data; (at = strstr(at, "HTTP/1.1 200 OK\r\n")); at++) answers++;
  assert_int_equal(answers, 100);
  client_close(client);
  buffer_free(&requests);
  buffer_free(&seen);
}

static void a_refusal_does_not_take_after_the_request_before(void **state) {
  struct serve_fake *serve = *state;
  struct http_reply reply;
  struct buffer header = {0};
  int client = client_connect(serve->port);
  client_send_request(client, "HEAD", "/health", NULL);
  assert_true(client_read(client, false, &reply));
  http_reply_free(&reply);
  buffer_append_text(&header, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
  for (int i = 0; i < 40000; i++) buffer_append_text(&header, "x");
  client_send(client, header.data, header.length);
  assert_true(client_read(client, true, &reply));
  expect_error(&reply, 431, "headers_too_large");
  client_close(client);
  buffer_free(&header);
}

static void takes_chunked_bodies_and_expectations(void **state) {
  struct serve_fake *serve = *state;
  struct buffer seen = {0};
  int client = client_connect(serve->port);
  static const char head[] =
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
      "Expect: 100-continue\r\n\r\n";
  client_send(client, head, sizeof head - 1);
  assert_true(client_read_until(client, "HTTP/1.1 100 Continue\r\n\r\n", &seen));
  static const char body[] = "9\r\n{\"prompt\"\r\n6\r\n:\"hi\"}\r\n0\r\n\r\n";
  client_send(client, body, sizeof body - 1);
  assert_true(client_read_until(client, "text_completion", &seen));
  client_close(client);
  buffer_free(&seen);
}

static void speaks_http_1_0(void **state) {
  struct serve_fake *serve = *state;
  struct buffer request = {0}, seen = {0};
  const char *body = "{\"prompt\":\"a\",\"stream\":true}";
  buffer_append_format(&request, "POST /v1/completions HTTP/1.0\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
  int client = client_connect(serve->port);
  client_send(client, request.data, request.length);
  assert_true(client_read_until(client, "data: [DONE]\n\n", &seen));
  assert_null(strstr(seen.data, "Transfer-Encoding"));
  assert_true(client_is_closed(client));
  client_close(client);
  buffer_free(&request);
  buffer_free(&seen);
}

static void metrics_are_prometheus_text(void **state) {
  struct serve_fake *serve = *state;
  struct http_reply reply = client_ask(serve->port, "POST", "/v1/chat/completions", chat_body);
  http_reply_free(&reply);
  reply = client_ask(serve->port, "GET", "/metrics", NULL);
  assert_int_equal(reply.status, 200);
  const char *text = buffer_text(&reply.body);
  static const char *const lines[] = {"\nkaiju_engine_state{state=\"ready\"} 1\n",
                                      "\nkaiju_engine_state{state=\"loading\"} 0\n",
                                      "\nkaiju_http_responses_total{status=\"200\"} ",
                                      "\nkaiju_time_to_first_token_seconds_bucket{le=\"+Inf\"} ",
                                      "\nkaiju_inter_token_seconds_count ",
                                      "\nkaiju_node_connected{stage=\"1\",node=\"odd\\\"name\\\\\"} 0\n",
                                      "\n# TYPE kaiju_requests_total counter\n"};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
    if (!strstr(text, lines[i])) fail_msg("no %s in:\n%s", lines[i], text);
  http_reply_free(&reply);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_the_model),
      cmocka_unit_test(h13_unknown_paths_and_methods),
      cmocka_unit_test(h13_bodies_that_are_wrong),
      cmocka_unit_test(h3_a_byte_that_is_no_text),
      cmocka_unit_test(answers_head_without_a_body),
      cmocka_unit_test(h14_preflight),
      cmocka_unit_test(h12_huge_headers_431),
      cmocka_unit_test(h12_huge_bodies_413),
      cmocka_unit_test(malformed_requests_have_openai_errors),
      cmocka_unit_test(slow_senders_get_408),
      cmocka_unit_test(requests_share_a_connection),
      cmocka_unit_test(pipelined_requests_are_answered_in_order),
      cmocka_unit_test(responses_do_not_pile_up_for_who_does_not_read),
      cmocka_unit_test(a_refusal_does_not_take_after_the_request_before),
      cmocka_unit_test(takes_chunked_bodies_and_expectations),
      cmocka_unit_test(speaks_http_1_0),
      cmocka_unit_test(metrics_are_prometheus_text),
  };
  return cmocka_run_group_tests(tests, start, stop);
}

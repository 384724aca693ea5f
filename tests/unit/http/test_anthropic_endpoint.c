/* /v1/messages and /v1/messages/count_tokens over HTTP, and what else Anthropic's clients ask (H18). */
#include <stdio.h>
#include <stdlib.h>

#include "unit/http/serve_fake.h"
#include "unit/unit.h"

static const char OPENED[] = "{% for message in messages %}{{ message.content }}{% endfor %}<think>\n";

/* A template that knows thoughts and leaves it to the model to begin one. */
static const char THINKING[] = "{% for message in messages %}{{ message.content.split('</think>')[-1] }}{% endfor %}\n";

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}]"

static int start_with(void **state, const char *template) {
  struct serve_fake *serve = calloc(1, sizeof *serve);
  if (!serve) return -1;
  serve->template = template;
  serve->aliases = "claude";
  struct http_limits limits = {.max_body = 4096, .max_head = 1024, .comment_interval = 0.05};
  serve_fake_start(serve, &limits);
  *state = serve;
  return 0;
}
static int start(void **state) { return start_with(state, NULL); }
static int start_opened(void **state) { return start_with(state, OPENED); }
static int start_thinking(void **state) { return start_with(state, THINKING); }

static int stop(void **state) {
  serve_fake_stop(*state);
  free(*state);
  return 0;
}

static const char *text_of(const json_t *object, const char *name) {
  const char *text = json_string_value(json_object_get(object, name));
  assert_non_null(text);
  return text;
}

static json_t *ask(const struct serve_fake *serve, const char *path, const char *body) {
  struct http_reply reply = client_ask(serve->port, "POST", path, body);
  if (reply.status != 200) fail_msg("%d: %s", reply.status, buffer_text(&reply.body));
  json_t *value = http_reply_json(&reply);
  http_reply_free(&reply);
  return value;
}

/* The reply is an error of Anthropic's shape. */
static void expect_error(struct http_reply *reply, int status, const char *type, const char *message) {
  json_t *body = http_reply_json(reply), *error = json_object_get(body, "error");
  assert_int_equal(reply->status, status);
  assert_string_equal(text_of(body, "type"), "error");
  assert_string_equal(text_of(error, "type"), type);
  if (!strstr(text_of(error, "message"), message)) fail_msg("%s", text_of(error, "message"));
  assert_memory_equal(text_of(body, "request_id"), "req_", 4);
  assert_string_equal(http_reply_header(reply, "Request-Id"), text_of(body, "request_id"));
  json_decref(body);
  http_reply_free(reply);
}

static void refuse(const struct serve_fake *serve, const char *body, const char *message) {
  struct http_reply reply = client_ask(serve->port, "POST", "/v1/messages", body);
  expect_error(&reply, 400, "invalid_request_error", message);
}

static void a_whole_message(void **state) {
  struct serve_fake *serve = *state;
  size_t tokens = serve_fake_say(serve, "Hello there");
  fake_engine_set_savings(serve->engine, &(struct fake_savings){.cached_tokens = 2});
  json_t *message = ask(serve, "/v1/messages?beta=true", "{\"model\":\"claude\",\"max_tokens\":50," MESSAGES "}");
  assert_memory_equal(text_of(message, "id"), "msg_", 4);
  assert_string_equal(text_of(message, "model"), "claude");
  assert_string_equal(text_of(message, "stop_reason"), "end_turn");
  const json_t *block = json_array_get(json_object_get(message, "content"), 0);
  assert_string_equal(text_of(block, "text"), "Hello there");
  const json_t *usage = json_object_get(message, "usage");
  json_t *count = ask(serve, "/v1/messages/count_tokens", "{" MESSAGES "}");
  assert_int_equal(json_object_size(count), 1);
  json_int_t input = json_integer_value(json_object_get(usage, "input_tokens"));
  assert_int_equal(input + 2, json_integer_value(json_object_get(count, "input_tokens")));
  assert_int_equal(json_integer_value(json_object_get(usage, "cache_read_input_tokens")), 2);
  assert_int_equal(json_integer_value(json_object_get(usage, "output_tokens")), tokens + 1);
  json_decref(count);
  json_decref(message);
}

static void a_stop_sequence_is_named(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say(serve, "one two three");
  json_t *message = ask(serve, "/v1/messages", "{\"max_tokens\":50,\"stop_sequences\":[\"x\",\" two\"]," MESSAGES "}");
  assert_string_equal(text_of(message, "stop_reason"), "stop_sequence");
  assert_string_equal(text_of(message, "stop_sequence"), " two");
  assert_string_equal(text_of(json_array_get(json_object_get(message, "content"), 0), "text"), "one");
  json_decref(message);
}

static void lengths_are_told_apart(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say(serve, "one two three four five six");
  json_t *message = ask(serve, "/v1/messages", "{\"max_tokens\":2," MESSAGES "}");
  assert_string_equal(text_of(message, "stop_reason"), "max_tokens");
  json_decref(message);
  struct buffer body = {0};
  buffer_append_text(&body, "{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"");
  for (int i = 0; i < 300; i++) buffer_append_text(&body, " and");
  buffer_append_text(&body, "\"}]}");
  refuse(serve, buffer_text(&body), "prompt is too long: ");
  buffer_free(&body);
}

static void a_stream(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say(serve, "Hello there");
  struct http_reply reply =
      client_ask(serve->port, "POST", "/v1/messages", "{\"max_tokens\":50,\"stream\":true," MESSAGES "}");
  assert_int_equal(reply.status, 200);
  assert_string_equal(http_reply_header(&reply, "Content-Type"), "text/event-stream; charset=utf-8");
  const char *events = buffer_text(&reply.body);
  static const char begin[] = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_";
  static const char end[] = "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
  assert_memory_equal(events, begin, sizeof begin - 1);
  assert_non_null(strstr(events, "event: content_block_delta\n"));
  assert_non_null(strstr(events, "\"stop_reason\":\"end_turn\""));
  assert_null(strstr(events, "[DONE]"));
  assert_string_equal(events + reply.body.length - (sizeof end - 1), end);
  http_reply_free(&reply);
}

static void a_stream_that_waits_and_fails(void **state) {
  struct serve_fake *serve = *state;
  struct buffer seen = {0};
  serve_fake_say(serve, "Hello there");
  fake_engine_set_failure(serve->engine, KJ_NETWORK, "the node is gone");
  fake_engine_pause_before(serve->engine, 1);
  int client = client_connect(serve->port);
  client_send_request(client, "POST", "/v1/messages", "{\"max_tokens\":50,\"stream\":true," MESSAGES "}");
  assert_true(client_read_until(client, "event: ping\ndata: {\"type\": \"ping\"}\n\n", &seen));
  fake_engine_resume(serve->engine);
  assert_true(client_read_until(client, "0\r\n\r\n", &seen));
  assert_non_null(strstr(buffer_text(&seen), "event: message_start\n"));
  assert_non_null(strstr(buffer_text(&seen),
                         "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":"
                         "\"the node is gone\""));
  assert_null(strstr(buffer_text(&seen), "message_stop"));
  assert_true(client_is_closed(client));
  client_close(client);
  buffer_free(&seen);
}

/* The engine was asked to go on from this text. */
static void expect_prompt(struct serve_fake *serve, const char *text) {
  struct request last = fake_engine_last(serve->engine);
  struct token_list tokens = {0};
  struct kj_error error;
  assert_int_equal(tokenizer_encode(serve->tokenizer, text, strlen(text), true, &tokens, &error), 0);
  assert_int_equal(last.token_count, tokens.count);
  assert_memory_equal(last.tokens, tokens.ids, tokens.count * sizeof *tokens.ids);
  token_list_free(&tokens);
}

static void the_beginning_of_an_answer_is_continued(void **state) {
  struct serve_fake *serve = *state;
  static const char prompt[] = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nYes, ";
  serve_fake_say(serve, "of course");
  json_t *message =
      ask(serve, "/v1/messages",
          "{\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\","
          "\"content\":\"Yes, \"}]}");
  assert_string_equal(text_of(json_array_get(json_object_get(message, "content"), 0), "text"), "of course");
  json_decref(message);
  expect_prompt(serve, prompt);
  serve_fake_say(serve, "of course");
  message = ask(serve, "/v1/chat/completions",
                "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":\"Yes, \"}],"
                "\"continue_final_message\":true}");
  json_decref(message);
  expect_prompt(serve, prompt);
  struct http_reply reply =
      client_ask(serve->port, "POST", "/v1/chat/completions",
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"continue_final_message\":true}");
  assert_int_equal(reply.status, 400);
  assert_non_null(strstr(buffer_text(&reply.body), "\"param\":\"continue_final_message\""));
  http_reply_free(&reply);
}

static void a_thought_that_has_begun_is_not_the_answer(void **state) {
  struct serve_fake *serve = *state;
  refuse(serve,
         "{\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":"
         "\"Yes, \"}]}",
         "thinking");
  serve_fake_say(serve, "hm</think>done");
  json_t *message = ask(serve, "/v1/messages", "{\"max_tokens\":50," MESSAGES "}");
  const json_t *content = json_object_get(message, "content");
  assert_string_equal(text_of(json_array_get(content, 0), "thinking"), "hm");
  assert_string_equal(text_of(json_array_get(content, 1), "text"), "done");
  json_decref(message);
}

/* What the client has begun is the answer already. */
static void a_continued_answer_has_no_thought(void **state) {
  struct serve_fake *serve = *state;
  static const char *const bodies[][2] = {
      {"{\"max_tokens\":50," MESSAGES "}", "thinking"},
      {"{\"max_tokens\":50,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":"
       "\"The tag is \"}]}",
       "text"}};
  for (size_t i = 0; i < 2; i++) {
    serve_fake_say(serve, "<think>hm</think>done");
    json_t *message = ask(serve, "/v1/messages", bodies[i][0]);
    assert_string_equal(text_of(json_array_get(json_object_get(message, "content"), 0), "type"), bodies[i][1]);
    json_decref(message);
  }
}

static struct http_reply send_raw(const struct serve_fake *serve, const char *head) {
  struct http_reply reply = {0};
  int client = client_connect(serve->port);
  client_send(client, head, strlen(head));
  assert_true(client_read(client, true, &reply));
  client_close(client);
  return reply;
}

static void refusals_before_the_body_have_its_shape(void **state) {
  struct serve_fake *serve = *state;
  struct http_reply reply = client_ask(serve->port, "GET", "/v1/messages", NULL);
  assert_string_equal(http_reply_header(&reply, "Allow"), "POST, OPTIONS");
  expect_error(&reply, 405, "invalid_request_error", "method");
  reply = client_ask(serve->port, "POST", "/v1/messages/batches", "{}");
  expect_error(&reply, 404, "not_found_error", "/v1/messages/batches");
  reply = client_ask(serve->port, "POST", "/v1/messages", "{");
  expect_error(&reply, 400, "invalid_request_error", "JSON");
  reply = send_raw(serve, "POST /v1/messages?beta=true HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n");
  expect_error(&reply, 413, "request_too_large", "4096");
  char head[2048];
  snprintf(head, sizeof head, "POST /v1/messages HTTP/1.1\r\nHost: a\r\nX: %01500d\r\n\r\n", 0);
  reply = send_raw(serve, head);
  expect_error(&reply, 431, "invalid_request_error", "1024");
  reply = send_raw(serve, "POST /v1/messages HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n");
  expect_error(&reply, 400, "invalid_request_error", "Host");
  reply = send_raw(serve, "GET /v1/models/other HTTP/1.1\r\nHost: a\r\nAnthropic-Version: 2023-06-01\r\n\r\n");
  expect_error(&reply, 404, "not_found_error", "other");
  fake_engine_set_state(serve->engine, ENGINE_LOADING, "");
  reply = client_ask(serve->port, "POST", "/v1/messages", "{}");
  assert_string_equal(http_reply_header(&reply, "Retry-After"), "5");
  expect_error(&reply, 503, "overloaded_error", "loading");
  /* Counting needs no engine. */
  json_decref(ask(serve, "/v1/messages/count_tokens", "{" MESSAGES "}"));
  fake_engine_set_state(serve->engine, ENGINE_READY, "");
  /* The next request of a connection is of the API that it is of. */
  int client = client_connect(serve->port);
  client_send_request(client, "GET", "/v1/messages", NULL);
  assert_true(client_read(client, true, &reply));
  expect_error(&reply, 405, "invalid_request_error", "method");
  client_send_request(client, "GET", "/v1/chat/completions", NULL);
  assert_true(client_read(client, true, &reply));
  assert_null(http_reply_header(&reply, "Request-Id"));
  assert_non_null(strstr(buffer_text(&reply.body), "\"code\":\"method_not_allowed\""));
  http_reply_free(&reply);
  client_close(client);
}

static void counting_refuses_what_a_message_would_be_refused_for(void **state) {
  struct serve_fake *serve = *state;
  static const char *const bodies[][2] = {{"{}", "'messages' is required"},
                                          {"[]", "JSON object"},
                                          {"{\"top_p\":7," MESSAGES "}", "'top_p'"},
                                          {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}",
                                           "'messages[0].content[0].type' is 'image'"}};
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    struct http_reply reply = client_ask(serve->port, "POST", "/v1/messages/count_tokens", bodies[i][0]);
    expect_error(&reply, 400, "invalid_request_error", bodies[i][1]);
  }
}

static void models_as_its_clients_read_them(void **state) {
  struct serve_fake *serve = *state;
  struct http_reply reply =
      send_raw(serve, "GET /v1/models?limit=20 HTTP/1.1\r\nHost: a\r\nAnthropic-Version: 2023-06-01\r\n\r\n");
  json_t *list = http_reply_json(&reply), *model = json_array_get(json_object_get(list, "data"), 1);
  assert_true(json_is_false(json_object_get(list, "has_more")));
  assert_string_equal(text_of(list, "first_id"), "org/kaiju-mini");
  assert_string_equal(text_of(list, "last_id"), "claude");
  assert_string_equal(text_of(model, "type"), "model");
  assert_string_equal(text_of(model, "display_name"), "claude");
  int year = 0;
  assert_int_equal(sscanf(text_of(model, "created_at"), "%d-%*d-%*dT%*d:%*d:%*dZ", &year), 1);
  assert_true(year > 2020);
  json_decref(list);
  http_reply_free(&reply);
  reply = client_ask(serve->port, "GET", "/v1/models", NULL);
  assert_null(strstr(buffer_text(&reply.body), "created_at"));
  http_reply_free(&reply);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_whole_message, start, stop),
      cmocka_unit_test_setup_teardown(a_stop_sequence_is_named, start, stop),
      cmocka_unit_test_setup_teardown(lengths_are_told_apart, start, stop),
      cmocka_unit_test_setup_teardown(a_stream, start, stop),
      cmocka_unit_test_setup_teardown(a_stream_that_waits_and_fails, start, stop),
      cmocka_unit_test_setup_teardown(the_beginning_of_an_answer_is_continued, start, stop),
      cmocka_unit_test_setup_teardown(a_thought_that_has_begun_is_not_the_answer, start_opened, stop),
      cmocka_unit_test_setup_teardown(a_continued_answer_has_no_thought, start_thinking, stop),
      cmocka_unit_test_setup_teardown(refusals_before_the_body_have_its_shape, start, stop),
      cmocka_unit_test_setup_teardown(counting_refuses_what_a_message_would_be_refused_for, start, stop),
      cmocka_unit_test_setup_teardown(models_as_its_clients_read_them, start, stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Stored responses over HTTP: going on from one, fetching it, its input items, its removal. */
#include <stdio.h>
#include <stdlib.h>

#include "unit/http/serve_fake.h"
#include "unit/unit.h"

static int start_with(void **state, const struct http_limits *limits) {
  struct serve_fake *serve = calloc(1, sizeof *serve);
  if (!serve) return -1;
  serve->context = 1024;
  serve_fake_start(serve, limits);
  serve_fake_say_bytes(serve, "Hello");
  *state = serve;
  return 0;
}
static int start(void **state) { return start_with(state, NULL); }
static int start_for_two(void **state) { return start_with(state, &(struct http_limits){.max_responses = 2}); }
static int start_for_none(void **state) { return start_with(state, &(struct http_limits){.no_responses = true}); }
static int start_with_little_room(void **state) {
  return start_with(state, &(struct http_limits){.max_output = 20000});
}
static int start_impatient(void **state) { return start_with(state, &(struct http_limits){.comment_interval = 0.05}); }

static int stop(void **state) {
  serve_fake_stop(*state);
  free(*state);
  return 0;
}

/* The JSON of an answer with this status. */
static json_t *ask(struct serve_fake *serve, const char *method, const char *path, const char *body, int status) {
  struct http_reply reply = client_ask(serve->port, method, path, body);
  if (reply.status != status) fail_msg("%s %s: %d: %s", method, path, reply.status, buffer_text(&reply.body));
  json_t *value = http_reply_json(&reply);
  http_reply_free(&reply);
  return value;
}

static const char *text_at(const json_t *object, const char *name) {
  const char *text = json_string_value(json_object_get(object, name));
  return text ? text : "";
}

static json_t *create(struct serve_fake *serve, const char *body) {
  return ask(serve, "POST", "/v1/responses", body, 200);
}

/* /v1/responses/ID and what follows. */
static json_t *about(struct serve_fake *serve, const char *method, const json_t *response, const char *rest,
                     int status) {
  char path[256];
  snprintf(path, sizeof path, "/v1/responses/%s%s", text_at(response, "id"), rest);
  return ask(serve, method, path, NULL, status);
}

static void expect_code(json_t *body, const char *code) {
  assert_string_equal(text_at(json_object_get(body, "error"), "code"), code);
  json_decref(body);
}

static void a_response_is_fetched_and_deleted(void **state) {
  struct serve_fake *serve = *state;
  json_t *response = create(serve, "{\"input\":\"hi\"}");
  json_t *fetched = about(serve, "GET", response, "", 200);
  assert_true(json_equal(response, fetched));
  json_decref(fetched);
  /* Nothing is behind an id but what is documented. */
  expect_code(about(serve, "GET", response, "/other", 404), "response_not_found");
  expect_code(about(serve, "DELETE", response, "/other", 404), "response_not_found");
  json_t *deleted = about(serve, "DELETE", response, "", 200);
  assert_true(json_is_true(json_object_get(deleted, "deleted")));
  assert_string_equal(text_at(deleted, "id"), text_at(response, "id"));
  json_decref(deleted);
  expect_code(about(serve, "GET", response, "", 404), "response_not_found");
  expect_code(about(serve, "DELETE", response, "", 404), "response_not_found");
  expect_code(about(serve, "GET", response, "/input_items", 404), "response_not_found");
  expect_code(about(serve, "POST", response, "/cancel", 404), "response_not_found");
  json_decref(response);
}

/* The last event has all at once, and the first ones have the instructions: more than may wait for a reader, who is not
 * slow for that. */
static void a_long_event_is_sent(void **state) {
  struct serve_fake *serve = *state;
  static const char fields[] =
      "{\"input\":\"hi\",\"stream\":true,\"top_logprobs\":20,\"max_output_tokens\":20,\"ignore_eos\":true}";
  struct http_reply reply = client_ask(serve->port, "POST", "/v1/responses", fields);
  json_t *events = http_reply_events(&reply), *last = json_array_get(events, json_array_size(events) - 1);
  assert_string_equal(text_at(last, "type"), "response.incomplete");
  assert_int_equal(json_integer_value(json_object_get(last, "sequence_number")), json_array_size(events) - 1);
  json_decref(events);
  http_reply_free(&reply);
}

static void a_stream_is_kept_as_well(void **state) {
  struct serve_fake *serve = *state;
  struct http_reply reply = client_ask(serve->port, "POST", "/v1/responses", "{\"input\":\"hi\",\"stream\":true}");
  assert_null(strstr(buffer_text(&reply.body), "[DONE]"));
  json_t *events = http_reply_events(&reply);
  const json_t *last = json_array_get(events, json_array_size(events) - 1);
  assert_string_equal(text_at(last, "type"), "response.completed");
  json_t *fetched = about(serve, "GET", json_object_get(last, "response"), "", 200);
  assert_true(json_equal(fetched, json_object_get(last, "response")));
  json_decref(fetched);
  json_decref(events);
  http_reply_free(&reply);
}

static void what_must_not_be_stored_is_not(void **state) {
  struct serve_fake *serve = *state;
  json_t *response = create(serve, "{\"input\":\"hi\",\"store\":false}");
  expect_code(about(serve, "GET", response, "", 404), "response_not_found");
  json_decref(response);
}

static void nothing_is_stored_where_none_may_be(void **state) {
  struct serve_fake *serve = *state;
  json_t *response = create(serve, "{\"input\":\"hi\"}");
  assert_true(json_is_false(json_object_get(response, "store")));
  expect_code(about(serve, "GET", response, "", 404), "response_not_found");
  char body[256];
  snprintf(body, sizeof body, "{\"input\":\"hi\",\"previous_response_id\":\"%s\"}", text_at(response, "id"));
  expect_code(ask(serve, "POST", "/v1/responses", body, 400), "previous_response_not_found");
  json_decref(response);
}

static json_t *go_on(struct serve_fake *serve, const json_t *response, const char *input) {
  char body[256];
  snprintf(body, sizeof body, "{\"input\":\"%s\",\"previous_response_id\":\"%s\"}", input, text_at(response, "id"));
  return create(serve, body);
}

static json_int_t input_tokens(const json_t *response) {
  return json_integer_value(json_object_get(json_object_get(response, "usage"), "input_tokens"));
}

static void a_conversation_goes_on_though_its_beginning_is_forgotten(void **state) {
  struct serve_fake *serve = *state; /* keeps two */
  json_t *turns[4] = {create(serve, "{\"input\":\"one\"}")};
  for (int i = 1; i < 4; i++) {
    turns[i] = go_on(serve, turns[i - 1], "more");
    assert_true(input_tokens(turns[i]) > input_tokens(turns[i - 1]));
    assert_string_equal(text_at(turns[i], "previous_response_id"), text_at(turns[i - 1], "id"));
  }
  expect_code(about(serve, "GET", turns[0], "", 404), "response_not_found");
  json_t *items = about(serve, "GET", turns[3], "/input_items?order=asc", 200);
  assert_int_equal(json_array_size(json_object_get(items, "data")), 7);
  json_decref(items);

  /* The same conversation in one request has the same prompt. */
  json_t *whole = create(serve,
                         "{\"input\":[{\"role\":\"user\",\"content\":\"one\"},{\"role\":\"assistant\",\"content\":"
                         "\"Hello\"},{\"role\":\"user\",\"content\":\"more\"},{\"role\":\"assistant\",\"content\":"
                         "\"Hello\"},{\"role\":\"user\",\"content\":\"more\"},{\"role\":\"assistant\",\"content\":"
                         "\"Hello\"},{\"role\":\"user\",\"content\":\"more\"}]}");
  assert_int_equal(input_tokens(whole), input_tokens(turns[3]));
  json_decref(whole);
  for (int i = 0; i < 4; i++) json_decref(turns[i]);
}

static void input_items_come_in_pages(void **state) {
  struct serve_fake *serve = *state;
  json_t *first = create(serve,
                         "{\"input\":[{\"role\":\"developer\",\"content\":\"be\"},{\"role\":\"user\",\"content\":"
                         "\"hi\"}]}");
  json_t *second = go_on(serve, first, "more");
  json_t *all = about(serve, "GET", second, "/input_items", 200);
  const json_t *data = json_object_get(all, "data");
  assert_string_equal(text_at(all, "object"), "list");
  assert_int_equal(json_array_size(data), 4);
  assert_true(json_is_false(json_object_get(all, "has_more")));
  const json_t *newest = json_array_get(data, 0), *oldest = json_array_get(data, 3);
  assert_string_equal(text_at(json_array_get(json_object_get(newest, "content"), 0), "text"), "more");
  assert_string_equal(text_at(oldest, "role"), "developer");
  assert_string_equal(text_at(json_array_get(json_object_get(oldest, "content"), 0), "type"), "input_text");
  assert_string_equal(text_at(json_array_get(data, 1), "id"),
                      text_at(json_array_get(json_object_get(first, "output"), 0), "id"));
  assert_string_equal(text_at(all, "first_id"), text_at(newest, "id"));
  assert_string_equal(text_at(all, "last_id"), text_at(oldest, "id"));

  json_t *gathered = json_array();
  char rest[256] = "/input_items?order=asc&limit=3";
  for (int pages = 0;; pages++) {
    assert_true(pages < 3);
    json_t *page = about(serve, "GET", second, rest, 200);
    json_array_extend(gathered, json_object_get(page, "data"));
    snprintf(rest, sizeof rest, "/input_items?order=asc&limit=3&after=%s", text_at(page, "last_id"));
    bool more = json_is_true(json_object_get(page, "has_more"));
    json_decref(page);
    if (!more) break;
  }
  assert_int_equal(json_array_size(gathered), 4);
  for (size_t i = 0; i < 4; i++) assert_true(json_equal(json_array_get(gathered, i), json_array_get(data, 3 - i)));
  json_decref(gathered);
  json_decref(all);

  static const char *const wrong[] = {"?limit=0", "?limit=101", "?limit=x", "?limit=-1", "?order=up", "?after=%zz"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    snprintf(rest, sizeof rest, "/input_items%s", wrong[i]);
    expect_code(about(serve, "GET", second, rest, 400), "invalid_value");
  }
  json_decref(first);
  json_decref(second);
}

static void nothing_can_be_cancelled(void **state) {
  struct serve_fake *serve = *state;
  json_t *response = create(serve, "{\"input\":\"hi\"}");
  expect_code(about(serve, "POST", response, "/cancel", 400), "unsupported");
  json_decref(response);
}

static void methods_and_paths_are_told_apart(void **state) {
  struct serve_fake *serve = *state;
  static const struct {
    const char *method, *path;
    int status;
    const char *allow;
  } cases[] = {
      {"GET", "/v1/responses", 405, "POST, OPTIONS"},
      {"POST", "/v1/responses/resp_1", 405, "GET, HEAD, DELETE, OPTIONS"},
      {"DELETE", "/v1/responses/resp_1/input_items", 405, "GET, HEAD, OPTIONS"},
      {"GET", "/v1/responses/resp_1/cancel", 405, "POST, OPTIONS"},
      {"DELETE", "/health", 405, "GET, HEAD, OPTIONS"},
      {"OPTIONS", "/v1/responses/resp_1", 204, "GET, HEAD, DELETE, OPTIONS"},
      {"GET", "/v1/responses/resp_1/other", 404, NULL},
      {"GET", "/v1/responses//input_items", 404, NULL},
      {"GET", "/v1/responses/", 404, NULL},
      {"GET", "/v1/responses/%zz", 404, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct http_reply reply = client_ask(serve->port, cases[i].method, cases[i].path, NULL);
    if (reply.status != cases[i].status) fail_msg("%s %s: %d", cases[i].method, cases[i].path, reply.status);
    const char *allow = http_reply_header(&reply, "Allow");
    if (cases[i].allow)
      assert_string_equal(allow, cases[i].allow);
    else
      assert_null(allow);
    http_reply_free(&reply);
  }
}

static void a_long_prompt_has_events_before_its_first_token(void **state) {
  struct serve_fake *serve = *state;
  fake_engine_pause_before(serve->engine, 0);
  int client = client_connect(serve->port);
  client_send_request(client, "POST", "/v1/responses", "{\"input\":\"hi\",\"stream\":true}");
  struct buffer seen = {0};
  assert_true(client_read_until(client, "\"sequence_number\":4", &seen));
  fake_engine_resume(serve->engine);
  assert_true(client_read_until(client, "response.completed", &seen));
  buffer_free(&seen);
  client_close(client);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_response_is_fetched_and_deleted, start, stop),
      cmocka_unit_test_setup_teardown(a_long_event_is_sent, start_with_little_room, stop),
      cmocka_unit_test_setup_teardown(a_stream_is_kept_as_well, start, stop),
      cmocka_unit_test_setup_teardown(what_must_not_be_stored_is_not, start, stop),
      cmocka_unit_test_setup_teardown(nothing_is_stored_where_none_may_be, start_for_none, stop),
      cmocka_unit_test_setup_teardown(a_conversation_goes_on_though_its_beginning_is_forgotten, start_for_two, stop),
      cmocka_unit_test_setup_teardown(input_items_come_in_pages, start, stop),
      cmocka_unit_test_setup_teardown(nothing_can_be_cancelled, start, stop),
      cmocka_unit_test_setup_teardown(methods_and_paths_are_told_apart, start, stop),
      cmocka_unit_test_setup_teardown(a_long_prompt_has_events_before_its_first_token, start_impatient, stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

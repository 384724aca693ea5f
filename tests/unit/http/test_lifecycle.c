/* Clients that leave, engines that are not ready or fail, and the end of the server. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "unit/http/serve_fake.h"
#include "unit/unit.h"

static const char path[] = "/v1/completions";
static const char plain[] = "{\"prompt\":\"hi\",\"max_tokens\":200}";
static const char streamed[] = "{\"prompt\":\"hi\",\"max_tokens\":200,\"stream\":true}";

static int start(void **state) {
  static const struct http_limits limits = {.comment_interval = 0.05};
  *state = calloc(1, sizeof(struct serve_fake));
  if (!*state) return -1;
  serve_fake_start(*state, &limits);
  serve_fake_say_bytes(*state, "Hello");
  return 0;
}

static int stop(void **state) {
  serve_fake_stop(*state);
  free(*state);
  return 0;
}

static void expect_error(struct http_reply *reply, int status, const char *code) {
  if (reply->status != status) fail_msg("%d: %s", reply->status, buffer_text(&reply->body));
  json_t *body = http_reply_json(reply);
  assert_string_equal(json_string_value(json_object_get(json_object_get(body, "error"), "code")), code);
  json_decref(body);
  http_reply_free(reply);
}

/* Leaves before the first token, or after some, and while another client waits: that one is served. */
static void h1_a_client_that_leaves_cancels(void **state) {
  struct serve_fake *serve = *state;
  const char *const bodies[] = {plain, streamed};
  uint64_t paused = 0;
  for (int pause = 0; pause <= 2; pause += 2) {
    for (size_t i = 0; i < 2; i++) {
      fake_engine_pause_before(serve->engine, pause);
      int leaves = client_connect(serve->port), stays = client_connect(serve->port);
      client_send_request(leaves, "POST", path, bodies[i]);
      assert_true(fake_engine_wait(serve->engine, FAKE_PAUSED, ++paused));
      client_send_request(stays, "POST", path, plain);
      assert_true(fake_engine_wait(serve->engine, FAKE_SUBMITTED, 2 * paused));
      client_close(leaves);
      assert_true(fake_engine_wait(serve->engine, FAKE_CANCELLED, paused));
      fake_engine_resume(serve->engine);
      struct http_reply reply;
      assert_true(client_read(stays, true, &reply));
      assert_int_equal(reply.status, 200);
      assert_non_null(strstr(buffer_text(&reply.body), "\"Hello\""));
      http_reply_free(&reply);
      client_close(stays);
      assert_true(fake_engine_wait(serve->engine, FAKE_ENDED, 2 * paused));
    }
  }
}

static void h17_a_queued_client_leaves(void **state) {
  struct serve_fake *serve = *state;
  fake_engine_pause_before(serve->engine, 1);
  int runs = client_connect(serve->port), queued = client_connect(serve->port);
  client_send_request(runs, "POST", path, streamed);
  assert_true(fake_engine_wait(serve->engine, FAKE_PAUSED, 1));
  client_send_request(queued, "POST", path, plain);
  assert_true(fake_engine_wait(serve->engine, FAKE_SUBMITTED, 2));
  client_close(queued);
  assert_true(fake_engine_wait(serve->engine, FAKE_CANCELLED, 1));
  fake_engine_resume(serve->engine);
  struct http_reply reply;
  assert_true(client_read(runs, true, &reply));
  assert_non_null(strstr(buffer_text(&reply.body), "[DONE]"));
  http_reply_free(&reply);
  client_close(runs);
}

/* Headers at once, then comments, while nothing is generated. */
static void h9_comments_during_a_long_prefill(void **state) {
  struct serve_fake *serve = *state;
  struct buffer seen = {0};
  fake_engine_pause_before(serve->engine, 0);
  int client = client_connect(serve->port);
  client_send_request(client, "POST", path, streamed);
  assert_true(client_read_until(client, "\r\n\r\n", &seen));
  assert_true(client_read_until(client, ": still working\n\n\r\n11\r\n: still working\n\n", &seen));
  fake_engine_resume(serve->engine);
  assert_true(client_read_until(client, "data: [DONE]\n\n", &seen));
  client_close(client);
  buffer_free(&seen);
}

static void h16_health_while_every_slot_is_busy(void **state) {
  struct serve_fake *serve = *state;
  int clients[8];
  fake_engine_pause_before(serve->engine, 0);
  for (size_t i = 0; i < 8; i++) {
    clients[i] = client_connect(serve->port);
    client_send_request(clients[i], "POST", path, i % 2 ? plain : streamed);
  }
  assert_true(fake_engine_wait(serve->engine, FAKE_SUBMITTED, 8));
  static const char *const paths[] = {"/health", "/metrics", "/v1/models"};
  for (size_t i = 0; i < 3; i++) {
    struct http_reply reply = client_ask(serve->port, "GET", paths[i], NULL);
    assert_int_equal(reply.status, 200);
    http_reply_free(&reply);
  }
  for (size_t i = 0; i < 8; i++) client_close(clients[i]);
  assert_true(fake_engine_wait(serve->engine, FAKE_CANCELLED, 8));
}

static void c6_503_unless_a_token_can_go_round(void **state) {
  struct serve_fake *serve = *state;
  static const struct {
    enum engine_state state;
    const char *code;
  } states[] = {{ENGINE_CONNECTING, "connecting"},
                {ENGINE_LOADING, "loading"},
                {ENGINE_RECOVERING, "recovering"},
                {ENGINE_STOPPING, "stopping"}};
  for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
    fake_engine_set_state(serve->engine, states[i].state, "node b:1 is away");
    static const char *const asks[][3] = {
        {"GET", "/health", NULL}, {"GET", "/v1/models", NULL}, {"POST", path, plain}, {"POST", path, "not json"}};
    for (size_t j = 0; j < 4; j++) {
      struct http_reply reply = client_ask(serve->port, asks[j][0], asks[j][1], asks[j][2]);
      assert_string_equal(http_reply_header(&reply, "Retry-After"), "5");
      assert_non_null(strstr(buffer_text(&reply.body), "node b:1 is away"));
      expect_error(&reply, 503, states[i].code);
    }
  }
  struct http_reply reply = client_ask(serve->port, "GET", "/metrics", NULL);
  assert_int_equal(reply.status, 200);
  http_reply_free(&reply);
  fake_engine_set_state(serve->engine, ENGINE_READY, "");
  reply = client_ask(serve->port, "GET", "/health", NULL);
  assert_int_equal(reply.status, 200);
  assert_string_equal(buffer_text(&reply.body), "{\"status\":\"ok\"}");
  http_reply_free(&reply);
}

static void errors_of_the_engine_reach_the_client(void **state) {
  struct serve_fake *serve = *state;
  fake_engine_set_failure(serve->engine, KJ_TIMEOUT, "node b:1 did not come back within 60 s");
  struct http_reply reply = client_ask(serve->port, "POST", path, plain);
  assert_string_equal(http_reply_header(&reply, "Retry-After"), "5");
  expect_error(&reply, 503, "node_unavailable");
  int client = client_connect(serve->port);
  client_send_request(client, "POST", path, streamed);
  assert_true(client_read(client, true, &reply));
  assert_int_equal(reply.status, 200);
  json_t *events = http_reply_events(&reply);
  const json_t *last = json_array_get(events, json_array_size(events) - 1);
  assert_string_equal(json_string_value(json_object_get(json_object_get(last, "error"), "message")),
                      "node b:1 did not come back within 60 s");
  assert_true(json_array_size(events) > 1);
  json_decref(events);
  http_reply_free(&reply);
  assert_true(client_is_closed(client));
  client_close(client);
}

/* The queue is full: before any header of an answer, with the seconds after which another try may succeed. */
static void a_full_queue_is_429(void **state) {
  struct serve_fake *serve = *state;
  static const struct {
    uint32_t seconds;
    const char *header;
  } times[] = {{17, "17"}, {0, "1"}, {UINT32_MAX, "2147483647"}};
  const char *const bodies[] = {plain, streamed};
  for (size_t i = 0; i < 3; i++) {
    fake_engine_set_full(serve->engine, "256 requests wait already", times[i].seconds);
    for (size_t j = 0; j < 2; j++) {
      struct http_reply reply = client_ask(serve->port, "POST", path, bodies[j]);
      assert_memory_equal(reply.headers, "HTTP/1.1 429 Too Many Requests\r\n", 32);
      assert_string_equal(http_reply_header(&reply, "Content-Type"), "application/json");
      assert_string_equal(http_reply_header(&reply, "Retry-After"), times[i].header);
      assert_non_null(strstr(buffer_text(&reply.body), "\"message\":\"256 requests wait already\""));
      assert_non_null(strstr(buffer_text(&reply.body), "\"type\":\"rate_limit_error\""));
      expect_error(&reply, 429, "rate_limit_exceeded");
    }
  }
  fake_engine_set_full(serve->engine, NULL, 0);
  struct http_reply reply = client_ask(serve->port, "POST", path, plain);
  assert_int_equal(reply.status, 200);
  http_reply_free(&reply);
}

/* A reader that does not read is dropped when too much waits for it, and its request is cancelled. */
static void a_slow_reader_is_dropped(void **state) {
  (void)state;
  static const struct http_limits limits = {.max_output = 1000, .comment_interval = 0.1};
  struct serve_fake serve = {.context = 20000};
  serve_fake_start(&serve, &limits);
  serve_fake_say_bytes(&serve, "Hello");
  /* Some 30 MB: more than the system's own buffers take. */
  fake_engine_pause_before(serve.engine, 10000);
  int client = client_connect(serve.port), room = 4096;
  assert_int_equal(setsockopt(client, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
  client_send_request(client, "POST", path,
                      "{\"prompt\":\"hi\",\"max_tokens\":15000,\"stream\":true,\"ignore_eos\":true,\"logprobs\":20}");
  assert_true(fake_engine_wait(serve.engine, FAKE_CANCELLED, 1));
  struct buffer seen = {0};
  assert_false(client_read_until(client, "[DONE]", &seen));
  buffer_free(&seen);
  client_close(client);
  serve_fake_stop(&serve);
}

static void *stop_server(void *server) {
  http_server_stop(server);
  return NULL;
}

/* What a client of a server that stops sees: a final event, then the end. */
static void c16_stop_ends_streams_with_an_error_event(void **state) {
  (void)state;
  struct serve_fake serve = {0};
  serve_fake_start(&serve, NULL);
  serve_fake_say_bytes(&serve, "Hello");
  fake_engine_pause_before(serve.engine, 3);
  struct buffer seen = {0};
  int idle = client_connect(serve.port), stream = client_connect(serve.port), waits = client_connect(serve.port);
  client_send_request(stream, "POST", path, streamed);
  assert_true(client_read_until(stream, "\"text\":\"H", &seen));
  assert_true(fake_engine_wait(serve.engine, FAKE_PAUSED, 1));
  client_send_request(waits, "POST", path, plain);
  assert_true(fake_engine_wait(serve.engine, FAKE_SUBMITTED, 2));
  engine_stop(serve.engine);
  pthread_t stopping;
  assert_int_equal(pthread_create(&stopping, NULL, stop_server, serve.server), 0);
  assert_true(client_read_until(stream, "\"code\":\"stopping\"", &seen));
  assert_true(client_is_closed(stream));
  struct http_reply reply;
  assert_true(client_read(waits, true, &reply));
  expect_error(&reply, 503, "stopping");
  assert_true(client_is_closed(idle));
  client_close(idle);
  client_close(stream);
  client_close(waits);
  pthread_join(stopping, NULL);
  buffer_free(&seen);
  serve.server = NULL;
  serve_fake_stop(&serve);
}

/* The server goes before the engine has ended its requests: their last events find nobody, and nothing leaks. */
static void a_server_may_stop_before_the_engine(void **state) {
  (void)state;
  struct serve_fake serve = {0};
  serve_fake_start(&serve, NULL);
  serve_fake_say_bytes(&serve, "Hello");
  fake_engine_pause_before(serve.engine, 2);
  int client = client_connect(serve.port);
  client_send_request(client, "POST", path, streamed);
  assert_true(fake_engine_wait(serve.engine, FAKE_PAUSED, 1));
  int waits = client_connect(serve.port);
  client_send_request(waits, "POST", path, plain);
  assert_true(fake_engine_wait(serve.engine, FAKE_SUBMITTED, 2));
  shutdown(client, SHUT_WR);
  http_server_stop(serve.server);
  /* Another server may be there soon. */
  struct http_reply reply;
  assert_true(client_read(waits, true, &reply));
  assert_string_equal(http_reply_header(&reply, "Retry-After"), "5");
  expect_error(&reply, 503, "stopping");
  client_close(waits);
  serve.server = NULL;
  client_close(client);
  serve_fake_stop(&serve);
}

static void a_taken_port_is_refused(void **state) {
  struct serve_fake *serve = *state;
  struct http_options options = {.host = "127.0.0.1",
                                 .port = serve->port,
                                 .model_name = "m",
                                 .engine = serve->engine,
                                 .tokenizer = serve->tokenizer};
  struct http_server *second = NULL;
  struct kj_error error;
  uint16_t port = 0;
  assert_int_equal(http_server_start(&second, &options, &port, &error), KJ_NETWORK);
  char number[8];
  snprintf(number, sizeof number, "%u", serve->port);
  assert_non_null(strstr(error.message, number));
  options.host = "no.such.host.invalid";
  assert_int_equal(http_server_start(&second, &options, &port, &error), KJ_NOT_FOUND);
}

/* More clients than connections: the rest wait in the listen queue, and all are served. */
static void connections_are_bounded(void **state) {
  (void)state;
  static const struct http_limits limits = {.max_connections = 2};
  struct serve_fake serve = {0};
  serve_fake_start(&serve, &limits);
  int clients[6];
  for (size_t i = 0; i < 6; i++) {
    clients[i] = client_connect(serve.port);
    client_send_request(clients[i], "GET", "/health", NULL);
  }
  for (size_t i = 0; i < 6; i++) {
    struct http_reply reply;
    assert_true(client_read(clients[i], true, &reply));
    assert_int_equal(reply.status, 200);
    http_reply_free(&reply);
    client_close(clients[i]);
  }
  serve_fake_stop(&serve);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(h1_a_client_that_leaves_cancels, start, stop),
      cmocka_unit_test_setup_teardown(h17_a_queued_client_leaves, start, stop),
      cmocka_unit_test_setup_teardown(h9_comments_during_a_long_prefill, start, stop),
      cmocka_unit_test_setup_teardown(h16_health_while_every_slot_is_busy, start, stop),
      cmocka_unit_test_setup_teardown(c6_503_unless_a_token_can_go_round, start, stop),
      cmocka_unit_test_setup_teardown(errors_of_the_engine_reach_the_client, start, stop),
      cmocka_unit_test_setup_teardown(a_full_queue_is_429, start, stop),
      cmocka_unit_test(a_slow_reader_is_dropped),
      cmocka_unit_test(c16_stop_ends_streams_with_an_error_event),
      cmocka_unit_test(a_server_may_stop_before_the_engine),
      cmocka_unit_test_setup_teardown(a_taken_port_is_refused, start, stop),
      cmocka_unit_test(connections_are_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

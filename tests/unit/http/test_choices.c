/* Several choices and several prompts in one request, echoed prompts, gaps to be filled in, and thoughts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/http/serve_fake.h"
#include "unit/unit.h"

static const char THINKING[] =
    "{% for message in messages %}{{ message.content }}{% endfor %}\nassistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}";
static const char OPENED[] = "{% for message in messages %}{{ message.content }}{% endfor %}<think>\n";

static int start_with(void **state, const char *template) {
  struct serve_fake *serve = calloc(1, sizeof *serve);
  if (!serve) return -1;
  serve->template = template;
  serve_fake_start(serve, NULL);
  *state = serve;
  return 0;
}
static int start(void **state) { return start_with(state, NULL); }
static int start_thinking(void **state) { return start_with(state, THINKING); }
static int start_long(void **state) {
  struct serve_fake *serve = calloc(1, sizeof *serve);
  if (!serve) return -1;
  serve->context = 1 << 20;
  serve_fake_start(serve, NULL);
  *state = serve;
  return 0;
}
static int start_for_three(void **state) {
  struct serve_fake *serve = calloc(1, sizeof *serve);
  if (!serve) return -1;
  serve->capacity = 3;
  serve_fake_start(serve, NULL);
  *state = serve;
  return 0;
}
static int start_opened(void **state) { return start_with(state, OPENED); }

static int stop(void **state) {
  serve_fake_stop(*state);
  free(*state);
  return 0;
}

static json_t *ask(const struct serve_fake *serve, const char *path, const char *body) {
  struct http_reply reply = client_ask(serve->port, "POST", path, body);
  if (reply.status != 200) fail_msg("%d: %s", reply.status, buffer_text(&reply.body));
  json_t *value = http_reply_json(&reply);
  http_reply_free(&reply);
  return value;
}

/* What a stream's chunks add up to: for each choice {"text", "reasoning", "reason", "roles"}; and the last usage. */
static json_t *ask_stream(const struct serve_fake *serve, const char *path, const char *body, size_t choices,
                          json_t **usage) {
  struct http_reply reply = client_ask(serve->port, "POST", path, body);
  if (reply.status != 200) fail_msg("%d: %s", reply.status, buffer_text(&reply.body));
  json_t *events = http_reply_events(&reply), *sums = json_array();
  struct buffer texts[8] = {0}, thoughts[8] = {0};
  json_t *reasons[8] = {0};
  *usage = NULL;
  for (size_t i = 0; i + 1 < json_array_size(events); i++) {
    const json_t *event = json_array_get(events, i), *choice = json_array_get(json_object_get(event, "choices"), 0);
    if (!choice) *usage = json_incref(json_object_get(event, "usage"));
    if (!choice) continue;
    size_t index = (size_t)json_integer_value(json_object_get(choice, "index"));
    assert_true(index < choices && !reasons[index]);
    const json_t *delta = json_object_get(choice, "delta");
    const char *text = json_string_value(json_object_get(delta ? delta : choice, delta ? "content" : "text"));
    const char *thought = json_string_value(json_object_get(delta, "reasoning_content"));
    buffer_append_text(&texts[index], text ? text : "");
    buffer_append_text(&thoughts[index], thought ? thought : "");
    if (json_is_string(json_object_get(choice, "finish_reason")))
      reasons[index] = json_incref(json_object_get(choice, "finish_reason"));
  }
  for (size_t i = 0; i < choices; i++) {
    assert_non_null(reasons[i]);
    json_array_append_new(sums, json_pack("{s:s, s:s, s:o}", "text", buffer_text(&texts[i]), "reasoning",
                                          buffer_text(&thoughts[i]), "reason", reasons[i]));
    buffer_free(&texts[i]);
    buffer_free(&thoughts[i]);
  }
  json_decref(events);
  http_reply_free(&reply);
  return sums;
}

static json_int_t usage_of(const json_t *usage, const char *name) {
  return json_integer_value(json_object_get(usage, name));
}

/* Prompt tokens count once for each prompt, output tokens for every choice. */
static void choices_of_one_prompt(void **state) {
  struct serve_fake *serve = *state;
  size_t tokens = serve_fake_say(serve, "Hello there");
  fake_engine_set_savings(serve->engine, &(struct fake_savings){.cached_tokens = 2});
  json_t *response =
      ask(serve, "/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"n\":3,\"seed\":5}");
  const json_t *choices = json_object_get(response, "choices"), *usage = json_object_get(response, "usage");
  assert_int_equal(json_array_size(choices), 3);
  for (size_t i = 0; i < 3; i++) {
    const json_t *choice = json_array_get(choices, i);
    assert_int_equal(json_integer_value(json_object_get(choice, "index")), i);
    assert_string_equal(json_string_value(json_object_get(json_object_get(choice, "message"), "content")),
                        "Hello there");
    assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), "stop");
  }
  struct request last = fake_engine_last(serve->engine);
  assert_int_equal(usage_of(usage, "prompt_tokens"), last.token_count);
  assert_int_equal(usage_of(usage, "completion_tokens"), 3 * (tokens + 1));
  assert_int_equal(usage_of(json_object_get(usage, "prompt_tokens_details"), "cached_tokens"), 2);
  /* The first choice has the seed of the request, the others their own. */
  assert_int_not_equal(last.sampling.seed, 5);
  json_decref(response);
  json_decref(
      ask(serve, "/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"n\":1,\"seed\":5}"));
  assert_int_equal(fake_engine_last(serve->engine).sampling.seed, 5);
}

static void choices_are_streamed_side_by_side(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say(serve, "Hello there");
  json_t *usage = NULL;
  json_t *sums = ask_stream(serve, "/v1/chat/completions",
                            "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"n\":2,\"stream\":true,"
                            "\"stream_options\":{\"include_usage\":true}}",
                            2, &usage);
  for (size_t i = 0; i < 2; i++) {
    const json_t *sum = json_array_get(sums, i);
    assert_string_equal(json_string_value(json_object_get(sum, "text")), "Hello there");
    assert_string_equal(json_string_value(json_object_get(sum, "reason")), "stop");
  }
  assert_int_equal(usage_of(usage, "total_tokens"),
                   usage_of(usage, "prompt_tokens") + usage_of(usage, "completion_tokens"));
  json_decref(sums);
  json_decref(usage);
}

/* Prompt by prompt, each with its choices, as OpenAI orders them. */
static void prompts_in_their_order(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say(serve, "!");
  struct token_list ids = {0};
  struct kj_error error;
  assert_int_equal(tokenizer_encode(serve->tokenizer, "def two", 7, true, &ids, &error), 0);
  struct buffer body = {0};
  buffer_append_text(&body, "{\"n\":2,\"echo\":true,\"prompt\":[\"one \\u00e9\",[");
  for (size_t i = 0; i < ids.count; i++) buffer_append_format(&body, "%s%u", i ? "," : "", ids.ids[i]);
  buffer_append_text(&body, "]]");
  struct buffer stream = {0};
  buffer_append_format(&stream, "%s,\"stream\":true}", body.data);
  buffer_append_text(&body, "}");
  json_t *response = ask(serve, "/v1/completions", body.data), *usage = NULL;
  const json_t *choices = json_object_get(response, "choices");
  json_t *sums = ask_stream(serve, "/v1/completions", stream.data, 4, &usage);
  static const char *const wanted[] = {"one é!", "one é!", "def two!", "def two!"};
  assert_int_equal(json_array_size(choices), 4);
  for (size_t i = 0; i < 4; i++) {
    assert_string_equal(json_string_value(json_object_get(json_array_get(choices, i), "text")), wanted[i]);
    assert_string_equal(json_string_value(json_object_get(json_array_get(sums, i), "text")), wanted[i]);
  }
  json_decref(sums);
  json_decref(response);
  buffer_free(&body);
  buffer_free(&stream);
  token_list_free(&ids);
}

/* With an echo, the prompt's tokens have log-probabilities too, but the first, which nothing foresees. */
static void an_echo_has_log_probabilities(void **state) {
  struct serve_fake *serve = *state;
  size_t answer = serve_fake_say(serve, "ab");
  json_t *response = ask(serve, "/v1/completions", "{\"prompt\":\"\\u00e9t\\u00e9\",\"echo\":true,\"logprobs\":0}");
  const json_t *choice = json_array_get(json_object_get(response, "choices"), 0),
               *logprobs = json_object_get(choice, "logprobs");
  size_t prompt = fake_engine_last(serve->engine).token_count;
  assert_true(prompt > 1);
  assert_true(fake_engine_last(serve->engine).score_prompt);
  assert_int_equal(json_array_size(json_object_get(logprobs, "tokens")), prompt + answer);
  assert_true(json_is_null(json_array_get(json_object_get(logprobs, "token_logprobs"), 0)));
  assert_true(json_is_real(json_array_get(json_object_get(logprobs, "token_logprobs"), 1)));
  const json_t *offsets = json_object_get(logprobs, "text_offset");
  assert_int_equal(json_integer_value(json_array_get(offsets, 0)), 0);
  assert_int_equal(json_integer_value(json_array_get(offsets, prompt)), 3);
  json_decref(response);
}

static void only_the_echo(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say(serve, "ab");
  json_t *response = ask(serve, "/v1/completions", "{\"prompt\":\"one\",\"echo\":true,\"max_tokens\":0}");
  const json_t *choice = json_array_get(json_object_get(response, "choices"), 0);
  assert_string_equal(json_string_value(json_object_get(choice, "text")), "one");
  assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), "length");
  assert_int_equal(usage_of(json_object_get(response, "usage"), "completion_tokens"), 0);
  json_decref(response);
}

static void refused(const struct serve_fake *serve, const char *body, const char *param) {
  struct http_reply reply = client_ask(serve->port, "POST", "/v1/completions", body);
  json_t *answer = http_reply_json(&reply);
  if (reply.status != 400) fail_msg("%.200s: %d", body, reply.status);
  assert_string_equal(json_string_value(json_object_get(json_object_get(answer, "error"), "param")), param);
  json_decref(answer);
  http_reply_free(&reply);
}

static void a_gap_is_filled_in(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say(serve, "x");
  json_t *response = ask(serve, "/v1/completions", "{\"prompt\":\"def f(\",\"suffix\":\"): pass\",\"echo\":true}");
  const json_t *choice = json_array_get(json_object_get(response, "choices"), 0);
  assert_string_equal(json_string_value(json_object_get(choice, "text")), "def f(x");
  json_decref(response);
  struct token_list wanted = {0};
  struct kj_error error;
  static const char text[] = "<|fim_prefix|>def f(<|fim_suffix|>): pass<|fim_middle|>";
  assert_int_equal(tokenizer_encode(serve->tokenizer, text, strlen(text), true, &wanted, &error), 0);
  struct request last = fake_engine_last(serve->engine);
  assert_int_equal(last.token_count, wanted.count);
  assert_memory_equal(last.tokens, wanted.ids, wanted.count * sizeof *wanted.ids);
  token_list_free(&wanted);
  /* Ids are repeated as text is: without the tokens around them. */
  struct token_list ids = {0};
  char body[512], *at = body + snprintf(body, sizeof body, "{\"suffix\":\"): pass\",\"echo\":true,\"prompt\":[");
  assert_int_equal(tokenizer_encode(serve->tokenizer, "def f(", 6, true, &ids, &error), 0);
  for (size_t i = 0; i < ids.count; i++) at += sprintf(at, "%s%u", i ? "," : "", ids.ids[i]);
  strcpy(at, "]}");
  response = ask(serve, "/v1/completions", body);
  choice = json_array_get(json_object_get(response, "choices"), 0);
  assert_string_equal(json_string_value(json_object_get(choice, "text")), "def f(x");
  json_decref(response);
  token_list_free(&ids);
  refused(serve, "{\"prompt\":\"a\",\"suffix\":\"b\",\"echo\":true,\"logprobs\":1}", "logprobs");
}

/* All choices of a request are given up when one cannot be had. */
static void a_full_queue_refuses_all(void **state) {
  struct serve_fake *serve = *state;
  fake_engine_set_full(serve->engine, "the queue is full", 3);
  struct http_reply reply = client_ask(serve->port, "POST", "/v1/completions", "{\"prompt\":\"a\",\"n\":4}");
  assert_int_equal(reply.status, 429);
  assert_string_equal(http_reply_header(&reply, "Retry-After"), "3");
  http_reply_free(&reply);
  fake_engine_set_full(serve->engine, NULL, 0);
}

/* Some find a place and the next one none. */
static void a_queue_with_room_for_some_refuses_all(void **state) {
  struct serve_fake *serve = *state;
  fake_engine_pause_before(serve->engine, 0);
  int client = client_connect(serve->port);
  client_send_request(client, "POST", "/v1/completions", "{\"prompt\":\"a\",\"stream\":true}");
  assert_true(fake_engine_wait(serve->engine, FAKE_PAUSED, 1));
  struct http_reply reply = client_ask(serve->port, "POST", "/v1/completions", "{\"prompt\":\"a\",\"n\":3}");
  assert_int_equal(reply.status, 429);
  http_reply_free(&reply);
  assert_true(fake_engine_wait(serve->engine, FAKE_SUBMITTED, 3));
  assert_true(fake_engine_wait(serve->engine, FAKE_CANCELLED, 2));
  fake_engine_resume(serve->engine);
  client_close(client);
}

/* It would be refused whenever it came. */
static void more_choices_than_the_engine_ever_takes(void **state) {
  struct serve_fake *serve = *state;
  struct http_reply reply = client_ask(serve->port, "POST", "/v1/completions", "{\"prompt\":[\"a\",\"b\"],\"n\":2}");
  json_t *body = http_reply_json(&reply);
  assert_int_equal(reply.status, 400);
  assert_string_equal(json_string_value(json_object_get(json_object_get(body, "error"), "param")), "n");
  json_decref(body);
  http_reply_free(&reply);
  serve_fake_say(serve, "x");
  json_decref(ask(serve, "/v1/completions", "{\"prompt\":\"a\",\"n\":3}"));
}

static void a_client_that_leaves_ends_all_choices(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say(serve, "Hello there");
  fake_engine_pause_before(serve->engine, 1);
  int client = client_connect(serve->port);
  client_send_request(client, "POST", "/v1/completions", "{\"prompt\":\"a\",\"n\":3,\"stream\":true}");
  assert_true(fake_engine_wait(serve->engine, FAKE_SUBMITTED, 3));
  client_close(client);
  assert_true(fake_engine_wait(serve->engine, FAKE_CANCELLED, 3));
}

/* A short request for much: prompts repeated in many choices, and log-probabilities of their tokens. */
static void an_echo_is_bounded(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say(serve, "x");
  struct buffer body = {0};
  buffer_append_text(&body, "{\"n\":128,\"echo\":true,\"prompt\":\"");
  for (int i = 0; i < 1 << 18; i++) buffer_append_text(&body, " ");
  buffer_append_text(&body, "a\"}");
  refused(serve, buffer_text(&body), "echo");
  buffer_clear(&body);
  buffer_append_text(&body, "{\"n\":128,\"echo\":true,\"logprobs\":20,\"prompt\":[1");
  for (int i = 0; i < 1000; i++) buffer_append_text(&body, ",1");
  buffer_append_text(&body, "]}");
  refused(serve, buffer_text(&body), "logprobs");
  buffer_free(&body);
}

static void check_thought(const struct serve_fake *serve, const char *fields, const char *thought, const char *text) {
  char body[512];
  snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]%s}", fields);
  json_t *response = ask(serve, "/v1/chat/completions", body);
  const json_t *choice = json_array_get(json_object_get(response, "choices"), 0),
               *message = json_object_get(choice, "message");
  const json_t *reasoning = json_object_get(message, "reasoning_content");
  assert_string_equal(json_string_value(json_object_get(message, "content")), text);
  assert_int_equal(reasoning != NULL, thought[0] != 0);
  if (reasoning) assert_string_equal(json_string_value(reasoning), thought);
  json_decref(response);
  snprintf(body, sizeof body, "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]%s}", fields);
  json_t *usage = NULL, *sums = ask_stream(serve, "/v1/chat/completions", body, 1, &usage);
  assert_string_equal(json_string_value(json_object_get(json_array_get(sums, 0), "text")), text);
  assert_string_equal(json_string_value(json_object_get(json_array_get(sums, 0), "reasoning")), thought);
  json_decref(sums);
}

static void thoughts_are_told_apart(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say_bytes(serve, "<think>\nSo, é.\n</think>\n\nYes.");
  check_thought(serve, "", "So, é.", "Yes.");
  serve_fake_say(serve, "Yes.");
  check_thought(serve, ",\"chat_template_kwargs\":{\"enable_thinking\":false}", "", "Yes.");
  /* Text that is no chat has no thoughts. */
  serve_fake_say(serve, "<think>a</think>b");
  json_t *response = ask(serve, "/v1/completions", "{\"prompt\":\"a\"}");
  assert_string_equal(
      json_string_value(json_object_get(json_array_get(json_object_get(response, "choices"), 0), "text")),
      "<think>a</think>b");
  json_decref(response);
}

static void a_thought_that_the_prompt_opened(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say_bytes(serve, "So, é.\n</think>\n\nYes.");
  check_thought(serve, "", "So, é.", "Yes.");
  serve_fake_say_bytes(serve, "So it goes on");
  check_thought(serve, ",\"max_tokens\":10", "So it goes", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(choices_of_one_prompt, start, stop),
      cmocka_unit_test_setup_teardown(choices_are_streamed_side_by_side, start, stop),
      cmocka_unit_test_setup_teardown(prompts_in_their_order, start, stop),
      cmocka_unit_test_setup_teardown(an_echo_has_log_probabilities, start, stop),
      cmocka_unit_test_setup_teardown(only_the_echo, start, stop),
      cmocka_unit_test_setup_teardown(a_gap_is_filled_in, start, stop),
      cmocka_unit_test_setup_teardown(a_full_queue_refuses_all, start, stop),
      cmocka_unit_test_setup_teardown(a_queue_with_room_for_some_refuses_all, start_for_three, stop),
      cmocka_unit_test_setup_teardown(more_choices_than_the_engine_ever_takes, start_for_three, stop),
      cmocka_unit_test_setup_teardown(an_echo_is_bounded, start_long, stop),
      cmocka_unit_test_setup_teardown(a_client_that_leaves_ends_all_choices, start, stop),
      cmocka_unit_test_setup_teardown(thoughts_are_told_apart, start_thinking, stop),
      cmocka_unit_test_setup_teardown(a_thought_that_the_prompt_opened, start_opened, stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

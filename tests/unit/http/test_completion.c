/* Answers of /v1/chat/completions and /v1/completions, streamed and not. */
#include <stdio.h>
#include <stdlib.h>

#include "unit/http/serve_fake.h"
#include "unit/unit.h"

static const char chat_path[] = "/v1/chat/completions", completions_path[] = "/v1/completions";

static int start(void **state) {
  *state = calloc(1, sizeof(struct serve_fake));
  if (!*state) return -1;
  serve_fake_start(*state, NULL);
  return 0;
}

static int stop(void **state) {
  serve_fake_stop(*state);
  free(*state);
  return 0;
}

/* A body for the path, with more fields. */
static const char *body_for(const char *path, const char *fields) {
  static char body[8192];
  snprintf(body, sizeof body, "{%s%s%s}",
           path == chat_path ? "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]" : "\"prompt\":\"hi\"",
           fields[0] ? "," : "", fields);
  return body;
}

static json_t *ask(struct serve_fake *serve, const char *path, const char *fields) {
  struct http_reply reply = client_ask(serve->port, "POST", path, body_for(path, fields));
  if (reply.status != 200) fail_msg("%d: %s", reply.status, buffer_text(&reply.body));
  assert_string_equal(http_reply_header(&reply, "Content-Type"), "application/json");
  json_t *value = http_reply_json(&reply);
  http_reply_free(&reply);
  return value;
}

static json_t *ask_stream(struct serve_fake *serve, const char *path, const char *fields) {
  char more[4096];
  snprintf(more, sizeof more, "\"stream\":true%s%s", fields[0] ? "," : "", fields);
  struct http_reply reply = client_ask(serve->port, "POST", path, body_for(path, more));
  if (reply.status != 200) fail_msg("%d: %s", reply.status, buffer_text(&reply.body));
  assert_memory_equal(http_reply_header(&reply, "Content-Type"), "text/event-stream", 17);
  json_t *events = http_reply_events(&reply);
  assert_true(json_array_size(events) >= 2);
  assert_string_equal(json_string_value(json_array_get(events, json_array_size(events) - 1)), "[DONE]");
  json_array_remove(events, json_array_size(events) - 1);
  http_reply_free(&reply);
  return events;
}

static const json_t *choice_of(const json_t *object) { return json_array_get(json_object_get(object, "choices"), 0); }

static const char *text_of(const json_t *object) {
  const json_t *choice = choice_of(object), *message = json_object_get(choice, "message");
  return json_string_value(message ? json_object_get(message, "content") : json_object_get(choice, "text"));
}

static const char *reason_of(const json_t *object) {
  return json_string_value(json_object_get(choice_of(object), "finish_reason"));
}

static json_int_t usage_of(const json_t *object, const char *field) {
  return json_integer_value(json_object_get(json_object_get(object, "usage"), field));
}

/* The text of a stream; *reason is its finish_reason. Every piece is valid UTF-8, since it is JSON. */
static char *join(const json_t *events, const char **reason) {
  struct buffer text = {0};
  buffer_append_text(&text, "");
  for (size_t i = 0; i < json_array_size(events); i++) {
    const json_t *choice = choice_of(json_array_get(events, i)), *delta = json_object_get(choice, "delta");
    const char *piece = json_string_value(delta ? json_object_get(delta, "content") : json_object_get(choice, "text"));
    if (piece) buffer_append_text(&text, piece);
    const char *end = json_string_value(json_object_get(choice, "finish_reason"));
    if (end) *reason = end;
  }
  return text.data;
}

/* Asks both ways: the same text and end, which are returned in a buffer of the caller. */
static void expect(struct serve_fake *serve, const char *path, const char *fields, const char *text,
                   const char *reason) {
  json_t *whole = ask(serve, path, fields), *events = ask_stream(serve, path, fields);
  const char *stream_reason = "none";
  char *joined = join(events, &stream_reason);
  assert_string_equal(text_of(whole), text);
  assert_string_equal(joined, text);
  assert_string_equal(reason_of(whole), reason);
  assert_string_equal(stream_reason, reason);
  free(joined);
  json_decref(whole);
  json_decref(events);
}

static void answers_in_openai_shape(void **state) {
  struct serve_fake *serve = *state;
  size_t count = serve_fake_say(serve, "Hello, world");
  json_t *chat = ask(serve, chat_path, "\"model\":\"whatever\"");
  assert_string_equal(json_string_value(json_object_get(chat, "object")), "chat.completion");
  assert_memory_equal(json_string_value(json_object_get(chat, "id")), "chatcmpl-", 9);
  assert_string_equal(json_string_value(json_object_get(chat, "model")), "org/kaiju-mini");
  assert_true(json_is_integer(json_object_get(chat, "created")));
  assert_string_equal(text_of(chat), "Hello, world");
  assert_string_equal(json_string_value(json_object_get(json_object_get(choice_of(chat), "message"), "role")),
                      "assistant");
  assert_true(json_is_null(json_object_get(choice_of(chat), "logprobs")));
  assert_string_equal(reason_of(chat), "stop");
  assert_int_equal(usage_of(chat, "completion_tokens"), count + 1);
  assert_int_equal(usage_of(chat, "prompt_tokens"), fake_engine_last(serve->engine).token_count);
  assert_int_equal(usage_of(chat, "total_tokens"),
                   usage_of(chat, "completion_tokens") + usage_of(chat, "prompt_tokens"));
  json_decref(chat);
  json_t *completion = ask(serve, completions_path, "");
  assert_string_equal(json_string_value(json_object_get(completion, "object")), "text_completion");
  assert_memory_equal(json_string_value(json_object_get(completion, "id")), "cmpl-", 5);
  assert_string_equal(text_of(completion), "Hello, world");
  json_decref(completion);
}

static void streams_in_openai_shape(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say(serve, "Hello, world");
  json_t *events = ask_stream(serve, chat_path, "");
  const json_t *first = json_array_get(events, 0), *last = json_array_get(events, json_array_size(events) - 1);
  assert_string_equal(json_string_value(json_object_get(first, "object")), "chat.completion.chunk");
  assert_string_equal(json_string_value(json_object_get(json_object_get(choice_of(first), "delta"), "role")),
                      "assistant");
  assert_string_equal(reason_of(last), "stop");
  assert_int_equal(json_object_size(json_object_get(choice_of(last), "delta")), 0);
  for (size_t i = 0; i < json_array_size(events); i++) {
    const json_t *event = json_array_get(events, i);
    assert_true(json_equal(json_object_get(event, "id"), json_object_get(first, "id")));
    assert_true((reason_of(event) != NULL) == (event == last));
  }
  json_decref(events);
}

/* The prompt is what the template and the tokenizer make of the messages. */
static void submits_the_templates_prompt(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say(serve, "x");
  struct token_list expected = {0};
  struct kj_error error;
  const char *prompt = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n";
  assert_int_equal(tokenizer_encode(serve->tokenizer, prompt, strlen(prompt), true, &expected, &error), 0);
  json_decref(ask(serve, chat_path, ""));
  struct request last = fake_engine_last(serve->engine);
  assert_int_equal(last.token_count, expected.count);
  assert_memory_equal(last.tokens, expected.ids, expected.count * sizeof *expected.ids);
  token_list_free(&expected);
  struct http_reply reply = client_ask(serve->port, "POST", completions_path, "{\"prompt\":[5,6,7]}");
  assert_int_equal(reply.status, 200);
  http_reply_free(&reply);
  last = fake_engine_last(serve->engine);
  assert_int_equal(last.token_count, 3);
  assert_int_equal(last.tokens[2], 7);
  assert_int_equal(last.max_tokens, 16);
}

static void submits_the_sampling(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say(serve, "x");
  json_decref(ask(serve, chat_path,
                  "\"temperature\":0.25,\"top_k\":3,\"seed\":77,\"max_tokens\":9,\"ignore_eos\":false,"
                  "\"logit_bias\":{\"42\":-5}"));
  struct request last = fake_engine_last(serve->engine);
  assert_true(last.sampling.temperature == 0.25f && last.sampling.top_k == 3 && last.sampling.seed == 77);
  assert_true(last.sampling.top_p == 0.8f && last.sampling.repetition_penalty == 1.05f);
  assert_int_equal(last.max_tokens, 9);
  assert_int_equal(last.sampling.bias_count, 1);
  assert_int_equal(last.sampling.bias[0].token, 42);
  assert_int_equal(last.sampling.top_logprobs, -1);
  /* Without a seed every request has another. */
  json_decref(ask(serve, chat_path, ""));
  uint64_t one = fake_engine_last(serve->engine).sampling.seed;
  json_decref(ask(serve, chat_path, ""));
  assert_true(one != fake_engine_last(serve->engine).sampling.seed);
}

/* Characters that span tokens, cut off at every length: none is cut, and none is replaced. */
static void h2_characters_are_never_cut(void **state) {
  struct serve_fake *serve = *state;
  const char *text =
      "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb\xe6\xbc\xa2\xe5\xad\x97"
      "e\xcc\x81\xc3\xa9.";
  size_t length = serve_fake_say_bytes(serve, text);
  for (size_t limit = 1; limit <= length; limit++) {
    size_t whole = limit;
    while (((unsigned char)text[whole] & 0xc0) == 0x80) whole--;
    char expected[64], fields[64];
    snprintf(expected, sizeof expected, "%.*s", (int)whole, text);
    snprintf(fields, sizeof fields, "\"max_tokens\":%zu", limit);
    expect(serve, limit % 2 ? chat_path : completions_path, fields, expected, "length");
  }
  expect(serve, chat_path, "", text, "stop");
}

static json_int_t detail_of(const json_t *object, const char *details, const char *field) {
  const json_t *value = json_object_get(json_object_get(json_object_get(object, "usage"), details), field);
  assert_true(json_is_integer(value));
  return json_integer_value(value);
}

/* In OpenAI's fields for cached prompts and for predictions. */
static void usage_tells_what_was_saved(void **state) {
  struct serve_fake *serve = *state;
  static const struct fake_savings none = {0}, some = {40, 12, 9};
  serve_fake_say(serve, "Hello, world");
  const char *const paths[] = {chat_path, completions_path};
  for (size_t i = 0; i < 4; i++) {
    const struct fake_savings *savings = i < 2 ? &none : &some;
    fake_engine_set_savings(serve->engine, savings);
    json_t *whole = ask(serve, paths[i % 2], "");
    json_t *events = ask_stream(serve, paths[i % 2], "\"stream_options\":{\"include_usage\":true}");
    const json_t *answers[] = {whole, json_array_get(events, json_array_size(events) - 1)};
    for (size_t j = 0; j < 2; j++) {
      assert_int_equal(detail_of(answers[j], "prompt_tokens_details", "cached_tokens"), savings->cached_tokens);
      assert_int_equal(detail_of(answers[j], "completion_tokens_details", "accepted_prediction_tokens"),
                       savings->draft_accepted);
      assert_int_equal(detail_of(answers[j], "completion_tokens_details", "rejected_prediction_tokens"),
                       savings->drafted_tokens - savings->draft_accepted);
    }
    json_decref(whole);
    json_decref(events);
  }
}

static void cache_prompt_reaches_the_engine(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say(serve, "x");
  json_decref(ask(serve, chat_path, ""));
  assert_false(fake_engine_last(serve->engine).ignore_cache);
  json_decref(ask(serve, chat_path, "\"cache_prompt\":false"));
  assert_true(fake_engine_last(serve->engine).ignore_cache);
}

static void h4_usage_only_when_asked(void **state) {
  struct serve_fake *serve = *state;
  size_t count = serve_fake_say(serve, "Hello, world");
  static const char *const without[] = {"", "\"stream_options\":{}", "\"stream_options\":{\"include_usage\":false}",
                                        "\"stream_options\":null"};
  for (size_t i = 0; i < 4; i++) {
    json_t *events = ask_stream(serve, i % 2 ? completions_path : chat_path, without[i]);
    for (size_t j = 0; j < json_array_size(events); j++) {
      assert_null(json_object_get(json_array_get(events, j), "usage"));
      assert_int_equal(json_array_size(json_object_get(json_array_get(events, j), "choices")), 1);
    }
    json_decref(events);
  }
  const char *const paths[] = {chat_path, completions_path};
  for (size_t i = 0; i < 2; i++) {
    json_t *events = ask_stream(serve, paths[i], "\"stream_options\":{\"include_usage\":true}");
    size_t last = json_array_size(events) - 1;
    for (size_t j = 0; j < last; j++) assert_true(json_is_null(json_object_get(json_array_get(events, j), "usage")));
    const json_t *usage = json_array_get(events, last);
    assert_int_equal(json_array_size(json_object_get(usage, "choices")), 0);
    assert_int_equal(usage_of(usage, "completion_tokens"), count + 1);
    assert_string_equal(reason_of(json_array_get(events, last - 1)), "stop");
    json_decref(events);
  }
}

static void h5_stop_strings(void **state) {
  struct serve_fake *serve = *state;
  static const struct {
    const char *says, *stop, *text;
  } cases[] = {
      {"one two three", "\"two\"", "one "},
      {"one two three", "[\"three\",\" t\"]", "one"},
      {"one two", "\"twofold\"", "one two"},
      {"aab", "\"ab\"", "a"},
      {"ababac", "\"abac\"", "ab"},
      {"one two", "[\"x\",\"y\",\"two\"]", "one "},
      {"one", "\"o\"", ""},
      {"one\xe2\x82\xac", "\"\xe2\x82\xac\"", "one"},
      {"end.\n", "\"\\n\\n\"", "end.\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char fields[200];
    snprintf(fields, sizeof fields, "\"max_tokens\":100,\"stop\":%s", cases[i].stop);
    serve_fake_say_bytes(serve, cases[i].says);
    expect(serve, chat_path, fields, cases[i].text, "stop");
    serve_fake_say(serve, cases[i].says);
    expect(serve, completions_path, fields, cases[i].text, "stop");
  }
  /* What is held back is not lost when the length ends the text. */
  serve_fake_say_bytes(serve, "one two");
  expect(serve, chat_path, "\"max_tokens\":6,\"stop\":\"two\"", "one tw", "length");
}

static void h5_a_stop_string_ends_the_work(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say_bytes(serve, "ab");
  json_t *whole = ask(serve, chat_path, "\"stop\":\"ab\",\"ignore_eos\":true");
  json_t *events =
      ask_stream(serve, chat_path, "\"stop\":\"ab\",\"ignore_eos\":true,\"stream_options\":{\"include_usage\":true}");
  assert_int_equal(usage_of(whole, "completion_tokens"), 2);
  assert_int_equal(usage_of(json_array_get(events, json_array_size(events) - 1), "completion_tokens"), 2);
  json_decref(whole);
  json_decref(events);
}

/* `extra` more tokens of prompt than the context less one, which is the most that has room for an answer. */
static struct http_reply ask_prompt_of(struct serve_fake *serve, const char *fields, int extra) {
  struct buffer body = {0};
  buffer_append_text(&body, "{\"prompt\":[7");
  for (int i = 1; i < FAKE_CONTEXT - 1 + extra; i++) buffer_append_text(&body, ",7");
  buffer_append_format(&body, "]%s}", fields);
  struct http_reply reply = client_ask(serve->port, "POST", completions_path, body.data);
  buffer_free(&body);
  return reply;
}

static void h8_prompts_around_the_context(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say_bytes(serve, "abc");
  struct http_reply reply = ask_prompt_of(serve, "", 0);
  assert_int_equal(reply.status, 200);
  json_t *answer = http_reply_json(&reply);
  assert_string_equal(text_of(answer), "a");
  assert_string_equal(reason_of(answer), "length");
  json_decref(answer);
  http_reply_free(&reply);
  static const char *const fields[] = {"", ",\"stream\":true"};
  for (int extra = 1; extra <= 2; extra++) {
    for (size_t i = 0; i < 2; i++) {
      reply = ask_prompt_of(serve, fields[i], extra);
      assert_int_equal(reply.status, 400);
      answer = http_reply_json(&reply);
      const json_t *error = json_object_get(answer, "error");
      char number[16];
      snprintf(number, sizeof number, " %d ", FAKE_CONTEXT - 1 + extra);
      assert_string_equal(json_string_value(json_object_get(error, "code")), "context_length_exceeded");
      assert_non_null(strstr(json_string_value(json_object_get(error, "message")), " 256 "));
      assert_non_null(strstr(json_string_value(json_object_get(error, "message")), number));
      json_decref(answer);
      http_reply_free(&reply);
    }
  }
}

/* The entries of a chat answer's log-probabilities; the events' are joined. */
static json_t *chat_logprobs(const json_t *object) {
  json_t *joined = json_array();
  for (size_t i = 0; i < (json_is_array(object) ? json_array_size(object) : 1); i++) {
    const json_t *part = json_is_array(object) ? json_array_get(object, i) : object;
    json_array_extend(joined, json_object_get(json_object_get(choice_of(part), "logprobs"), "content"));
  }
  return joined;
}

static void h10_chat_logprobs(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say_bytes(serve, "a\xf0\x9f\x98\x80");
  const char *fields = "\"logprobs\":true,\"top_logprobs\":3";
  json_t *whole = ask(serve, chat_path, fields), *events = ask_stream(serve, chat_path, fields);
  json_t *entries = chat_logprobs(whole), *streamed = chat_logprobs(events);
  assert_true(json_equal(entries, streamed));
  assert_int_equal(json_array_size(entries), 5);
  const json_t *emoji = json_array_get(entries, 1);
  assert_string_equal(json_string_value(json_object_get(json_array_get(entries, 0), "token")), "a");
  assert_string_equal(json_string_value(json_object_get(emoji, "token")), "bytes:\\xf0");
  assert_int_equal(json_integer_value(json_array_get(json_object_get(emoji, "bytes"), 0)), 0xf0);
  assert_true(json_real_value(json_object_get(emoji, "logprob")) == -0.5);
  assert_int_equal(json_array_size(json_object_get(emoji, "top_logprobs")), 3);
  json_decref(entries);
  json_decref(streamed);
  json_decref(whole);
  json_decref(events);
}

static void h10_completion_logprobs(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say_bytes(serve, "\xc3\xa9x");
  json_t *whole = ask(serve, completions_path, "\"logprobs\":2");
  const json_t *logprobs = json_object_get(choice_of(whole), "logprobs");
  char *offsets = json_dumps(json_object_get(logprobs, "text_offset"), JSON_COMPACT);
  char *tokens = json_dumps(json_object_get(logprobs, "tokens"), JSON_COMPACT);
  assert_string_equal(offsets, "[0,1,1]");
  assert_string_equal(tokens, "[\"bytes:\\\\xc3\",\"bytes:\\\\xa9\",\"x\"]");
  assert_int_equal(json_array_size(json_object_get(logprobs, "token_logprobs")), 3);
  const json_t *top = json_array_get(json_object_get(logprobs, "top_logprobs"), 2);
  assert_true(json_real_value(json_object_get(top, "x")) == -0.75);
  free(offsets);
  free(tokens);
  json_decref(whole);
  whole = ask(serve, completions_path, "\"logprobs\":0");
  assert_int_equal(json_array_size(json_object_get(json_object_get(choice_of(whole), "logprobs"), "tokens")), 3);
  json_decref(whole);
}

/* A sample that is 20 times asked for gives 20 times the same. */
static void h11_the_same_request_again(void **state) {
  struct serve_fake *serve = *state;
  serve_fake_say(serve, "The same each time.");
  for (int i = 0; i < 20; i++) expect(serve, chat_path, "\"seed\":1", "The same each time.", "stop");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_in_openai_shape),
      cmocka_unit_test(streams_in_openai_shape),
      cmocka_unit_test(submits_the_templates_prompt),
      cmocka_unit_test(submits_the_sampling),
      cmocka_unit_test(h2_characters_are_never_cut),
      cmocka_unit_test(usage_tells_what_was_saved),
      cmocka_unit_test(cache_prompt_reaches_the_engine),
      cmocka_unit_test(h4_usage_only_when_asked),
      cmocka_unit_test(h5_stop_strings),
      cmocka_unit_test(h5_a_stop_string_ends_the_work),
      cmocka_unit_test(h8_prompts_around_the_context),
      cmocka_unit_test(h10_chat_logprobs),
      cmocka_unit_test(h10_completion_logprobs),
      cmocka_unit_test(h11_the_same_request_again),
  };
  return cmocka_run_group_tests(tests, start, stop);
}

/* Answers with tool calls, streamed and not (T1-T6). */
#include <stdio.h>
#include <stdlib.h>

#include "unit/http/serve_fake.h"
#include "unit/unit.h"

/* A template that writes calls in Qwen3-Coder's form, and says whether there are tools. */
static const char TEMPLATE[] =
    "{% if tools %}T{{ tools | length }} {% endif %}{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}{% for call in message.tool_calls | default([]) %}<tool_call>\n<function={{ "
    "call.function.name "
    "}}>\n{% for key, value in call.function.arguments | items %}<parameter={{ key }}>\n{{ value }}\n</parameter>\n"
    "{% endfor %}</function>\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}{{ '<|im_start|>assistant\\n' }}";

static const char TOOLS[] =
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{"
    "\"a\":{\"type\":\"integer\"},\"note\":{\"type\":\"string\"}}}}}]";

#define CALL(number)                                     \
  "<tool_call>\n<function=add>\n<parameter=a>\n" #number \
  "\n</parameter>\n<parameter=note>\né \"n\"\n</parameter>\n</function>\n</tool_call>"
#define ARGUMENTS(number) "{\"a\":" #number ",\"note\":\"é \\\"n\\\"\"}"

/* The same in the form of Qwen3. */
static const char JSON_TEMPLATE[] =
    "{% for message in messages %}{{ message.content }}{% for call in message.tool_calls | default([]) %}<tool_call>\n"
    "{\"name\": \"{{ call.function.name }}\", \"arguments\": {{ call.function.arguments | tojson }}}\n</tool_call>"
    "{% endfor %}{% endfor %}";

static int start_with(void **state, const char *template) {
  struct serve_fake *serve = calloc(1, sizeof *serve);
  if (!serve) return -1;
  serve->template = template;
  serve->context = 1024;
  serve_fake_start(serve, NULL);
  *state = serve;
  return 0;
}
static int start(void **state) { return start_with(state, TEMPLATE); }
static int start_json(void **state) { return start_with(state, JSON_TEMPLATE); }
static int start_shipped(void **state) { return start_with(state, NULL); }

static int stop(void **state) {
  serve_fake_stop(*state);
  free(*state);
  return 0;
}

static struct http_reply post(struct serve_fake *serve, const char *fields) {
  char body[8192];
  snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]%s%s}", fields[0] ? "," : "",
           fields);
  return client_ask(serve->port, "POST", "/v1/chat/completions", body);
}

static const json_t *choice_of(const json_t *object) { return json_array_get(json_object_get(object, "choices"), 0); }

/* The message, calls without their ids, which are checked, and the finish_reason: {"content", "calls": [[name,
 * arguments]…], "reason"}. */
static json_t *ask(struct serve_fake *serve, const char *fields) {
  struct http_reply reply = post(serve, fields);
  if (reply.status != 200) fail_msg("%d: %s", reply.status, buffer_text(&reply.body));
  json_t *response = http_reply_json(&reply), *calls = json_array();
  const json_t *choice = choice_of(response), *message = json_object_get(choice, "message");
  const json_t *found = json_object_get(message, "tool_calls");
  assert_true(!found || json_array_size(found) > 0);
  for (size_t i = 0; i < json_array_size(found); i++) {
    const json_t *call = json_array_get(found, i), *function = json_object_get(call, "function");
    assert_memory_equal(json_string_value(json_object_get(call, "id")), "call_", 5);
    assert_int_equal(json_string_length(json_object_get(call, "id")), 29);
    assert_string_equal(json_string_value(json_object_get(call, "type")), "function");
    for (size_t other = 0; other < i; other++)
      assert_false(json_equal(json_object_get(call, "id"), json_object_get(json_array_get(found, other), "id")));
    json_array_append_new(
        calls, json_pack("[O, O]", json_object_get(function, "name"), json_object_get(function, "arguments")));
  }
  json_t *result = json_pack("{s:O, s:o, s:O}", "content", json_object_get(message, "content"), "calls", calls,
                             "reason", json_object_get(choice, "finish_reason"));
  json_decref(response);
  http_reply_free(&reply);
  return result;
}

/* One entry of a chunk's tool_calls: id, type and name come once, with the call's first entry. */
static void join_call(json_t *calls, const json_t *entry) {
  size_t index = (size_t)json_integer_value(json_object_get(entry, "index"));
  const json_t *function = json_object_get(entry, "function"), *part = json_object_get(function, "arguments");
  assert_true(json_is_integer(json_object_get(entry, "index")) && json_is_string(part));
  if (index == json_array_size(calls)) {
    assert_memory_equal(json_string_value(json_object_get(entry, "id")), "call_", 5);
    assert_string_equal(json_string_value(json_object_get(entry, "type")), "function");
    json_array_append_new(calls, json_pack("[O, s]", json_object_get(function, "name"), ""));
  } else {
    assert_int_equal(index, json_array_size(calls) - 1);
    assert_int_equal(json_object_size(entry), 2);
    assert_int_equal(json_object_size(function), 1);
  }
  json_t *call = json_array_get(calls, index);
  struct buffer arguments = {0};
  buffer_append_format(&arguments, "%s%s", json_string_value(json_array_get(call, 1)), json_string_value(part));
  json_array_set_new(call, 1, json_string(buffer_text(&arguments)));
  buffer_free(&arguments);
}

/* The same, joined from a stream. */
static json_t *ask_stream(struct serve_fake *serve, const char *fields) {
  char more[4096];
  snprintf(more, sizeof more, "\"stream\":true%s%s", fields[0] ? "," : "", fields);
  struct http_reply reply = post(serve, more);
  if (reply.status != 200) fail_msg("%d: %s", reply.status, buffer_text(&reply.body));
  json_t *events = http_reply_events(&reply), *calls = json_array();
  const json_t *reason = NULL;
  struct buffer content = {0};
  for (size_t i = 0; i + 1 < json_array_size(events); i++) {
    const json_t *choice = choice_of(json_array_get(events, i)), *delta = json_object_get(choice, "delta");
    const json_t *text = json_object_get(delta, "content"), *parts = json_object_get(delta, "tool_calls");
    assert_null(reason);
    assert_true(!parts || json_array_size(parts) == 1);
    if (text) buffer_append_text(&content, json_string_value(text));
    if (parts) join_call(calls, json_array_get(parts, 0));
    if (!json_is_null(json_object_get(choice, "finish_reason"))) reason = json_object_get(choice, "finish_reason");
  }
  assert_non_null(reason);
  bool no_content = content.length == 0 && json_array_size(calls);
  json_t *result =
      json_pack("{s:o, s:o, s:O}", "content", no_content ? json_null() : json_string(buffer_text(&content)), "calls",
                calls, "reason", reason);
  buffer_free(&content);
  json_decref(events);
  http_reply_free(&reply);
  return result;
}

/* Asks both ways, while the model writes the text in tokens of the tokenizer and in single bytes. */
static void expect(struct serve_fake *serve, const char *text, const char *fields, const char *expected) {
  json_error_t problem;
  json_t *wanted = json_loads(expected, 0, &problem);
  if (!wanted) fail_msg("%s: %s", expected, problem.text);
  for (int way = 0; way < 4; way++) {
    if (way & 1)
      serve_fake_say(serve, text);
    else
      serve_fake_say_bytes(serve, text);
    json_t *found = way & 2 ? ask(serve, fields) : ask_stream(serve, fields);
    if (!json_equal(found, wanted)) {
      char *printed = json_dumps(found, 0);
      fail_msg("way %d: %s\nand not %s", way, printed, expected);
    }
    json_decref(found);
  }
  json_decref(wanted);
}

/* {"content", "calls", "reason"} of calls of `add`. */
static const char *result(const char *content, const char *reason, size_t count, const char *const *arguments) {
  static char text[4096];
  json_t *calls = json_array();
  for (size_t i = 0; i < count; i++) json_array_append_new(calls, json_pack("[s, s]", "add", arguments[i]));
  json_t *value = json_pack("{s:s?, s:o, s:s}", "content", content, "calls", calls, "reason", reason);
  char *printed = json_dumps(value, 0);
  snprintf(text, sizeof text, "%s", printed);
  free(printed);
  json_decref(value);
  return text;
}

static void t1_t2_a_call_with_and_without_text(void **state) {
  expect(*state, CALL(5), TOOLS, result(NULL, "tool_calls", 1, (const char *[]){ARGUMENTS(5)}));
  expect(*state, "I add.\n" CALL(5) "\n", TOOLS, result("I add.", "tool_calls", 1, (const char *[]){ARGUMENTS(5)}));
  expect(*state, "No call. ", TOOLS, result("No call. ", "stop", 0, NULL));
}

static void t3_two_calls(void **state) {
  expect(*state, CALL(5) "\n" CALL(7), TOOLS,
         result(NULL, "tool_calls", 2, (const char *[]){ARGUMENTS(5), ARGUMENTS(7)}));
}

static void t4_a_value_of_another_type(void **state) {
  expect(*state, CALL(five), TOOLS,
         result(NULL, "tool_calls", 1, (const char *[]){"{\"a\":\"five\",\"note\":\"é \\\"n\\\"\"}"}));
}

static void t6_calls_are_read_only_where_tools_are_offered(void **state) {
  char none[512];
  snprintf(none, sizeof none, "%s,\"tool_choice\":\"none\"", TOOLS);
  expect(*state, CALL(5), "", result(CALL(5), "stop", 0, NULL));
  expect(*state, CALL(5), none, result(CALL(5), "stop", 0, NULL));
  char automatic[512];
  snprintf(automatic, sizeof automatic, "%s,\"tool_choice\":\"auto\"", TOOLS);
  expect(*state, CALL(5), automatic, result(NULL, "tool_calls", 1, (const char *[]){ARGUMENTS(5)}));
}

static void t6_a_call_that_is_wanted(void **state) {
  static const char *const CHOICES[] = {"\"required\"", "{\"type\":\"function\",\"function\":{\"name\":\"add\"}}"};
  for (size_t i = 0; i < sizeof CHOICES / sizeof *CHOICES; i++) {
    char fields[512];
    snprintf(fields, sizeof fields, "%s,\"tool_choice\":%s", TOOLS, CHOICES[i]);
    expect(*state, CALL(5), fields, result(NULL, "tool_calls", 1, (const char *[]){ARGUMENTS(5)}));
  }
}

static void t6_what_cannot_be_enforced_is_refused(void **state) {
  static const struct {
    const char *choice, *param;
  } CASES[] = {{"{\"type\":\"auto\"}", "tool_choice.function.name"},
               {"{\"type\":\"function\",\"function\":{\"name\":\"ad\"}}", "tool_choice.function.name"},
               {"7", "tool_choice"}};
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    char fields[512];
    snprintf(fields, sizeof fields, "%s,\"tool_choice\":%s", TOOLS, CASES[i].choice);
    struct http_reply reply = post(*state, fields);
    json_t *answer = http_reply_json(&reply), *error = json_object_get(answer, "error");
    assert_int_equal(reply.status, 400);
    assert_string_equal(json_string_value(json_object_get(error, "param")), CASES[i].param);
    json_decref(answer);
    http_reply_free(&reply);
  }
}

static void t6_a_template_without_calls_cannot_make_them(void **state) {
  char fields[512];
  snprintf(fields, sizeof fields, "%s,\"tool_choice\":\"required\"", TOOLS);
  struct http_reply reply = post(*state, fields);
  json_t *answer = http_reply_json(&reply), *error = json_object_get(answer, "error");
  assert_int_equal(reply.status, 400);
  assert_string_equal(json_string_value(json_object_get(error, "param")), "tool_choice");
  assert_string_equal(json_string_value(json_object_get(error, "code")), "unsupported");
  json_decref(answer);
  http_reply_free(&reply);
}

static void one_call_is_enough_without_parallel_calls(void **state) {
  struct serve_fake *serve = *state;
  char fields[512];
  snprintf(fields, sizeof fields, "%s,\"parallel_tool_calls\":false", TOOLS);
  expect(serve, "So:\n" CALL(5) "\nand\n" CALL(7), fields,
         result("So:", "tool_calls", 1, (const char *[]){ARGUMENTS(5)}));
  /* The engine is told, and not waited for. */
  serve_fake_say_bytes(serve, CALL(5) CALL(7));
  fake_engine_pause_before(serve->engine, sizeof CALL(5) - 1);
  json_decref(ask(serve, fields));
  assert_true(fake_engine_wait(serve->engine, FAKE_CANCELLED, 1));
  fake_engine_resume(serve->engine);
  expect(serve, "None.", fields, result("None.", "stop", 0, NULL));
  struct http_reply reply = post(serve, "\"parallel_tool_calls\":1");
  assert_int_equal(reply.status, 400);
  http_reply_free(&reply);
}

static void a_call_that_the_limit_cuts_is_no_json(void **state) {
  struct serve_fake *serve = *state;
  for (size_t limit = 1; limit < sizeof CALL(5) - 14; limit++) {
    char fields[512];
    snprintf(fields, sizeof fields, "%s,\"max_tokens\":%zu", TOOLS, limit);
    serve_fake_say_bytes(serve, CALL(5));
    json_t *whole = ask(serve, fields), *streamed = ask_stream(serve, fields);
    assert_true(json_equal(whole, streamed));
    assert_string_equal(json_string_value(json_object_get(whole, "reason")), "length");
    const json_t *call = json_array_get(json_object_get(whole, "calls"), 0);
    const char *arguments = json_string_value(json_array_get(call, 1));
    bool complete = arguments && strcmp(arguments, ARGUMENTS(5)) == 0;
    json_t *parsed = arguments ? json_loads(arguments, JSON_DECODE_ANY, NULL) : NULL;
    assert_int_equal(parsed != NULL, complete);
    json_decref(parsed);
    json_decref(whole);
    json_decref(streamed);
  }
}

static void a_stop_string_in_a_call_cuts_it(void **state) {
  char fields[512];
  snprintf(fields, sizeof fields, "%s,\"stop\":\"\\\"n\"", TOOLS);
  expect(*state, CALL(5), fields, result(NULL, "stop", 1, (const char *[]){"{\"a\":5,\"note\":\"é "}));
  snprintf(fields, sizeof fields, "%s,\"stop\":\"</tool_call>\"", TOOLS);
  expect(*state, CALL(5), fields, result(NULL, "tool_calls", 1, (const char *[]){ARGUMENTS(5)}));
}

/* H10: a call's tokens have their entries as others. */
static void h10_log_probabilities_beside_calls(void **state) {
  struct serve_fake *serve = *state;
  char fields[512];
  snprintf(fields, sizeof fields, "%s,\"logprobs\":true,\"stream\":true", TOOLS);
  size_t count = serve_fake_say(serve, "I add.\n" CALL(5)), entries = 0;
  struct http_reply reply = post(serve, fields);
  json_t *events = http_reply_events(&reply);
  for (size_t i = 0; i < json_array_size(events); i++)
    entries +=
        json_array_size(json_object_get(json_object_get(choice_of(json_array_get(events, i)), "logprobs"), "content"));
  assert_int_equal(entries, count);
  json_decref(events);
  http_reply_free(&reply);
}

/* The last bracket comes alone: all that it tells is its entry. */
static void h10_log_probabilities_of_the_end_of_a_call(void **state) {
  struct serve_fake *serve = *state;
  static const char TEXT[] = "I add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 5}}\n</tool_call>";
  size_t count = serve_fake_say_bytes(serve, TEXT), last = (size_t)(strstr(TEXT, "}}") + 1 - TEXT), entries = 0;
  char body[1024];
  snprintf(body, sizeof body,
           "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],%s,\"logprobs\":true,\"stream\":true}", TOOLS);
  struct buffer seen = {0};
  int client = client_connect(serve->port);
  fake_engine_pause_before(serve->engine, (int)last);
  client_send_request(client, "POST", "/v1/chat/completions", body);
  assert_true(client_read_until(client, "\"bytes\":[125]", &seen));
  assert_true(fake_engine_wait(serve->engine, FAKE_PAUSED, 1));
  fake_engine_pause_before(serve->engine, (int)last + 1);
  assert_true(fake_engine_wait(serve->engine, FAKE_PAUSED, 2));
  fake_engine_resume(serve->engine);
  assert_true(client_read_until(client, "[DONE]", &seen));
  for (const char *at = buffer_text(&seen); (at = strstr(at, "\"logprob\":")); at++) entries++;
  assert_int_equal(entries, count);
  buffer_free(&seen);
  client_close(client);
}

/* T5: the prompt is the same whether the arguments of an earlier call are text or an object. */
static void t5_a_history_with_calls(void **state) {
  struct serve_fake *serve = *state;
  static const char *const ARGUMENT_FORMS[] = {"\"{\\\"a\\\": 1, \\\"note\\\": \\\"x\\\"}\"",
                                               "{\"a\":1,\"note\":\"x\"}"};
  struct token_list wanted = {0};
  struct kj_error error;
  const char *prompt =
      "T1 <|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<tool_call>\n<function=add>\n"
      "<parameter=a>\n1\n</parameter>\n<parameter=note>\nx\n</parameter>\n</function>\n</tool_call>"
      "<|im_end|>\n<|im_start|>tool\n3<|im_end|>\n<|im_start|>assistant\n";
  assert_int_equal(tokenizer_encode(serve->tokenizer, prompt, strlen(prompt), true, &wanted, &error), 0);
  serve_fake_say(serve, "x");
  for (size_t i = 0; i < 4; i++) {
    char body[2048];
    snprintf(
        body, sizeof body,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":%s,"
        "\"tool_calls\":[{\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"add\",\"arguments\":%s}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"call_1\",\"content\":[{\"type\":\"text\",\"text\":\"3\"}]}],%s}",
        i < 2 ? "null" : "[]", ARGUMENT_FORMS[i % 2], TOOLS);
    struct http_reply reply = client_ask(serve->port, "POST", "/v1/chat/completions", body);
    if (reply.status != 200) fail_msg("%s", buffer_text(&reply.body));
    struct request last = fake_engine_last(serve->engine);
    assert_int_equal(last.token_count, wanted.count);
    assert_memory_equal(last.tokens, wanted.ids, wanted.count * sizeof *wanted.ids);
    http_reply_free(&reply);
  }
  token_list_free(&wanted);
}

static void t3_calls_in_the_json_form(void **state) {
  static const char TEXT[] =
      "I add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": \"5\"}}\n</tool_call>\n"
      "<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>";
  expect(*state, TEXT, TOOLS, result("I add.", "tool_calls", 2, (const char *[]){"{\"a\": \"5\"}", "{}"}));
  static const char BARE[] = "<function=add>\n</function>";
  expect(*state, BARE, TOOLS, result(BARE, "stop", 0, NULL));
}

/* The shipped model's template writes no calls: there is no form in which to look for them. */
static void a_template_without_calls_leaves_text(void **state) {
  expect(*state, CALL(5), TOOLS, result(CALL(5), "stop", 0, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(t1_t2_a_call_with_and_without_text, start, stop),
      cmocka_unit_test_setup_teardown(t3_two_calls, start, stop),
      cmocka_unit_test_setup_teardown(t4_a_value_of_another_type, start, stop),
      cmocka_unit_test_setup_teardown(t6_calls_are_read_only_where_tools_are_offered, start, stop),
      cmocka_unit_test_setup_teardown(t6_a_call_that_is_wanted, start, stop),
      cmocka_unit_test_setup_teardown(t6_what_cannot_be_enforced_is_refused, start, stop),
      cmocka_unit_test_setup_teardown(t6_a_template_without_calls_cannot_make_them, start_shipped, stop),
      cmocka_unit_test_setup_teardown(one_call_is_enough_without_parallel_calls, start, stop),
      cmocka_unit_test_setup_teardown(a_call_that_the_limit_cuts_is_no_json, start, stop),
      cmocka_unit_test_setup_teardown(a_stop_string_in_a_call_cuts_it, start, stop),
      cmocka_unit_test_setup_teardown(h10_log_probabilities_beside_calls, start, stop),
      cmocka_unit_test_setup_teardown(h10_log_probabilities_of_the_end_of_a_call, start_json, stop),
      cmocka_unit_test_setup_teardown(t5_a_history_with_calls, start, stop),
      cmocka_unit_test_setup_teardown(t3_calls_in_the_json_form, start_json, stop),
      cmocka_unit_test_setup_teardown(a_template_without_calls_leaves_text, start_shipped, stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* From the JSON of a request to its checked form. */
#include "http/request.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "http/json.h"
#include "unit/unit.h"

static struct config config = {
    .vocabulary = 1000,
    .generation = {
        .sample = true, .temperature = 0.7f, .top_p = 0.8f, .top_k = 20, .min_p = 0, .repetition_penalty = 1.05f}};

static struct completion_request *parse(enum completion_endpoint endpoint, const char *body, struct api_error *error) {
  struct completion_request *request = NULL;
  memset(error, 0, sizeof *error);
  int failed = completion_request_parse(&request, endpoint, body, strlen(body), &config, error);
  assert_true(failed == (request == NULL ? -1 : 0));
  return request;
}

static struct completion_request *taken(enum completion_endpoint endpoint, const char *body) {
  struct api_error error;
  struct completion_request *request = parse(endpoint, body, &error);
  if (!request) fail_msg("refused: %s: %s", body, error.message);
  return request;
}

static struct api_error refused(enum completion_endpoint endpoint, const char *body) {
  struct api_error error;
  struct completion_request *request = parse(endpoint, body, &error);
  if (request) fail_msg("taken: %s", body);
  assert_int_equal(error.status, 400);
  assert_non_null(error.code);
  assert_true(error.message[0]);
  return error;
}

/* A chat request with more fields. */
static const char *chat(const char *fields) {
  static char body[4096];
  snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]%s%s}", fields[0] ? "," : "",
           fields);
  return body;
}

static void takes_defaults_from_generation_config(void **state) {
  (void)state;
  struct completion_request *request = taken(ENDPOINT_CHAT, chat(""));
  assert_true(request->sampling.temperature == 0.7f && request->sampling.top_p == 0.8f);
  assert_int_equal(request->sampling.top_k, 20);
  assert_true(request->sampling.repetition_penalty == 1.05f);
  assert_int_equal(request->sampling.top_logprobs, -1);
  assert_int_equal(request->max_tokens, 0);
  assert_false(request->has_seed || request->stream || request->ignore_eos || request->include_usage);
  assert_false(request->ignore_cache);
  completion_request_free(request);
  request = taken(ENDPOINT_COMPLETIONS, "{\"prompt\":\"a\",\"temperature\":null,\"stop\":null,\"max_tokens\":null}");
  assert_int_equal(request->max_tokens, REQUEST_DEFAULT_COMPLETION_TOKENS);
  assert_string_equal(request->prompts[0].text, "a");
  completion_request_free(request);
  struct config greedy = config;
  greedy.generation.sample = false;
  struct api_error error;
  assert_int_equal(completion_request_parse(&request, ENDPOINT_CHAT, chat(""), strlen(chat("")), &greedy, &error), 0);
  assert_true(request->sampling.temperature == 0);
  completion_request_free(request);
}

static void takes_every_field(void **state) {
  (void)state;
  struct completion_request *request = taken(
      ENDPOINT_CHAT,
      chat("\"temperature\":0.5,\"top_p\":0.9,\"top_k\":5,\"min_p\":0.1,\"repetition_penalty\":1.2,"
           "\"presence_penalty\":-1,\"frequency_penalty\":2,\"logit_bias\":{\"5\":-100,\"999\":1.5},\"seed\":-3,"
           "\"stop\":[\"a\",\"bc\"],\"max_tokens\":7,\"max_completion_tokens\":9.0,\"stream\":true,"
           "\"stream_options\":{\"include_usage\":true,\"other\":1},\"logprobs\":true,\"top_logprobs\":20,\"n\":1,"
           "\"ignore_eos\":true,\"cache_prompt\":false,\"model\":\"any\",\"user\":\"x\",\"response_format\":{\"type\":"
           "\"text\"},"
           "\"tool_choice\":\"auto\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
           "\"chat_template_kwargs\":{\"enable_thinking\":false}"));
  const struct sampling *sampling = &request->sampling;
  assert_true(sampling->temperature == 0.5f && sampling->top_p == 0.9f && sampling->min_p == 0.1f);
  assert_true(sampling->repetition_penalty == 1.2f && sampling->presence_penalty == -1);
  assert_true(sampling->frequency_penalty == 2 && sampling->top_k == 5);
  assert_int_equal(sampling->bias_count, 2);
  assert_int_equal(sampling->bias[1].token, 999);
  assert_true(sampling->bias[0].bias == -100 && sampling->bias[1].bias == 1.5f);
  assert_true(request->has_seed && sampling->seed == (uint64_t)-3);
  assert_int_equal(request->stop_count, 2);
  assert_string_equal(request->stops[1], "bc");
  assert_int_equal(request->max_tokens, 9);
  assert_true(request->stream && request->include_usage && request->ignore_eos && request->ignore_cache);
  assert_int_equal(sampling->top_logprobs, 20);
  assert_int_equal(json_array_size(request->tools), 1);
  assert_true(json_is_false(json_object_get(request->template_variables, "enable_thinking")));
  completion_request_free(request);
  request = taken(ENDPOINT_CHAT, chat("\"tool_choice\":\"none\",\"tools\":[{\"type\":\"function\",\"function\":"
                                      "{\"name\":\"f\"}}],\"top_k\":-1,\"stop\":\"x\""));
  assert_null(request->tools);
  assert_int_equal(request->sampling.top_k, 0);
  assert_int_equal(request->stop_count, 1);
  completion_request_free(request);
}

static void takes_prompts_of_token_ids(void **state) {
  (void)state;
  static const char *const bodies[] = {"{\"prompt\":[1,2,999]}", "{\"prompt\":[[1,2,999]]}"};
  for (size_t i = 0; i < 2; i++) {
    struct completion_request *request = taken(ENDPOINT_COMPLETIONS, bodies[i]);
    assert_int_equal(request->prompts[0].token_count, 3);
    assert_int_equal(request->prompts[0].tokens[2], 999);
    completion_request_free(request);
  }
  struct completion_request *request = taken(ENDPOINT_COMPLETIONS, "{\"prompt\":[\"one\"],\"logprobs\":0}");
  assert_string_equal(request->prompts[0].text, "one");
  assert_int_equal(request->sampling.top_logprobs, 0);
  completion_request_free(request);
  static const char *const wrong[] = {
      "{}",
      "{\"prompt\":null}",
      "{\"prompt\":\"\"}",
      "{\"prompt\":[]}",
      "{\"prompt\":[[]]}",
      "{\"prompt\":7}",
      "{\"prompt\":{}}",
      "{\"prompt\":[1000]}",
      "{\"prompt\":[-1]}",
      "{\"prompt\":[1.0]}",
      "{\"prompt\":[1,\"a\"]}",
      "{\"prompt\":[true]}",
      "{\"prompt\":[\"a\",\"\"]}",
      "{\"prompt\":[\"a\",7]}",
      "{\"prompt\":[[1],[1000]]}",
      "{\"prompt\":[[1],null]}",
      "{\"prompt\":\"a\",\"echo\":1}",
      "{\"prompt\":\"a\",\"max_tokens\":0}",
      "{\"prompt\":\"a\",\"suffix\":7}",
      "{\"prompt\":\"a\",\"best_of\":2}",
      "{\"prompt\":[\"a\",\"b\",\"c\"],\"n\":43}",
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) refused(ENDPOINT_COMPLETIONS, wrong[i]);
}

static void takes_several_prompts_and_choices(void **state) {
  (void)state;
  struct completion_request *request =
      taken(ENDPOINT_COMPLETIONS,
            "{\"prompt\":[\"one\",[2,3],\"three\"],\"n\":42,\"best_of\":42,\"echo\":true,"
            "\"suffix\":\"after\"}");
  assert_int_equal(request->prompt_count, 3);
  assert_int_equal(request->choices, 42);
  assert_string_equal(request->prompts[0].text, "one");
  assert_int_equal(request->prompts[1].tokens[1], 3);
  assert_null(request->prompts[1].text);
  assert_string_equal(request->prompts[2].text, "three");
  assert_string_equal(request->suffix, "after");
  assert_true(request->echo);
  completion_request_free(request);
  request = taken(ENDPOINT_CHAT, chat("\"n\":128"));
  assert_int_equal(request->choices, 128);
  completion_request_free(request);
}

static void reasoning_effort_reaches_the_template(void **state) {
  (void)state;
  static const struct {
    const char *fields, *effort;
    bool off;
  } cases[] = {
      {"\"reasoning_effort\":\"low\"", "low", false},
      {"\"reasoning_effort\":\"none\"", "none", true},
      {"\"reasoning_effort\":\"none\",\"chat_template_kwargs\":{\"enable_thinking\":true}", "none", false},
      {"\"reasoning_effort\":\"low\",\"chat_template_kwargs\":{\"reasoning_effort\":\"high\"}", "high", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct completion_request *request = taken(ENDPOINT_CHAT, chat(cases[i].fields));
    const json_t *variables = request->template_variables;
    assert_string_equal(json_string_value(json_object_get(variables, "reasoning_effort")), cases[i].effort);
    assert_int_equal(json_is_false(json_object_get(variables, "enable_thinking")), cases[i].off);
    completion_request_free(request);
  }
  assert_string_equal(refused(ENDPOINT_CHAT, chat("\"reasoning_effort\":1")).param, "reasoning_effort");
}

/* Invalid text is refused with its position, never repaired, and what is beside it never lost. */
/* Thousands of tools and of choices among them are looked at once each. */
static void h12_many_tools_may_be_called(void **state) {
  (void)state;
  enum { COUNT = 24000 };
  struct buffer body = {0};
  buffer_append_text(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[");
  for (int i = 0; i < COUNT; i++)
    buffer_append_format(&body, "%s{\"type\":\"function\",\"function\":{\"name\":\"f%d\"}}", i ? "," : "", i);
  buffer_append_text(
      &body, "],\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\",\"tools\":[");
  for (int i = 0; i < COUNT; i++)
    buffer_append_format(&body, "%s{\"type\":\"function\",\"function\":{\"name\":\"f%d\"}}", i ? "," : "",
                         COUNT - 1 - i);
  buffer_append_text(&body, "]}}}");
  struct completion_request *request = taken(ENDPOINT_CHAT, buffer_text(&body));
  assert_int_equal(request->constraint.kind, CONSTRAINT_TOOL_CALLS);
  assert_int_equal(json_array_size(request->constraint.value), COUNT);
  completion_request_free(request);
  buffer_free(&body);
  struct api_error error =
      refused(ENDPOINT_CHAT,
              chat("\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"tool_choice\":{\"type\":"
                   "\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\",\"tools\":[{\"type\":\"function\","
                   "\"function\":{\"name\":\"f\"}},{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]}}"));
  assert_string_equal(error.param, "tool_choice.allowed_tools.tools[1].function.name");
}

static void h3_invalid_text_400_with_position(void **state) {
  (void)state;
  static const char *const texts[] = {"\\ud800", "\\udc00x",     "\\u0000",         "\xff",
                                      "\xc3",    "\xed\xa0\x80", "\xf5\x80\x80\x80"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    char body[200];
    snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\n\"content\":\"%s\"}]}", texts[i]);
    struct api_error error = refused(ENDPOINT_CHAT, body);
    assert_string_equal(error.code, "invalid_json");
    const char *at = strstr(error.message, " at line 2, column ");
    if (!at) fail_msg("no position: %s", error.message);
    /* The position is inside the string, or just behind it. */
    int column = 0, byte = 0;
    assert_int_equal(sscanf(at, " at line 2, column %d (byte %d)", &column, &byte), 2);
    long begin = strstr(body, "\"content\"") - body + 11, end = begin + (long)strlen(texts[i]) + 1;
    if (byte < begin || byte > end) fail_msg("byte %d is not in %ld…%ld: %s", byte, begin, end, error.message);
    snprintf(body, sizeof body, "{\"prompt\":\"%s\"}", texts[i]);
    refused(ENDPOINT_COMPLETIONS, body);
  }
  struct completion_request *request = taken(ENDPOINT_COMPLETIONS, "{\"prompt\":\"\\ud83d\\ude00\"}");
  assert_string_equal(request->prompts[0].text, "\xf0\x9f\x98\x80");
  completion_request_free(request);
}

static void h6_content_parts(void **state) {
  (void)state;
  static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
  for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
    char body[300];
    snprintf(body, sizeof body,
             "{\"messages\":[{\"role\":\"%s\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
             "{\"type\":\"text\",\"text\":\"b\\n\"}],\"name\":\"n\"}]}",
             roles[i]);
    struct completion_request *request = taken(ENDPOINT_CHAT, body);
    const json_t *message = json_array_get(request->messages, 0);
    assert_string_equal(json_string_value(json_object_get(message, "content")), "ab\n");
    assert_string_equal(json_string_value(json_object_get(message, "name")), "n");
    completion_request_free(request);
  }
  struct api_error error =
      refused(ENDPOINT_CHAT,
              "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":[]},"
              "{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}]}");
  assert_string_equal(error.param, "messages[2].content[0].type");
  assert_string_equal(error.code, "unsupported_content");
  error = refused(ENDPOINT_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":5}]}]}");
  assert_string_equal(error.param, "messages[0].content[0].text");
}

static void h6_null_content_with_tool_calls(void **state) {
  (void)state;
  static const char *const contents[] = {"\"content\":null,", "", "\"content\":\"\",", "\"content\":[],"};
  for (size_t i = 0; i < sizeof contents / sizeof contents[0]; i++) {
    char body[400];
    snprintf(body, sizeof body,
             "{\"messages\":[{\"role\":\"assistant\",%s\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\","
             "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"b\\\": 1, \\\"a\\\": [2]}\"}}]}]}",
             contents[i]);
    struct completion_request *request = taken(ENDPOINT_CHAT, body);
    json_t *message = json_array_get(request->messages, 0);
    assert_string_equal(json_string_value(json_object_get(message, "content")), "");
    json_t *call = json_array_get(json_object_get(message, "tool_calls"), 0);
    char *arguments = json_dumps(json_object_get(json_object_get(call, "function"), "arguments"), JSON_COMPACT);
    assert_string_equal(arguments, "{\"b\":1,\"a\":[2]}");
    free(arguments);
    completion_request_free(request);
  }
  static const char *const roles[] = {"user", "system", "developer", "tool"};
  for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
    char body[200];
    snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"%s\",\"content\":null}]}", roles[i]);
    assert_string_equal(refused(ENDPOINT_CHAT, body).param, "messages[0].content");
    snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"%s\"}]}", roles[i]);
    assert_string_equal(refused(ENDPOINT_CHAT, body).param, "messages[0].content");
  }
}

/* The template gets the same whether arguments come as text or as an object; text that is none stays text. */
static void t5_arguments_as_text_and_object(void **state) {
  (void)state;
  static const char *const arguments[][2] = {{"{\"x\":\"y\"}", "{\"x\":\"y\"}"},
                                             {"\"{\\\"x\\\":\\\"y\\\"}\"", "{\"x\":\"y\"}"},
                                             {"\"\"", "{}"},
                                             {"null", "{}"},
                                             {"\"not json\"", "\"not json\""},
                                             {"\"[1]\"", "\"[1]\""}};
  for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++) {
    char body[300];
    snprintf(
        body, sizeof body,
        "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":%s}}]}]}",
        arguments[i][0]);
    struct completion_request *request = taken(ENDPOINT_CHAT, body);
    json_t *calls = json_object_get(json_array_get(request->messages, 0), "tool_calls");
    json_t *function = json_object_get(json_array_get(calls, 0), "function");
    char *text = json_dumps(json_object_get(function, "arguments"), JSON_COMPACT | JSON_ENCODE_ANY);
    assert_string_equal(text, arguments[i][1]);
    free(text);
    completion_request_free(request);
  }
}

/* H12: a text that becomes many values is not multiplied beyond what one request may hold. */
static void h12_arguments_share_one_bound(void **state) {
  enum { VALUES = JSON_MAX_VALUES / 2 + 1 };
  struct buffer body = {0};
  (void)state;
  buffer_append_text(&body, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[");
  for (int call = 0; call < 2; call++) {
    buffer_append_format(&body, "%s{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[0", call ? "," : "");
    for (int i = 0; i < VALUES; i++) buffer_append_text(&body, ",0");
    buffer_append_text(&body, "]}\"}}");
  }
  buffer_append_text(&body, "]}]}");
  struct completion_request *request = taken(ENDPOINT_CHAT, buffer_text(&body));
  const json_t *calls = json_object_get(json_array_get(request->messages, 0), "tool_calls");
  for (size_t i = 0; i < 2; i++) {
    const json_t *function = json_object_get(json_array_get(calls, i), "function");
    assert_int_equal(json_typeof(json_object_get(function, "arguments")), i == 0 ? JSON_OBJECT : JSON_STRING);
  }
  completion_request_free(request);
  buffer_free(&body);
}

static void h7_roles(void **state) {
  (void)state;
  struct completion_request *request =
      taken(ENDPOINT_CHAT,
            "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"developer\",\"content\":\"b\"}]}");
  const json_t *late = json_array_get(request->messages, 1);
  assert_string_equal(json_string_value(json_object_get(late, "role")), "system");
  completion_request_free(request);
  assert_string_equal(refused(ENDPOINT_CHAT, "{\"messages\":[]}").param, "messages");
  assert_string_equal(refused(ENDPOINT_CHAT, "{\"messages\":[{\"role\":\"king\",\"content\":\"a\"}]}").param,
                      "messages[0].role");
}

/* Every numeric field with what is no number or out of range: 400 that names the field. */
static void h12_every_numeric_field(void **state) {
  (void)state;
  static const char *const names[] = {"temperature",
                                      "top_p",
                                      "top_k",
                                      "min_p",
                                      "presence_penalty",
                                      "max_tokens",
                                      "top_logprobs",
                                      "repetition_penalty",
                                      "n",
                                      "frequency_penalty"};
  static const char *const values[] = {"\"1\"", "true", "[1]", "{}", "1e300", "-1e300", "-1000", "99999999999999"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    for (size_t j = 0; j < sizeof values / sizeof values[0]; j++) {
      char fields[200];
      snprintf(fields, sizeof fields, "\"logprobs\":true,\"%s\":%s", names[i], values[j]);
      struct api_error error = refused(ENDPOINT_CHAT, chat(fields));
      if (strcmp(error.param, names[i]) != 0) fail_msg("%s: %s", fields, error.message);
    }
  }
  static const char *const zero[] = {"max_tokens", "max_completion_tokens", "n", "repetition_penalty"};
  for (size_t i = 0; i < sizeof zero / sizeof zero[0]; i++) {
    char fields[100];
    snprintf(fields, sizeof fields, "\"%s\":0", zero[i]);
    assert_string_equal(refused(ENDPOINT_CHAT, chat(fields)).param, zero[i]);
  }
  static const char *const seeds[] = {"\"1\"", "true", "1.5", "1e300", "{}"};
  for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
    char fields[100];
    snprintf(fields, sizeof fields, "\"seed\":%s", seeds[i]);
    assert_string_equal(refused(ENDPOINT_CHAT, chat(fields)).param, "seed");
  }
}

/* What JSON itself cannot say, or no 64-bit integer or double holds. */
static void h12_not_a_json_number(void **state) {
  (void)state;
  static const char *const values[] = {"NaN",  "Infinity", "-Infinity", "1e999", "99999999999999999999999",
                                       "0x10", "01",       "+1",        ".5"};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    char fields[100];
    snprintf(fields, sizeof fields, "\"temperature\":%s", values[i]);
    assert_string_equal(refused(ENDPOINT_CHAT, chat(fields)).code, "invalid_json");
  }
  struct completion_request *request = taken(ENDPOINT_CHAT, chat("\"temperature\":1e-300,\"top_p\":0"));
  assert_true(request->sampling.temperature == 0 && request->sampling.top_p > 0);
  completion_request_free(request);
}

static void h12_logit_bias(void **state) {
  (void)state;
  static const char *const values[] = {"[]",
                                       "5",
                                       "{\"-1\":1}",
                                       "{\"1000\":1}",
                                       "{\"a\":1}",
                                       "{\"\":1}",
                                       "{\"01\":1}",
                                       "{\"1\":101}",
                                       "{\"1\":\"1\"}",
                                       "{\"1\":true}",
                                       "{\"1 \":1}",
                                       "{\"4294967297\":1}",
                                       "{\"99999999999999999999\":1}"};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    char fields[200];
    snprintf(fields, sizeof fields, "\"logit_bias\":%s", values[i]);
    assert_memory_equal(refused(ENDPOINT_CHAT, chat(fields)).param, "logit_bias", 10);
  }
  struct config wide = config;
  wide.vocabulary = 100000;
  struct buffer body = {0};
  buffer_append_text(&body, "{\"prompt\":\"a\",\"logit_bias\":{\"0\":1");
  for (int i = 1; i <= SAMPLING_MAX_BIAS; i++) buffer_append_format(&body, ",\"%d\":1", i);
  buffer_append_text(&body, "}}");
  struct completion_request *request = NULL;
  struct api_error error;
  assert_int_equal(completion_request_parse(&request, ENDPOINT_COMPLETIONS, body.data, body.length, &wide, &error), -1);
  assert_string_equal(error.param, "logit_bias");
  buffer_free(&body);
}

static void h12_nothing_is_allocated_for_structure(void **state) {
  (void)state;
  struct buffer body = {0};
  buffer_append_text(&body, "{\"x\":[");
  for (int i = 0; i <= JSON_MAX_CONTAINERS; i++) buffer_append_text(&body, "{},");
  buffer_append_text(&body, "1],\"prompt\":\"a\"}");
  struct completion_request *request = NULL;
  struct api_error error;
  assert_int_equal(completion_request_parse(&request, ENDPOINT_COMPLETIONS, body.data, body.length, &config, &error),
                   -1);
  assert_int_equal(error.status, 400);
  buffer_clear(&body);
  for (int i = 0; i < 100000; i++) buffer_append_text(&body, "[");
  assert_int_equal(completion_request_parse(&request, ENDPOINT_COMPLETIONS, body.data, body.length, &config, &error),
                   -1);
  assert_int_equal(error.status, 400);
  buffer_free(&body);
}

static void h13_wrong_types_and_missing_fields(void **state) {
  (void)state;
  static const struct {
    const char *fields, *param;
  } cases[] = {
      {"\"temperature\":\"hot\"", "temperature"},
      {"\"stream\":1", "stream"},
      {"\"stream_options\":[]", "stream_options"},
      {"\"stream_options\":{\"include_usage\":1}", "stream_options.include_usage"},
      {"\"stop\":5", "stop"},
      {"\"stop\":\"\"", "stop"},
      {"\"stop\":[\"a\",1]", "stop"},
      {"\"stop\":[null]", "stop"},
      {"\"logprobs\":5", "logprobs"},
      {"\"top_logprobs\":5", "top_logprobs"},
      {"\"ignore_eos\":\"no\"", "ignore_eos"},
      {"\"cache_prompt\":0", "cache_prompt"},
      {"\"model\":5", "model"},
      {"\"n\":129", "n"},
      {"\"tools\":{}", "tools"},
      {"\"tools\":[5]", "tools[0].type"},
      {"\"tools\":[{\"type\":\"function\",\"function\":{}}]", "tools[0].function.name"},
      {"\"tool_choice\":\"required\"", "tool_choice"},
      {"\"tool_choice\":{\"type\":\"function\"}", "tool_choice"},
      {"\"response_format\":{\"type\":\"yaml\"}", "response_format.type"},
      {"\"response_format\":{\"type\":\"json_schema\"}", "response_format.json_schema.schema"},
      {"\"response_format\":{\"type\":\"json_object\"},\"grammar\":\"root ::= x\"", "grammar"},
      {"\"json_schema\":{},\"response_format\":{\"type\":\"json_object\"}", "json_schema"},
      {"\"json_schema\":5", "json_schema"},
      {"\"grammar\":{}", "grammar"},
      {"\"chat_template_kwargs\":[]", "chat_template_kwargs"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    assert_string_equal(refused(ENDPOINT_CHAT, chat(cases[i].fields)).param, cases[i].param);
  static const char *const bodies[] = {"",
                                       "null",
                                       "[]",
                                       "5",
                                       "hello",
                                       "{\"messages\":",
                                       "{} {}",
                                       "{\"a\":1,\"a\":2}",
                                       "{}",
                                       "{\"messages\":null}",
                                       "{\"messages\":\"hi\"}",
                                       "{\"messages\":[5]}",
                                       "{\"messages\":[{}]}",
                                       "{\"messages\":[{\"role\":5,\"content\":\"a\"}]}",
                                       "{\"messages\":[{\"role\":\"user\",\"content\":5}]}",
                                       "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":5}]}",
                                       "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{}]}]}"};
  for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) refused(ENDPOINT_CHAT, bodies[i]);
  completion_request_free(
      taken(ENDPOINT_CHAT, chat("\"stream_options\":{},\"stream\":true,\"frobnicate\":[{\"a\":1}]")));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(takes_defaults_from_generation_config),
      cmocka_unit_test(takes_every_field),
      cmocka_unit_test(takes_prompts_of_token_ids),
      cmocka_unit_test(takes_several_prompts_and_choices),
      cmocka_unit_test(reasoning_effort_reaches_the_template),
      cmocka_unit_test(h12_many_tools_may_be_called),
      cmocka_unit_test(h3_invalid_text_400_with_position),
      cmocka_unit_test(h6_content_parts),
      cmocka_unit_test(h6_null_content_with_tool_calls),
      cmocka_unit_test(t5_arguments_as_text_and_object),
      cmocka_unit_test(h12_arguments_share_one_bound),
      cmocka_unit_test(h7_roles),
      cmocka_unit_test(h12_every_numeric_field),
      cmocka_unit_test(h12_not_a_json_number),
      cmocka_unit_test(h12_logit_bias),
      cmocka_unit_test(h12_nothing_is_allocated_for_structure),
      cmocka_unit_test(h13_wrong_types_and_missing_fields),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

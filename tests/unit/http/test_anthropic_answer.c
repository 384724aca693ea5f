/* Answers in the words of Anthropic's Messages API: the events of a stream join to the whole message, however the text
 * was cut (H18). */
#include <stdio.h>
#include <stdlib.h>

#include "http/anthropic.h"
#include "http/json.h"
#include "unit/unit.h"

static const char TOOLS[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"add\", \"parameters\": {\"type\": \"object\", "
    "\"properties\": {\"a\": {\"type\": \"number\"}, \"note\": {\"type\": \"string\"}}}}}]";

#define CALL(number, note)                                                                        \
  "<tool_call>\n<function=add>\n<parameter=a>\n" number "\n</parameter>\n<parameter=note>\n" note \
  "\n</parameter>\n"                                                                              \
  "</function>\n</tool_call>"

/* What the model writes and how that ends. */
struct script {
  const char *text;
  enum answer_end end;
  const char *stop;
  bool plain; /* no tools, no thoughts */
};

static struct completion_request request_for(const struct script *script) {
  struct completion_request request = {.endpoint = ENDPOINT_MESSAGES, .max_tokens = 100};
  if (script->plain) return request;
  struct kj_error error;
  json_t *tools = json_loads(TOOLS, 0, NULL);
  request.tool_form = TOOL_FORM_XML;
  request.thought = THOUGHT_MAY_BE;
  assert_int_equal(tool_schemas_compile(&request.tool_schemas, tools, &error), 0);
  json_decref(tools);
  return request;
}

static void begin(struct answer *answer, struct choice *choice, const struct completion_request *request) {
  *choice = (struct choice){.usage = {.completion_tokens = 100, .thought_tokens = 7}};
  choice->usage.prompt_tokens = 50;
  assert_int_equal(reply_create(&choice->reply, request), 0);
  *answer = (struct answer){.dialect = &anthropic_dialect,
                            .request = request,
                            .id = "msg_1",
                            .model = "org/mini",
                            .choices = choice,
                            .choice_count = 1};
}

static void end(struct choice *choice, const struct script *script) {
  reply_finish(choice->reply, script->end != END_TURN);
  assert_false(reply_failed(choice->reply));
  choice->end = script->end;
  choice->stop = script->stop;
  choice->stop_length = script->stop ? strlen(script->stop) : 0;
  choice->usage.cached_tokens = 30;
}

/* Random ids of calls become their number, after a check. */
static json_t *with_plain_ids(json_t *message) {
  const json_t *content = json_object_get(message, "content");
  for (size_t i = 0; i < json_array_size(content); i++) {
    json_t *block = json_array_get(content, i), *id = json_object_get(block, "id");
    if (!id) continue;
    assert_memory_equal(json_string_value(id), "toolu_", 6);
    assert_int_equal(json_string_length(id), 30);
    json_object_set_new(block, "id", json_integer((json_int_t)i));
  }
  return message;
}

static json_t *whole_message(const struct script *script) {
  struct completion_request request = request_for(script);
  struct answer answer;
  struct choice choice;
  struct buffer out = {0};
  begin(&answer, &choice, &request);
  buffer_append_text(reply_text(choice.reply), script->text);
  end(&choice, script);
  answer.dialect->whole(&answer, &out);
  assert_false(buffer_failed(&out));
  json_error_t problem;
  json_t *message = json_loadb(out.data, out.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
  if (!message) fail_msg("%s: %s", problem.text, out.data);
  buffer_free(&out);
  reply_free(choice.reply);
  tool_schemas_free(request.tool_schemas);
  return with_plain_ids(message);
}

/* The events of the stream while the text comes in pieces of `size` bytes, the first one of `first`. */
static void stream(const struct script *script, size_t first, size_t size, struct buffer *out) {
  struct completion_request request = request_for(script);
  struct answer answer;
  struct choice choice;
  begin(&answer, &choice, &request);
  answer.dialect->open(&answer, out);
  size_t length = strlen(script->text);
  for (size_t at = 0, piece = first; at < length; at += piece, piece = size) {
    if (piece > length - at) piece = length - at;
    /* The detokenizer gives whole characters. */
    while (at + piece < length && ((unsigned char)script->text[at + piece] & 0xc0) == 0x80) piece++;
    buffer_append(reply_text(choice.reply), script->text + at, piece);
    reply_read(choice.reply);
    answer.dialect->progress(&answer, 0, out);
    reply_clear(choice.reply);
  }
  end(&choice, script);
  answer.dialect->progress(&answer, 0, out);
  reply_clear(choice.reply);
  answer.dialect->finish(&answer, 0, out);
  answer.dialect->close(&answer, out);
  answer.dialect->release(&answer);
  assert_null(answer.state);
  assert_false(buffer_failed(out));
  reply_free(choice.reply);
  tool_schemas_free(request.tool_schemas);
}

static const char *text_of(const json_t *object, const char *name) {
  const char *text = json_string_value(json_object_get(object, name));
  assert_non_null(text);
  return text;
}

/* A member of the block grows by the text. */
static void grow(json_t *block, const char *member, const char *text) {
  json_t *joined = json_sprintf("%s%s", text_of(block, member), text);
  json_object_set_new(block, member, joined);
}

static void join_delta(json_t *block, const json_t *delta) {
  const char *type = text_of(delta, "type"), *kind = text_of(block, "type");
  if (strcmp(type, "text_delta") == 0) {
    assert_string_equal(kind, "text");
    grow(block, "text", text_of(delta, "text"));
  } else if (strcmp(type, "thinking_delta") == 0) {
    assert_string_equal(kind, "thinking");
    grow(block, "thinking", text_of(delta, "thinking"));
  } else if (strcmp(type, "signature_delta") == 0) {
    assert_string_equal(kind, "thinking");
    grow(block, "signature", text_of(delta, "signature"));
  } else {
    assert_string_equal(type, "input_json_delta");
    assert_string_equal(kind, "tool_use");
    grow(block, "partial_json", text_of(delta, "partial_json"));
  }
}

/* What a client does at a block's end; a call that was cut has no input yet. */
static void end_block(json_t *block) {
  json_t *partial = json_object_get(block, "partial_json");
  if (!partial) return;
  json_t *input = json_loads(json_string_value(partial), JSON_ALLOW_NUL, NULL);
  if (!json_is_object(input)) input = json_pack("{s:O}", "partial_json", partial);
  json_object_set_new(block, "input", input);
  json_object_del(block, "partial_json");
}

/* The message of a stream, whose events must stand in their order. */
static json_t *joined(const char *events) {
  json_t *message = NULL, *content = NULL, *open = NULL;
  enum { START, BLOCKS, DELTA, STOP } place = START;
  for (const char *at = events; *at;) {
    char name[40];
    int begins = 0;
    if (sscanf(at, "event: %39s\ndata: %n", name, &begins) != 1 || !begins) fail_msg("no event: %s", at);
    const char *data = at + begins, *after = strstr(data, "\n\n");
    assert_non_null(after);
    json_t *event = json_loadb(data, (size_t)(after - data), JSON_ALLOW_NUL, NULL);
    assert_string_equal(text_of(event, "type"), name);
    const json_t *index = json_object_get(event, "index");
    if (strcmp(name, "message_start") == 0) {
      assert_int_equal(place, START);
      message = json_incref(json_object_get(event, "message"));
      content = json_object_get(message, "content");
      assert_int_equal(json_array_size(content), 0);
      assert_true(json_is_null(json_object_get(message, "stop_reason")));
      place = BLOCKS;
    } else if (strcmp(name, "content_block_start") == 0) {
      assert_true(place == BLOCKS && !open);
      assert_int_equal(json_integer_value(index), json_array_size(content));
      json_array_append(content, json_object_get(event, "content_block"));
      open = json_array_get(content, json_array_size(content) - 1);
      if (strcmp(text_of(open, "type"), "tool_use") == 0) {
        assert_int_equal(json_object_size(json_object_get(open, "input")), 0);
        json_object_set_new(open, "partial_json", json_string(""));
      }
    } else if (strcmp(name, "content_block_delta") == 0) {
      assert_non_null(open);
      assert_int_equal(json_integer_value(index), json_array_size(content) - 1);
      join_delta(open, json_object_get(event, "delta"));
    } else if (strcmp(name, "content_block_stop") == 0) {
      assert_non_null(open);
      assert_int_equal(json_integer_value(index), json_array_size(content) - 1);
      end_block(open);
      open = NULL;
    } else if (strcmp(name, "message_delta") == 0) {
      assert_true(place == BLOCKS && !open);
      json_object_update(message, json_object_get(event, "delta"));
      json_object_set(message, "usage", json_object_get(event, "usage"));
      place = DELTA;
    } else {
      assert_string_equal(name, "message_stop");
      assert_int_equal(place, DELTA);
      place = STOP;
    }
    json_decref(event);
    at = after + 2;
  }
  assert_int_equal(place, STOP);
  return with_plain_ids(message);
}

/* The whole message is as expected ({"content", "stop_reason", "stop_sequence"}), and so is every stream's. */
static void expect(const struct script *script, const char *expected) {
  json_error_t problem;
  json_t *wanted = json_loads(expected, JSON_ALLOW_NUL, &problem), *message = whole_message(script);
  if (!wanted) fail_msg("%s: %s", expected, problem.text);
  json_object_update_new(
      wanted,
      json_pack("{s:s, s:s, s:s, s:s, s:{s:i, s:i, s:i, s:i, s:{s:i}}}", "id", "msg_1", "type", "message", "role",
                "assistant", "model", "org/mini", "usage", "input_tokens", 20, "cache_creation_input_tokens", 0,
                "cache_read_input_tokens", 30, "output_tokens", 100, "output_tokens_details", "thinking_tokens", 7));
  if (!json_equal(message, wanted)) fail_msg("%s\nand not %s", json_dumps(message, 0), json_dumps(wanted, 0));
  size_t length = strlen(script->text);
  for (size_t cut = 1; cut <= length + 1; cut++) {
    for (int way = 0; way < 2; way++) {
      struct buffer events = {0};
      stream(script, cut, way ? length + 1 : cut, &events);
      json_t *found = joined(buffer_text(&events));
      if (!json_equal(found, message)) fail_msg("cut at %zu: %s\nand not %s", cut, json_dumps(found, 0), expected);
      json_decref(found);
      buffer_free(&events);
    }
  }
  json_decref(message);
  json_decref(wanted);
}

static void text_alone(void **state) {
  (void)state;
  expect(&(struct script){"Hé \"漢字\"\n", END_TURN, NULL, true},
         "{\"content\": [{\"type\": \"text\", \"text\": \"Hé \\\"漢字\\\"\\n\"}], \"stop_reason\": \"end_turn\", "
         "\"stop_sequence\": null}");
  expect(&(struct script){"", END_TURN, NULL, true},
         "{\"content\": [], \"stop_reason\": \"end_turn\", \"stop_sequence\": null}");
}

static void the_end_is_told(void **state) {
  (void)state;
  expect(&(struct script){"ab", END_STOP_STRING, "STOP", true},
         "{\"content\": [{\"type\": \"text\", \"text\": \"ab\"}], \"stop_reason\": \"stop_sequence\", "
         "\"stop_sequence\": \"STOP\"}");
  expect(&(struct script){"ab", END_LENGTH, NULL, true},
         "{\"content\": [{\"type\": \"text\", \"text\": \"ab\"}], \"stop_reason\": \"max_tokens\", \"stop_sequence\": "
         "null}");
}

static void thought_text_and_calls(void **state) {
  (void)state;
  expect(
      &(struct script){"<think>\nLet me é.\n\n</think>\n\nFirst " CALL("5", "x\"é") "\n" CALL("0.1234567890123", "") "",
                       END_TURN, NULL, false},
      "{\"content\": [{\"type\": \"thinking\", \"thinking\": \"Let me é.\", \"signature\": \"unsigned\"}, "
      "{\"type\": \"text\", \"text\": \"First\"}, "
      "{\"type\": \"tool_use\", \"id\": 2, \"name\": \"add\", \"input\": {\"a\": 5, \"note\": \"x\\\"é\"}}, "
      "{\"type\": \"tool_use\", \"id\": 3, \"name\": \"add\", \"input\": {\"a\": 0.1234567890123, \"note\": "
      "\"\"}}], \"stop_reason\": \"tool_use\", \"stop_sequence\": null}");
  expect(&(struct script){"<think>\nhm", END_LENGTH, NULL, false},
         "{\"content\": [{\"type\": \"thinking\", \"thinking\": \"hm\", \"signature\": \"unsigned\"}], "
         "\"stop_reason\": \"max_tokens\", \"stop_sequence\": null}");
}

static void text_between_and_after_calls(void **state) {
  (void)state;
  expect(&(struct script){CALL("1", "a") " then " CALL("2", "b") " done", END_TURN, NULL, false},
         "{\"content\": [{\"type\": \"tool_use\", \"id\": 0, \"name\": \"add\", \"input\": {\"a\": 1, \"note\": "
         "\"a\"}}, {\"type\": \"text\", \"text\": \" then\"}, "
         "{\"type\": \"tool_use\", \"id\": 2, \"name\": \"add\", \"input\": {\"a\": 2, \"note\": \"b\"}}, "
         "{\"type\": \"text\", \"text\": \" done\"}], \"stop_reason\": \"tool_use\", \"stop_sequence\": null}");
}

/* Nobody can take half of a call for the whole, and nothing of it is lost. */
static void a_call_that_was_cut(void **state) {
  (void)state;
  expect(&(struct script){"<tool_call>\n<function=add>\n<parameter=note>\nhalf of", END_LENGTH, NULL, false},
         "{\"content\": [{\"type\": \"tool_use\", \"id\": 0, \"name\": \"add\", \"input\": {\"partial_json\": "
         "\"{\\\"note\\\":\\\"half of\"}}], \"stop_reason\": \"max_tokens\", \"stop_sequence\": null}");
  expect(&(struct script){"<tool_call>\n<function=add>\n", END_LENGTH, NULL, false},
         "{\"content\": [{\"type\": \"tool_use\", \"id\": 0, \"name\": \"add\", \"input\": {\"partial_json\": "
         "\"{\"}}], \"stop_reason\": \"max_tokens\", \"stop_sequence\": null}");
}

static void a_full_context_is_told_from_max_tokens(void **state) {
  (void)state;
  struct completion_request request = {.endpoint = ENDPOINT_MESSAGES, .max_tokens = 1000};
  struct answer answer;
  struct choice choice;
  struct buffer out = {0};
  begin(&answer, &choice, &request);
  choice.end = END_LENGTH;
  answer.dialect->whole(&answer, &out);
  assert_non_null(strstr(out.data, "\"stop_reason\":\"model_context_window_exceeded\""));
  buffer_free(&out);
  reply_free(choice.reply);
}

static void a_stream_that_fails(void **state) {
  (void)state;
  struct api_error error;
  struct buffer out = {0};
  api_fail(&error, 503, "stopping", NULL, "the server is stopping");
  (anthropic_dialect.fail)(NULL, &error, &out);
  assert_string_equal(out.data,
                      "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":"
                      "\"the server is stopping\",\"details\":{\"error_code\":\"stopping\"}}}\n\n");
  buffer_free(&out);
}

static void the_type_of_an_error_follows_from_its_status(void **state) {
  (void)state;
  static const struct {
    int status;
    const char *type;
  } types[] = {{400, "invalid_request_error"}, {401, "authentication_error"},
               {403, "permission_error"},      {404, "not_found_error"},
               {405, "invalid_request_error"}, {413, "request_too_large"},
               {429, "rate_limit_error"},      {500, "api_error"},
               {503, "overloaded_error"}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    struct api_error error;
    api_fail(&error, types[i].status, NULL, "messages[0]", "bad \xff text");
    json_t *json = anthropic_error_json(&error, "req_1"), *inner = json_object_get(json, "error");
    assert_string_equal(text_of(json, "type"), "error");
    assert_string_equal(text_of(json, "request_id"), "req_1");
    assert_string_equal(text_of(inner, "type"), types[i].type);
    assert_string_equal(text_of(inner, "message"), "bad ? text");
    assert_string_equal(text_of(json_object_get(inner, "details"), "param"), "messages[0]");
    json_decref(json);
  }
}

static void paths_of_the_api(void **state) {
  (void)state;
  static const struct {
    const char *line;
    bool asked;
  } lines[] = {{"POST /v1/messages HTTP/1.1", true},
               {"POST /v1/messages?beta=true HTTP/1.1", true},
               {"POST /v1/messages/count_tokens HTTP/1.1", true},
               {"GET /v1/messages", true},
               {"POST /v1/message HTTP/1.1", false},
               {"POST /v1/messagesx HTTP/1.1", false},
               {"POST /v1/chat/completions HTTP/1.1", false},
               {"POST", false},
               {"", false}};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (anthropic_asked(lines[i].line, strlen(lines[i].line)) != lines[i].asked) fail_msg("%s", lines[i].line);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_alone),
      cmocka_unit_test(the_end_is_told),
      cmocka_unit_test(thought_text_and_calls),
      cmocka_unit_test(text_between_and_after_calls),
      cmocka_unit_test(a_call_that_was_cut),
      cmocka_unit_test(a_full_context_is_told_from_max_tokens),
      cmocka_unit_test(a_stream_that_fails),
      cmocka_unit_test(the_type_of_an_error_follows_from_its_status),
      cmocka_unit_test(paths_of_the_api),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Answers of /v1/responses: the events of a stream come to the whole response, however the text is cut. */
#include <stdio.h>
#include <stdlib.h>

#include "http/answer.h"
#include "http/responses.h"
#include "http/responses_request.h"
#include "unit/unit.h"

static struct config config = {
    .vocabulary = 1000, .generation = {.sample = true, .temperature = 0.7f, .top_p = 0.8f, .repetition_penalty = 1}};

static const char ID[] = "resp_00112233445566778899aabb";
#define MESSAGE_ID "msg_00112233445566778899aabb"

static const char TOOLS[] =
    "\"tools\":[{\"type\":\"function\",\"name\":\"add\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{"
    "\"type\":"
    "\"integer\"},\"note\":{\"type\":\"string\"}}}},{\"type\":\"custom\",\"name\":\"patch\"},{\"type\":\"namespace\","
    "\"name\":\"web\",\"tools\":[{\"type\":\"function\",\"name\":\"read\"}]}]";

#define ADD                                                                            \
  "<tool_call>\n<function=add>\n<parameter=a>\n5\n</parameter>\n<parameter=note>\né " \
  "\"n\"\n</parameter>\n</function>\n</tool_call>"
#define PATCH "<tool_call>\n<function=patch>\n<parameter=input>\n*** \"x\"\né\n</parameter>\n</function>\n</tool_call>"
#define READ "<tool_call>\n<function=web__read>\n</function>\n</tool_call>"

/* An answer to a request with these fields, before anything has come. */
struct making {
  struct completion_request *request;
  struct response_store *store;
  struct choice choice;
  struct answer answer;
};

static void make(struct making *making, const char *fields, bool thinks, bool cut) {
  char body[2048];
  struct api_error error;
  *making = (struct making){.store = response_store_create(4, 1 << 20)};
  snprintf(body, sizeof body, "{\"input\":\"q\"%s%s}", fields[0] ? "," : "", fields);
  if (responses_request_parse(&making->request, making->store, body, strlen(body), &config, &error))
    fail_msg("%s: %s", body, error.message);
  struct completion_request *request = making->request;
  if (request->tools) {
    request->tool_form = TOOL_FORM_XML;
    assert_int_equal(tool_schemas_compile(&request->tool_schemas, request->tools, NULL), 0);
  }
  request->thought = thinks ? THOUGHT_MAY_BE : THOUGHT_NONE;
  making->choice = (struct choice){.usage = {.prompt_tokens = 7, .completion_tokens = 5, .cached_tokens = 3},
                                   .logprobs = {.endpoint = ENDPOINT_RESPONSES}};
  making->choice.usage.thought_tokens = thinks ? 2 : 0;
  assert_int_equal(reply_create(&making->choice.reply, request), 0);
  making->answer = (struct answer){.dialect = &responses_dialect,
                                   .request = request,
                                   .created = 1700000000,
                                   .model = "m",
                                   .responses = making->store,
                                   .choices = &making->choice,
                                   .choice_count = 1};
  snprintf(making->answer.id, sizeof making->answer.id, "%s", ID);
  making->choice.end = cut ? END_LENGTH : END_TURN;
}

static void unmake(struct making *making) {
  responses_dialect.release(&making->answer);
  assert_null(making->answer.state);
  reply_free(making->choice.reply);
  logprobs_free(&making->choice.logprobs);
  completion_request_free(making->request);
  response_store_free(making->store);
}

/* A token's log-probability comes. */
static void add_logprob(struct making *making, char byte) {
  struct logprobs *logprobs = &making->choice.logprobs;
  if (making->request->sampling.top_logprobs < 0) return;
  if (!logprobs->value) logprobs->value = json_pack("{s:[], s:n}", "content", "refusal");
  json_array_append_new(json_object_get(logprobs->value, "content"),
                        json_pack("{s:s, s:f, s:[i], s:[]}", "token", "t", "logprob", -0.5, "bytes",
                                  (unsigned char)byte, "top_logprobs"));
}

/* What is drawn anew for every answer, or is a time, made the same. */
static void settle(json_t *response) {
  size_t i = 0;
  json_t *item = NULL;
  json_array_foreach(json_object_get(response, "output"), i, item) {
    const json_t *id = json_object_get(item, "call_id");
    if (!id) continue;
    assert_memory_equal(json_string_value(id), "call_", 5);
    json_object_set_new(item, "call_id", json_sprintf("call_%zu", i));
  }
  if (!json_is_null(json_object_get(response, "completed_at")))
    json_object_set_new(response, "completed_at", json_integer(1));
}

/* The whole response. */
static json_t *whole(const char *text, const char *fields, bool thinks, bool cut) {
  struct making making;
  struct buffer out = {0};
  make(&making, fields, thinks, cut);
  for (const char *at = text; *at; at++) add_logprob(&making, *at);
  buffer_append_text(reply_text(making.choice.reply), text);
  reply_finish(making.choice.reply, cut);
  responses_dialect.whole(&making.answer, &out);
  assert_false(buffer_failed(&out));
  json_t *response = json_loadb(buffer_text(&out), out.length, 0, NULL);
  assert_non_null(response);
  settle(response);
  buffer_free(&out);
  unmake(&making);
  return response;
}

/* The data of the events, each checked against its name and number. */
static json_t *events_of(const struct buffer *out) {
  json_t *events = json_array();
  for (const char *at = buffer_text(out); *at;) {
    const char *data = strstr(at, "\ndata: "), *end = strstr(at, "\n\n");
    assert_true(strncmp(at, "event: ", 7) == 0 && data && end && data < end);
    json_t *event = json_loadb(data + 7, (size_t)(end - data - 7), 0, NULL);
    assert_non_null(event);
    const char *type = json_string_value(json_object_get(event, "type"));
    assert_int_equal(strlen(type), data - at - 7);
    assert_memory_equal(type, at + 7, strlen(type));
    assert_int_equal(json_integer_value(json_object_get(event, "sequence_number")), json_array_size(events));
    json_array_append_new(events, event);
    at = end + 2;
  }
  return events;
}

/* Streams the text in pieces; `size` 0: pieces of 1, 2, 3… bytes. */
static json_t *streamed(const char *text, const char *fields, bool thinks, bool cut, size_t size) {
  struct making making;
  struct buffer out = {0};
  make(&making, fields, thinks, cut);
  responses_dialect.open(&making.answer, &out);
  size_t piece = size ? size : 1;
  for (const char *at = text; *at;) {
    size_t length = strnlen(at, piece);
    while ((at[length] & 0xc0) == 0x80) length++;
    for (size_t i = 0; i < length; i++) add_logprob(&making, at[i]);
    buffer_append(reply_text(making.choice.reply), at, length);
    at += length;
    reply_read(making.choice.reply);
    if (!*at) reply_finish(making.choice.reply, cut);
    responses_dialect.progress(&making.answer, 0, &out);
    reply_clear(making.choice.reply);
    if (!size) piece++;
  }
  responses_dialect.finish(&making.answer, 0, &out);
  responses_dialect.close(&making.answer, &out);
  assert_false(buffer_failed(&out));
  json_t *events = events_of(&out);

  /* It is kept as it was told. */
  struct response_text kept = {0};
  assert_true(response_store_get(making.store, ID, true, true, &kept));
  json_t *response = json_loadb(buffer_text(&kept.response), kept.response.length, 0, NULL);
  json_t *told = json_object_get(json_array_get(events, json_array_size(events) - 1), "response");
  assert_true(json_equal(response, told));
  json_t *items = json_loadb(buffer_text(&kept.items), kept.items.length, 0, NULL);
  assert_int_equal(kept.input_count, 1);
  assert_int_equal(json_array_size(items), 1 + json_array_size(json_object_get(told, "output")));
  json_decref(items);
  json_decref(response);
  response_text_free(&kept);
  buffer_free(&out);
  unmake(&making);
  return events;
}

static const char *text_at(const json_t *object, const char *name) {
  const char *text = json_string_value(json_object_get(object, name));
  return text ? text : "";
}

static void append(json_t *object, const char *name, const json_t *delta) {
  json_object_set_new(object, name, json_sprintf("%s%s", text_at(object, name), json_string_value(delta)));
}

/* The output that the events come to, as a client puts it together from added, deltas and done. */
static json_t *reassembled(const json_t *events) {
  json_t *items = json_array(), *event = NULL, *done = json_array();
  size_t i = 0;
  json_array_foreach(events, i, event) {
    const char *type = text_at(event, "type");
    size_t index = (size_t)json_integer_value(json_object_get(event, "output_index"));
    json_t *item = json_array_get(items, index);
    json_t *part = json_array_get(json_object_get(item, "content"),
                                  (size_t)json_integer_value(json_object_get(event, "content_index")));
    const json_t *delta = json_object_get(event, "delta");
    if (json_object_get(event, "item_id")) assert_string_equal(text_at(event, "item_id"), text_at(item, "id"));
    if (strcmp(type, "response.output_item.added") == 0) {
      assert_int_equal(index, json_array_size(items));
      assert_int_equal(index, json_array_size(done));
      assert_string_equal(text_at(json_object_get(event, "item"), "status"), "in_progress");
      json_array_append_new(items, json_deep_copy(json_object_get(event, "item")));
    } else if (strcmp(type, "response.content_part.added") == 0) {
      json_array_append_new(json_object_get(item, "content"), json_deep_copy(json_object_get(event, "part")));
    } else if (strcmp(type, "response.output_text.delta") == 0) {
      append(part, "text", delta);
      json_array_extend(json_object_get(part, "logprobs"), json_object_get(event, "logprobs"));
    } else if (strcmp(type, "response.reasoning_text.delta") == 0) {
      append(part, "text", delta);
    } else if (strcmp(type, "response.function_call_arguments.delta") == 0) {
      append(item, "arguments", delta);
    } else if (strcmp(type, "response.custom_tool_call_input.delta") == 0) {
      append(item, "input", delta);
    } else if (strcmp(type, "response.output_text.done") == 0 || strcmp(type, "response.reasoning_text.done") == 0) {
      assert_string_equal(text_at(event, "text"), text_at(part, "text"));
    } else if (strcmp(type, "response.content_part.done") == 0) {
      assert_string_equal(text_at(json_object_get(event, "part"), "text"), text_at(part, "text"));
    } else if (strcmp(type, "response.function_call_arguments.done") == 0) {
      assert_string_equal(text_at(event, "arguments"), text_at(item, "arguments"));
    } else if (strcmp(type, "response.custom_tool_call_input.done") == 0) {
      assert_string_equal(text_at(event, "input"), text_at(item, "input"));
    } else if (strcmp(type, "response.output_item.done") == 0) {
      const json_t *complete = json_object_get(event, "item");
      assert_string_equal(text_at(complete, "arguments"), text_at(item, "arguments"));
      assert_string_equal(text_at(complete, "input"), text_at(item, "input"));
      json_array_append_new(done, json_deep_copy(complete));
    }
  }
  json_decref(items);
  return done;
}

struct sample {
  const char *name, *text, *fields;
  bool thinks, cut;
  const char *types; /* of the items */
};

static const struct sample samples[] = {
    {"text", "Grüße, 漢字!", "", false, false, "message "},
    {"nothing", "", "", false, false, "message "},
    {"cut", "Grüße", "\"max_output_tokens\":5", false, true, "message "},
    {"thought", "<think>\nhm ü\n</think>\n\nSo.", "", true, false, "reasoning message "},
    {"cut thought", "<think>\nhm ü", "", true, true, "reasoning "},
    {"sealed thought", "<think>hm</think>So.", "\"include\":[\"reasoning.encrypted_content\"]", true, false,
     "reasoning message "},
    {"call", "I look.\n" ADD, TOOLS, false, false, "message function_call "},
    {"calls", ADD "\n" READ "\n" PATCH "\nthen\n" ADD, TOOLS, false, false,
     "function_call function_call custom_tool_call message function_call "},
    {"all", "<think>hm</think>\n\nWell.\n" ADD, TOOLS, true, false, "reasoning message function_call "},
    {"cut call", "<tool_call>\n<function=add>\n<parameter=note>\nabc", TOOLS, false, true, "function_call "},
    {"cut custom call", "<tool_call>\n<function=patch>\n<parameter=input>\nabc", TOOLS, false, true,
     "custom_tool_call "},
    {"logprobs", "Grüße", "\"include\":[\"message.output_text.logprobs\"],\"top_logprobs\":1", false, false,
     "message "},
};

static void any_cut_of_the_stream_comes_to_the_whole_response(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
    const struct sample *sample = &samples[i];
    json_t *expected = whole(sample->text, sample->fields, sample->thinks, sample->cut);
    struct buffer types = {0};
    size_t k = 0;
    json_t *item = NULL;
    json_array_foreach(json_object_get(expected, "output"), k, item)
        buffer_append_format(&types, "%s ", text_at(item, "type"));
    if (strcmp(buffer_text(&types), sample->types) != 0) fail_msg("%s: %s", sample->name, buffer_text(&types));
    buffer_free(&types);
    for (size_t size = 0; size <= strlen(sample->text) + 1; size++) {
      json_t *events = streamed(sample->text, sample->fields, sample->thinks, sample->cut, size);
      json_t *last = json_array_get(events, json_array_size(events) - 1), *output = reassembled(events);
      assert_string_equal(text_at(last, "type"), sample->cut ? "response.incomplete" : "response.completed");
      json_t *response = json_object_get(last, "response");
      assert_true(json_equal(output, json_object_get(response, "output")));
      settle(response);
      if (!json_equal(response, expected))
        fail_msg("%s by %zu: %s instead of %s", sample->name, size, json_dumps(response, 0), json_dumps(expected, 0));
      json_decref(output);
      json_decref(events);
    }
    json_decref(expected);
  }
}

static void the_response_has_all_that_clients_read(void **state) {
  (void)state;
  json_t *response = whole("Yes.", "\"temperature\":0.3,\"metadata\":{\"k\":\"v\"}", false, false);
  json_t *expected = json_loads(
      "{\"id\":\"resp_00112233445566778899aabb\",\"object\":\"response\",\"created_at\":1700000000,\"status\":"
      "\"completed\",\"completed_at\":1,\"error\":null,\"incomplete_details\":null,\"model\":\"m\",\"output\":[{\"id\":"
      "\"" MESSAGE_ID
      "00\",\"type\":\"message\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{\"type\":"
      "\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":\"Yes.\"}]}],\"usage\":{\"input_tokens\":7,"
      "\"input_tokens_details\":{\"cached_tokens\":3,\"cache_write_tokens\":0},\"output_tokens\":5,"
      "\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":12},\"temperature\":0.3,\"top_p\":0.8,"
      "\"instructions\":null,\"max_output_tokens\":null,\"max_tool_calls\":null,\"previous_response_id\":null,"
      "\"prompt_cache_key\":null,\"reasoning\":null,\"safety_identifier\":null,\"user\":null,\"metadata\":{\"k\":\"v\"}"
      ","
      "\"tools\":[],\"tool_choice\":\"auto\",\"text\":{\"format\":{\"type\":\"text\"}},\"parallel_tool_calls\":true,"
      "\"top_logprobs\":0,\"store\":true,\"background\":false,\"service_tier\":\"default\",\"truncation\":"
      "\"disabled\"}",
      0, NULL);
  assert_non_null(expected);
  if (!json_equal(response, expected)) fail_msg("%s", json_dumps(response, 0));
  json_decref(response);
  json_decref(expected);
}

static const json_t *output_of(const json_t *response, size_t index) {
  return json_array_get(json_object_get(response, "output"), index);
}

static void calls_go_back_to_the_tools_they_are_of(void **state) {
  (void)state;
  json_t *response = whole(ADD "\n" PATCH "\n" READ, TOOLS, false, false);
  const json_t *add = output_of(response, 0), *patch = output_of(response, 1), *read = output_of(response, 2);
  assert_string_equal(text_at(add, "id"), "fc_00112233445566778899aabb00");
  assert_string_equal(text_at(add, "name"), "add");
  assert_string_equal(text_at(add, "arguments"), "{\"a\":5,\"note\":\"é \\\"n\\\"\"}");
  assert_null(json_object_get(add, "namespace"));
  assert_string_equal(text_at(patch, "id"), "ctc_00112233445566778899aabb01");
  assert_string_equal(text_at(patch, "input"), "*** \"x\"\né");
  assert_string_equal(text_at(read, "name"), "read");
  assert_string_equal(text_at(read, "namespace"), "web");
  assert_string_equal(text_at(read, "arguments"), "{}");
  json_decref(response);
}

static void what_is_cut_is_incomplete(void **state) {
  (void)state;
  json_t *response = whole("Say.\n<tool_call>\n<function=add>\n<parameter=note>\nabc", TOOLS, false, true);
  assert_string_equal(text_at(response, "status"), "incomplete");
  assert_string_equal(text_at(json_object_get(response, "incomplete_details"), "reason"), "max_output_tokens");
  assert_string_equal(text_at(output_of(response, 0), "status"), "completed");
  assert_string_equal(text_at(output_of(response, 1), "status"), "incomplete");
  assert_null(json_loads(text_at(output_of(response, 1), "arguments"), 0, NULL));
  json_decref(response);
}

static void counts_the_tokens_of_thoughts(void **state) {
  (void)state;
  json_t *response = whole("<think>hm</think>So.", "\"include\":[\"reasoning.encrypted_content\"]", true, false);
  const json_t *details = json_object_get(json_object_get(response, "usage"), "output_tokens_details");
  assert_int_equal(json_integer_value(json_object_get(details, "reasoning_tokens")), 2);
  assert_string_equal(text_at(output_of(response, 0), "encrypted_content"), "kaiju:hm");
  json_decref(response);
}

static void h10_all_log_probabilities_are_in_the_first_message(void **state) {
  (void)state;
  static const char text[] = "<think>hm</think>\n\nWell.\n" ADD;
  static const char logprobs[] = ",\"include\":[\"message.output_text.logprobs\"]";
  char fields[1024];
  snprintf(fields, sizeof fields, "%s%s", TOOLS, logprobs);
  for (size_t size = 0; size < sizeof text; size++) {
    json_t *events = streamed(text, fields, true, false, size);
    const json_t *response = json_object_get(json_array_get(events, json_array_size(events) - 1), "response");
    const json_t *part = json_array_get(json_object_get(output_of(response, 1), "content"), 0);
    assert_int_equal(json_array_size(json_object_get(part, "logprobs")), strlen(text));
    json_decref(events);
  }
}

static void a_failure_is_told_twice(void **state) {
  (void)state;
  struct making making;
  struct buffer out = {0};
  struct api_error error;
  make(&making, "", false, false);
  responses_dialect.open(&making.answer, &out);
  buffer_append_text(reply_text(making.choice.reply), "So f");
  reply_read(making.choice.reply);
  responses_dialect.progress(&making.answer, 0, &out);
  api_fail(&error, 503, "node_unavailable", NULL, "node b is gone");
  (responses_dialect.fail)(&making.answer, &error, &out);
  json_t *events = events_of(&out);
  const json_t *plain = json_array_get(events, json_array_size(events) - 2);
  const json_t *last = json_array_get(events, json_array_size(events) - 1);
  assert_string_equal(text_at(plain, "type"), "error");
  assert_string_equal(text_at(plain, "code"), "node_unavailable");
  assert_string_equal(text_at(plain, "message"), "node b is gone");
  assert_string_equal(text_at(last, "type"), "response.failed");
  const json_t *response = json_object_get(last, "response");
  assert_string_equal(text_at(response, "status"), "failed");
  assert_string_equal(text_at(json_object_get(response, "error"), "code"), "server_error");
  assert_string_equal(text_at(json_object_get(response, "error"), "message"), "node b is gone");
  assert_int_equal(response_store_count(making.store), 0);
  json_decref(events);
  buffer_free(&out);
  unmake(&making);
}

static void a_long_silence_has_an_event_before_the_first_item(void **state) {
  (void)state;
  struct making making;
  struct buffer out = {0};
  make(&making, "", false, false);
  responses_dialect.open(&making.answer, &out);
  responses_dialect.live(&making.answer, &out);
  json_t *events = events_of(&out);
  assert_int_equal(json_array_size(events), 3);
  assert_string_equal(text_at(json_array_get(events, 2), "type"), "response.in_progress");
  buffer_append_text(reply_text(making.choice.reply), "So");
  reply_read(making.choice.reply);
  responses_dialect.progress(&making.answer, 0, &out);
  buffer_clear(&out);
  responses_dialect.live(&making.answer, &out);
  assert_string_equal(buffer_text(&out), ": still working\n\n");
  json_decref(events);
  buffer_free(&out);
  unmake(&making);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_cut_of_the_stream_comes_to_the_whole_response),
      cmocka_unit_test(the_response_has_all_that_clients_read),
      cmocka_unit_test(calls_go_back_to_the_tools_they_are_of),
      cmocka_unit_test(what_is_cut_is_incomplete),
      cmocka_unit_test(counts_the_tokens_of_thoughts),
      cmocka_unit_test(h10_all_log_probabilities_are_in_the_first_message),
      cmocka_unit_test(a_failure_is_told_twice),
      cmocka_unit_test(a_long_silence_has_an_event_before_the_first_item),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

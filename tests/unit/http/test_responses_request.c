/* From a request of /v1/responses to one of chat. */
#include "http/responses_request.h"

#include <stdio.h>
#include <stdlib.h>

#include "http/json.h"
#include "http/responses_history.h"
#include "http/responses_tools.h"
#include "unit/unit.h"

static struct config config = {
    .vocabulary = 1000, .generation = {.sample = true, .temperature = 0.7f, .top_p = 0.8f, .repetition_penalty = 1}};

static const char FIRST[] = "resp_00112233445566778899aabb";

/* The chat request, or NULL and the error. */
static json_t *translate(const char *body, struct response_store *store, json_t **mirror, struct api_error *error) {
  json_t *object = json_loads(body, 0, NULL);
  if (!object) fail_msg("no JSON: %s", body);
  memset(error, 0, sizeof *error);
  json_t *chat = responses_request_translate(object, store, mirror, error);
  json_decref(object);
  return chat;
}

/* The member of the chat request is this. */
static void expect(const char *body, struct response_store *store, const char *member, const char *expected) {
  struct api_error error;
  json_t *mirror = NULL, *chat = translate(body, store, &mirror, &error);
  if (!chat) fail_msg("refused: %s: %s", body, error.message);
  json_t *wanted = json_loads(expected, JSON_DECODE_ANY, NULL);
  json_t *found = json_object_get(chat, member);
  if (!found || !json_equal(found, wanted)) {
    char *text = found ? json_dumps(found, JSON_ENCODE_ANY) : NULL;
    fail_msg("%s of %s is %s, not %s", member, body, text ? text : "absent", expected);
  }
  json_decref(wanted);
  json_decref(chat);
  json_decref(mirror);
}

static void expect_messages(const char *fields, const char *messages) {
  char body[4096];
  snprintf(body, sizeof body, "{%s}", fields);
  expect(body, NULL, "messages", messages);
}

static void expect_absent(const char *body, const char *member) {
  struct api_error error;
  json_t *mirror = NULL, *chat = translate(body, NULL, &mirror, &error);
  if (!chat) fail_msg("refused: %s: %s", body, error.message);
  assert_null(json_object_get(chat, member));
  json_decref(chat);
  json_decref(mirror);
}

static void refused(const char *fields, const char *param, const char *code) {
  char body[4096];
  snprintf(body, sizeof body, "{\"model\":\"m\",%s}", fields);
  struct api_error error = {0};
  struct completion_request *request = NULL;
  struct response_store *store = response_store_create(4, 1 << 20);
  assert_int_equal(responses_request_parse(&request, store, body, strlen(body), &config, &error), -1);
  assert_null(request);
  assert_int_equal(error.status, 400);
  if (strcmp(error.param, param) != 0 || strcmp(error.code, code) != 0)
    fail_msg("%s: '%s' %s: %s", fields, error.param, error.code, error.message);
  if (!strstr(error.message, param)) fail_msg("'%s' does not name %s", error.message, param);
  response_store_free(store);
}

static void takes_text_and_messages(void **state) {
  (void)state;
  expect_messages("\"input\":\"hi\"", "[{\"role\":\"user\",\"content\":\"hi\"}]");
  expect_messages("\"input\":[{\"role\":\"user\",\"content\":\"hi\"}]", "[{\"role\":\"user\",\"content\":\"hi\"}]");
  expect_messages(
      "\"input\":[{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":"
      "\"a\"},{\"type\":\"input_text\",\"text\":\"b\"}]}]",
      "[{\"role\":\"user\",\"content\":\"ab\"}]");
  expect_messages(
      "\"input\":[{\"role\":\"user\",\"content\":\"q\"},{\"id\":\"msg_1\",\"type\":\"message\",\"status\":"
      "\"completed\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"a\","
      "\"annotations\":[]},{\"type\":\"refusal\",\"refusal\":\"no\"}]},{\"role\":\"user\",\"content\":\"r\"}]",
      "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"ano\"},"
      "{\"role\":\"user\",\"content\":\"r\"}]");
}

static void joins_instructions_and_first_system_messages(void **state) {
  (void)state;
  expect_messages("\"instructions\":\"be\",\"input\":\"hi\"",
                  "[{\"role\":\"system\",\"content\":\"be\"},{\"role\":\"user\",\"content\":\"hi\"}]");
  expect_messages(
      "\"instructions\":\"be\",\"input\":[{\"role\":\"developer\",\"content\":\"kind\"},{\"role\":\"system\","
      "\"content\":\"now\"},{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"developer\",\"content\":\"x\"}]",
      "[{\"role\":\"system\",\"content\":\"be\\n\\nkind\\n\\nnow\"},{\"role\":\"user\",\"content\":\"hi\"},"
      "{\"role\":\"system\",\"content\":\"x\"}]");
  expect_messages("\"instructions\":\"be\",\"input\":[]", "[{\"role\":\"system\",\"content\":\"be\"}]");
}

static void t5_a_turn_of_thoughts_text_and_calls_is_one_message(void **state) {
  (void)state;
  expect_messages(
      "\"input\":[{\"role\":\"user\",\"content\":\"q\"},"
      "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":"
      "\"hm\"}]},"
      "{\"role\":\"assistant\",\"content\":\"I look.\"},"
      "{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"},"
      "{\"type\":\"function_call\",\"call_id\":\"c2\",\"name\":\"g\",\"arguments\":\"\"},"
      "{\"role\":\"assistant\",\"content\":\" So.\"},"
      "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"3\"},"
      "{\"type\":\"function_call_output\",\"call_id\":\"c2\",\"output\":[{\"type\":\"input_text\",\"text\":\"4\"}]},"
      "{\"role\":\"assistant\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"y\"}]",
      "[{\"role\":\"user\",\"content\":\"q\"},"
      "{\"role\":\"assistant\",\"content\":\"I look. So.\",\"reasoning_content\":\"hm\",\"tool_calls\":["
      "{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}},"
      "{\"id\":\"c2\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"\"}}]},"
      "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"3\"},"
      "{\"role\":\"tool\",\"tool_call_id\":\"c2\",\"content\":\"4\"},"
      "{\"role\":\"assistant\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"y\"}]");
}

static void reads_reasoning_that_is_text_only(void **state) {
  (void)state;
  static const char *const silent[] = {
      "{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"s\"}]}",
      "{\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":\"gAAAAAB\"}",
      "{\"type\":\"reasoning\",\"summary\":[],\"content\":null}",
  };
  char fields[1024];
  for (size_t i = 0; i < sizeof silent / sizeof silent[0]; i++) {
    snprintf(fields, sizeof fields, "\"input\":[%s,{\"role\":\"assistant\",\"content\":\"a\"}]", silent[i]);
    expect_messages(fields, "[{\"role\":\"assistant\",\"content\":\"a\"}]");
  }
  expect_messages(
      "\"input\":[{\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":\"kaiju:hm\"},{\"role\":"
      "\"assistant\",\"content\":\"a\"}]",
      "[{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":\"hm\"}]");
  /* A thought that led to nothing, as when max_output_tokens cut it. */
  expect_messages(
      "\"input\":[{\"type\":\"reasoning\",\"content\":[{\"type\":\"reasoning_text\",\"text\":\"hm\"}]},"
      "{\"role\":\"user\",\"content\":\"q\"}]",
      "[{\"role\":\"user\",\"content\":\"q\"}]");
}

static void leaves_out_what_only_the_service_can_do(void **state) {
  (void)state;
  expect_messages(
      "\"input\":[{\"type\":\"web_search_call\",\"id\":\"ws_1\",\"status\":\"completed\"},{\"role\":\"user\","
      "\"content\":\"q\"}]",
      "[{\"role\":\"user\",\"content\":\"q\"}]");
  expect(
      "{\"input\":\"q\",\"tools\":[{\"type\":\"web_search\"},{\"type\":\"function\",\"name\":\"f\",\"parameters\":{},"
      "\"strict\":false,\"description\":\"d\"},{\"type\":\"local_shell\"}]}",
      NULL, "tools",
      "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{},\"strict\":false,\"description\":\"d\"}}"
      "]");
  expect_absent("{\"input\":\"q\",\"tools\":[{\"type\":\"web_search\"}]}", "tools");
}

static void offers_custom_and_namespace_tools_as_functions(void **state) {
  (void)state;
  expect(
      "{\"input\":\"q\",\"tools\":[{\"type\":\"custom\",\"name\":\"patch\",\"description\":\"Edits.\",\"format\":{"
      "\"type\":\"grammar\",\"syntax\":\"lark\",\"definition\":\"start: /x/\"}}]}",
      NULL, "tools",
      "[{\"type\":\"function\",\"function\":{\"name\":\"patch\",\"description\":\"Edits.\\n\\nThe input must match "
      "this "
      "lark grammar:\\nstart: "
      "/x/\",\"parameters\":{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},"
      "\"required\":[\"input\"],\"additionalProperties\":false}}}]");
  expect(
      "{\"input\":\"q\",\"tools\":[{\"type\":\"namespace\",\"name\":\"mcp__files__\",\"description\":\"d\",\"tools\":["
      "{\"type\":\"function\",\"name\":\"read\"}]},{\"type\":\"namespace\",\"name\":\"web\",\"tools\":[{\"type\":"
      "\"function\",\"name\":\"read\"},{\"type\":\"custom\",\"name\":\"_raw\"}]}]}",
      NULL, "tools",
      "[{\"type\":\"function\",\"function\":{\"name\":\"mcp__files__read\"}},"
      "{\"type\":\"function\",\"function\":{\"name\":\"web__read\"}},"
      "{\"type\":\"function\",\"function\":{\"name\":\"web_raw\",\"parameters\":{\"type\":\"object\",\"properties\":{"
      "\"input\":{\"type\":\"string\"}},\"required\":[\"input\"],\"additionalProperties\":false}}}]");
  expect_messages(
      "\"input\":[{\"type\":\"custom_tool_call\",\"call_id\":\"c\",\"name\":\"patch\",\"input\":\"*\"},"
      "{\"type\":\"custom_tool_call_output\",\"call_id\":\"c\",\"output\":\"ok\"},{\"type\":\"function_call\","
      "\"call_id\":\"d\",\"namespace\":\"web\",\"name\":\"read\",\"arguments\":\"{}\"}]",
      "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\","
      "\"function\":{\"name\":\"patch\",\"arguments\":{\"input\":\"*\"}}}]},{\"role\":\"tool\",\"tool_call_id\":"
      "\"c\",\"content\":\"ok\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"d\",\"type\":"
      "\"function\",\"function\":{\"name\":\"web__read\",\"arguments\":\"{}\"}}]}]");
}

static void finds_the_tool_of_a_call(void **state) {
  (void)state;
  json_t *tools = json_loads(
      "[{\"type\":\"function\",\"name\":\"f\"},{\"type\":\"custom\",\"name\":\"patch\"},"
      "{\"type\":\"namespace\",\"name\":\"web\",\"tools\":[{\"type\":\"function\",\"name\":\"read\"},"
      "{\"type\":\"custom\",\"name\":\"_raw\"}]}]",
      0, NULL);
  struct responses_tool tool = responses_tool_find(tools, "f");
  assert_string_equal(tool.name, "f");
  assert_false(tool.custom || tool.name_space);
  assert_true(responses_tool_find(tools, "patch").custom);
  tool = responses_tool_find(tools, "web__read");
  assert_string_equal(tool.name, "read");
  assert_string_equal(tool.name_space, "web");
  tool = responses_tool_find(tools, "web_raw");
  assert_true(tool.custom);
  assert_string_equal(tool.name, "_raw");
  tool = responses_tool_find(tools, "webread");
  assert_string_equal(tool.name, "webread");
  assert_false(tool.custom || tool.name_space);
  assert_string_equal(responses_tool_find(NULL, "f").name, "f");
  json_decref(tools);
}

static void t6_translates_the_choice_of_a_tool(void **state) {
  (void)state;
#define TOOLS "\"tools\":[{\"type\":\"function\",\"name\":\"f\"},{\"type\":\"function\",\"name\":\"g\"}]"
  expect("{\"input\":\"q\",\"tool_choice\":\"required\"," TOOLS "}", NULL, "tool_choice", "\"required\"");
  expect("{\"input\":\"q\",\"tool_choice\":{\"type\":\"function\",\"name\":\"g\"}," TOOLS "}", NULL, "tool_choice",
         "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}");
  static const char allowed[] =
      "{\"input\":\"q\",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":[{\"type\":"
      "\"function\",\"name\":\"g\"}]}," TOOLS "}";
  expect(allowed, NULL, "tool_choice", "\"required\"");
  expect(allowed, NULL, "tools", "[{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]");
}

static void translates_formats_lengths_and_efforts(void **state) {
  (void)state;
  expect(
      "{\"input\":\"q\",\"text\":{\"verbosity\":\"low\",\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"strict\":"
      "true,\"schema\":{\"type\":\"object\"}}}}",
      NULL, "response_format",
      "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":{\"type\":\"object\"},\"strict\":true}}");
  expect("{\"input\":\"q\",\"text\":{\"format\":{\"type\":\"json_object\"}}}", NULL, "response_format",
         "{\"type\":\"json_object\"}");
  expect_absent("{\"input\":\"q\",\"text\":{}}", "response_format");
  expect("{\"input\":\"q\",\"max_output_tokens\":7}", NULL, "max_tokens", "7");
  expect("{\"input\":\"q\",\"reasoning\":{\"effort\":\"none\",\"summary\":\"auto\"}}", NULL, "reasoning_effort",
         "\"none\"");
  expect("{\"input\":\"q\",\"include\":[\"message.output_text.logprobs\"],\"top_logprobs\":3}", NULL, "top_logprobs",
         "3");
  expect("{\"input\":\"q\",\"include\":[\"message.output_text.logprobs\"]}", NULL, "logprobs", "true");
  expect_absent("{\"input\":\"q\",\"include\":[\"file_search_call.results\"]}", "logprobs");
  expect("{\"input\":\"q\",\"top_k\":5,\"stop\":[\"x\"]}", NULL, "top_k", "5");
}

static void mirrors_what_the_response_repeats(void **state) {
  (void)state;
  static const char body[] =
      "{\"input\":\"q\",\"instructions\":\"be\",\"metadata\":{\"k\":\"v\"},\"truncation\":\"auto\",\"user\":\"u\","
      "\"tools\":[{\"type\":\"web_search\"}],\"text\":{\"verbosity\":\"low\"},\"parallel_tool_calls\":false}";
  struct api_error error = {0};
  struct completion_request *request = NULL;
  struct response_store *store = response_store_create(4, 1 << 20);
  assert_int_equal(responses_request_parse(&request, store, body, strlen(body), &config, &error), 0);
  assert_int_equal(request->endpoint, ENDPOINT_RESPONSES);
  json_t *wanted = json_loads(
      "{\"instructions\":\"be\",\"metadata\":{\"k\":\"v\"},\"truncation\":\"disabled\",\"user\":\"u\",\"tools\":[{"
      "\"type\":\"web_search\"}],\"text\":{\"verbosity\":\"low\",\"format\":{\"type\":\"text\"}},\"parallel_tool_"
      "calls\":"
      "false,\"tool_choice\":\"auto\",\"store\":true,\"background\":false,\"service_tier\":\"default\",\"top_"
      "logprobs\":0,"
      "\"max_output_tokens\":null,\"max_tool_calls\":null,\"previous_response_id\":null,\"prompt_cache_key\":null,"
      "\"reasoning\":null,\"safety_identifier\":null}",
      0, NULL);
  assert_true(json_equal(json_object_get(request->mirror, "response"), wanted));
  assert_string_equal(
      json_string_value(json_object_get(request->mirror, "conversation")),
      "[{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"q\"}]}]");
  json_decref(wanted);
  completion_request_free(request);

  /* Nothing is kept of what must not be, or cannot. */
  static const char transient[] = "{\"input\":\"q\",\"store\":false}";
  assert_int_equal(responses_request_parse(&request, store, transient, strlen(transient), &config, &error), 0);
  assert_null(json_object_get(request->mirror, "conversation"));
  completion_request_free(request);
  assert_int_equal(responses_request_parse(&request, NULL, body, strlen(body), &config, &error), 0);
  assert_null(json_object_get(request->mirror, "conversation"));
  assert_true(json_is_false(json_object_get(json_object_get(request->mirror, "response"), "store")));
  completion_request_free(request);
  response_store_free(store);
}

static void remember(struct response_store *store, const char *id, const char *items, size_t input_count) {
  struct response_text text = {.input_count = input_count};
  buffer_append_text(&text.response, "{}");
  buffer_append_text(&text.items, items);
  response_store_put(store, id, &text);
}

static void goes_on_from_an_earlier_response(void **state) {
  (void)state;
  struct response_store *store = response_store_create(4, 1 << 20);
  char output[RESPONSES_MAX_ID], items[1024], body[1024];
  responses_item_id(output, "msg_", FIRST, 0);
  snprintf(
      items, sizeof items,
      "[{\"role\":\"user\",\"content\":\"q\"},{\"type\":\"message\",\"id\":\"%s\",\"role\":\"assistant\",\"content\":["
      "{\"type\":\"output_text\",\"text\":\"a\"}]}]",
      output);
  remember(store, FIRST, items, 1);
  snprintf(body, sizeof body, "{\"input\":\"r\",\"instructions\":\"new\",\"previous_response_id\":\"%s\"}", FIRST);
  expect(body, store, "messages",
         "[{\"role\":\"system\",\"content\":\"new\"},{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\","
         "\"content\":\"a\"},{\"role\":\"user\",\"content\":\"r\"}]");

  /* Single items, with a type and without; of the input too, by the place that it had. */
  snprintf(
      body, sizeof body,
      "{\"input\":[{\"type\":\"item_reference\",\"id\":\"msg_%si0\"},{\"id\":\"%s\"},{\"role\":\"user\",\"content\":"
      "\"s\"}]}",
      FIRST + 5, output);
  expect(body, store, "messages",
         "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"user\","
         "\"content\":\"s\"}]");

  /* What is kept has the items themselves. */
  struct api_error error;
  json_t *mirror = NULL, *chat = translate(body, store, &mirror, &error);
  assert_non_null(chat);
  const char *kept = json_string_value(json_object_get(mirror, "conversation"));
  assert_non_null(strstr(kept, "output_text"));
  assert_null(strstr(kept, "item_reference"));
  json_decref(chat);
  json_decref(mirror);

  /* One item many times would be more than what was sent. */
  snprintf(body, sizeof body, "{\"input\":[{\"id\":\"%s\"},{\"id\":\"%s\"}]}", output, output);
  assert_null(translate(body, store, &mirror, &error));
  assert_string_equal(error.code, "duplicate_item");
  assert_string_equal(error.param, "input[1].id");
  response_store_free(store);
}

/* A conversation with much that costs no tokens is not kept, and the response says so. */
static void a_conversation_too_long_to_be_kept(void **state) {
  (void)state;
  struct response_store *store = response_store_create(4, 1 << 26);
  struct buffer body = {0};
  buffer_append_text(&body, "{\"input\":[{\"role\":\"user\",\"content\":\"q\"},{\"type\":\"mcp_call\",\"output\":\"");
  for (int i = 0; i < 9 << 10; i++) buffer_append_format(&body, "%1024d", i);
  buffer_append_text(&body, "\"}]}");
  struct api_error error;
  json_t *mirror = NULL, *chat = translate(buffer_text(&body), store, &mirror, &error);
  assert_non_null(chat);
  assert_null(json_object_get(mirror, "conversation"));
  assert_true(json_is_false(json_object_get(json_object_get(mirror, "response"), "store")));
  json_decref(chat);
  json_decref(mirror);
  buffer_free(&body);
  response_store_free(store);
}

static void bounds_what_references_bring_in(void **state) {
  (void)state;
  struct response_store *store = response_store_create(16, 1 << 26);
  struct buffer body = {0};
  buffer_append_text(&body, "{\"input\":[");
  for (int i = 0; i < 4; i++) {
    struct buffer items = {0};
    char id[64];
    snprintf(id, sizeof id, "resp_00000000000000000000000%d", i);
    buffer_append_format(&items, "[{\"id\":\"msg_%s00\",\"role\":\"user\",\"content\":\"x\",\"y\":[[]", id + 5);
    for (int k = 0; k < JSON_MAX_CONTAINERS / 3; k++) buffer_append_text(&items, ",[]");
    buffer_append_text(&items, "]}]");
    remember(store, id, buffer_text(&items), 1);
    buffer_append_format(&body, "%s{\"id\":\"msg_%s00\"}", i ? "," : "", id + 5);
    buffer_free(&items);
  }
  buffer_append_text(&body, "]}");
  struct api_error error;
  json_t *mirror = NULL;
  assert_null(translate(buffer_text(&body), store, &mirror, &error));
  assert_int_equal(error.status, 400);
  assert_string_equal(error.param, "input[2].id");
  assert_non_null(strstr(error.message, "arrays"));
  buffer_free(&body);
  response_store_free(store);
}

static void h12_says_which_field_is_wrong(void **state) {
  (void)state;
  refused("\"store\":true", "input", "missing_field");
  refused("\"input\":5", "input", "invalid_type");
  refused("\"input\":[]", "input", "invalid_value");
  refused("\"input\":[5]", "input[0]", "invalid_type");
  refused("\"input\":[{}]", "input[0].role", "missing_field");
  refused("\"input\":[{\"role\":\"robot\",\"content\":\"x\"}]", "input[0].role", "invalid_value");
  refused("\"input\":[{\"role\":\"user\"}]", "input[0].content", "missing_field");
  refused(
      "\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},{\"type\":\"input_image\"}]}"
      "]",
      "input[0].content[1].type", "unsupported_content");
  refused("\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\"}]}]", "input[0].content[0].text",
          "invalid_type");
  refused(
      "\"input\":[{\"role\":\"user\",\"content\":\"a\"},{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\"}]",
      "input[1].arguments", "missing_field");
  refused("\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"c\"}]", "input[0].output", "missing_field");
  refused("\"input\":[{\"type\":\"computer_call_output\"}]", "input[0].type", "unsupported");
  refused("\"input\":[{\"type\":\"item_reference\",\"id\":\"msg_1\"}]", "input[0].id", "item_not_found");
  refused("\"input\":\"a\",\"previous_response_id\":\"resp_1\"", "previous_response_id", "previous_response_not_found");
  refused("\"input\":\"a\",\"tools\":[{\"type\":\"function\"}]", "tools[0].name", "missing_field");
  refused("\"input\":\"a\",\"tools\":[{\"name\":\"f\"}]", "tools[0].type", "missing_field");
  refused("\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]", "tools[0].name",
          "missing_field");
  refused("\"input\":\"a\",\"tools\":[{\"type\":\"namespace\",\"name\":\"n\",\"tools\":[{\"type\":\"function\"}]}]",
          "tools[0].tools[0].name", "missing_field");
  refused("\"input\":\"a\",\"tool_choice\":{\"type\":\"web_search_preview\"}", "tool_choice.type", "unsupported");
  refused("\"input\":\"a\",\"tool_choice\":{\"type\":\"function\"}", "tool_choice.name", "missing_field");
  refused("\"input\":\"a\",\"background\":true", "background", "unsupported");
  refused("\"input\":\"a\",\"prompt\":{\"id\":\"p\"}", "prompt", "unsupported");
  refused("\"input\":\"a\",\"conversation\":\"conv_1\"", "conversation", "unsupported");
  refused("\"input\":\"a\",\"max_output_tokens\":0", "max_output_tokens", "invalid_value");
  refused("\"input\":\"a\",\"temperature\":\"hot\"", "temperature", "invalid_type");
  refused("\"input\":\"a\",\"top_logprobs\":21", "top_logprobs", "invalid_value");
  refused("\"input\":\"a\",\"truncation\":\"middle\"", "truncation", "invalid_value");
  refused("\"input\":\"a\",\"metadata\":{\"k\":1}", "metadata", "invalid_type");
  refused("\"input\":\"a\",\"text\":{\"format\":{\"type\":\"xml\"}}", "text.format.type", "invalid_value");
  refused("\"input\":\"a\",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\"}}", "text.format.schema",
          "missing_field");
  refused("\"input\":\"a\",\"reasoning\":{\"effort\":3}", "reasoning.effort", "invalid_type");
  refused("\"input\":\"a\",\"stream\":1", "stream", "invalid_type");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(takes_text_and_messages),
      cmocka_unit_test(joins_instructions_and_first_system_messages),
      cmocka_unit_test(t5_a_turn_of_thoughts_text_and_calls_is_one_message),
      cmocka_unit_test(reads_reasoning_that_is_text_only),
      cmocka_unit_test(leaves_out_what_only_the_service_can_do),
      cmocka_unit_test(offers_custom_and_namespace_tools_as_functions),
      cmocka_unit_test(finds_the_tool_of_a_call),
      cmocka_unit_test(t6_translates_the_choice_of_a_tool),
      cmocka_unit_test(translates_formats_lengths_and_efforts),
      cmocka_unit_test(mirrors_what_the_response_repeats),
      cmocka_unit_test(goes_on_from_an_earlier_response),
      cmocka_unit_test(a_conversation_too_long_to_be_kept),
      cmocka_unit_test(bounds_what_references_bring_in),
      cmocka_unit_test(h12_says_which_field_is_wrong),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

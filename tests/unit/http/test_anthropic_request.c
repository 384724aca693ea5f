/* From a request of Anthropic's Messages API to the chat request that it stands for (H18). */
#include "http/anthropic_request.h"

#include <stdio.h>
#include <stdlib.h>

#include "http/json.h"
#include "http/request.h"
#include "unit/unit.h"

/* JSON with ' for ", as it stands in C. */
static json_t *json_of(const char *text) {
  char *copy = strdup(text);
  assert_non_null(copy);
  for (char *c = copy; *c; c++)
    if (*c == '\'') *c = '"';
  json_error_t problem;
  json_t *value = json_loads(copy, JSON_REJECT_DUPLICATES, &problem);
  if (!value) fail_msg("%s: %s", text, problem.text);
  free(copy);
  return value;
}

/* Both checks and takes: what comes out must be a chat request. */
static void expect(const char *request, const char *chat) {
  struct api_error error = {0};
  json_t *object = json_of(request), *expected = json_of(chat), *before = json_deep_copy(object);
  json_t *found = anthropic_translate(object, false, &error);
  if (!found) fail_msg("refused: %s: %s", request, error.message);
  if (!json_equal(found, expected)) fail_msg("%s\nand not %s", json_dumps(found, 0), chat);
  json_decref(found);
  assert_true(json_equal(object, before));
  json_decref(before);
  json_decref(object);
  json_decref(expected);
}

/* A request that consists of messages, or of one user's message and more fields. */
static void expect_messages(const char *messages, const char *expected) {
  char request[4096], chat[4096];
  snprintf(request, sizeof request, "{'max_tokens': 9, 'messages': %s}", messages);
  snprintf(chat, sizeof chat, "{'max_tokens': 9, 'messages': %s}", expected);
  expect(request, chat);
}

static void expect_fields(const char *fields, const char *expected) {
  char request[4096], chat[4096];
  snprintf(request, sizeof request, "{'max_tokens': 9, 'messages': [{'role': 'user', 'content': 'x'}], %s}", fields);
  snprintf(chat, sizeof chat, "{'max_tokens': 9, 'messages': [{'role': 'user', 'content': 'x'}]%s%s}",
           expected[0] ? ", " : "", expected);
  expect(request, chat);
}

static void refuse(const char *request, const char *param, const char *message) {
  struct api_error error = {0};
  json_t *object = json_of(request), *found = anthropic_translate(object, false, &error);
  json_decref(object);
  if (found) fail_msg("taken: %s", request);
  assert_int_equal(error.status, 400);
  assert_string_equal(error.param, param);
  if (!strstr(error.message, message)) fail_msg("%s: %s", request, error.message);
}

static void refuse_messages(const char *messages, const char *param, const char *message) {
  char request[4096];
  snprintf(request, sizeof request, "{'max_tokens': 9, 'messages': %s}", messages);
  refuse(request, param, message);
}

static void refuse_fields(const char *fields, const char *param, const char *message) {
  char request[4096];
  snprintf(request, sizeof request, "{'max_tokens': 9, 'messages': [{'role': 'user', 'content': 'x'}], %s}", fields);
  refuse(request, param, message);
}

#define TEXT(text) "{'type': 'text', 'text': '" text "'}"
#define RESULT(id, content) "{'type': 'tool_result', 'tool_use_id': '" id "', 'content': " content "}"
#define USE(id, input) "{'type': 'tool_use', 'id': '" id "', 'name': 'add', 'input': " input "}"
#define CALL(id, input) "{'id': '" id "', 'type': 'function', 'function': {'name': 'add', 'arguments': " input "}}"
#define USER(content) "{'role': 'user', 'content': " content "}"
#define ASSISTANT(content) "{'role': 'assistant', 'content': " content "}"

static void text_is_a_string_or_blocks(void **state) {
  (void)state;
  expect_messages("[" USER("'a'") "]", "[" USER("'a'") "]");
  expect_messages("[" USER("[" TEXT("a") "]") "]", "[" USER("'a'") "]");
  expect_messages("[" USER("[" TEXT("a") "," TEXT("b\\n") "," TEXT("") "," TEXT("c") "]") "]",
                  "[" USER("'a\\nb\\nc'") "]");
  expect_messages("[" USER("''") "]", "[" USER("''") "]");
  expect_messages("[" USER("'a'") "," ASSISTANT("[]") "," USER("'b'") "]",
                  "[" USER("'a'") "," ASSISTANT("''") "," USER("'b'") "]");
}

static void system_stands_first(void **state) {
  (void)state;
  expect_fields("'system': null", "");
  expect("{'max_tokens': 1, 'system': 'be kind', 'messages': [" USER("'a'") "]}",
         "{'max_tokens': 1, 'messages': [{'role': 'system', 'content': 'be kind'}, " USER("'a'") "]}");
  expect(
      "{'max_tokens': 1, 'system': [{'type': 'text', 'text': 'x-header: 1', 'cache_control': {'type': 'ephemeral'}}, "
      "{'type': 'text', 'text': 'be kind', 'citations': null}], 'messages': [" USER("'a'") "]}",
      "{'max_tokens': 1, 'messages': [{'role': 'system', 'content': 'x-header: 1\\nbe kind'}, " USER("'a'") "]}");
  expect_messages("[" USER("'a'") ", {'role': 'system', 'content': [" TEXT("b") "]}, " USER("'c'") "]",
                  "[" USER("'a'") ", {'role': 'system', 'content': 'b'}, " USER("'c'") "]");
}

static void turns_of_one_role_are_one_turn(void **state) {
  (void)state;
  expect_messages(
      "[" USER("'a'") "," USER("[" TEXT("b") "]") "," ASSISTANT("'c'") "," ASSISTANT("'d'") "," USER("'e'") "]",
      "[" USER("'a\\nb'") "," ASSISTANT("'c\\nd'") "," USER("'e'") "]");
}

static void a_tool_loop(void **state) {
  (void)state;
  expect_messages(
      "[" USER("'a'") ", " ASSISTANT("[" TEXT("I add. ") "," TEXT("Now.") "," USE("t1", "{'b': {'c': [1.5, null]}}") ","
                                     USE("t2", "{}") "]") ", "
      USER("[" RESULT("t1", "'3'") "," RESULT("t2", "[" TEXT("4") "," TEXT("5") "]") "," TEXT("go on") "]") "]",
      "[" USER("'a'") ", {'role': 'assistant', 'content': 'I add. Now.', 'tool_calls': ["
      CALL("t1", "{'b': {'c': [1.5, null]}}") "," CALL("t2", "{}") "]}, "
      "{'role': 'tool', 'tool_call_id': 't1', 'name': 'add', 'content': '3'}, "
      "{'role': 'tool', 'tool_call_id': 't2', 'name': 'add', 'content': '4\\n5'}, " USER("'go on'") "]");
}

static void results_and_text_keep_their_order(void **state) {
  (void)state;
  expect_messages(
      "[" USER("[" TEXT("a") "," RESULT("t1", "'1'") "," TEXT("b") "," TEXT("c") "," RESULT("t2", "'2'") "]") "]",
      "[" USER("'a'") ", {'role': 'tool', 'tool_call_id': 't1', 'content': '1'}, " USER(
          "'b\\nc'") ", {'role': 'tool', 'tool_call_id': 't2', 'content': '2'}]");
}

static void a_result_that_is_an_error_says_so(void **state) {
  (void)state;
  expect_messages(
      "[" USER("[{'type': 'tool_result', 'tool_use_id': 't', 'is_error': true, 'content': 'no file'}, "
               "{'type': 'tool_result', 'tool_use_id': 't', 'is_error': true, 'content': 'Error: no file'}, "
               "{'type': 'tool_result', 'tool_use_id': 't', 'is_error': false}]") "]",
      "[{'role': 'tool', 'tool_call_id': 't', 'content': 'Error: no file'}, "
      "{'role': 'tool', 'tool_call_id': 't', 'content': 'Error: no file'}, "
      "{'role': 'tool', 'tool_call_id': 't', 'content': ''}]");
}

static void thoughts_go_back_to_the_template(void **state) {
  (void)state;
  expect_messages(
      "[" USER("'a'") ", " ASSISTANT("[{'type': 'thinking', 'thinking': 'hm', 'signature': 'unsigned'}, "
                                     "{'type': 'redacted_thinking', 'data': 'x'}, " TEXT("b") "]") ", " USER("'c'") "]",
      "[" USER("'a'") ", {'role': 'assistant', 'content': 'b', 'reasoning_content': 'hm'}, " USER("'c'") "]");
}

static void a_last_assistant_message_is_continued(void **state) {
  (void)state;
  expect("{'max_tokens': 1, 'messages': [" USER("'a'") ", " ASSISTANT("'{'") "]}",
         "{'max_tokens': 1, 'continue_final_message': true, 'messages': [" USER("'a'") ", " ASSISTANT("'{'") "]}");
  refuse_messages("[" USER("'a'") ", " ASSISTANT("[" USE("t", "{}") "]") "]", "messages[1].content", "results");
  refuse_messages("[" ASSISTANT("[{'type': 'thinking', 'thinking': 'hm', 'signature': ''}]") "]", "messages[0].content",
                  "thought");
}

static void fields_are_renamed_or_left_out(void **state) {
  (void)state;
  expect_fields(
      "'model': 'claude', 'stream': true, 'temperature': 0.5, 'top_p': 0.9, 'top_k': 5, 'seed': 7, 'min_p': 0.1, "
      "'repetition_penalty': 1.1, 'ignore_eos': true, 'cache_prompt': false, 'logit_bias': {'1': 2}",
      "'model': 'claude', 'stream': true, 'temperature': 0.5, 'top_p': 0.9, 'top_k': 5, 'seed': 7, 'min_p': 0.1, "
      "'repetition_penalty': 1.1, 'ignore_eos': true, 'cache_prompt': false, 'logit_bias': {'1': 2}");
  expect_fields("'stop_sequences': ['a', 'b']", "'stop': ['a', 'b']");
  expect_fields(
      "'metadata': {'user_id': 'u'}, 'service_tier': 'auto', 'container': null, 'anything': [1], 'n': 3, "
      "'context_management': {'edits': []}, 'mcp_servers': [], 'logprobs': true, 'stop': 'x'",
      "");
  expect_fields("'thinking': {'type': 'enabled', 'budget_tokens': 2048}",
                "'chat_template_kwargs': {'enable_thinking': true}");
  expect_fields("'thinking': {'type': 'adaptive'}", "'chat_template_kwargs': {'enable_thinking': true}");
  expect_fields("'thinking': {'type': 'disabled'}", "'chat_template_kwargs': {'enable_thinking': false}");
  expect_fields("'thinking': {'type': 'disabled'}, 'chat_template_kwargs': {'enable_thinking': true, 'a': 1}",
                "'chat_template_kwargs': {'enable_thinking': true, 'a': 1}");
  expect_fields("'output_config': {'effort': 'low'}", "'reasoning_effort': 'low'");
#define SCHEMA "{'type': 'object', 'properties': {'a': {'type': 'integer'}}}"
#define FORMAT                                                                                                     \
  "'response_format': {'type': 'json_schema', 'json_schema': {'name': 'output', 'strict': true, 'schema': " SCHEMA \
  "}"                                                                                                              \
  "}"
  expect_fields("'output_config': {'format': {'type': 'json_schema', 'schema': " SCHEMA "}}", FORMAT);
  expect_fields("'output_format': {'type': 'json_schema', 'schema': " SCHEMA "}", FORMAT);
}

#define TOOL                                                                                               \
  "{'name': 'add', 'description': 'Adds.', 'input_schema': {'type': 'object'}, 'cache_control': {'type': " \
  "'ephemeral'}}"
#define TOOLS "'tools': [" TOOL ", {'type': 'custom', 'name': 'b', 'input_schema': {}, 'strict': true}]"
#define FUNCTIONS                                                                                              \
  "'tools': [{'type': 'function', 'function': {'name': 'add', 'description': 'Adds.', 'parameters': {'type': " \
  "'object'}}}, "                                                                                              \
  "{'type': 'function', 'function': {'name': 'b', 'parameters': {}}}]"

static void tools_and_their_choice(void **state) {
  (void)state;
  expect_fields("'tools': []", "");
  expect_fields(TOOLS, FUNCTIONS);
  expect_fields(TOOLS ", 'tool_choice': {'type': 'auto'}", FUNCTIONS ", 'tool_choice': 'auto'");
  expect_fields(TOOLS ", 'tool_choice': {'type': 'none'}", FUNCTIONS ", 'tool_choice': 'none'");
  expect_fields(TOOLS ", 'tool_choice': {'type': 'any', 'disable_parallel_tool_use': true}",
                FUNCTIONS ", 'tool_choice': 'required', 'parallel_tool_calls': false");
  expect_fields(TOOLS ", 'tool_choice': {'type': 'tool', 'name': 'b'}",
                FUNCTIONS ", 'tool_choice': {'type': 'function', 'function': {'name': 'b'}}");
}

static void tools_that_anthropic_defines(void **state) {
  (void)state;
  static const char *const types[][3] = {{"bash_20250124", "bash", "command"},
                                         {"text_editor_20250728", "str_replace_based_edit_tool", "old_str"},
                                         {"text_editor_20250124", "str_replace_editor", "view_range"},
                                         {"memory_20250818", "memory", "new_path"}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    struct api_error error;
    json_t *request = json_pack("{s:i, s:[{s:s, s:s}], s:[{s:s, s:s}]}", "max_tokens", 1, "tools", "type", types[i][0],
                                "name", types[i][1], "messages", "role", "user", "content", "x");
    json_t *chat = anthropic_translate(request, false, &error);
    assert_non_null(chat);
    const json_t *function = json_object_get(json_array_get(json_object_get(chat, "tools"), 0), "function");
    assert_string_equal(json_string_value(json_object_get(function, "name")), types[i][1]);
    assert_true(json_string_length(json_object_get(function, "description")) > 0);
    const json_t *properties = json_object_get(json_object_get(function, "parameters"), "properties");
    assert_true(json_is_object(json_object_get(properties, types[i][2])));
    json_decref(chat);
    json_decref(request);
  }
  refuse_fields("'tools': [" TOOL ", {'type': 'web_search_20250305', 'name': 'web_search'}]", "tools[1].type",
                "web_search_20250305");
  refuse_fields("'tools': [{'type': 'computer_20250124', 'name': 'computer'}]", "tools[0].type", "pictures");
}

static void what_is_wrong_is_refused_by_path(void **state) {
  (void)state;
  refuse("{'messages': [" USER("'a'") "]}", "max_tokens", "required");
  refuse("{'max_tokens': 0, 'messages': [" USER("'a'") "]}", "max_tokens", "between");
  refuse("{'max_tokens': '5', 'messages': [" USER("'a'") "]}", "max_tokens", "an integer");
  refuse("{'max_tokens': 1}", "messages", "required");
  refuse_messages("'a'", "messages", "an array");
  refuse_messages("[]", "messages", "empty");
  refuse_messages("['a']", "messages[0]", "an object");
  refuse_messages("[{'content': 'a'}]", "messages[0].role", "required");
  refuse_messages("[{'role': 'tool', 'content': 'a'}]", "messages[0].role", "tool");
  refuse_messages("[{'role': 'user'}]", "messages[0].content", "required");
  refuse_messages("[" USER("5") "]", "messages[0].content", "an integer");
  refuse_messages("[" USER("[]") "]", "messages[0].content", "empty");
  refuse_messages("[" USER("['a']") "]", "messages[0].content[0]", "an object");
  refuse_messages("[" USER("[{'text': 'a'}]") "]", "messages[0].content[0].type", "required");
  refuse_messages("[" USER("[{'type': 'text'}]") "]", "messages[0].content[0].text", "required");
  refuse_messages("[" USER("[" TEXT("a") ", {'type': 'image', 'source': {}}]") "]", "messages[0].content[1].type",
                  "'image'");
  refuse_messages("[" USER("'a'") ", " USER("[{'type': 'document', 'source': {}}]") "]", "messages[1].content[0].type",
                  "'document'");
  refuse_messages("[" USER("[" USE("t", "{}") "]") "]", "messages[0].content[0].type", "tool_use");
  refuse_messages("[" ASSISTANT("[" RESULT("t", "'a'") "]") "]", "messages[0].content[0].type", "tool_result");
  refuse_messages("[" USER("[{'type': 'tool_result', 'content': 'a'}]") "]", "messages[0].content[0].tool_use_id",
                  "required");
  refuse_messages("[" USER("[" RESULT("t", "[{'type': 'image'}]") "]") "]", "messages[0].content[0].content[0].type",
                  "'image'");
  refuse_messages("[" USER("[" RESULT("t", "5") "]") "]", "messages[0].content[0].content", "an integer");
  refuse_messages("[" ASSISTANT("[{'type': 'tool_use', 'name': 'a', 'input': {}}]") "]", "messages[0].content[0].id",
                  "required");
  refuse_messages("[" ASSISTANT("[{'type': 'tool_use', 'id': 'a', 'input': {}}]") "]", "messages[0].content[0].name",
                  "required");
  refuse_messages("[" ASSISTANT("[" USE("t", "'{}'") "]") "]", "messages[0].content[0].input", "an object");
  refuse_messages("[{'role': 'system', 'content': [{'type': 'image'}]}]", "messages[0].content[0].type", "'image'");
  refuse_fields("'system': 5", "system", "an integer");
  refuse_fields("'system': [{'type': 'image'}]", "system[0].type", "'image'");
  refuse_fields("'stop_sequences': 'a'", "stop_sequences", "an array");
  refuse_fields("'stop_sequences': ['a', 5]", "stop_sequences", "[1]");
  refuse_fields("'stop_sequences': ['']", "stop_sequences", "[0]");
  refuse_fields("'stop_sequences': ['1','2','3','4','5','6','7','8','9','a','b','c','d','e','f','g','h']",
                "stop_sequences", "16");
  refuse_fields("'thinking': true", "thinking", "an object");
  refuse_fields("'thinking': {}", "thinking.type", "enabled");
  refuse_fields("'thinking': {'type': 'much'}", "thinking.type", "enabled");
  refuse_fields("'thinking': {'type': 'enabled', 'budget_tokens': -1}", "thinking.budget_tokens", "between");
  refuse_fields("'output_config': {'effort': 5}", "output_config.effort", "a string");
  refuse_fields("'output_config': {'format': {'type': 'xml'}}", "output_config.format", "json_schema");
  refuse_fields("'output_config': {'format': {'type': 'json_schema'}}", "output_config.format.schema", "required");
  refuse_fields("'output_format': {'schema': {}}", "output_format.type", "required");
  refuse_fields("'mcp_servers': [{'type': 'url'}]", "mcp_servers", "tools");
  refuse_fields("'tools': {}", "tools", "an array");
  refuse_fields("'tools': [5]", "tools[0]", "an object");
  refuse_fields("'tools': [{'input_schema': {}}]", "tools[0].name", "required");
  refuse_fields("'tools': [{'name': 'a'}]", "tools[0].input_schema", "required");
  refuse_fields("'tools': [{'name': 'a', 'input_schema': 'x'}]", "tools[0].input_schema", "an object");
  refuse_fields(TOOLS ", 'tool_choice': 'any'", "tool_choice", "an object");
  refuse_fields(TOOLS ", 'tool_choice': {}", "tool_choice.type", "required");
  refuse_fields(TOOLS ", 'tool_choice': {'type': 'required'}", "tool_choice.type", "required");
  refuse_fields(TOOLS ", 'tool_choice': {'type': 'tool'}", "tool_choice.name", "required");
  refuse_fields(TOOLS ", 'tool_choice': {'type': 'tool', 'name': 'c'}", "tool_choice.name", "'c'");
  refuse_fields("'tool_choice': {'type': 'any'}", "tool_choice", "no tools");
  refuse_fields(TOOLS ", 'tool_choice': {'type': 'any'}, 'output_format': {'type': 'json_schema', 'schema': {}}",
                "tool_choice", "one of them");
  refuse_fields("'grammar': 'root ::= [a]', 'output_format': {'type': 'json_schema', 'schema': {}}", "grammar",
                "one of them");
  refuse(
      "{'max_tokens': 1, 'output_format': {'type': 'json_schema', 'schema': {}}, 'messages': [" ASSISTANT("'{'") "]}",
      "messages", "begun");
}

static void counting_needs_no_length(void **state) {
  (void)state;
  struct api_error error;
  json_t *request = json_of("{'messages': [" USER("'a'") "]}"), *chat = anthropic_translate(request, true, &error);
  assert_non_null(chat);
  json_decref(chat);
  json_decref(request);
}

/* As Claude Code sends it. */
static const char AGENT[] =
    "{'model': 'claude-sonnet-4-5', 'max_tokens': 32000, 'stream': true, 'temperature': 1, "
    "'metadata': {'user_id': 'user_1_account__session_2'}, "
    "'system': [{'type': 'text', 'text': 'x-anthropic-billing-header: cc_version=2.0;'}, "
    "{'type': 'text', 'text': 'You are an agent.', 'cache_control': {'type': 'ephemeral'}}], "
    "'thinking': {'budget_tokens': 31999, 'type': 'enabled'}, "
    "'tools': [{'name': 'Bash', 'description': 'Runs.', 'input_schema': {'$schema': "
    "'http://json-schema.org/draft-07/schema#', 'type': 'object', 'properties': {'command': {'type': 'string'}}, "
    "'required': ['command'], 'additionalProperties': false}}], "
    "'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': '<system-reminder>x</system-reminder>'}, "
    "{'type': 'text', 'text': 'list', 'cache_control': {'type': 'ephemeral'}}]}, "
    "{'role': 'assistant', 'content': [{'type': 'thinking', 'thinking': 'ls', 'signature': 'unsigned'}, "
    "{'type': 'tool_use', 'id': 'toolu_1', 'name': 'Bash', 'input': {'command': 'ls'}}]}, "
    "{'role': 'user', 'content': [{'tool_use_id': 'toolu_1', 'type': 'tool_result', 'content': 'a.c', "
    "'is_error': false, 'cache_control': {'type': 'ephemeral'}}]}]}";

static void h18_a_request_of_an_agent(void **state) {
  (void)state;
  expect(
      AGENT,
      "{'model': 'claude-sonnet-4-5', 'max_tokens': 32000, 'stream': true, 'temperature': 1, "
      "'chat_template_kwargs': {'enable_thinking': true}, "
      "'tools': [{'type': 'function', 'function': {'name': 'Bash', 'description': 'Runs.', 'parameters': {'$schema': "
      "'http://json-schema.org/draft-07/schema#', 'type': 'object', 'properties': {'command': {'type': 'string'}}, "
      "'required': ['command'], 'additionalProperties': false}}}], "
      "'messages': [{'role': 'system', 'content': 'x-anthropic-billing-header: cc_version=2.0;\\nYou are an agent.'}, "
      "{'role': 'user', 'content': '<system-reminder>x</system-reminder>\\nlist'}, "
      "{'role': 'assistant', 'content': '', 'reasoning_content': 'ls', 'tool_calls': [{'id': 'toolu_1', 'type': "
      "'function', 'function': {'name': 'Bash', 'arguments': {'command': 'ls'}}}]}, "
      "{'role': 'tool', 'tool_call_id': 'toolu_1', 'name': 'Bash', 'content': 'a.c'}]}");
  struct config config = {.vocabulary = 10, .generation = {.repetition_penalty = 1}};
  struct completion_request *request = NULL;
  struct api_error error = {0};
  json_t *object = json_of(AGENT);
  char *body = json_dumps(object, 0);
  if (completion_request_parse(&request, ENDPOINT_MESSAGES, body, strlen(body), &config, &error))
    fail_msg("%s", error.message);
  assert_int_equal(request->endpoint, ENDPOINT_MESSAGES);
  assert_int_equal(request->max_tokens, 32000);
  assert_int_equal(json_array_size(request->messages), 4);
  completion_request_free(request);
  free(body);
  json_decref(object);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_is_a_string_or_blocks),        cmocka_unit_test(system_stands_first),
      cmocka_unit_test(turns_of_one_role_are_one_turn),    cmocka_unit_test(a_tool_loop),
      cmocka_unit_test(results_and_text_keep_their_order), cmocka_unit_test(a_result_that_is_an_error_says_so),
      cmocka_unit_test(thoughts_go_back_to_the_template),  cmocka_unit_test(a_last_assistant_message_is_continued),
      cmocka_unit_test(fields_are_renamed_or_left_out),    cmocka_unit_test(tools_and_their_choice),
      cmocka_unit_test(tools_that_anthropic_defines),      cmocka_unit_test(what_is_wrong_is_refused_by_path),
      cmocka_unit_test(counting_needs_no_length),          cmocka_unit_test(h18_a_request_of_an_agent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* /tokenize, /detokenize and /apply-template. */
#include <stdio.h>
#include <stdlib.h>

#include "unit/http/serve_fake.h"
#include "unit/unit.h"

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

/* The member `name` of the answer. */
static json_t *ask(struct serve_fake *serve, const char *path, json_t *body, const char *name) {
  char *text = json_dumps(body, 0);
  struct http_reply reply = client_ask(serve->port, "POST", path, text);
  if (reply.status != 200) fail_msg("%d: %s", reply.status, buffer_text(&reply.body));
  assert_string_equal(http_reply_header(&reply, "Content-Type"), "application/json");
  json_t *answer = http_reply_json(&reply), *member = json_incref(json_object_get(answer, name));
  assert_int_equal(json_object_size(answer), 1);
  assert_non_null(member);
  json_decref(answer);
  json_decref(body);
  http_reply_free(&reply);
  free(text);
  return member;
}

static json_t *encode(const struct serve_fake *serve, const char *text, bool special) {
  struct token_list tokens = {0};
  struct kj_error error;
  json_t *ids = json_array();
  assert_int_equal(tokenizer_encode(serve->tokenizer, text, strlen(text), special, &tokens, &error), 0);
  for (size_t i = 0; i < tokens.count; i++) json_array_append_new(ids, json_integer(tokens.ids[i]));
  token_list_free(&tokens);
  return ids;
}

static void expect_equal(json_t *value, json_t *expected) {
  if (!json_equal(value, expected)) fail_msg("%s", json_dumps(value, JSON_ENCODE_ANY));
  json_decref(value);
  json_decref(expected);
}

static const char text[] = "<|im_start|>user\nLet's see: 漢字 👩‍💻 \"x\\y\"\n<|im_end|>";

static void tokenizes_with_and_without_special_tokens(void **state) {
  struct serve_fake *serve = *state;
  expect_equal(ask(serve, "/tokenize", json_pack("{s:s}", "content", text), "tokens"), encode(serve, text, true));
  expect_equal(ask(serve, "/tokenize",
                   json_pack("{s:s, s:b, s:b}", "content", text, "parse_special", 0, "add_special", 1), "tokens"),
               encode(serve, text, false));
  expect_equal(ask(serve, "/tokenize", json_pack("{s:s}", "content", ""), "tokens"), json_array());
}

static void takes_texts_and_ids_mixed(void **state) {
  struct serve_fake *serve = *state;
  json_t *expected = encode(serve, "def ", true), *rest = encode(serve, "add", true);
  json_array_append_new(expected, json_integer(7));
  json_array_extend(expected, rest);
  json_decref(rest);
  expect_equal(ask(serve, "/tokenize", json_pack("{s:[s,i,s]}", "content", "def ", 7, "add"), "tokens"), expected);
}

/* Pieces are strings, or arrays of bytes, which join to the text. */
static void gives_the_piece_of_every_token(void **state) {
  struct serve_fake *serve = *state;
  json_t *tokens = ask(serve, "/tokenize", json_pack("{s:s, s:b}", "content", text, "with_pieces", 1), "tokens");
  json_t *ids = json_array();
  struct buffer joined = {0};
  size_t arrays = 0;
  for (size_t i = 0; i < json_array_size(tokens); i++) {
    const json_t *token = json_array_get(tokens, i), *piece = json_object_get(token, "piece");
    json_array_append(ids, json_object_get(token, "id"));
    if (json_is_string(piece)) buffer_append(&joined, json_string_value(piece), json_string_length(piece));
    arrays += json_is_array(piece);
    for (size_t at = 0; at < json_array_size(piece); at++) {
      char byte = (char)json_integer_value(json_array_get(piece, at));
      buffer_append(&joined, &byte, 1);
    }
  }
  assert_string_equal(buffer_text(&joined), text);
  assert_true(arrays > 0);
  expect_equal(ids, encode(serve, text, true));
  json_decref(tokens);
  buffer_free(&joined);
}

static void what_was_tokenized_comes_back(void **state) {
  struct serve_fake *serve = *state;
  json_t *tokens = ask(serve, "/tokenize", json_pack("{s:s}", "content", text), "tokens");
  expect_equal(ask(serve, "/detokenize", json_pack("{s:o}", "tokens", tokens), "content"), json_string(text));
  expect_equal(ask(serve, "/detokenize", json_pack("{s:[]}", "tokens"), "content"), json_string(""));
}

static void a_cut_character_is_replaced(void **state) {
  struct serve_fake *serve = *state;
  json_t *tokens = json_array();
  for (uint32_t id = 0; id < tokenizer_size(serve->tokenizer); id++) {
    size_t length = 0;
    const char *bytes = tokenizer_bytes(serve->tokenizer, id, &length);
    if (length == 1 && bytes[0] == '\xf0') json_array_append_new(tokens, json_integer(id));
  }
  assert_true(json_array_size(tokens) > 0);
  json_t *content = ask(serve, "/detokenize", json_pack("{s:o}", "tokens", tokens), "content");
  assert_memory_equal(json_string_value(content), "\xef\xbf\xbd", 3);
  json_decref(content);
}

static void renders_the_prompt_of_a_chat(void **state) {
  struct serve_fake *serve = *state;
  struct buffer prompt = {0};
  struct kj_error error;
  json_t *messages =
      json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "system", "content", "Be brief.", "role", "user", "content", "Hi");
  assert_int_equal(chat_template_render(serve->chat, messages, NULL, NULL, true, &prompt, &error), 0);
  expect_equal(
      ask(serve, "/apply-template", json_pack("{s:o, s:f}", "messages", messages, "temperature", 0.5), "prompt"),
      json_string(buffer_text(&prompt)));
  buffer_free(&prompt);
}

static void refuses_what_is_wrong(void **state) {
  const struct serve_fake *serve = *state;
  static const char *const cases[][3] = {
      {"/tokenize", "", "invalid_json"},
      {"/tokenize", "{}", "missing_field"},
      {"/tokenize", "{\"content\":5.5}", "invalid_type"},
      {"/tokenize", "{\"content\":{}}", "invalid_type"},
      {"/tokenize", "{\"content\":[-1]}", "invalid_type"},
      {"/tokenize", "{\"content\":[99999999]}", "invalid_type"},
      {"/tokenize", "{\"content\":\"a\",\"with_pieces\":1}", "invalid_type"},
      {"/detokenize", "{}", "missing_field"},
      {"/detokenize", "{\"tokens\":\"a\"}", "invalid_type"},
      {"/detokenize", "{\"tokens\":[1,-1]}", "invalid_value"},
      {"/detokenize", "{\"tokens\":[99999999]}", "invalid_value"},
      {"/detokenize", "{\"tokens\":[1.5]}", "invalid_value"},
      {"/apply-template", "{}", "missing_field"},
      {"/apply-template", "{\"messages\":[]}", "invalid_value"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct http_reply reply = client_ask(serve->port, "POST", cases[i][0], cases[i][1]);
    if (reply.status != 400) fail_msg("%d for %s", reply.status, cases[i][1]);
    json_t *body = http_reply_json(&reply);
    assert_string_equal(json_string_value(json_object_get(json_object_get(body, "error"), "code")), cases[i][2]);
    json_decref(body);
    http_reply_free(&reply);
  }
}

static void answers_while_the_engine_is_loading(void **state) {
  struct serve_fake *serve = *state;
  fake_engine_set_state(serve->engine, ENGINE_LOADING, "layers");
  expect_equal(ask(serve, "/tokenize", json_pack("{s:s}", "content", "a b"), "tokens"), encode(serve, "a b", true));
  fake_engine_set_state(serve->engine, ENGINE_READY, "");
}

/* Their work is in the queue or has begun when they leave; and when the server stops. */
static void clients_that_leave_at_once(void **state) {
  const struct serve_fake *serve = *state;
  struct buffer body = {0};
  buffer_append_text(&body, "{\"content\":\"");
  for (int i = 0; i < 20000; i++) buffer_append_text(&body, "some words ");
  buffer_append_text(&body, "\"}");
  for (int i = 0; i < 20; i++) {
    int client = client_connect(serve->port);
    client_send_request(client, "POST", "/tokenize", body.data);
    client_close(client);
  }
  struct http_reply reply = client_ask(serve->port, "POST", "/tokenize", "{\"content\":\"a\"}");
  assert_int_equal(reply.status, 200);
  http_reply_free(&reply);
  for (int i = 0; i < 20; i++) client_send_request(client_connect(serve->port), "POST", "/tokenize", body.data);
  buffer_free(&body);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tokenizes_with_and_without_special_tokens),
      cmocka_unit_test(takes_texts_and_ids_mixed),
      cmocka_unit_test(gives_the_piece_of_every_token),
      cmocka_unit_test(what_was_tokenized_comes_back),
      cmocka_unit_test(a_cut_character_is_replaced),
      cmocka_unit_test(renders_the_prompt_of_a_chat),
      cmocka_unit_test(refuses_what_is_wrong),
      cmocka_unit_test(answers_while_the_engine_is_loading),
      cmocka_unit_test(clients_that_leave_at_once),
  };
  return cmocka_run_group_tests(tests, start, stop);
}

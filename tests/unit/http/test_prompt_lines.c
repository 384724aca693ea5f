/* Lines of system messages that are left out before the template. */
#include "http/prompt_lines.h"

#include <stdio.h>
#include <stdlib.h>

#include "unit/http/serve_fake.h"
#include "unit/unit.h"

static struct prompt_lines *compiled(const char *expression) {
  struct prompt_lines *lines = NULL;
  struct kj_error error;
  if (prompt_lines_compile(&lines, expression, &error)) fail_msg("%s", error.message);
  return lines;
}

/* What stays of a message of that role. */
static void expect_of(const char *role, const char *expression, const char *content, const char *left) {
  struct prompt_lines *lines = compiled(expression);
  json_t *messages = json_pack("[{s:s, s:s}]", "role", role, "content", content);
  struct api_error error;
  if (prompt_lines_drop(lines, messages, &error)) fail_msg("%s", error.message);
  assert_string_equal(json_string_value(json_object_get(json_array_get(messages, 0), "content")), left);
  json_decref(messages);
  prompt_lines_free(lines);
}

static void expect(const char *expression, const char *content, const char *left) {
  expect_of("system", expression, content, left);
}

static void lines_that_match_go_with_their_ends(void **state) {
  (void)state;
  expect("^Time:", "You help.\nTime: 12:00\nBe brief.", "You help.\nBe brief.");
  expect("^Time:", "Time: 12:00\nBe brief.\n", "Be brief.\n");
  expect("^Time:", "You help.\nTime: 12:00", "You help.\n");
  expect("^Time:", "Time: 1\nTime: 2\nTime: 3", "");
  expect("^Time:", "The Time: now\n", "The Time: now\n");
  expect("^Time:", "", "");
  expect("Time", "The Time: now\nx", "x");
  expect("^$", "a\n\n\nb\r\n\r\nc", "a\nb\r\nc");
  expect("now$", "It is now\r\nor never\r\n", "or never\r\n");
  expect("(?i)^x-[a-z-]+: ", "X-Session-Id: 7\nY: 1", "Y: 1");
}

static void lines_are_unicode(void **state) {
  (void)state;
  expect("^.\\w+ß$", "日本ß\nabc", "abc");
  expect("^\\p{Han}+$", "日本\nabc\n", "abc\n");
  expect("^.$", "é\nee\n😀", "ee\n");
}

static void one_line_at_a_time(void **state) {
  (void)state;
  expect("a\\nb", "a\nb\n", "a\nb\n");
  expect("(?s)^a.*c$", "a\nc\nabc\n", "a\nc\n");
}

static void other_roles_keep_their_lines(void **state) {
  (void)state;
  static const char *const roles[] = {"user", "assistant", "tool"};
  for (size_t i = 0; i < 3; i++) expect_of(roles[i], "^Time:", "Time: 1\nx", "Time: 1\nx");
}

static void refuses_what_is_no_expression(void **state) {
  (void)state;
  static const char *const expressions[] = {"a(b", "[", "*", "(?<n", "\\C", "\xff"};
  for (size_t i = 0; i < sizeof expressions / sizeof expressions[0]; i++) {
    struct prompt_lines *lines = NULL;
    struct kj_error error = {0};
    if (prompt_lines_compile(&lines, expressions[i], &error) != KJ_INVALID) fail_msg("taken: %s", expressions[i]);
    assert_null(lines);
    assert_non_null(strstr(error.message, "byte "));
  }
}

static void too_many_steps_are_an_error(void **state) {
  (void)state;
  struct prompt_lines *lines = compiled("^(a|aa|a?a)+$");
  char content[200] = "ok\n";
  memset(content + 3, 'a', 100);
  memcpy(content + 103, "!\n", 3);
  json_t *messages =
      json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "hi", "role", "system", "content", content);
  struct api_error error;
  assert_int_equal(prompt_lines_drop(lines, messages, &error), -1);
  assert_int_equal(error.status, 400);
  assert_string_equal(error.param, "messages[1].content");
  assert_non_null(strstr(error.message, "--drop-prompt-lines"));
  json_decref(messages);
  prompt_lines_free(lines);
}

static struct request ask(struct serve_fake *serve, const char *messages) {
  char body[500];
  snprintf(body, sizeof body, "{\"messages\":[%s]}", messages);
  struct http_reply reply = client_ask(serve->port, "POST", "/v1/chat/completions", body);
  if (reply.status != 200) fail_msg("%d: %s", reply.status, buffer_text(&reply.body));
  http_reply_free(&reply);
  return fake_engine_last(serve->engine);
}

/* Two turns that differ in a header line, in system and developer messages, as text and as parts: the same prompt. */
static void t7_a_changing_header_leaves_the_prompt_as_it_is(void **state) {
  (void)state;
  struct serve_fake serve = {.dropped_lines = compiled("^x-turn: ")};
  serve_fake_start(&serve, NULL);
  serve_fake_say(&serve, "x");
  static const char *const turns[] = {
      "{\"role\":\"system\",\"content\":\"You help.\\nx-turn: 1\\nBe brief.\"},{\"role\":\"user\",\"content\":\"hi\"}",
      "{\"role\":\"system\",\"content\":\"x-turn: 2\\nYou help.\\nBe brief.\"},{\"role\":\"user\",\"content\":\"hi\"}",
      ("{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":\"You help.\\nx-tu\"},"
       "{\"type\":\"text\",\"text\":\"rn: 3\\nBe brief.\"}]},{\"role\":\"user\",\"content\":\"hi\"}"),
      "{\"role\":\"system\",\"content\":\"You help.\\nBe brief.\"},{\"role\":\"user\",\"content\":\"hi\"}",
  };
  struct request first = ask(&serve, turns[0]);
  for (size_t i = 1; i < sizeof turns / sizeof turns[0]; i++) {
    struct request next = ask(&serve, turns[i]);
    assert_int_equal(next.token_count, first.token_count);
    assert_memory_equal(next.tokens, first.tokens, first.token_count * sizeof *first.tokens);
  }
  struct request other = ask(&serve,
                             "{\"role\":\"system\",\"content\":\"You help.\\nBe brief.\"},"
                             "{\"role\":\"user\",\"content\":\"x-turn: 4\\nhi\"}");
  assert_true(other.token_count > first.token_count);
  serve_fake_stop(&serve);
  prompt_lines_free(serve.dropped_lines);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_that_match_go_with_their_ends),
      cmocka_unit_test(lines_are_unicode),
      cmocka_unit_test(one_line_at_a_time),
      cmocka_unit_test(other_roles_keep_their_lines),
      cmocka_unit_test(refuses_what_is_no_expression),
      cmocka_unit_test(too_many_steps_are_an_error),
      cmocka_unit_test(t7_a_changing_header_leaves_the_prompt_as_it_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

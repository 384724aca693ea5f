/* Finding a checkpoint's template, and what it is given. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text/chat.h"
#include "unit/unit.h"

static char directory[64];

static int make_directory(void **state) {
  (void)state;
  snprintf(directory, sizeof directory, "/tmp/kaiju-chat-XXXXXX");
  return mkdtemp(directory) ? 0 : -1;
}

static const char *const FILES[] = {"tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json",
                                    "additional_chat_templates/tool_use.jinja"};

static int remove_directory(void **state) {
  (void)state;
  char path[200];
  for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
    snprintf(path, sizeof path, "%s/%s", directory, FILES[i]);
    unlink(path);
  }
  snprintf(path, sizeof path, "%s/additional_chat_templates", directory);
  rmdir(path);
  return rmdir(directory);
}

static void write_file(const char *name, const char *text) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static struct chat_template *load(void) {
  struct chat_template *chat = NULL;
  struct kj_error error = {0};
  if (chat_template_load(&chat, directory, &error)) fail_msg("%s", error.message);
  return chat;
}

static void expect_prompt(const struct chat_template *chat, const char *messages_json, const char *tools_json,
                          const char *extra_json, bool generate, const char *expected) {
  json_t *messages = json_loads(messages_json, 0, NULL);
  json_t *tools = tools_json ? json_loads(tools_json, 0, NULL) : NULL;
  json_t *extra = extra_json ? json_loads(extra_json, 0, NULL) : NULL;
  struct buffer out = {0};
  struct kj_error error = {0};
  assert_non_null(messages);
  if (chat_template_render(chat, messages, tools, extra, generate, &out, &error)) fail_msg("%s", error.message);
  assert_string_equal(buffer_text(&out), expected);
  buffer_free(&out);
  json_decref(messages);
  json_decref(tools);
  json_decref(extra);
}

static void a_template_file_comes_before_the_configuration(void **state) {
  (void)state;
  write_file("tokenizer_config.json", "{\"chat_template\": \"config\", \"eos_token\": \"</s>\"}");
  write_file("chat_template.jinja", "file{{ eos_token }}");
  struct chat_template *chat = load();
  expect_prompt(chat, "[]", NULL, NULL, false, "file</s>");
  chat_template_free(chat);
}

static void special_tokens_are_texts_or_objects(void **state) {
  (void)state;
  write_file("tokenizer_config.json",
             "{\"chat_template\": \"{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}{{ unk_token }}\", "
             "\"bos_token\": {\"content\": \"<s>\", \"lstrip\": false}, \"eos_token\": \"</s>\", \"pad_token\": null}");
  write_file("special_tokens_map.json", "{\"unk_token\": {\"content\": \"<unk>\"}, \"eos_token\": \"other\"}");
  struct chat_template *chat = load();
  expect_prompt(chat, "[]", NULL, NULL, false, "<s></s>False<unk>");
  expect_prompt(chat, "[]", NULL, "{\"bos_token\": \"mine\"}", false, "mine</s>False<unk>");
  chat_template_free(chat);
}

static void tools_choose_the_template_for_tools(void **state) {
  (void)state;
  write_file(
      "tokenizer_config.json",
      "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"{% nope %}\"}, {\"name\": \"default\", "
      "\"template\": \"plain{{ tools }}\"}, {\"name\": \"tool_use\", \"template\": \"{{ tools|length }} tools\"}]}");
  struct chat_template *chat = load();
  expect_prompt(chat, "[]", NULL, NULL, false, "plainNone");
  expect_prompt(chat, "[]", "[{}, {}]", NULL, false, "2 tools");
  chat_template_free(chat);
}

static void a_file_for_tools_serves_beside_the_template_file(void **state) {
  (void)state;
  char path[200];
  snprintf(path, sizeof path, "%s/additional_chat_templates", directory);
  assert_int_equal(mkdir(path, 0700), 0);
  write_file("chat_template.jinja", "plain");
  write_file("additional_chat_templates/tool_use.jinja", "tools");
  struct chat_template *chat = load();
  expect_prompt(chat, "[]", NULL, NULL, false, "plain");
  expect_prompt(chat, "[]", "[{}]", NULL, false, "tools");
  chat_template_free(chat);
}

static void messages_come_without_nulls_and_with_reasoning_by_each_name(void **state) {
  (void)state;
  struct chat_template *chat = NULL;
  const char *source = "{% for m in messages %}{{ m|tojson }}{% endfor %}{{ documents }}{{ add_generation_prompt }}";
  assert_int_equal(chat_template_parse(&chat, "t", source, strlen(source), NULL), 0);
  expect_prompt(
      chat, "[{\"role\": \"a\", \"content\": null}, {\"reasoning\": \"r\", \"role\": \"b\"}]", NULL, NULL, true,
      "{\"role\": \"a\"}{\"thinking\": \"r\", \"reasoning\": \"r\", \"role\": \"b\", \"reasoning_content\": \"r\"}"
      "NoneTrue");
  chat_template_free(chat);
}

static void the_shipped_model_has_a_template(void **state) {
  (void)state;
  struct chat_template *chat = NULL;
  assert_int_equal(chat_template_load(&chat, KAIJU_SOURCE_DIR "/models/kaiju-mini", NULL), 0);
  expect_prompt(chat, "[{\"role\": \"user\", \"content\": \"Hi\"}]", NULL, NULL, true,
                "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  chat_template_free(chat);
}

static void expect_refusal(int code, const char *reason) {
  struct chat_template *chat = NULL;
  struct kj_error error = {0};
  assert_int_equal(chat_template_load(&chat, directory, &error), code);
  assert_null(chat);
  if (!strstr(error.message, reason)) fail_msg("message is: %s", error.message);
}

static void a_checkpoint_without_a_usable_template_is_refused(void **state) {
  (void)state;
  expect_refusal(KJ_NOT_FOUND, "no chat template");
  write_file("tokenizer_config.json", "{\"chat_template\": 5}");
  expect_refusal(KJ_INVALID, "not a text");
  write_file("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"other\", \"template\": \"\"}]}");
  expect_refusal(KJ_INVALID, "default");
  write_file("tokenizer_config.json", "[]");
  expect_refusal(KJ_INVALID, "not a JSON object");
  write_file("tokenizer_config.json", "{\"chat_template\": \"a\\n{{ 1|nope }}\"}");
  expect_refusal(KJ_UNSUPPORTED, "line 2: no filter named 'nope'");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_template_file_comes_before_the_configuration, make_directory, remove_directory),
      cmocka_unit_test_setup_teardown(special_tokens_are_texts_or_objects, make_directory, remove_directory),
      cmocka_unit_test_setup_teardown(tools_choose_the_template_for_tools, make_directory, remove_directory),
      cmocka_unit_test_setup_teardown(a_file_for_tools_serves_beside_the_template_file, make_directory,
                                      remove_directory),
      cmocka_unit_test(messages_come_without_nulls_and_with_reasoning_by_each_name),
      cmocka_unit_test(the_shipped_model_has_a_template),
      cmocka_unit_test_setup_teardown(a_checkpoint_without_a_usable_template_is_refused, make_directory,
                                      remove_directory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

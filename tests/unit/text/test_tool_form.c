/* The form of tool calls is that of the checkpoint's chat template. */
#include "text/tool_form.h"
#include "unit/unit.h"

#define CALLS(body)                                                         \
  "{% for message in messages %}{% if message.tool_calls %}{% for call in " \
  "message.tool_calls %}{% set call = call.function %}" body                \
  "{% endfor %}{% else %}{{ message.content }}{% endif %}"                  \
  "{% endfor %}"

static const char XML[] = CALLS(
    "<tool_call>\n<function={{ call.name }}>\n{% for key, value in call.arguments|items %}<parameter={{ key }}>\n{{ "
    "value }}\n</parameter>\n{% endfor %}</function>\n</tool_call>");
static const char JSON[] =
    CALLS("<tool_call>\n{\"name\": \"{{ call.name }}\", \"arguments\": {{ call.arguments|tojson }}}\n</tool_call>");
static const char OTHER[] = CALLS("<tool_call>{{ call.name }}({{ call.arguments }})</tool_call>");

static enum tool_form form_of(const char *source) {
  struct chat_template *chat = NULL;
  struct kj_error error;
  if (chat_template_parse(&chat, "test", source, strlen(source), &error)) fail_msg("%s", error.message);
  enum tool_form form = tool_form_of(chat);
  chat_template_free(chat);
  return form;
}

static void a_rendered_call_shows_the_form(void **state) {
  (void)state;
  assert_int_equal(form_of(XML), TOOL_FORM_XML);
  assert_int_equal(form_of(JSON), TOOL_FORM_JSON);
  assert_int_equal(form_of(OTHER), TOOL_FORM_NONE);
}

/* What the instructions show counts less than how a call is written. */
static void instructions_do_not_count(void **state) {
  (void)state;
  struct buffer text = {0};
  buffer_append_format(&text, "{%% if tools %%}<tool_call>\n<function=example>\n</tool_call>{%% endif %%}%s", JSON);
  assert_int_equal(form_of(buffer_text(&text)), TOOL_FORM_JSON);
  buffer_free(&text);
  assert_int_equal(form_of("<tool_call> and <function=x> are no calls"), TOOL_FORM_NONE);
}

static void templates_without_calls_have_none(void **state) {
  (void)state;
  assert_int_equal(form_of(""), TOOL_FORM_NONE);
  assert_int_equal(form_of("{{ raise_exception('no tools') }}"), TOOL_FORM_NONE);
  struct chat_template *chat = NULL;
  struct kj_error error;
  assert_int_equal(chat_template_load(&chat, KAIJU_SOURCE_DIR "/models/kaiju-mini", &error), 0);
  assert_int_equal(tool_form_of(chat), TOOL_FORM_NONE);
  chat_template_free(chat);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rendered_call_shows_the_form),
      cmocka_unit_test(instructions_do_not_count),
      cmocka_unit_test(templates_without_calls_have_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Renders templates for the oracle tests: a JSON object a line on standard input, one a line on standard output.
 *
 * {"template": text, "variables": {…}} is compiled and rendered as it is; {"template": text, "messages": […], "tools":
 * […] or null, "extra": {…}, "add_generation_prompt": bool} as a chat template. The answer is {"text": …} or
 * {"error": message, "stage": "compile" or "render"}.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_lines.h"
#include "text/chat.h"
#include "text/jinja.h"

enum { VARIABLES_MAXIMUM = 64 };

static json_t *failure(const struct kj_error *error, const char *stage) {
  return json_pack("{s:s, s:s}", "error", error->message, "stage", stage);
}

static json_t *success(const struct buffer *text) {
  return json_pack("{s:s#}", "text", buffer_text(text), (int)text->length);
}

static json_t *render_plain(const char *source, size_t length, json_t *variables) {
  struct jinja_variable list[VARIABLES_MAXIMUM];
  size_t count = 0;
  const char *name;
  json_t *value;
  json_object_foreach(variables, name, value) {
    if (count < VARIABLES_MAXIMUM) list[count++] = (struct jinja_variable){name, value};
  }
  struct jinja_template *template = NULL;
  struct kj_error error = {0};
  if (jinja_compile(&template, "template", source, length, &error)) return failure(&error, "compile");
  struct buffer out = {0};
  int code = jinja_render(template, list, count, &out, &error);
  json_t *answer = code ? failure(&error, "render") : success(&out);
  buffer_free(&out);
  jinja_free(template);
  return answer;
}

static json_t *render_chat(const char *source, size_t length, json_t *request) {
  struct chat_template *chat = NULL;
  struct kj_error error = {0};
  json_t *tools = json_object_get(request, "tools");
  if (chat_template_parse(&chat, "template", source, length, &error)) return failure(&error, "compile");
  struct buffer out = {0};
  int code = chat_template_render(chat, json_object_get(request, "messages"), json_is_null(tools) ? NULL : tools,
                                  json_object_get(request, "extra"),
                                  json_is_true(json_object_get(request, "add_generation_prompt")), &out, &error);
  json_t *answer = code ? failure(&error, "render") : success(&out);
  buffer_free(&out);
  chat_template_free(chat);
  return answer;
}

static json_t *answer_to(json_t *request, struct kj_error *error) {
  (void)error;
  const json_t *template = json_object_get(request, "template");
  const char *source = json_string_value(template);
  size_t size = json_string_length(template);
  if (!source) return NULL;
  return json_object_get(request, "messages") ? render_chat(source, size, request)
                                              : render_plain(source, size, json_object_get(request, "variables"));
}

int main(void) { return json_lines(answer_to); }

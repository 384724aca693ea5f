/* Reads tool calls for the oracle tests: a JSON object a line on standard input, one a line on standard output.
 *
 * {"template": text, "tools": […], "text": what a model wrote} gives {"form": "xml", "json" or "none", "content": text,
 * "calls": [{"name": text, "arguments": text}]}.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/tool_calls.h"

struct answer {
  struct buffer content, name, arguments;
  json_t *calls;
};

static void take(void *context, const struct tool_event *event) {
  struct answer *answer = context;
  if (event->kind == TOOL_TEXT) buffer_append(&answer->content, event->bytes, event->length);
  if (event->kind == TOOL_BEGIN) buffer_append(&answer->name, event->bytes, event->length);
  if (event->kind == TOOL_ARGUMENTS) buffer_append(&answer->arguments, event->bytes, event->length);
  if (event->kind != TOOL_END) return;
  json_array_append_new(answer->calls, json_pack("{s:s, s:s}", "name", buffer_text(&answer->name), "arguments",
                                                 buffer_text(&answer->arguments)));
  buffer_clear(&answer->name);
  buffer_clear(&answer->arguments);
}

static json_t *answer_to(const json_t *request, struct kj_error *error) {
  static const char *const FORMS[] = {"none", "json", "xml"};
  const json_t *template = json_object_get(request, "template"), *text = json_object_get(request, "text");
  struct answer answer = {.calls = json_array()};
  struct chat_template *chat = NULL;
  struct tool_schemas *schemas = NULL;
  struct tool_calls *calls = NULL;
  json_t *result = NULL;
  if (chat_template_parse(&chat, "template", json_string_value(template), json_string_length(template), error) ||
      tool_schemas_compile(&schemas, json_object_get(request, "tools"), error))
    goto done;
  enum tool_form form = tool_form_of(chat);
  if (form == TOOL_FORM_NONE) {
    buffer_append(&answer.content, json_string_value(text), json_string_length(text));
  } else {
    if (tool_calls_create(&calls, form, schemas, take, &answer, error)) goto done;
    tool_calls_push(calls, json_string_value(text), json_string_length(text));
    tool_calls_finish(calls, false);
  }
  result =
      json_pack("{s:s, s:s, s:O}", "form", FORMS[form], "content", buffer_text(&answer.content), "calls", answer.calls);
done:
  tool_calls_free(calls);
  tool_schemas_free(schemas);
  chat_template_free(chat);
  buffer_free(&answer.content);
  buffer_free(&answer.name);
  buffer_free(&answer.arguments);
  json_decref(answer.calls);
  return result;
}

int main(void) {
  char *line = NULL;
  size_t capacity = 0;
  ssize_t length = 0;
  int status = 0;
  while (!status && (length = getline(&line, &capacity, stdin)) > 0) {
    struct kj_error error = {0};
    json_t *request = json_loadb(line, (size_t)length, 0, NULL), *answer = answer_to(request, &error);
    if (answer) {
      json_dumpf(answer, stdout, JSON_COMPACT);
      putchar('\n');
    } else {
      fprintf(stderr, "no answer: %s\n", error.message);
      status = 1;
    }
    json_decref(answer);
    json_decref(request);
  }
  free(line);
  return status;
}

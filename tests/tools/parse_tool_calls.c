/* Reads tool calls for the oracle tests: a JSON object a line on standard input, one a line on standard output.
 *
 * {"template": text, "tools": […], "text": what a model wrote} gives {"form": "xml", "json" or "none", "content": text,
 * "calls": [{"name": text, "arguments": text}]}.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_lines.h"
#include "tool_answer.h"

static json_t *answer_to(json_t *request, struct kj_error *error) {
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

int main(void) { return json_lines(answer_to); }

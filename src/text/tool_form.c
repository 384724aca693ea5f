#include "text/tool_form.h"

#include <string.h>

static const char TOOLS[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"find_form\", \"description\": \"Finds it.\", \"parameters\": "
    "{\"type\": \"object\", \"properties\": {\"key\": {\"type\": \"string\", \"description\": \"A key.\"}}, "
    "\"required\": [\"key\"]}}}]";
static const char MESSAGES[] =
    "[{\"role\": \"user\", \"content\": \"Find it.\"},"
    " {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": \"call_1\", \"type\": \"function\","
    "  \"function\": {\"name\": \"find_form\", \"arguments\": {\"key\": \"value\"}}}]},"
    " {\"role\": \"tool\", \"tool_call_id\": \"call_1\", \"content\": \"found\"}]";

/* A call in the template's instructions does not count where the rendered one is written otherwise. */
static enum tool_form form_of(const char *text) {
  if (strstr(text, "<function=find_form>")) return TOOL_FORM_XML;
  const char *call = NULL;
  for (const char *at = text; (at = strstr(at, "<tool_call>")); at++) call = at;
  if (!call) return TOOL_FORM_NONE;
  const char *body = call + strlen("<tool_call>");
  return body[strspn(body, " \n")] == '{' ? TOOL_FORM_JSON : TOOL_FORM_NONE;
}

enum tool_form tool_form_of(const struct chat_template *chat) {
  json_t *tools = json_loads(TOOLS, 0, NULL), *messages = json_loads(MESSAGES, 0, NULL);
  struct buffer text = {0};
  enum tool_form form = TOOL_FORM_NONE;
  if (tools && messages && !chat_template_render(chat, messages, tools, NULL, true, &text, NULL) &&
      !buffer_failed(&text))
    form = form_of(buffer_text(&text));
  buffer_free(&text);
  json_decref(tools);
  json_decref(messages);
  return form;
}

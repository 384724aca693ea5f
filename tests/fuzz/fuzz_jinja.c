// links: text
/* A chat template and the request it is rendered for, separated by a line "----": the template's source, then a JSON
 * object with messages, tools and extra. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void render(const struct chat_template *chat, const json_t *request) {
  struct buffer out = {0};
  struct kj_error error = {0};
  const json_t *tools = json_object_get(request, "tools");
  int code = chat_template_render(chat, json_object_get(request, "messages"), json_is_null(tools) ? NULL : tools,
                                  json_object_get(request, "extra"), true, &out, &error);
  if (code ? out.length != 0 || !error.message[0] : !utf8_valid(buffer_text(&out), out.length, NULL)) abort();
  buffer_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char SEPARATOR[] = "\n----\n";
  const uint8_t *found = memmem(data, size, SEPARATOR, sizeof SEPARATOR - 1);
  size_t length = found ? (size_t)(found - data) : size;
  size_t used = found ? length + sizeof SEPARATOR - 1 : size;
  struct chat_template *chat = NULL;
  struct kj_error error = {0};
  if (chat_template_parse(&chat, "fuzz", (const char *)data, length, &error)) {
    if (chat || !error.message[0]) abort();
    return 0;
  }
  json_t *request = json_loadb((const char *)data + used, size - used, JSON_ALLOW_NUL, NULL);
  render(chat, request);
  json_decref(request);
  chat_template_free(chat);
  return 0;
}

/* A model's answer as text and calls: collects the events of text/tool_calls.h. */
#ifndef KAIJU_TESTS_TOOL_ANSWER_H
#define KAIJU_TESTS_TOOL_ANSWER_H

#include <jansson.h>

#include "base/buffer.h"
#include "text/tool_calls.h"

struct answer {
  struct buffer content, name, arguments;
  json_t *calls; /* an array of {"name", "arguments"}, which are complete */
};

/* A tool_event_handler; the context is a struct answer. */
static inline void take(void *context, const struct tool_event *event) {
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

#endif

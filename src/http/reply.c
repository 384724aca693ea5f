#include "http/reply.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* An id that no other call has, in any conversation. */
static json_t *new_id(void) {
  unsigned char random[12];
  char id[8 + 2 * sizeof random];
  if (getentropy(random, sizeof random) != 0) return NULL;
  int length = snprintf(id, sizeof id, "call_");
  for (size_t i = 0; i < sizeof random; i++)
    length += snprintf(id + length, sizeof id - (size_t)length, "%02x", random[i]);
  return json_string(id);
}

static void add(struct reply *reply, json_t *entry) {
  if (!reply->list) reply->list = json_array();
  if (json_array_append_new(reply->list, entry) != 0) reply->failed = true;
}

/* Moves the arguments that have come to the list. */
static void add_arguments(struct reply *reply, size_t call) {
  if (!reply->arguments.length) return;
  json_t *arguments = json_stringn(buffer_text(&reply->arguments), reply->arguments.length);
  if (reply->streamed) {
    add(reply, json_pack("{s:I, s:{s:o}}", "index", (json_int_t)call, "function", "arguments", arguments));
  } else {
    json_t *entry = json_array_get(reply->list, json_array_size(reply->list) - 1);
    if (json_object_set_new(json_object_get(entry, "function"), "arguments", arguments) != 0) reply->failed = true;
  }
  reply->failed |= reply->arguments.failed;
  buffer_clear(&reply->arguments);
}

static void begin_call(struct reply *reply, const struct tool_event *event) {
  json_t *entry = json_pack("{s:o, s:s, s:{s:o, s:s}}", "id", new_id(), "type", "function", "function", "name",
                            json_stringn(event->bytes, event->length), "arguments", "");
  if (reply->streamed && json_object_set_new(entry, "index", json_integer((json_int_t)event->call)) != 0)
    reply->failed = true;
  add(reply, entry);
}

static void on_event(void *context, const struct tool_event *event) {
  struct reply *reply = context;
  if (reply->only_one && reply->ended) return;
  switch (event->kind) {
    case TOOL_TEXT:
      buffer_append(&reply->content, event->bytes, event->length);
      break;
    case TOOL_BEGIN:
      begin_call(reply, event);
      break;
    case TOOL_ARGUMENTS:
      buffer_append(&reply->arguments, event->bytes, event->length);
      break;
    case TOOL_END:
      add_arguments(reply, event->call);
      reply->ended++;
      break;
  }
}

int reply_begin(struct reply *reply, const struct completion_request *request) {
  reply->streamed = request->stream;
  reply->only_one = request->only_one_call;
  if (!request->tool_schemas) return 0;
  return tool_calls_create(&reply->calls, request->tool_form, request->tool_schemas, on_event, reply, NULL) ? -1 : 0;
}

void reply_free(struct reply *reply) {
  buffer_free(&reply->text);
  buffer_free(&reply->content);
  buffer_free(&reply->arguments);
  tool_calls_free(reply->calls);
  json_decref(reply->list);
}

bool reply_read(struct reply *reply) {
  if (reply->calls)
    tool_calls_push(reply->calls, buffer_text(&reply->text), reply->text.length);
  else
    buffer_append(&reply->content, buffer_text(&reply->text), reply->text.length);
  reply->failed |= reply->text.failed;
  buffer_clear(&reply->text);
  return reply->only_one && reply->ended;
}

void reply_finish(struct reply *reply, bool cut) {
  reply_read(reply);
  if (!reply->calls) return;
  tool_calls_finish(reply->calls, cut);
  size_t count = tool_calls_count(reply->calls);
  if (count) add_arguments(reply, count - 1);
}

json_t *reply_take_calls(struct reply *reply) {
  size_t count = reply->calls ? tool_calls_count(reply->calls) : 0;
  if (count && reply->streamed) add_arguments(reply, count - 1);
  json_t *list = reply->list;
  reply->list = NULL;
  return list;
}

const char *reply_reason(const struct reply *reply, const char *reason) {
  bool all_ended = reply->calls && reply->ended && (reply->only_one || reply->ended == tool_calls_count(reply->calls));
  return all_ended && strcmp(reason, "stop") == 0 ? "tool_calls" : reason;
}

bool reply_failed(const struct reply *reply) {
  return reply->failed || reply->text.failed || reply->content.failed || reply->arguments.failed ||
         (reply->calls && tool_calls_failed(reply->calls));
}

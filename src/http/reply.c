#include "http/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/random_id.h"
#include "text/thought.h"
#include "text/tool_calls.h"

struct reply {
  struct buffer text; /* not yet read */
  bool thinks;        /* the text goes through `thought` first */
  struct thought thought;
  struct buffer inner, outer;
  struct tool_calls *calls; /* NULL: what is no thought is text */
  bool only_one;
  struct reply_part *parts; /* [capacity] */
  size_t count, capacity;
  size_t ended; /* calls that are complete */
  bool failed;
};

/* A new part at the end, or NULL. */
static struct reply_part *add_part(struct reply *reply, enum reply_kind kind) {
  if (reply->count == reply->capacity) {
    size_t capacity = reply->capacity ? 2 * reply->capacity : 4;
    struct reply_part *grown = realloc(reply->parts, capacity * sizeof *grown);
    if (!grown) {
      reply->failed = true;
      return NULL;
    }
    reply->parts = grown;
    reply->capacity = capacity;
  }
  struct reply_part *part = &reply->parts[reply->count++];
  *part = (struct reply_part){.kind = kind};
  return part;
}

static struct reply_part *last_part(struct reply *reply) {
  return reply->count ? &reply->parts[reply->count - 1] : NULL;
}

static void add_text(struct reply *reply, enum reply_kind kind, const char *text, size_t length) {
  if (length == 0) return;
  struct reply_part *part = last_part(reply);
  if (!part || part->kind != kind) part = add_part(reply, kind);
  if (part) buffer_append(&part->bytes, text, length);
}

/* The part that the call's next bytes go to. */
static struct reply_part *call_part(struct reply *reply, size_t call) {
  struct reply_part *part = last_part(reply);
  if (part && part->kind == REPLY_CALL && part->call == call) return part;
  part = add_part(reply, REPLY_CALL);
  if (part) part->call = call;
  return part;
}

static void begin_call(struct reply *reply, const struct tool_event *event) {
  struct reply_part *part = add_part(reply, REPLY_CALL);
  if (!part) return;
  part->call = event->call;
  part->begins = true;
  part->name = strndup(event->bytes, event->length);
  if (!part->name || random_id(part->id, sizeof part->id, "call_")) reply->failed = true;
}

static void on_event(void *context, const struct tool_event *event) {
  struct reply *reply = context;
  if (reply->only_one && reply->ended) return;
  struct reply_part *part = NULL;
  switch (event->kind) {
    case TOOL_TEXT:
      add_text(reply, REPLY_TEXT, event->bytes, event->length);
      break;
    case TOOL_BEGIN:
      begin_call(reply, event);
      break;
    case TOOL_ARGUMENTS:
      part = call_part(reply, event->call);
      if (part) buffer_append(&part->bytes, event->bytes, event->length);
      break;
    case TOOL_END:
      part = call_part(reply, event->call);
      if (part) part->ends = true;
      reply->ended++;
      break;
  }
}

int reply_create(struct reply **result, const struct completion_request *request) {
  struct reply *reply = calloc(1, sizeof *reply);
  *result = reply;
  if (!reply) return -1;
  reply->only_one = request->only_one_call;
  reply->thinks = request->thought != THOUGHT_NONE;
  reply->thought = thought_start(request->thought == THOUGHT_HAS_BEGUN);
  if (!request->tool_schemas ||
      tool_calls_create(&reply->calls, request->tool_form, request->tool_schemas, on_event, reply, NULL) == 0)
    return 0;
  reply_free(reply);
  *result = NULL;
  return -1;
}

void reply_free(struct reply *reply) {
  if (!reply) return;
  reply_clear(reply);
  free(reply->parts);
  buffer_free(&reply->text);
  buffer_free(&reply->inner);
  buffer_free(&reply->outer);
  thought_free(&reply->thought);
  tool_calls_free(reply->calls);
  free(reply);
}

struct buffer *reply_text(struct reply *reply) {
  return &reply->text;
}

void reply_put(struct reply *reply, const char *text, size_t length) { add_text(reply, REPLY_TEXT, text, length); }

static void read_answer(struct reply *reply, struct buffer *text) {
  if (reply->calls)
    tool_calls_push(reply->calls, buffer_text(text), text->length);
  else
    add_text(reply, REPLY_TEXT, buffer_text(text), text->length);
  reply->failed |= text->failed;
  buffer_clear(text);
}

static void take_thought(struct reply *reply) {
  add_text(reply, REPLY_THOUGHT, buffer_text(&reply->inner), reply->inner.length);
  reply->failed |= reply->inner.failed;
  buffer_clear(&reply->inner);
}

bool reply_read(struct reply *reply) {
  if (reply->thinks) {
    thought_push(&reply->thought, buffer_text(&reply->text), reply->text.length, &reply->inner, &reply->outer);
    reply->failed |= reply->text.failed;
    buffer_clear(&reply->text);
    take_thought(reply);
    read_answer(reply, &reply->outer);
  } else {
    read_answer(reply, &reply->text);
  }
  return reply->only_one && reply->ended;
}

void reply_finish(struct reply *reply, bool cut) {
  reply_read(reply);
  if (reply->thinks) {
    thought_finish(&reply->thought, &reply->inner, &reply->outer);
    take_thought(reply);
    read_answer(reply, &reply->outer);
  }
  if (reply->calls) tool_calls_finish(reply->calls, cut);
}

const struct reply_part *reply_parts(const struct reply *reply, size_t *count) {
  *count = reply->count;
  return reply->parts;
}

void reply_clear(struct reply *reply) {
  for (size_t i = 0; i < reply->count; i++) {
    reply->failed |= reply->parts[i].bytes.failed;
    buffer_free(&reply->parts[i].bytes);
    free(reply->parts[i].name);
  }
  reply->count = 0;
}

bool reply_thinks(const struct reply *reply) {
  return reply->thinks && (reply->thought.state == THOUGHT_BEGUN || reply->thought.state == THOUGHT_GOES_ON);
}

bool reply_calls(const struct reply *reply) {
  return reply->calls && reply->ended && (reply->only_one || reply->ended == tool_calls_count(reply->calls));
}

bool reply_failed(const struct reply *reply) {
  bool failed = reply->failed || reply->text.failed || reply->thought.held.failed;
  for (size_t i = 0; i < reply->count; i++) failed |= reply->parts[i].bytes.failed;
  return failed || (reply->calls && tool_calls_failed(reply->calls));
}

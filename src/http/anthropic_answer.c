#include <stdlib.h>
#include <string.h>

#include "http/anthropic.h"
#include "http/json.h"
#include "text/json_scanner.h"

/* Nobody signs or checks thoughts here; there are clients that drop one without a signature. */
static const char SIGNATURE[] = "unsigned";

/* The block of a stream that is being told. */
struct told {
  bool open;
  enum reply_kind kind;
  size_t index; /* of this block, or of the next one */
};

static json_t *usage_json(const struct answer *answer) {
  struct answer_usage usage = answer_usage(answer);
  /* Anthropic counts the tokens of the prompt that came from the cache beside the others. */
  return json_pack("{s:I, s:I, s:I, s:I, s:{s:I}}", "input_tokens",
                   (json_int_t)(usage.prompt_tokens - usage.cached_tokens), "cache_creation_input_tokens",
                   (json_int_t)0, "cache_read_input_tokens", (json_int_t)usage.cached_tokens, "output_tokens",
                   (json_int_t)usage.completion_tokens, "output_tokens_details", "thinking_tokens",
                   (json_int_t)usage.thought_tokens);
}

static const char *stop_reason(const struct answer *answer) {
  const struct choice *choice = &answer->choices[0];
  switch (choice->end) {
    case END_STOP_STRING:
      return "stop_sequence";
    case END_LENGTH:
      return choice->usage.completion_tokens < answer->request->max_tokens ? "model_context_window_exceeded"
                                                                           : "max_tokens";
    case END_TURN:
      return reply_calls(choice->reply) ? "tool_use" : "end_turn";
    default:
      return NULL;
  }
}

static json_t *stop_sequence(const struct answer *answer) {
  const struct choice *choice = &answer->choices[0];
  return choice->end == END_STOP_STRING ? json_stringn(choice->stop, choice->stop_length) : json_null();
}

/* The message without its content, which is taken over. */
static json_t *message_json(const struct answer *answer, json_t *content) {
  return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s?, s:o, s:o}", "id", answer->id, "type", "message", "role",
                   "assistant", "model", json_text(answer->model), "content", content, "stop_reason",
                   stop_reason(answer), "stop_sequence", stop_sequence(answer), "usage", usage_json(answer));
}

static json_t *part_text(const struct reply_part *part) {
  return json_stringn(buffer_text(&part->bytes), part->bytes.length);
}

/* The block of a part, with this text or input, which is taken over. */
static json_t *block_json(const struct reply_part *part, json_t *value) {
  if (part->kind == REPLY_TEXT) return json_pack("{s:s, s:o}", "type", "text", "text", value);
  if (part->kind == REPLY_THOUGHT)
    return json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking", value, "signature", "");
  const char *digits = strchr(part->id, '_');
  json_t *id = json_sprintf("toolu%s", digits ? digits : "_");
  return json_pack("{s:s, s:o, s:s, s:o}", "type", "tool_use", "id", id, "name", part->name, "input", value);
}

static void open_stream(struct answer *answer, struct buffer *out) {
  answer->state = calloc(1, sizeof(struct told));
  if (!answer->state) out->failed = true;
  answer_event(out, "message_start",
               json_pack("{s:s, s:o}", "type", "message_start", "message", message_json(answer, json_array())));
}

static void tell_delta(size_t index, const char *type, const char *member, json_t *value, struct buffer *out) {
  answer_event(out, "content_block_delta",
               json_pack("{s:s, s:I, s:{s:s, s:o}}", "type", "content_block_delta", "index", (json_int_t)index, "delta",
                         "type", type, member, value));
}

static void end_block(struct told *told, struct buffer *out) {
  if (!told->open) return;
  if (told->kind == REPLY_THOUGHT) tell_delta(told->index, "signature_delta", "signature", json_string(SIGNATURE), out);
  answer_event(out, "content_block_stop",
               json_pack("{s:s, s:I}", "type", "content_block_stop", "index", (json_int_t)told->index));
  told->open = false;
  told->index++;
}

static void begin_block(struct told *told, const struct reply_part *part, struct buffer *out) {
  json_t *nothing = part->kind == REPLY_CALL ? json_object() : json_string("");
  answer_event(out, "content_block_start",
               json_pack("{s:s, s:I, s:o}", "type", "content_block_start", "index", (json_int_t)told->index,
                         "content_block", block_json(part, nothing)));
  told->open = true;
  told->kind = part->kind;
}

static void tell_part(struct told *told, const struct reply_part *part, struct buffer *out) {
  static const char *const deltas[][2] = {[REPLY_THOUGHT] = {"thinking_delta", "thinking"},
                                          [REPLY_TEXT] = {"text_delta", "text"},
                                          [REPLY_CALL] = {"input_json_delta", "partial_json"}};
  bool call = part->kind == REPLY_CALL;
  if (told->open && (told->kind != part->kind || part->begins)) end_block(told, out);
  if (!told->open) begin_block(told, part, out);
  if (part->bytes.length) tell_delta(told->index, deltas[part->kind][0], deltas[part->kind][1], part_text(part), out);
  if (call && part->ends) end_block(told, out);
}

static void progress(struct answer *answer, size_t choice, struct buffer *out) {
  struct told *told = answer->state;
  size_t count = 0;
  const struct reply_part *parts = reply_parts(answer->choices[choice].reply, &count);
  for (size_t i = 0; told && i < count; i++) tell_part(told, &parts[i], out);
}

static void finish(struct answer *answer, size_t choice, struct buffer *out) {
  (void)choice;
  if (answer->state) end_block(answer->state, out);
}

static void close_stream(struct answer *answer, struct buffer *out) {
  answer_event(out, "message_delta",
               json_pack("{s:s, s:{s:s?, s:o}, s:o}", "type", "message_delta", "delta", "stop_reason",
                         stop_reason(answer), "stop_sequence", stop_sequence(answer), "usage", usage_json(answer)));
  answer_event(out, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

static void fail_stream(struct answer *answer, const struct api_error *error, struct buffer *out) {
  (void)answer;
  answer_event(out, "error", anthropic_error_json(error, NULL));
}

/* The arguments as they were written, if they are the text of an object: read and written again, long numbers would
 * change. */
static void append_input(const struct reply_part *part, struct buffer *out) {
  const char *text = buffer_text(&part->bytes);
  if (text[strspn(text, " \t\r\n")] == '{' && json_text_whole(text, part->bytes.length))
    buffer_append(out, text, part->bytes.length);
  else if (!json_append(out, json_pack("{s:o}", "partial_json", part_text(part))))
    out->failed = true;
}

static void append_block(const struct reply_part *part, struct buffer *out) {
  bool call = part->kind == REPLY_CALL;
  json_t *block = block_json(part, call ? json_null() : part_text(part));
  if (part->kind == REPLY_THOUGHT) json_object_set_new(block, "signature", json_string(SIGNATURE));
  if (call) json_object_del(block, "input");
  buffer_append_text(out, "{");
  if (!json_append_members(out, block)) out->failed = true;
  if (call) {
    buffer_append_text(out, ",\"input\":");
    append_input(part, out);
  }
  buffer_append_text(out, "}");
}

static void whole(struct answer *answer, struct buffer *out) {
  size_t count = 0;
  const struct reply_part *parts = reply_parts(answer->choices[0].reply, &count);
  json_t *message = message_json(answer, json_null());
  json_object_del(message, "content");
  buffer_append_text(out, "{");
  if (!json_append_members(out, message)) out->failed = true;
  buffer_append_text(out, ",\"content\":[");
  for (size_t i = 0; i < count; i++) {
    if (i) buffer_append_text(out, ",");
    append_block(&parts[i], out);
  }
  buffer_append_text(out, "]}");
}

static void release(struct answer *answer) {
  free(answer->state);
  answer->state = NULL;
}

const struct answer_dialect anthropic_dialect = {
    .id_prefix = "msg_",
    .sign_of_life = "event: ping\ndata: {\"type\": \"ping\"}\n\n",
    .open = open_stream,
    .progress = progress,
    .finish = finish,
    .close = close_stream,
    .fail = fail_stream,
    .whole = whole,
    .release = release,
};

#include "http/json.h"
#include "http/openai.h"

static const char CHUNK[] = "chat.completion.chunk";

/* A chunk with this delta, which is taken over, as the logprobs are. */
static void tell(const struct answer *answer, size_t choice, json_t *delta, json_t *logprobs, const char *finish_reason,
                 struct buffer *out) {
  openai_chunk(answer, CHUNK,
               json_pack("{s:I, s:o, s:o, s:s?}", "index", (json_int_t)choice, "delta", delta, "logprobs", logprobs,
                         "finish_reason", finish_reason),
               out);
}

static void open_stream(struct answer *answer, struct buffer *out) {
  for (size_t i = 0; i < answer->choice_count; i++)
    tell(answer, i, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), json_null(), NULL, out);
}

/* The call's first entry has its id and name, later ones have parts of the arguments only. */
static void tell_call(const struct answer *answer, size_t choice, const struct reply_part *part, json_t *logprobs,
                      struct buffer *out) {
  if (part->begins) {
    json_t *entry = json_pack("{s:I, s:s, s:s, s:{s:s, s:s}}", "index", (json_int_t)part->call, "id", part->id, "type",
                              "function", "function", "name", part->name, "arguments", "");
    tell(answer, choice, json_pack("{s:[o]}", "tool_calls", entry), logprobs, NULL, out);
    logprobs = NULL;
  }
  if (part->bytes.length) {
    json_t *entry = json_pack("{s:I, s:{s:o}}", "index", (json_int_t)part->call, "function", "arguments",
                              json_stringn(part->bytes.data, part->bytes.length));
    tell(answer, choice, json_pack("{s:[o]}", "tool_calls", entry), logprobs ? logprobs : json_null(), NULL, out);
    logprobs = NULL;
  }
  /* Tokens that only end the call have nothing to tell but these. */
  if (logprobs && !json_is_null(logprobs))
    tell(answer, choice, json_pack("{s:s}", "content", ""), logprobs, NULL, out);
  else
    json_decref(logprobs);
}

/* One chunk for each part: there are clients that look at the first thing in a chunk only. */
static void progress(struct answer *answer, size_t index, struct buffer *out) {
  struct choice *choice = &answer->choices[index];
  bool has_logprobs = choice->logprobs.value != NULL;
  json_t *logprobs = logprobs_take(&choice->logprobs);
  size_t count = 0;
  const struct reply_part *parts = reply_parts(choice->reply, &count);
  for (size_t i = 0; i < count; i++) {
    const struct reply_part *part = &parts[i];
    if (part->kind == REPLY_CALL)
      tell_call(answer, index, part, logprobs, out);
    else
      tell(answer, index,
           json_pack("{s:o}", part->kind == REPLY_THOUGHT ? "reasoning_content" : "content",
                     json_stringn(buffer_text(&part->bytes), part->bytes.length)),
           logprobs, NULL, out);
    logprobs = json_null();
    has_logprobs = false;
  }
  if (has_logprobs)
    tell(answer, index, json_pack("{s:s}", "content", ""), logprobs, NULL, out);
  else
    json_decref(logprobs);
}

static void finish(struct answer *answer, size_t index, struct buffer *out) {
  tell(answer, index, json_object(), json_null(), openai_finish_reason(&answer->choices[index]), out);
}

static void close_stream(struct answer *answer, struct buffer *out) { openai_close(answer, CHUNK, out); }

static json_t *call_json(const struct reply_part *part) {
  return json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", part->id, "type", "function", "function", "name", part->name,
                   "arguments", json_stringn(buffer_text(&part->bytes), part->bytes.length));
}

static json_t *message_json(const struct choice *choice) {
  struct buffer text = {0}, thought = {0};
  json_t *calls = NULL;
  bool failed = false;
  size_t count = 0;
  const struct reply_part *parts = reply_parts(choice->reply, &count);
  for (size_t i = 0; i < count; i++) {
    const struct reply_part *part = &parts[i];
    if (part->kind == REPLY_CALL) {
      if (!calls) calls = json_array();
      failed |= json_array_append_new(calls, call_json(part)) != 0;
    } else {
      buffer_append(part->kind == REPLY_TEXT ? &text : &thought, buffer_text(&part->bytes), part->bytes.length);
    }
  }
  failed |= buffer_failed(&text) || buffer_failed(&thought);
  json_t *content = calls && !text.length ? json_null() : json_stringn(buffer_text(&text), text.length);
  json_t *reasoning = thought.length ? json_stringn(thought.data, thought.length) : NULL;
  json_t *message = json_pack("{s:s, s:o, s:n, s:o*, s:o*}", "role", "assistant", "content", content, "refusal",
                              "reasoning_content", reasoning, "tool_calls", calls);
  buffer_free(&text);
  buffer_free(&thought);
  if (!failed) return message;
  json_decref(message);
  return NULL;
}

static void whole(struct answer *answer, struct buffer *out) {
  json_t *choices = json_array();
  for (size_t i = 0; i < answer->choice_count; i++) {
    struct choice *choice = &answer->choices[i];
    json_t *entry =
        json_pack("{s:I, s:o, s:o, s:s}", "index", (json_int_t)i, "message", message_json(choice), "logprobs",
                  logprobs_take(&choice->logprobs), "finish_reason", openai_finish_reason(choice));
    if (json_array_append_new(choices, entry) != 0) out->failed = true;
  }
  json_t *response = openai_envelope(answer, "chat.completion", choices);
  if (json_object_set_new(response, "usage", openai_usage(answer)) != 0) out->failed = true;
  if (!json_append(out, response)) out->failed = true;
}

const struct answer_dialect openai_chat_dialect = {
    .id_prefix = "chatcmpl-",
    .sign_of_life = ": still working\n\n",
    .open = open_stream,
    .progress = progress,
    .finish = finish,
    .close = close_stream,
    .fail = openai_fail,
    .whole = whole,
};

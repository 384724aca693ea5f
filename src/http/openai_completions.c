#include "http/json.h"
#include "http/openai.h"

static const char OBJECT[] = "text_completion";

static json_t *choice_json(struct answer *answer, size_t index, bool ended) {
  struct choice *choice = &answer->choices[index];
  size_t count = 0;
  struct buffer text = {0};
  const struct reply_part *parts = reply_parts(choice->reply, &count);
  for (size_t i = 0; i < count; i++) buffer_append(&text, buffer_text(&parts[i].bytes), parts[i].bytes.length);
  json_t *json =
      json_pack("{s:I, s:o, s:o, s:s?}", "index", (json_int_t)index, "text",
                buffer_failed(&text) ? NULL : json_stringn(buffer_text(&text), text.length), "logprobs",
                logprobs_take(&choice->logprobs), "finish_reason", ended ? openai_finish_reason(choice) : NULL);
  buffer_free(&text);
  return json;
}

static void open_stream(struct answer *answer, struct buffer *out) { (void)answer, (void)out; }

static void progress(struct answer *answer, size_t index, struct buffer *out) {
  size_t count = 0;
  reply_parts(answer->choices[index].reply, &count);
  if (count || answer->choices[index].logprobs.value)
    openai_chunk(answer, OBJECT, choice_json(answer, index, false), out);
}

static void finish(struct answer *answer, size_t index, struct buffer *out) {
  openai_chunk(answer, OBJECT, choice_json(answer, index, true), out);
}

static void close_stream(struct answer *answer, struct buffer *out) { openai_close(answer, OBJECT, out); }

static void whole(struct answer *answer, struct buffer *out) {
  json_t *choices = json_array();
  for (size_t i = 0; i < answer->choice_count; i++)
    if (json_array_append_new(choices, choice_json(answer, i, true)) != 0) out->failed = true;
  json_t *response = openai_envelope(answer, OBJECT, choices);
  if (json_object_set_new(response, "usage", openai_usage(answer)) != 0) out->failed = true;
  if (!json_append(out, response)) out->failed = true;
}

const struct answer_dialect openai_completions_dialect = {
    .id_prefix = "cmpl-",
    .sign_of_life = ": still working\n\n",
    .open = open_stream,
    .progress = progress,
    .finish = finish,
    .close = close_stream,
    .fail = openai_fail,
    .whole = whole,
};

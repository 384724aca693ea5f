#include "http/openai.h"

#include "http/json.h"

json_t *openai_envelope(const struct answer *answer, const char *object, json_t *choices) {
  return json_pack("{s:s, s:s, s:I, s:o, s:s?, s:o}", "id", answer->id, "object", object, "created",
                   (json_int_t)answer->created, "model", json_text(answer->model), "system_fingerprint",
                   answer->fingerprint, "choices", choices);
}

json_t *openai_usage(const struct answer *answer) {
  struct answer_usage usage = answer_usage(answer);
  return json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I, s:I, s:I}}", "prompt_tokens", (json_int_t)usage.prompt_tokens,
                   "completion_tokens", (json_int_t)usage.completion_tokens, "total_tokens",
                   (json_int_t)usage.prompt_tokens + (json_int_t)usage.completion_tokens, "prompt_tokens_details",
                   "cached_tokens", (json_int_t)usage.cached_tokens, "completion_tokens_details", "reasoning_tokens",
                   (json_int_t)usage.thought_tokens, "accepted_prediction_tokens", (json_int_t)usage.draft_accepted,
                   "rejected_prediction_tokens", (json_int_t)(usage.drafted_tokens - usage.draft_accepted));
}

const char *openai_finish_reason(const struct choice *choice) {
  if (choice->end == END_NONE) return NULL;
  if (choice->end == END_LENGTH) return "length";
  return reply_calls(choice->reply) ? "tool_calls" : "stop";
}

void openai_chunk(const struct answer *answer, const char *object, json_t *choice, struct buffer *out) {
  json_t *chunk = openai_envelope(answer, object, json_pack("[o]", choice));
  if (answer->request->include_usage && chunk) json_object_set_new(chunk, "usage", json_null());
  answer_event(out, NULL, chunk);
}

void openai_close(const struct answer *answer, const char *object, struct buffer *out) {
  if (answer->request->include_usage) {
    json_t *chunk = openai_envelope(answer, object, json_array());
    if (json_object_set_new(chunk, "usage", openai_usage(answer)) != 0) out->failed = true;
    answer_event(out, NULL, chunk);
  }
  buffer_append_text(out, "data: [DONE]\n\n");
}

void openai_fail(struct answer *answer, const struct api_error *error, struct buffer *out) {
  (void)answer;
  answer_event(out, NULL, api_error_json(error));
}

json_t *openai_model(const char *name, int64_t created, uint32_t context) {
  return json_pack("{s:o, s:s, s:I, s:s, s:I}", "id", json_text(name), "object", "model", "created",
                   (json_int_t)created, "owned_by", "kaiju", "max_model_len", (json_int_t)context);
}

#include "http/openai.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "http/json.h"

int completion_identify(struct completion_identity *identity, enum completion_endpoint endpoint, const char *model) {
  unsigned char random[12];
  if (getentropy(random, sizeof random) != 0) return -1;
  int length = snprintf(identity->id, sizeof identity->id, endpoint == ENDPOINT_CHAT ? "chatcmpl-" : "cmpl-");
  for (size_t i = 0; i < sizeof random; i++)
    length += snprintf(identity->id + length, sizeof identity->id - (size_t)length, "%02x", random[i]);
  identity->endpoint = endpoint;
  identity->created = (int64_t)time(NULL);
  identity->model = model;
  return 0;
}

static json_t *usage_json(const struct completion_usage *usage) {
  return json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I, s:I}}", "prompt_tokens", (json_int_t)usage->prompt_tokens,
                   "completion_tokens", (json_int_t)usage->completion_tokens, "total_tokens",
                   (json_int_t)usage->prompt_tokens + (json_int_t)usage->completion_tokens, "prompt_tokens_details",
                   "cached_tokens", (json_int_t)usage->cached_tokens, "completion_tokens_details",
                   "accepted_prediction_tokens", (json_int_t)usage->draft_accepted, "rejected_prediction_tokens",
                   (json_int_t)usage->drafted_tokens - (json_int_t)usage->draft_accepted);
}

static json_t *envelope(const struct completion_identity *identity, const char *object, json_t *choices) {
  return json_pack("{s:s, s:s, s:I, s:o, s:s?, s:o}", "id", identity->id, "object", object, "created",
                   (json_int_t)identity->created, "model", json_text(identity->model), "system_fingerprint",
                   identity->fingerprint, "choices", choices);
}

json_t *openai_response(const struct completion_identity *identity, const char *text, size_t length, json_t *calls,
                        json_t *logprobs, const char *finish_reason, const struct completion_usage *usage) {
  json_t *content = calls && !length ? json_null() : json_stringn(text, length);
  json_t *response = NULL;
  if (identity->endpoint == ENDPOINT_CHAT) {
    json_t *choice =
        json_pack("{s:i, s:{s:s, s:o, s:n, s:o*}, s:o, s:s}", "index", 0, "message", "role", "assistant", "content",
                  content, "refusal", "tool_calls", calls, "logprobs", logprobs, "finish_reason", finish_reason);
    response = envelope(identity, "chat.completion", json_pack("[o]", choice));
  } else {
    json_t *choice = json_pack("{s:i, s:o, s:o, s:s}", "index", 0, "text", content, "logprobs", logprobs,
                               "finish_reason", finish_reason);
    response = envelope(identity, "text_completion", json_pack("[o]", choice));
  }
  if (json_object_set_new(response, "usage", usage_json(usage)) == 0) return response;
  json_decref(response);
  return NULL;
}

json_t *openai_chunk(const struct completion_identity *identity, bool first, const char *text, size_t length,
                     json_t *logprobs, const char *finish_reason, bool usage_follows) {
  json_t *chunk = NULL;
  if (identity->endpoint == ENDPOINT_CHAT) {
    json_t *delta = json_object();
    if (first) json_object_set_new(delta, "role", json_string("assistant"));
    if (text) json_object_set_new(delta, "content", json_stringn(text, length));
    json_t *choice = json_pack("{s:i, s:o, s:o, s:s?}", "index", 0, "delta", delta, "logprobs", logprobs,
                               "finish_reason", finish_reason);
    chunk = envelope(identity, "chat.completion.chunk", json_pack("[o]", choice));
  } else {
    json_t *choice = json_pack("{s:i, s:o, s:o, s:s?}", "index", 0, "text", json_stringn(text ? text : "", length),
                               "logprobs", logprobs, "finish_reason", finish_reason);
    chunk = envelope(identity, "text_completion", json_pack("[o]", choice));
  }
  if (usage_follows) json_object_set_new(chunk, "usage", json_null());
  return chunk;
}

json_t *openai_call_chunk(const struct completion_identity *identity, json_t *call, bool usage_follows) {
  json_t *choice =
      json_pack("{s:i, s:{s:[o]}, s:n, s:n}", "index", 0, "delta", "tool_calls", call, "logprobs", "finish_reason");
  json_t *chunk = envelope(identity, "chat.completion.chunk", json_pack("[o]", choice));
  if (usage_follows) json_object_set_new(chunk, "usage", json_null());
  return chunk;
}

json_t *openai_usage_chunk(const struct completion_identity *identity, const struct completion_usage *usage) {
  const char *object = identity->endpoint == ENDPOINT_CHAT ? "chat.completion.chunk" : "text_completion";
  json_t *chunk = envelope(identity, object, json_array());
  json_object_set_new(chunk, "usage", usage_json(usage));
  return chunk;
}

json_t *openai_model(const char *name, int64_t created, uint32_t context) {
  return json_pack("{s:o, s:s, s:I, s:s, s:I}", "id", json_text(name), "object", "model", "created",
                   (json_int_t)created, "owned_by", "kaiju", "max_model_len", (json_int_t)context);
}

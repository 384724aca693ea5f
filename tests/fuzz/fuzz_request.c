/* The JSON of a request to its checked form; the first byte picks the endpoint. */
// links: http_server
#include <stdlib.h>

#include "http/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

static void check_request(const struct completion_request *request, const struct config *config) {
  const struct sampling *sampling = &request->sampling;
  check(sampling->temperature >= 0 && sampling->temperature <= 10);
  check(sampling->top_p > 0 && sampling->top_p <= 1 && sampling->min_p >= 0 && sampling->min_p <= 1);
  check(sampling->repetition_penalty > 0 && sampling->bias_count <= SAMPLING_MAX_BIAS);
  check(sampling->top_logprobs >= -1 && sampling->top_logprobs <= SAMPLING_MAX_TOP_LOGPROBS);
  for (size_t i = 0; i < sampling->bias_count; i++) check(sampling->bias[i].token < config->vocabulary);
  for (size_t i = 0; i < request->stop_count; i++) check(request->stops[i][0] != '\0');
  size_t prompts = request->endpoint == ENDPOINT_COMPLETIONS ? request->prompt_count : 1;
  check(request->choices > 0 && prompts > 0 && prompts * request->choices <= REQUEST_MAX_CHOICES);
  for (size_t i = 0; i < request->prompt_count; i++) {
    const struct request_prompt *prompt = &request->prompts[i];
    check((prompt->tokens && prompt->token_count > 0) != (prompt->text && prompt->length > 0));
    for (size_t j = 0; j < prompt->token_count; j++) check(prompt->tokens[j] < config->vocabulary);
  }
  if (request->endpoint == ENDPOINT_COMPLETIONS) return;
  check(json_array_size(request->messages) > 0);
  for (size_t i = 0; i < json_array_size(request->messages); i++) {
    const json_t *message = json_array_get(request->messages, i);
    check(json_is_string(json_object_get(message, "role")) && json_is_string(json_object_get(message, "content")));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct config config = {
      .vocabulary = 1000, .generation = {.sample = true, .temperature = 1, .top_p = 1, .repetition_penalty = 1}};
  if (size == 0) return 0;
  struct completion_request *request = NULL;
  struct api_error error;
  enum completion_endpoint endpoint = data[0] & 1 ? ENDPOINT_COMPLETIONS : ENDPOINT_CHAT;
  if (completion_request_parse(&request, endpoint, (const char *)data + 1, size - 1, &config, &error) == 0) {
    check_request(request, &config);
    completion_request_free(request);
  } else {
    check(!request && error.status == 400 && error.message[0]);
    json_t *answer = api_error_json(&error);
    check(answer != NULL);
    json_decref(answer);
  }
  return 0;
}

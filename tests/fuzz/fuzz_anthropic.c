/* Bodies of /v1/messages and /v1/messages/count_tokens to chat requests; the first byte picks which. */
// links: http_server
#include <stdlib.h>
#include <string.h>

#include "http/anthropic.h"
#include "http/anthropic_request.h"
#include "http/json.h"
#include "http/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

static void check_error(const struct api_error *error) {
  check(error->status == 400 && error->message[0]);
  json_t *json = anthropic_error_json(error, NULL);
  check(json != NULL);
  json_decref(json);
}

/* Every message is one that the chat API takes, and no two turns of one role follow each other. */
static void check_messages(const json_t *messages) {
  const char *before = "";
  check(json_array_size(messages) > 0);
  for (size_t i = 0; i < json_array_size(messages); i++) {
    const json_t *message = json_array_get(messages, i);
    const char *role = json_string_value(json_object_get(message, "role"));
    check(role && json_is_string(json_object_get(message, "content")));
    check(strcmp(role, "tool") == 0 || strcmp(role, before) != 0);
    before = role;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct config config = {
      .vocabulary = 1000, .generation = {.sample = true, .temperature = 1, .top_p = 1, .repetition_penalty = 1}};
  if (size == 0) return 0;
  bool counts = data[0] & 1;
  struct api_error error;
  json_t *object = json_decode((const char *)data + 1, size - 1, &error);
  if (!object) {
    check_error(&error);
    return 0;
  }
  json_t *chat = anthropic_translate(object, counts, &error);
  if (!chat) {
    check_error(&error);
    json_decref(object);
    return 0;
  }
  check_messages(json_object_get(chat, "messages"));
  check(counts || json_object_get(chat, "max_tokens"));
  struct completion_request *request = NULL;
  if (anthropic_request(&request, object, counts, &config, &error)) {
    check_error(&error);
    /* What is checked here once more was right: errors speak of this API's fields. */
    check(strncmp(error.param, "messages", 8) != 0 && strcmp(error.param, "stop") != 0);
    check(strncmp(error.param, "tool", 4) != 0 && !strstr(error.message, "response_format"));
  }
  completion_request_free(request);
  json_decref(chat);
  json_decref(object);
  return 0;
}

#include "http/anthropic.h"

#include <string.h>
#include <time.h>

#include "http/anthropic_request.h"
#include "http/json.h"
#include "http/request.h"

static const char *error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

json_t *anthropic_error_json(const struct api_error *error, const char *request_id) {
  json_t *param = error->param[0] ? json_text(error->param) : NULL;
  return json_pack("{s:s, s:{s:s, s:o, s:{s:s*, s:o*}}, s:s*}", "type", "error", "error", "type",
                   error_type(error->status), "message", json_text(error->message), "details", "error_code",
                   error->code, "param", param, "request_id", request_id);
}

bool anthropic_asked(const char *line, size_t length) {
  static const char path[] = "/v1/messages";
  size_t size = sizeof path - 1;
  const char *space = memchr(line, ' ', length);
  size_t left = space ? length - (size_t)(space + 1 - line) : 0;
  if (left < size || memcmp(space + 1, path, size) != 0) return false;
  if (left == size) return true;
  char next = space[1 + size];
  return next == ' ' || next == '?' || next == '/';
}

void anthropic_add_to_model(json_t *model, int64_t created, uint32_t context) {
  char date[32];
  time_t seconds = (time_t)created;
  struct tm utc;
  gmtime_r(&seconds, &utc);
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
  json_t *more = json_pack("{s:s, s:O, s:s, s:s, s:I, s:I}", "type", "model", "display_name",
                           json_object_get(model, "id"), "created_at", date, "lifecycle", "active", "max_input_tokens",
                           (json_int_t)context, "max_tokens", (json_int_t)context);
  json_object_update(model, more);
  json_decref(more);
}

void anthropic_add_to_models(json_t *models) {
  const json_t *data = json_object_get(models, "data");
  size_t count = json_array_size(data);
  json_t *first = json_object_get(json_array_get(data, 0), "id");
  json_t *last = json_object_get(json_array_get(data, count ? count - 1 : 0), "id");
  json_t *more = json_pack("{s:b, s:O?, s:O?}", "has_more", 0, "first_id", first, "last_id", last);
  json_object_update(models, more);
  json_decref(more);
}

void anthropic_count_tokens(const struct preparer_options *options, struct preparation *preparation) {
  struct api_error *error = &preparation->error;
  json_t *object = json_decode(buffer_text(&preparation->body), preparation->body.length, error);
  if (!object) return;
  struct completion_request *request = NULL;
  struct token_list tokens = {0};
  if (anthropic_request(&request, object, true, options->config, error) == 0 &&
      prepare_chat_tokens(options, request, &tokens, error) == 0)
    buffer_append_format(&preparation->answer, "{\"input_tokens\":%zu}", tokens.count);
  if (buffer_failed(&preparation->answer)) api_fail_memory(error);
  token_list_free(&tokens);
  completion_request_free(request);
  json_decref(object);
}

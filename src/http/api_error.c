#include "http/api_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "http/json.h"

enum { RETRY_AFTER_SECONDS = 5 };

int api_fail(struct api_error *error, int status, const char *code, const char *param, const char *format, ...) {
  error->status = status;
  error->code = code;
  error->retry_after = status == 503 ? RETRY_AFTER_SECONDS : 0;
  snprintf(error->param, sizeof error->param, "%s", param ? param : "");
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  return -1;
}

int api_fail_memory(struct api_error *error) { return api_fail(error, 503, "out_of_memory", NULL, "out of memory"); }

int api_fail_from(struct api_error *error, const struct kj_error *cause) {
  int status = 500;
  const char *code = "internal_error";
  switch (cause->code) {
    case KJ_INVALID:
      status = 400;
      code = "invalid_request";
      break;
    case KJ_UNSUPPORTED:
      status = 400;
      code = "unsupported";
      break;
    case KJ_NETWORK:
    case KJ_REFUSED:
    case KJ_TIMEOUT:
      status = 503;
      code = "node_unavailable";
      break;
    case KJ_BUSY:
      status = 429;
      code = "rate_limit_exceeded";
      break;
    case KJ_CANCELLED:
      status = 503;
      code = "stopping";
      break;
    case KJ_MEMORY:
      status = 503;
      code = "out_of_memory";
      break;
    default:
      break;
  }
  api_fail(error, status, code, NULL, "%s", cause->message);
  if (status == 429) error->retry_after = RETRY_AFTER_SECONDS;
  return -1;
}

static const char *error_type(int status) {
  if (status == 503) return "service_unavailable";
  if (status >= 500) return "server_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  return "invalid_request_error";
}

json_t *api_error_json(const struct api_error *error) {
  return json_pack("{s:{s:o, s:s, s:o, s:s?}}", "error", "message", json_text(error->message), "type",
                   error_type(error->status), "param", error->param[0] ? json_text(error->param) : json_null(), "code",
                   error->code);
}

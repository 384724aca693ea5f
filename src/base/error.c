#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int kj_fail(struct kj_error *error, enum kj_code code, const char *format, ...) {
  if (error) {
    va_list arguments;
    va_start(arguments, format);
    error->code = code;
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
  }
  return code;
}

int kj_fail_context(struct kj_error *error, const char *format, ...) {
  if (!error) return KJ_INTERNAL;
  char context[sizeof error->message], joined[sizeof error->message * 2 + 3];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(context, sizeof context, format, arguments);
  va_end(arguments);
  snprintf(joined, sizeof joined, "%s: %s", context, error->message);
  snprintf(error->message, sizeof error->message, "%.*s", (int)sizeof error->message - 1, joined);
  return error->code;
}

int kj_fail_memory(struct kj_error *error, const char *what) {
  return kj_fail(error, KJ_MEMORY, "out of memory while allocating %s", what);
}

int kj_fail_errno(struct kj_error *error, const char *what, const char *path) {
  int number = errno;
  return kj_fail(error, number == ENOENT ? KJ_NOT_FOUND : KJ_IO, "%s: cannot %s: %s", path, what, strerror(number));
}

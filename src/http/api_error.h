/* What went wrong with an API request: an HTTP status and, in OpenAI's shape,
 * {"error": {"message": …, "type": …, "param": …, "code": …}}. Anthropic's shape is in http/anthropic.h.
 */
#ifndef KAIJU_HTTP_API_ERROR_H
#define KAIJU_HTTP_API_ERROR_H

#include <jansson.h>

#include "base/buffer.h"
#include "base/error.h"

struct api_error {
  int status;       /* HTTP; the error's type follows from it */
  const char *code; /* static text for programs, or NULL */
  int retry_after;  /* seconds for a Retry-After header; 0: none */
  char param[160];  /* path of the field that is wrong, "messages[2].content"; "": none */
  char message[1000];
};

/* Fills `error` and returns -1, so that a failing path reads `return api_fail(error, …);`. `param` may be NULL. A 503
 * says when to come back. */
int api_fail(struct api_error *error, int status, const char *code, const char *param, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* The same for memory that ran out. */
int api_fail_memory(struct api_error *error);
/* What an error of the engine, the tokenizer or the template means for the client. */
int api_fail_from(struct api_error *error, const struct kj_error *cause);

/* The JSON object {"error": …}; NULL only without memory. */
json_t *api_error_json(const struct api_error *error);

#endif

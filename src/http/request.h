/* The JSON body of a generation request to a checked request: every field has its type and range, unknown fields are
 * ignored, fields whose effect is not implemented are refused rather than ignored. docs/api.md lists them.
 *
 * A pure function of the body (a missing seed is left to the caller), safe on any thread.
 */
#ifndef KAIJU_HTTP_REQUEST_H
#define KAIJU_HTTP_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/api_error.h"
#include "model/config.h"
#include "sched/sampler.h"
#include "text/tool_form.h"
#include "text/tool_schemas.h"

enum completion_endpoint { ENDPOINT_CHAT, ENDPOINT_COMPLETIONS };

enum { REQUEST_MAX_STOPS = 16, REQUEST_MAX_STOP_BYTES = 1024, REQUEST_DEFAULT_COMPLETION_TOKENS = 16 };

struct completion_request {
  enum completion_endpoint endpoint;
  char *model; /* as asked for, or NULL */
  bool stream, include_usage, ignore_eos;
  bool ignore_cache;        /* "cache_prompt": false */
  bool has_seed;            /* false: sampling.seed is to be drawn */
  uint32_t max_tokens;      /* 0: until the context is full */
  struct sampling sampling; /* owns its bias */
  char *stops[REQUEST_MAX_STOPS];
  size_t stop_count;

  /* ENDPOINT_CHAT */
  json_t *messages;           /* as messages_check returns them */
  json_t *tools;              /* or NULL */
  json_t *template_variables; /* chat_template_kwargs, or NULL */
  bool only_one_call;         /* "parallel_tool_calls": false */
  /* What the answer is read with, if it may hold calls that can be read: set by http/prepare.h. */
  enum tool_form tool_form;
  struct tool_schemas *tool_schemas; /* or NULL */

  /* ENDPOINT_COMPLETIONS: text, or token ids if `tokens` is not NULL */
  char *prompt;
  size_t prompt_length;
  uint32_t *tokens;
  size_t token_count;
};

/* 0, or -1 and `error`. `config` gives the defaults of sampling and the size of the vocabulary. */
int completion_request_parse(struct completion_request **request, enum completion_endpoint endpoint, const char *body,
                             size_t length, const struct config *config, struct api_error *error);
/* Releases messages, tools and prompt, which the tokens stand for from then on. */
void completion_request_drop_prompt(struct completion_request *request);
void completion_request_free(struct completion_request *request); /* NULL is allowed */

#endif

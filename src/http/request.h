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

#include "grammar/constraint.h"
#include "http/api_error.h"
#include "http/constraint_fields.h"
#include "model/config.h"
#include "sched/sampler.h"
#include "text/thought.h"
#include "text/tool_form.h"
#include "text/tool_schemas.h"

enum completion_endpoint { ENDPOINT_CHAT, ENDPOINT_COMPLETIONS, ENDPOINT_RESPONSES, ENDPOINT_MESSAGES };

enum {
  REQUEST_MAX_STOPS = 16,
  REQUEST_MAX_STOP_BYTES = 1024,
  REQUEST_DEFAULT_COMPLETION_TOKENS = 16,
  REQUEST_MAX_CHOICES = 128,        /* of all prompts together */
  REQUEST_MAX_ECHO_BYTES = 32 << 20 /* of prompts that are repeated, in all choices together */
};

/* A prompt of ENDPOINT_COMPLETIONS: text, or token ids if `tokens` is not NULL. */
struct request_prompt {
  char *text;
  size_t length;
  uint32_t *tokens;
  size_t token_count;
};

struct completion_request {
  enum completion_endpoint endpoint;
  char *model; /* as asked for, or NULL */
  bool stream, include_usage, ignore_eos;
  bool ignore_cache;        /* "cache_prompt": false */
  bool has_seed;            /* false: sampling.seed is to be drawn */
  uint32_t choices;         /* n: of each prompt */
  uint32_t max_tokens;      /* 0: until the context is full */
  struct sampling sampling; /* owns its bias */
  char *stops[REQUEST_MAX_STOPS];
  size_t stop_count;
  struct output_constraint constraint; /* what the answer must be */
  struct grammar_masks *masks;         /* the same compiled, by http/prepare.h; or NULL */
  json_t *mirror;                      /* fields that the API's answer repeats, an object; or NULL */

  /* All but ENDPOINT_COMPLETIONS */
  json_t *messages;           /* as messages_check returns them */
  json_t *tools;              /* or NULL */
  json_t *template_variables; /* chat_template_kwargs, or NULL */
  char *continuation;         /* the beginning of the answer, which is not a message then; or NULL */
  bool only_one_call;         /* "parallel_tool_calls": false */
  /* What the answer is read with, set by http/prepare.h: */
  enum tool_form tool_form;          /* calls that can be read */
  struct tool_schemas *tool_schemas; /* or NULL: all is text */
  enum thought_place thought;

  /* ENDPOINT_COMPLETIONS */
  struct request_prompt *prompts;
  size_t prompt_count;
  char *suffix; /* what follows the text that is to be filled in; or NULL */
  size_t suffix_length;
  bool echo;
  bool only_echo; /* "max_tokens": 0 */
};

/* 0, or -1 and `error`. `config` gives the defaults of sampling and the size of the vocabulary. Requests of
 * ENDPOINT_RESPONSES, which may go on from others, are parsed by http/responses_request.h. */
int completion_request_parse(struct completion_request **request, enum completion_endpoint endpoint, const char *body,
                             size_t length, const struct config *config, struct api_error *error);
/* Releases what the prompt was made of and the tokens stand for. */
void completion_request_drop_prompt(struct completion_request *request);
void completion_request_free(struct completion_request *request); /* NULL is allowed */

/* The same from the JSON object of a chat request: what other APIs' requests are translated to. The object is not kept.
 */
int completion_request_from(struct completion_request **request, enum completion_endpoint endpoint,
                            const json_t *object, const struct config *config, struct api_error *error);

#endif

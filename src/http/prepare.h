/* From a request's body to the tokens of its prompt, on a thread of its own: parsing, the chat template and the
 * tokenizer take a second for a prompt of a million characters, in which the loop must go on answering.
 */
#ifndef KAIJU_HTTP_PREPARE_H
#define KAIJU_HTTP_PREPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "http/constraint_compiler.h"
#include "http/prompt_lines.h"
#include "http/request.h"
#include "http/response_store.h"
#include "text/chat.h"
#include "text/tokenizer.h"
#include "text/tool_form.h"

struct preparer;

struct preparer_options {
  const struct tokenizer *tokenizer;
  const struct chat_template *chat;         /* NULL: chat completions answer 400 */
  enum tool_form tool_form;                 /* of the template */
  bool thinks;                              /* the template tells thoughts from answers */
  const struct prompt_lines *dropped_lines; /* of system messages, or NULL */
  struct response_store *responses;         /* what /v1/responses goes on from, or NULL */
  struct constraint_compiler *constraints;  /* NULL: none can be kept */
  const struct config *config;
  uint32_t context;            /* tokens of a sequence at most */
  void (*wake)(void *context); /* called from the preparer's thread when a preparation is done */
  void *wake_context;
};

struct preparation;
/* Work that is not a generation's: fills `answer` or `error`. */
typedef void preparer_work(const struct preparer_options *options, struct preparation *preparation);

struct preparation {
  preparer_work *work; /* or NULL: a generation's, as `prepare` does it */
  enum completion_endpoint endpoint;
  struct buffer body;
  void *owner; /* the loop's; NULL once nobody waits */
  /* The result: `request` and the tokens of its prompts, or `request` NULL and `error`. */
  struct completion_request *request;
  struct token_list *prompts; /* [prompt_count] */
  size_t prompt_count;
  struct buffer answer;   /* of `work` */
  struct api_error error; /* its status is 0 after success */
  struct preparation *next;
};

int preparer_create(struct preparer **preparer, const struct preparer_options *options, struct kj_error *error);
/* Joins the thread; preparations that nobody has taken are freed. NULL is allowed. */
void preparer_destroy(struct preparer *preparer);
void preparer_submit(struct preparer *preparer, struct preparation *preparation);
/* Nobody waits for it any more: it is freed at once if it has not begun, otherwise it comes without an owner. */
void preparer_abandon(struct preparer *preparer, struct preparation *preparation);
/* The next that is done, or NULL; in the order of submission. */
struct preparation *preparer_take(struct preparer *preparer);
void preparation_free(struct preparation *preparation);

/* Appends the prompt of a chat request, as the template renders it; 0, or -1 and `error`. */
int prepare_chat_prompt(const struct preparer_options *options, const struct completion_request *request,
                        struct buffer *prompt, struct api_error *error);

/* Appends its tokens, and notes in the request how the answer is to be read. */
int prepare_chat_tokens(const struct preparer_options *options, struct completion_request *request,
                        struct token_list *tokens, struct api_error *error);

/* The work of a generation itself, without a thread: fills the result. */
void prepare(const struct preparer_options *options, struct preparation *preparation);

#endif

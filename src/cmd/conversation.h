/* A conversation in the terminal's own process: messages in, streamed text out, over an engine that runs on another
 * thread. One reply at a time; conversation_cancel may be called from any thread.
 */
#ifndef KAIJU_CMD_CONVERSATION_H
#define KAIJU_CMD_CONVERSATION_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "sched/engine.h"
#include "text/chat.h"
#include "text/tokenizer.h"

struct conversation;

struct conversation_options {
  struct engine *engine; /* borrowed, as all below */
  const struct tokenizer *tokenizer;
  const struct chat_template *chat; /* NULL: prompts are completed as they are */
  const char *system;               /* system message or NULL */
  struct sampling sampling;
  bool seed_given;     /* else every reply gets a random seed */
  uint32_t max_tokens; /* 0: until the context is full */
};

struct reply_statistics {
  uint32_t prompt_tokens, completion_tokens;
  double first_token_seconds; /* from the request to the first token */
  double tokens_per_second;   /* of the tokens after the first */
  enum finish finish;
};

int conversation_create(struct conversation **conversation, const struct conversation_options *options,
                        struct kj_error *error);
void conversation_free(struct conversation *conversation);

/* Sends `prompt` as the next user message and writes the reply to `file` as it comes. A reply that was cancelled or cut
 * stays in the history as far as it went; one that failed leaves no trace. */
int conversation_say(struct conversation *conversation, const char *prompt, FILE *file,
                     struct reply_statistics *statistics, struct kj_error *error);

/* Stops the reply that is being written; false if there is none. */
bool conversation_cancel(struct conversation *conversation);

#endif

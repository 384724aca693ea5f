/* An answer in the making, and the APIs that tell it.
 *
 * An answer has one or several choices, each the model's reply to a prompt. A dialect puts it in an API's words: as a
 * stream of server-sent events while the choices come, or as a whole at the end. Dialects append to a buffer and
 * nothing else; memory that runs out shows in the buffer's `failed`. http/generation.h drives them, on the loop's
 * thread.
 */
#ifndef KAIJU_HTTP_ANSWER_H
#define KAIJU_HTTP_ANSWER_H

#include <jansson.h>
#include <stdint.h>

#include "base/buffer.h"
#include "http/api_error.h"
#include "http/logprobs.h"
#include "http/reply.h"
#include "http/request.h"
#include "http/response_store.h"

enum answer_end {
  END_NONE,        /* more comes */
  END_TURN,        /* the model ended its turn, or one call was wanted and is complete */
  END_STOP_STRING, /* choice.stop */
  END_LENGTH       /* max_tokens or the context is full */
};

struct choice_usage {
  uint32_t prompt_tokens, completion_tokens;
  uint32_t cached_tokens;                  /* of the prompt, taken from the prefix cache */
  uint32_t thought_tokens;                 /* of the completion */
  uint32_t drafted_tokens, draft_accepted; /* proposed by speculative decoding, and confirmed by the model */
};

struct choice {
  size_t prompt;            /* of the request's prompts, from 0 */
  struct reply *reply;      /* what has come since the last progress; of a whole answer all */
  struct logprobs logprobs; /* the same */
  struct choice_usage usage;
  enum answer_end end;
  const char *stop; /* END_STOP_STRING: which, not ended by NUL */
  size_t stop_length;
};

struct answer_usage {
  uint64_t prompt_tokens, completion_tokens, cached_tokens, thought_tokens, drafted_tokens, draft_accepted;
};

struct answer {
  const struct answer_dialect *dialect;
  const struct completion_request *request;
  char id[64];                      /* with the dialect's prefix */
  int64_t created;                  /* seconds since 1970 */
  const char *model;                /* as the client called it */
  const char *fingerprint;          /* or NULL */
  struct response_store *responses; /* or NULL */
  struct choice *choices;           /* [choice_count], in the order of the prompts */
  size_t choice_count;
  void *state; /* the dialect's own, from `open` on; NULL before */
};

struct answer_dialect {
  const char *id_prefix;    /* "chatcmpl-" */
  const char *sign_of_life; /* what a stream says in a long silence, whole lines; or NULL and: */
  void (*live)(struct answer *answer, struct buffer *out);
  /* The first events: sent before the prompt is computed, so that clients with an idle timeout see a sign of life. */
  void (*open)(struct answer *answer, struct buffer *out);
  /* New parts and log-probabilities of a choice; the caller clears the reply's parts afterwards. */
  void (*progress)(struct answer *answer, size_t choice, struct buffer *out);
  /* The choice has ended; its last progress was told. */
  void (*finish)(struct answer *answer, size_t choice, struct buffer *out);
  /* All choices have. */
  void (*close)(struct answer *answer, struct buffer *out);
  /* Ends a stream instead of finish and close. */
  void (*fail)(struct answer *answer, const struct api_error *error, struct buffer *out);
  /* The body of an answer that is not streamed. */
  void (*whole)(struct answer *answer, struct buffer *out);
  /* Frees `state`; may be NULL. */
  void (*release)(struct answer *answer);
};

const struct answer_dialect *answer_dialect(enum completion_endpoint endpoint);

/* Of all choices. Prompts count once, however many choices they have. */
struct answer_usage answer_usage(const struct answer *answer);

/* Appends one server-sent event, "event: NAME" (NULL: none) and the value, which is released; NULL counts as memory
 * that ran out. */
void answer_event(struct buffer *out, const char *name, json_t *value);

#endif

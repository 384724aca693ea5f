/* One generation request from its body to the last byte of its response: preparation, the engine's events to the text
 * of each choice, and the response or stream as a dialect (http/answer.h) puts it. A generation owns itself and ends
 * when its response is complete or its client has left.
 */
#ifndef KAIJU_HTTP_GENERATION_H
#define KAIJU_HTTP_GENERATION_H

#include <event2/event.h>

#include "http/connection.h"
#include "http/mailbox.h"
#include "http/metrics.h"
#include "http/model_names.h"
#include "http/prepare.h"

struct generation;
struct choice_run;

/* What all generations of a server use. */
struct generation_service {
  struct event_base *base;
  struct engine *engine;
  const struct tokenizer *tokenizer;
  const struct model_names *names;
  const char *fingerprint;          /* or NULL */
  struct response_store *responses; /* or NULL */
  struct preparer *preparer;
  struct mailbox_queue *mailboxes;
  struct metrics *metrics;
  double comment_interval; /* seconds of silence after which a stream gets a comment */
  struct generation *first;
};

/* Responds on the connection, in time. Moves `body` out. */
void generation_start(struct generation_service *service, struct connection *connection,
                      enum completion_endpoint endpoint, struct buffer *body);
/* The preparation is done; it is taken over. */
void generation_prepared(struct preparation *preparation);
/* A choice's mailbox, whose reader it is, has events. */
void generation_deliver(struct choice_run *run);
/* Ends all with an error: streams get an error event, the others an error response. */
void generations_stop(struct generation_service *service);

#endif

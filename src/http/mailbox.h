/* From the engine's thread to the loop's: the events of one request, and a queue of the mailboxes that have some.
 *
 * A mailbox has two holders, the reader on the loop and the engine. Each lets go on its own, so a reader that loses
 * interest need not wait for the engine's last event. Posting never blocks on the reader.
 */
#ifndef KAIJU_HTTP_MAILBOX_H
#define KAIJU_HTTP_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "sched/engine.h"

struct mailbox;
struct mailbox_queue;

/* `wake` is called (from any thread) when the queue stops being empty. */
struct mailbox_queue *mailbox_queue_create(void (*wake)(void *context), void *context);
void mailbox_queue_destroy(struct mailbox_queue *queue); /* after every reader has closed its mailbox */
/* The reader of the next mailbox that has events, or NULL. */
void *mailbox_queue_next(struct mailbox_queue *queue, struct mailbox **mailbox);

struct mailbox *mailbox_create(struct mailbox_queue *queue, void *reader);
/* For struct request: on_event and its context, the mailbox. The engine lets go with its last event. */
void mailbox_on_event(void *mailbox, const struct engine_event *event);
/* The engine did not take the request. */
void mailbox_not_submitted(struct mailbox *mailbox);
/* The reader lets go. */
void mailbox_close(struct mailbox *mailbox);

struct mailbox_event {
  bool has_token, has_score;
  struct sampled sampled;
  enum finish finish;
  uint32_t completion_tokens, cached_tokens, drafted_tokens, draft_accepted; /* as in struct engine_event */
};

/* All events since the last call, in order; valid until the next call or mailbox_close. `error` belongs to an event
 * with FINISH_ERROR. */
const struct mailbox_event *mailbox_take(struct mailbox *mailbox, size_t *count, struct kj_error *error);

#endif

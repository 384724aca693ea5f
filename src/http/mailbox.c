#include "http/mailbox.h"

#include <pthread.h>
#include <stdlib.h>

/* Always has room for one more event, so that the last one is never lost for lack of memory. */
struct event_list {
  struct mailbox_event *events;
  size_t count, capacity;
};

struct mailbox {
  pthread_mutex_t lock;
  unsigned holders;
  struct mailbox_queue *queue; /* NULL once the reader has let go */
  void *reader;
  struct event_list posted;
  bool ended; /* the last event has been posted */
  struct kj_error error;
  struct event_list taken; /* the reader's */
  /* Under the queue's lock. */
  bool queued;
  struct mailbox *next;
};

struct mailbox_queue {
  pthread_mutex_t lock;
  struct mailbox *first, *last;
  void (*wake)(void *context);
  void *context;
};

static void destroy(struct mailbox *mailbox) {
  pthread_mutex_destroy(&mailbox->lock);
  free(mailbox->posted.events);
  free(mailbox->taken.events);
  free(mailbox);
}

static void release(struct mailbox *mailbox) {
  pthread_mutex_lock(&mailbox->lock);
  unsigned holders = --mailbox->holders;
  pthread_mutex_unlock(&mailbox->lock);
  if (holders == 0) destroy(mailbox);
}

struct mailbox_queue *mailbox_queue_create(void (*wake)(void *context), void *context) {
  struct mailbox_queue *queue = calloc(1, sizeof *queue);
  if (!queue) return NULL;
  pthread_mutex_init(&queue->lock, NULL);
  queue->wake = wake;
  queue->context = context;
  return queue;
}

static struct mailbox *pop(struct mailbox_queue *queue) {
  pthread_mutex_lock(&queue->lock);
  struct mailbox *mailbox = queue->first;
  if (mailbox) {
    queue->first = mailbox->next;
    if (!queue->first) queue->last = NULL;
    mailbox->queued = false;
  }
  pthread_mutex_unlock(&queue->lock);
  return mailbox;
}

/* True if the queue was empty. The caller holds the mailbox's lock; the queue becomes a holder. */
static bool push(struct mailbox_queue *queue, struct mailbox *mailbox) {
  pthread_mutex_lock(&queue->lock);
  bool was_empty = queue->first == NULL;
  if (!mailbox->queued) {
    mailbox->queued = true;
    mailbox->next = NULL;
    mailbox->holders++;
    if (queue->last)
      queue->last->next = mailbox;
    else
      queue->first = mailbox;
    queue->last = mailbox;
  }
  pthread_mutex_unlock(&queue->lock);
  return was_empty;
}

void mailbox_queue_destroy(struct mailbox_queue *queue) {
  if (!queue) return;
  for (struct mailbox *mailbox = NULL; (mailbox = pop(queue));) release(mailbox);
  pthread_mutex_destroy(&queue->lock);
  free(queue);
}

void *mailbox_queue_next(struct mailbox_queue *queue, struct mailbox **result) {
  for (;;) {
    struct mailbox *mailbox = pop(queue);
    if (!mailbox) return NULL;
    pthread_mutex_lock(&mailbox->lock);
    void *reader = mailbox->queue ? mailbox->reader : NULL;
    pthread_mutex_unlock(&mailbox->lock);
    /* With a reader the mailbox has another holder: it outlives this release. */
    *result = mailbox;
    release(mailbox);
    if (reader) return reader;
  }
}

static bool reserve(struct event_list *list) {
  if (list->count < list->capacity) return true;
  size_t capacity = list->capacity ? list->capacity * 2 : 4;
  struct mailbox_event *events = realloc(list->events, capacity * sizeof *events);
  if (!events) return false;
  list->events = events;
  list->capacity = capacity;
  return true;
}

struct mailbox *mailbox_create(struct mailbox_queue *queue, void *reader) {
  struct mailbox *mailbox = calloc(1, sizeof *mailbox);
  if (!mailbox) return NULL;
  pthread_mutex_init(&mailbox->lock, NULL);
  mailbox->holders = 2;
  mailbox->queue = queue;
  mailbox->reader = reader;
  if (reserve(&mailbox->posted) && reserve(&mailbox->taken)) return mailbox;
  destroy(mailbox);
  return NULL;
}

/* Under the mailbox's lock. */
static void post(struct mailbox *mailbox, const struct engine_event *event) {
  struct event_list *posted = &mailbox->posted;
  struct mailbox_event *copy = &posted->events[posted->count++];
  *copy = (struct mailbox_event){.has_token = event->has_token,
                                 .has_score = event->has_score,
                                 .sampled = event->sampled,
                                 .finish = event->finish,
                                 .completion_tokens = event->completion_tokens,
                                 .cached_tokens = event->cached_tokens,
                                 .drafted_tokens = event->drafted_tokens,
                                 .draft_accepted = event->draft_accepted};
  mailbox->ended = event->finish != FINISH_NONE;
  if (event->error) mailbox->error = *event->error;
  if (mailbox->ended || reserve(posted)) return;
  /* What comes next could not be kept and the text would have a hole: end it here, keeping the engine's own end out. */
  *copy = (struct mailbox_event){.finish = FINISH_ERROR};
  mailbox->ended = true;
  kj_fail_memory(&mailbox->error, "the events of a request");
}

void mailbox_on_event(void *context, const struct engine_event *event) {
  struct mailbox *mailbox = context;
  bool last = event->finish != FINISH_NONE, useful = event->has_token || event->has_score || last;
  pthread_mutex_lock(&mailbox->lock);
  /* Waking under the lock keeps the queue alive: its reader needs the lock to let go of it. */
  if (mailbox->queue && useful && !mailbox->ended) {
    post(mailbox, event);
    if (push(mailbox->queue, mailbox)) mailbox->queue->wake(mailbox->queue->context);
  }
  pthread_mutex_unlock(&mailbox->lock);
  if (last) release(mailbox);
}

void mailbox_not_submitted(struct mailbox *mailbox) { release(mailbox); }

void mailbox_close(struct mailbox *mailbox) {
  pthread_mutex_lock(&mailbox->lock);
  mailbox->queue = NULL;
  pthread_mutex_unlock(&mailbox->lock);
  release(mailbox);
}

const struct mailbox_event *mailbox_take(struct mailbox *mailbox, size_t *count, struct kj_error *error) {
  struct event_list *taken = &mailbox->taken;
  pthread_mutex_lock(&mailbox->lock);
  struct event_list read = *taken;
  *taken = mailbox->posted;
  read.count = 0;
  mailbox->posted = read;
  *error = mailbox->error;
  pthread_mutex_unlock(&mailbox->lock);
  *count = taken->count;
  return taken->events;
}

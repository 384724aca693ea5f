/* The schedule: which tokens of which sequences go into the next micro-batch.
 *
 * A sequence waits until one of `parallel` places and all the KV blocks it can ever need are free (first come, first
 * served), so that a running sequence never runs out of memory. A step takes one token of every running sequence that
 * is decoding and not in flight, then prefill chunks, oldest first, up to the budget. Used by the engine's thread
 * alone.
 */
#ifndef KAIJU_SCHED_SCHEDULE_H
#define KAIJU_SCHED_SCHEDULE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/batch.h"
#include "sched/engine.h"

enum sequence_state { SEQUENCE_WAITING, SEQUENCE_RUNNING };

struct sequence {
  uint64_t id;
  enum sequence_state state;
  uint32_t *tokens; /* [capacity] prompt, then output */
  uint32_t token_count, prompt_count, capacity;
  uint32_t computed;      /* tokens whose keys and values are in the KV cache of every stage */
  uint64_t computed_hash; /* chain hash of these (stage/ledger.h) */
  uint32_t *blocks;       /* [block_count] all that it can need; NULL while waiting */
  uint32_t block_count;
  bool in_flight;
  atomic_bool cancelled; /* set by any thread */
  bool ignore_eos;
  double stalled_since; /* clock; 0 while the pipeline is up */
  struct sampling sampling;
  void (*on_event)(void *context, const struct engine_event *event);
  void *context;
  struct sequence *next;      /* in the schedule */
  struct sequence *next_live; /* in the engine's list of all that are not finished, under its mutex */
};

struct schedule;

struct schedule_limits {
  uint32_t parallel;
  uint32_t kv_blocks;
  uint32_t chunk; /* tokens of a micro-batch at most */
};

int schedule_create(struct schedule **schedule, const struct schedule_limits *limits, struct kj_error *error);
void schedule_destroy(struct schedule *schedule);

/* A waiting sequence for the request; max_tokens must be cut to what fits already. */
int sequence_create(struct sequence **sequence, uint64_t id, const struct request *request, uint32_t max_tokens,
                    struct kj_error *error);
void sequence_free(struct sequence *sequence);

/* Takes ownership. */
void schedule_add(struct schedule *schedule, struct sequence *sequence);
/* Takes the sequence out, releases its blocks and gives it back to the caller, who frees it. Not while in flight. */
void schedule_remove(struct schedule *schedule, struct sequence *sequence);
struct sequence *schedule_find(struct schedule *schedule, uint64_t id);
/* All sequences, running ones first; `sequence->next` goes on. Nothing may be removed while walking. */
struct sequence *schedule_first(struct schedule *schedule);
void schedule_counts(const struct schedule *schedule, uint32_t *running, uint32_t *waiting, uint32_t *blocks_used);

/* The KV caches of the stages are lost: every sequence has nothing computed and nothing in flight. */
void schedule_reset(struct schedule *schedule);

/* A micro-batch on its way through the pipeline. */
struct micro_batch {
  uint64_t number;
  struct batch batch;
  struct span *spans;          /* [batch.span_count] */
  struct sequence **sequences; /* [batch.span_count] */
  uint32_t *token_ids;         /* [batch.tokens] row by row */
};

/* Admits waiting sequences and composes the next micro-batch, whose sequences are then in flight; *micro_batch is NULL
 * when there is nothing to do. */
int schedule_next(struct schedule *schedule, uint64_t number, struct micro_batch **micro_batch, struct kj_error *error);
/* The micro-batch came back: its tokens are computed, its sequences are no longer in flight. */
void schedule_complete(struct micro_batch *micro_batch);
void micro_batch_free(struct micro_batch *micro_batch);

#endif

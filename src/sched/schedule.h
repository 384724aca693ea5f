/* The schedule: which tokens of which sequences go into the next micro-batch.
 *
 * Admission. A sequence waits, first come, first served, until one of `parallel` places is free and the KV pool can
 * promise all the blocks that it can ever need, so that a running sequence never runs out of memory. Blocks are taken
 * when tokens are launched; until then what is promised stays with the prefix cache (sched/prefix.h). A sequence starts
 * behind the longest prefix of it that the cache holds, or the disks of all stages (sched/disk_cache.h).
 *
 * Dealing. Running sequences that decode are dealt into as many groups as there are stages, so that each stage has one
 * to work on: a micro-batch takes its share of them, those that have waited longest first, one token each, and a draft
 * (sched/draft.h) where it pays. Drafted tokens are verified in the same micro-batch.
 *
 * Prefill. What is left of the budget of tokens goes to prompts: half to the oldest, which therefore cannot starve, the
 * rest to the shortest remainders, so that a short prompt does not wait behind a long one. Chunks of one prompt follow
 * each other without waiting, so that they occupy consecutive stages, and they shrink as the context grows
 * (sched/cost.h), so that they take about equal time. A prompt whose next block another sequence is computing waits for
 * that one and shares it.
 *
 * All stages compute micro-batches in the order in which they were composed here. A block may therefore be given to
 * another sequence while micro-batches that read it are still on their way. Used by the engine's thread alone.
 */
#ifndef KAIJU_SCHED_SCHEDULE_H
#define KAIJU_SCHED_SCHEDULE_H

#include "compute/batch.h"
#include "sched/cost.h"
#include "sched/sequence.h"

struct schedule;

struct schedule_limits {
  uint32_t parallel;
  uint32_t kv_blocks;
  uint32_t chunk;         /* tokens of a micro-batch at most */
  uint32_t micro_batches; /* groups that decoding sequences are dealt into, at least 1 */
  uint32_t draft;         /* tokens of a draft at most; 0: no drafts */
};

/* Has blocks kept on disk and restored from there, too; borrowed, NULL: not. */
void schedule_use_disk(struct schedule *schedule, struct disk_cache *disk);

int schedule_create(struct schedule **schedule, const struct schedule_limits *limits, struct kj_error *error);
void schedule_destroy(struct schedule *schedule);

/* Takes ownership. */
void schedule_add(struct schedule *schedule, struct sequence *sequence);
/* Takes the sequence out, leaves its full blocks to the prefix cache and gives it back to the caller, who frees it. Not
 * while in flight. */
void schedule_remove(struct schedule *schedule, struct sequence *sequence);
/* All sequences in order of arrival, running ones first; `sequence->next` goes on. Nothing may be removed while
 * walking. */
struct sequence *schedule_first(struct schedule *schedule);

struct schedule_counts {
  uint32_t running, waiting;
  uint32_t blocks_used, blocks_cached; /* held by sequences; by the prefix cache alone */
};
void schedule_count(const struct schedule *schedule, struct schedule_counts *counts);

/* The KV caches of the stages are lost: nothing is cached, computed or in flight, and every sequence waits. */
void schedule_reset(struct schedule *schedule);

/* A micro-batch on its way through the pipeline. */
struct micro_batch {
  uint64_t number;
  struct batch batch;
  struct span *spans;          /* [batch.span_count]; their block tables are valid until the next call here */
  struct sequence **sequences; /* [batch.span_count] */
  uint32_t *drafted;           /* [batch.span_count] tokens at the end of each span that are only guessed */
  uint32_t *token_ids;         /* [batch.tokens] row by row */
  float lead_seconds;          /* for the engine: what the lead's own layers took */
  double launched_at;          /* for the engine: clock */
  bool overlapped;             /* for the engine: launched while another one was in flight */
  struct micro_batch *next;    /* for the engine's queue */
};

/* Admits waiting sequences and composes the next micro-batch, whose tokens are then launched; *micro_batch is NULL when
 * there is nothing to do. After an error at least one sequence fails, so that it does not come back for ever. `error`
 * must not be NULL. */
int schedule_next(struct schedule *schedule, uint64_t number, struct micro_batch **micro_batch, struct kj_error *error);

/* The oldest micro-batch in flight came back: its tokens, but for drafted ones, are computed. */
void schedule_complete(struct schedule *schedule, struct micro_batch *micro_batch);
/* The sequence's next token, appended by the caller, is the one that was drafted: it is computed already. */
void schedule_accept(struct schedule *schedule, struct sequence *sequence);
/* What became of the drafted tokens of a span, once it is known. */
void schedule_learn(struct sequence *sequence, uint32_t drafted, uint32_t accepted);
/* A micro-batch took so long in its slowest stage. */
void schedule_observe(struct schedule *schedule, const struct micro_batch *micro_batch, double seconds);

/* The micro-batch composed last cannot be computed: it is not in flight, and its sequences fail with this error once
 * nothing else of them is. */
void schedule_abandon(struct micro_batch *micro_batch, const struct kj_error *error);
void micro_batch_free(struct micro_batch *micro_batch);

#endif

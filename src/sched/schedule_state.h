/* The schedule's parts, shared by schedule.c (admission, KV blocks) and compose.c (micro-batches). */
#ifndef KAIJU_SCHED_SCHEDULE_STATE_H
#define KAIJU_SCHED_SCHEDULE_STATE_H

#include "sched/blocks.h"
#include "sched/prefix.h"
#include "sched/schedule.h"

struct schedule {
  struct schedule_limits limits;
  struct block_allocator *blocks;
  struct prefix_cache *prefixes;
  struct disk_cache *disk; /* or NULL */
  struct cost_model cost;
  struct sequence *first; /* in order of arrival: running ones before waiting ones, as admission keeps the order */
  uint32_t running, waiting;
  uint32_t promised;            /* blocks that running sequences may still take */
  uint64_t turns;               /* spans composed so far */
  struct sequence **candidates; /* [parallel] while a micro-batch is composed */
  uint32_t *drafted;            /* [draft] likewise */
};

/* Moves waiting sequences to the running ones, in order, as long as places and blocks last. */
void schedule_admit(struct schedule *schedule);
/* Lets the sequence, with nothing in flight, go on behind what the prefix cache holds of its next tokens. */
void schedule_adopt(struct schedule *schedule, struct sequence *sequence);
/* Takes the blocks for the first `tokens` tokens of a running sequence. */
int schedule_take_blocks(struct schedule *schedule, struct sequence *sequence, uint32_t tokens, struct kj_error *error);

#endif

#include "sched/schedule.h"

#include <stdlib.h>

#include "base/log.h"
#include "sched/schedule_state.h"

int schedule_create(struct schedule **result, const struct schedule_limits *limits, struct kj_error *error) {
  *result = NULL;
  struct schedule *schedule = calloc(1, sizeof *schedule);
  if (!schedule) return kj_fail_memory(error, "the schedule");
  schedule->limits = *limits;
  schedule->candidates = calloc(limits->parallel, sizeof(struct sequence *));
  schedule->drafted = calloc((size_t)limits->draft + 1, sizeof *schedule->drafted);
  int code = 0;
  if (!schedule->candidates || !schedule->drafted) code = kj_fail_memory(error, "the schedule");
  if (!code) code = blocks_create(&schedule->blocks, limits->kv_blocks, error);
  if (!code) code = prefix_create(&schedule->prefixes, schedule->blocks, error);
  if (code)
    schedule_destroy(schedule);
  else
    *result = schedule;
  return code;
}

void schedule_use_disk(struct schedule *schedule, struct disk_cache *disk) { schedule->disk = disk; }

void schedule_destroy(struct schedule *schedule) {
  if (!schedule) return;
  while (schedule->first) {
    struct sequence *sequence = schedule->first;
    schedule->first = sequence->next;
    sequence_free(sequence);
  }
  prefix_destroy(schedule->prefixes);
  blocks_destroy(schedule->blocks);
  free(schedule->candidates);
  free(schedule->drafted);
  free(schedule);
}

void schedule_add(struct schedule *schedule, struct sequence *sequence) {
  struct sequence **end = &schedule->first;
  while (*end) end = &(*end)->next;
  *end = sequence;
  schedule->waiting++;
}

static void release_blocks(struct schedule *schedule, struct sequence *sequence) {
  /* From the end: a prefix stays in use as long as what follows it. */
  while (sequence->block_count > 0) prefix_release(schedule->prefixes, sequence->blocks[--sequence->block_count]);
  sequence->kept = 0;
}

static void stop_running(struct schedule *schedule, struct sequence *sequence) {
  schedule->promised -= sequence->block_limit - sequence->block_count;
  release_blocks(schedule, sequence);
  schedule->running--;
}

void schedule_remove(struct schedule *schedule, struct sequence *sequence) {
  struct sequence **link = &schedule->first;
  while (*link && *link != sequence) link = &(*link)->next;
  if (!*link) return;
  *link = sequence->next;
  sequence->next = NULL;
  if (sequence->state == SEQUENCE_RUNNING)
    stop_running(schedule, sequence);
  else
    schedule->waiting--;
}

struct sequence *schedule_first(struct schedule *schedule) {
  return schedule->first;
}

void schedule_count(const struct schedule *schedule, struct schedule_counts *counts) {
  uint32_t cached = prefix_idle(schedule->prefixes);
  *counts = (struct schedule_counts){
      .running = schedule->running,
      .waiting = schedule->waiting,
      .blocks_used = blocks_total(schedule->blocks) - blocks_free(schedule->blocks) - cached,
      .blocks_cached = cached,
  };
}

void schedule_reset(struct schedule *schedule) {
  prefix_clear(schedule->prefixes);
  for (struct sequence *sequence = schedule->first; sequence; sequence = sequence->next) {
    if (sequence->state == SEQUENCE_RUNNING) {
      stop_running(schedule, sequence);
      sequence->state = SEQUENCE_WAITING;
      sequence->replayed = true;
      schedule->waiting++;
    }
    sequence_rewind(sequence);
  }
}

/* Full blocks of the sequence that the prefix cache may be asked for: at least one token must be computed, for its
 * logits. */
static uint32_t shareable_blocks(const struct sequence *sequence) {
  return sequence->ignore_cache ? 0 : (sequence->token_count - 1) / KV_BLOCK;
}

/* The first `blocks` blocks were found in the cache and count as computed. */
static void take_computed(struct sequence *sequence, uint32_t blocks) {
  uint32_t tokens = blocks * KV_BLOCK - sequence->launched;
  sequence->kept = blocks;
  sequence_launch(sequence, tokens);
  sequence->computed = sequence->launched;
  /* What a recovery finds again is not what the request found. */
  if (sequence->replayed) return;
  sequence->cached += tokens;
}

void schedule_adopt(struct schedule *schedule, struct sequence *sequence) {
  uint32_t here = sequence->launched / KV_BLOCK, limit = shareable_blocks(sequence);
  bool at_block = sequence->in_flight == 0 && sequence->launched % KV_BLOCK == 0 && sequence->block_count == here;
  if (!at_block || here >= limit) return;
  uint32_t found = prefix_share(schedule->prefixes, sequence->tokens, sequence->blocks, here, limit);
  schedule->promised -= found - here;
  sequence->block_count = found;
  take_computed(sequence, found);
}

int schedule_take_blocks(struct schedule *schedule, struct sequence *sequence, uint32_t tokens,
                         struct kj_error *error) {
  uint32_t needed = (uint32_t)kv_blocks_for(tokens);
  if (needed <= sequence->block_count) return 0;
  uint32_t count = needed - sequence->block_count;
  if (needed > sequence->block_limit ||
      !prefix_take(schedule->prefixes, count, sequence->blocks + sequence->block_count))
    return kj_fail(error, KJ_INTERNAL, "a running sequence needs %u KV blocks of its %u, and %u are not there", needed,
                   sequence->block_limit, count);
  sequence->block_count = needed;
  schedule->promised -= count;
  return 0;
}

/* Gives the blocks that have become full to the prefix cache, and to the disk. */
static void keep_blocks(struct schedule *schedule, struct sequence *sequence) {
  for (; (sequence->kept + 1) * KV_BLOCK <= sequence->computed; sequence->kept++) {
    uint32_t index = sequence->kept;
    prefix_keep(schedule->prefixes, sequence->tokens, sequence->blocks, index);
    struct kj_error error;
    if (schedule->disk &&
        disk_cache_store(schedule->disk, &sequence->chain, sequence->tokens, index, sequence->blocks[index], &error))
      log_error("a KV block is not kept on disk: %s", error.message);
  }
}

/* Goes on with what the disks hold behind what the prefix cache holds. */
static void restore_blocks(struct schedule *schedule, struct sequence *sequence, uint32_t limit) {
  uint32_t first = sequence->block_count;
  uint32_t end = first + disk_cache_find(schedule->disk, sequence->tokens, first, limit);
  for (uint32_t i = first; i < end; i++) {
    if (schedule_take_blocks(schedule, sequence, (i + 1) * KV_BLOCK, NULL)) return;
    if (!disk_cache_restore(schedule->disk, &sequence->chain, sequence->tokens, i, sequence->blocks[i])) return;
    prefix_keep(schedule->prefixes, sequence->tokens, sequence->blocks, i);
    take_computed(sequence, i + 1);
  }
}

/* Admits the sequence if its place and all its blocks can be promised. */
static bool try_admit(struct schedule *schedule, struct sequence *sequence) {
  if (schedule->running >= schedule->limits.parallel) return false;
  uint32_t limit = shareable_blocks(sequence);
  /* Shared first: blocks that are in use cannot be promised any more. */
  uint32_t found = limit > 0 ? prefix_share(schedule->prefixes, sequence->tokens, sequence->blocks, 0, limit) : 0;
  uint64_t needed = (uint64_t)schedule->promised + sequence->block_limit - found;
  if ((uint64_t)blocks_free(schedule->blocks) + prefix_idle(schedule->prefixes) < needed) {
    sequence->block_count = found;
    release_blocks(schedule, sequence);
    return false;
  }
  schedule->promised = (uint32_t)needed;
  sequence->block_count = found;
  take_computed(sequence, found);
  sequence->state = SEQUENCE_RUNNING;
  schedule->running++;
  schedule->waiting--;
  if (schedule->disk) restore_blocks(schedule, sequence, limit);
  return true;
}

void schedule_admit(struct schedule *schedule) {
  for (struct sequence *sequence = schedule->first; sequence; sequence = sequence->next) {
    if (sequence->state == SEQUENCE_RUNNING) continue;
    if (!try_admit(schedule, sequence)) return;
  }
}

void schedule_complete(struct schedule *schedule, struct micro_batch *micro_batch) {
  for (uint32_t i = 0; i < micro_batch->batch.span_count; i++) {
    struct sequence *sequence = micro_batch->sequences[i];
    const struct span *span = &micro_batch->spans[i];
    sequence->computed += span->tokens - micro_batch->drafted[i];
    sequence->in_flight--;
    keep_blocks(schedule, sequence);
  }
}

void schedule_accept(struct schedule *schedule, struct sequence *sequence) {
  sequence_launch(sequence, 1);
  sequence->computed++;
  keep_blocks(schedule, sequence);
}

void schedule_learn(struct sequence *sequence, uint32_t drafted, uint32_t accepted) {
  if (drafted > 0) draft_learn(sequence->draft, drafted, accepted);
}

void schedule_observe(struct schedule *schedule, const struct micro_batch *micro_batch, double seconds) {
  cost_observe(&schedule->cost, &micro_batch->batch, seconds);
}

#include "sched/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "sched/blocks.h"
#include "stage/ledger.h"

struct schedule {
  struct schedule_limits limits;
  struct block_allocator *blocks;
  struct sequence *first; /* in order of arrival: running ones before waiting ones, as admission keeps the order */
  uint32_t running, waiting;
};

int schedule_create(struct schedule **result, const struct schedule_limits *limits, struct kj_error *error) {
  *result = NULL;
  struct schedule *schedule = calloc(1, sizeof *schedule);
  if (!schedule) return kj_fail_memory(error, "the schedule");
  schedule->limits = *limits;
  int code = blocks_create(&schedule->blocks, limits->kv_blocks, error);
  if (code)
    schedule_destroy(schedule);
  else
    *result = schedule;
  return code;
}

void schedule_destroy(struct schedule *schedule) {
  if (!schedule) return;
  while (schedule->first) {
    struct sequence *sequence = schedule->first;
    schedule->first = sequence->next;
    sequence_free(sequence);
  }
  blocks_destroy(schedule->blocks);
  free(schedule);
}

int sequence_create(struct sequence **result, uint64_t id, const struct request *request, uint32_t max_tokens,
                    struct kj_error *error) {
  *result = NULL;
  struct sequence *sequence = calloc(1, sizeof *sequence);
  if (!sequence) return kj_fail_memory(error, "a sequence");
  sequence->id = id;
  sequence->prompt_count = sequence->token_count = (uint32_t)request->token_count;
  sequence->capacity = sequence->prompt_count + max_tokens;
  sequence->block_count = (sequence->capacity + KV_BLOCK - 1) / KV_BLOCK;
  sequence->computed_hash = token_hash_start();
  sequence->ignore_eos = request->ignore_eos;
  sequence->sampling = request->sampling;
  sequence->sampling.bias = NULL;
  sequence->on_event = request->on_event;
  sequence->context = request->context;
  sequence->tokens = calloc(sequence->capacity, sizeof *sequence->tokens);
  if (request->sampling.bias_count > 0)
    sequence->sampling.bias = calloc(request->sampling.bias_count, sizeof *sequence->sampling.bias);
  if (!sequence->tokens || (request->sampling.bias_count > 0 && !sequence->sampling.bias)) {
    sequence_free(sequence);
    return kj_fail_memory(error, "a sequence");
  }
  memcpy(sequence->tokens, request->tokens, request->token_count * sizeof *sequence->tokens);
  if (request->sampling.bias_count > 0)
    memcpy(sequence->sampling.bias, request->sampling.bias,
           request->sampling.bias_count * sizeof *request->sampling.bias);
  *result = sequence;
  return 0;
}

void sequence_free(struct sequence *sequence) {
  if (!sequence) return;
  free(sequence->tokens);
  free(sequence->blocks);
  free(sequence->sampling.bias);
  free(sequence);
}

void schedule_add(struct schedule *schedule, struct sequence *sequence) {
  struct sequence **end = &schedule->first;
  while (*end) end = &(*end)->next;
  *end = sequence;
  schedule->waiting++;
}

void schedule_remove(struct schedule *schedule, struct sequence *sequence) {
  struct sequence **link = &schedule->first;
  while (*link && *link != sequence) link = &(*link)->next;
  if (!*link) return;
  *link = sequence->next;
  sequence->next = NULL;
  if (sequence->state == SEQUENCE_RUNNING) {
    for (uint32_t i = 0; i < sequence->block_count; i++) blocks_release(schedule->blocks, sequence->blocks[i]);
    schedule->running--;
  } else {
    schedule->waiting--;
  }
}

struct sequence *schedule_find(struct schedule *schedule, uint64_t id) {
  struct sequence *sequence = schedule->first;
  while (sequence && sequence->id != id) sequence = sequence->next;
  return sequence;
}

struct sequence *schedule_first(struct schedule *schedule) {
  return schedule->first;
}

void schedule_counts(const struct schedule *schedule, uint32_t *running, uint32_t *waiting, uint32_t *blocks_used) {
  *running = schedule->running;
  *waiting = schedule->waiting;
  *blocks_used = blocks_total(schedule->blocks) - blocks_free(schedule->blocks);
}

void schedule_reset(struct schedule *schedule) {
  for (struct sequence *sequence = schedule->first; sequence; sequence = sequence->next) {
    sequence->computed = 0;
    sequence->computed_hash = token_hash_start();
    sequence->in_flight = false;
  }
}

/* Moves waiting sequences to the running ones, in order, as long as places and blocks last. */
static int admit(struct schedule *schedule, struct kj_error *error) {
  for (struct sequence *sequence = schedule->first; sequence; sequence = sequence->next) {
    if (sequence->state == SEQUENCE_RUNNING) continue;
    if (schedule->running >= schedule->limits.parallel || blocks_free(schedule->blocks) < sequence->block_count)
      return 0;
    if (!sequence->blocks) sequence->blocks = calloc(sequence->block_count, sizeof *sequence->blocks);
    if (!sequence->blocks) return kj_fail_memory(error, "a block table");
    blocks_take(schedule->blocks, sequence->block_count, sequence->blocks);
    sequence->state = SEQUENCE_RUNNING;
    schedule->running++;
    schedule->waiting--;
  }
  return 0;
}

static int micro_batch_create(struct micro_batch **result, uint32_t spans, uint32_t tokens, struct kj_error *error) {
  struct micro_batch *micro_batch = calloc(1, sizeof *micro_batch);
  *result = micro_batch;
  if (!micro_batch) return kj_fail_memory(error, "a micro-batch");
  micro_batch->spans = calloc(spans, sizeof *micro_batch->spans);
  micro_batch->sequences = calloc(spans, sizeof *micro_batch->sequences);
  micro_batch->token_ids = calloc(tokens, sizeof *micro_batch->token_ids);
  micro_batch->batch.spans = micro_batch->spans;
  if (micro_batch->spans && micro_batch->sequences && micro_batch->token_ids) return 0;
  micro_batch_free(micro_batch);
  *result = NULL;
  return kj_fail_memory(error, "a micro-batch");
}

static void take(struct micro_batch *micro_batch, struct sequence *sequence, uint32_t tokens) {
  struct batch *batch = &micro_batch->batch;
  uint32_t end = sequence->computed + tokens;
  uint32_t *ids = micro_batch->token_ids + batch->tokens;
  memcpy(ids, sequence->tokens + sequence->computed, tokens * sizeof *ids);
  micro_batch->spans[batch->span_count] = (struct span){
      .first_position = sequence->computed,
      .tokens = tokens,
      .outputs = end == sequence->token_count, /* only the last token's successor is sampled */
      .block_count = (end + KV_BLOCK - 1) / KV_BLOCK,
      .blocks = sequence->blocks,
      .token_ids = ids,
      .prefix_hash = sequence->computed_hash,
  };
  micro_batch->sequences[batch->span_count] = sequence;
  batch->outputs += micro_batch->spans[batch->span_count].outputs;
  batch->span_count++;
  batch->tokens += tokens;
  sequence->in_flight = true;
}

static bool can_go(const struct sequence *sequence) {
  return sequence->state == SEQUENCE_RUNNING && !sequence->in_flight && !sequence->cancelled;
}

int schedule_next(struct schedule *schedule, uint64_t number, struct micro_batch **result, struct kj_error *error) {
  *result = NULL;
  int code = admit(schedule, error);
  if (code) return code;
  uint32_t candidates = 0;
  for (struct sequence *sequence = schedule->first; sequence; sequence = sequence->next) candidates += can_go(sequence);
  if (candidates == 0) return 0;
  uint32_t budget = schedule->limits.chunk;
  struct micro_batch *micro_batch;
  if ((code = micro_batch_create(&micro_batch, candidates, budget, error))) return code;
  micro_batch->number = number;
  /* Decoding sequences first: a token that someone is waiting for costs little. Then prefill, the oldest first. */
  for (int prefill = 0; prefill <= 1; prefill++) {
    for (struct sequence *sequence = schedule->first; sequence; sequence = sequence->next) {
      uint32_t pending = sequence->token_count - sequence->computed;
      uint32_t room = budget - micro_batch->batch.tokens;
      if (!can_go(sequence) || (pending > 1) != prefill || room == 0) continue;
      take(micro_batch, sequence, pending < room ? pending : room);
    }
  }
  if (micro_batch->batch.span_count == 0) { /* all candidates were cancelled meanwhile */
    micro_batch_free(micro_batch);
    return 0;
  }
  *result = micro_batch;
  return 0;
}

void schedule_complete(struct micro_batch *micro_batch) {
  for (uint32_t i = 0; i < micro_batch->batch.span_count; i++) {
    struct sequence *sequence = micro_batch->sequences[i];
    const struct span *span = &micro_batch->spans[i];
    for (uint32_t j = 0; j < span->tokens; j++)
      sequence->computed_hash = token_hash_extend(sequence->computed_hash, span->token_ids[j]);
    sequence->computed += span->tokens;
    sequence->in_flight = false;
  }
}

void micro_batch_free(struct micro_batch *micro_batch) {
  if (!micro_batch) return;
  free(micro_batch->spans);
  free(micro_batch->sequences);
  free(micro_batch->token_ids);
  free(micro_batch);
}

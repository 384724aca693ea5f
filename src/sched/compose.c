/* The composition of micro-batches; see schedule.h. */
#include <stdlib.h>
#include <string.h>

#include "sched/schedule_state.h"

enum {
  PANEL = 32, /* rows that the matrix kernels like to have together */
  /* On several stages no chunk is larger than this part of what is left, or than the least that is worth a chunk. */
  TAIL_CHUNKS = 3,
  LEAST_TAIL_CHUNK = 128
};

static int micro_batch_create(struct micro_batch **result, uint32_t spans, uint32_t tokens, struct kj_error *error) {
  struct micro_batch *micro_batch = calloc(1, sizeof *micro_batch);
  *result = micro_batch;
  if (!micro_batch) return kj_fail_memory(error, "a micro-batch");
  micro_batch->spans = calloc(spans, sizeof *micro_batch->spans);
  micro_batch->sequences = calloc(spans, sizeof *micro_batch->sequences);
  micro_batch->drafted = calloc(spans, sizeof *micro_batch->drafted);
  micro_batch->token_ids = calloc(tokens, sizeof *micro_batch->token_ids);
  micro_batch->batch.spans = micro_batch->spans;
  if (micro_batch->spans && micro_batch->sequences && micro_batch->drafted && micro_batch->token_ids) return 0;
  micro_batch_free(micro_batch);
  *result = NULL;
  return kj_fail_memory(error, "a micro-batch");
}

void micro_batch_free(struct micro_batch *micro_batch) {
  if (!micro_batch) return;
  free(micro_batch->spans);
  free(micro_batch->sequences);
  free(micro_batch->drafted);
  free(micro_batch->token_ids);
  free(micro_batch);
}

/* How many of the next rows' successors are wanted: of known tokens only where the prompt is scored. */
static uint32_t wanted_rows(const struct sequence *sequence, uint32_t tokens, uint32_t drafted) {
  uint32_t first = sequence->launched;
  if (sequence->score_prompt && first + 1 < sequence->prompt_count) return tokens + drafted;
  return first + tokens == sequence->token_count ? 1 + drafted : 0;
}

/* Puts the next `tokens` tokens of the sequence into the micro-batch, and behind them a draft of its future. */
static int take(struct schedule *schedule, struct micro_batch *micro_batch, struct sequence *sequence, uint32_t tokens,
                const uint32_t *drafted, uint32_t drafted_count, struct kj_error *error) {
  struct batch *batch = &micro_batch->batch;
  uint32_t first = sequence->launched, end = first + tokens + drafted_count;
  int code = schedule_take_blocks(schedule, sequence, end, error);
  if (code) {
    sequence_fail(sequence, error);
    return code;
  }
  uint32_t *ids = micro_batch->token_ids + batch->tokens;
  memcpy(ids, sequence->tokens + first, tokens * sizeof *ids);
  if (drafted_count > 0) memcpy(ids + tokens, drafted, drafted_count * sizeof *ids);
  struct span *span = &micro_batch->spans[batch->span_count];
  *span = (struct span){
      .first_position = first,
      .tokens = tokens + drafted_count,
      .outputs = wanted_rows(sequence, tokens, drafted_count),
      .block_count = (uint32_t)kv_blocks_for(end),
      .blocks = sequence->blocks,
      .token_ids = ids,
      .prefix_hash = sequence->launched_hash,
  };
  micro_batch->drafted[batch->span_count] = drafted_count;
  micro_batch->sequences[batch->span_count++] = sequence;
  batch->outputs += span->outputs;
  batch->tokens += span->tokens;
  sequence_launch(sequence, tokens);
  sequence->in_flight++;
  sequence->turn = ++schedule->turns;
  return 0;
}

static bool may_go(const struct sequence *sequence) {
  return sequence->state == SEQUENCE_RUNNING && !sequence->failure && !atomic_load(&sequence->cancelled);
}

static int by_turn(const void *a, const void *b) {
  const struct sequence *left = *(struct sequence *const *)a, *right = *(struct sequence *const *)b;
  return left->turn < right->turn ? -1 : left->turn > right->turn;
}

/* A draft for a sequence whose next token is its only one that is pending. */
static uint32_t draft_tokens(struct schedule *schedule, struct sequence *sequence, uint32_t room, uint32_t rows) {
  uint32_t limit = schedule->limits.draft, wanted = sequence->capacity - sequence->token_count;
  if (limit > room) limit = room;
  if (limit >= wanted) limit = wanted - 1; /* the last one is sampled, not drafted */
  if (limit == 0 || (!sequence->draft && draft_create(&sequence->draft, NULL))) return 0;
  return draft_propose(sequence->draft, sequence->tokens, sequence->token_count, limit,
                       cost_row_share(&schedule->cost, rows), schedule->drafted);
}

/* This micro-batch's share of the sequences that decode, those first that have waited longest. Their drafts leave half
 * of the rest to prompts: these must not stand still however much is drafted. */
static int take_decoding(struct schedule *schedule, struct micro_batch *micro_batch, struct kj_error *error) {
  uint32_t decoding = 0, count = 0;
  bool prompts = false;
  for (struct sequence *sequence = schedule->first; sequence; sequence = sequence->next) {
    if (!may_go(sequence)) continue;
    prompts = prompts || sequence_pending(sequence) > 1;
    decoding += sequence_pending(sequence) <= 1;
    if (sequence_pending(sequence) == 1) schedule->candidates[count++] = sequence;
  }
  qsort(schedule->candidates, count, sizeof(struct sequence *), by_turn);
  uint32_t groups = schedule->limits.micro_batches, share = (decoding + groups - 1) / groups;
  if (share > count) share = count;
  if (share > schedule->limits.chunk) share = schedule->limits.chunk;
  uint32_t limit = schedule->limits.chunk - (prompts ? (schedule->limits.chunk - share + 1) / 2 : 0);
  for (uint32_t i = 0; i < share; i++) {
    struct sequence *sequence = schedule->candidates[i];
    uint32_t room = limit - micro_batch->batch.tokens - (share - i);
    uint32_t drafted = draft_tokens(schedule, sequence, room, share);
    int code = take(schedule, micro_batch, sequence, 1, schedule->drafted, drafted, error);
    if (code) return code;
  }
  return 0;
}

/* The sequence's next block is being computed for another one with the same beginning, and can soon be shared. */
static bool follows_another(const struct schedule *schedule, const struct sequence *sequence) {
  uint32_t end = sequence->launched + KV_BLOCK;
  if (sequence->ignore_cache || sequence->launched % KV_BLOCK != 0 || end >= sequence->token_count) return false;
  for (const struct sequence *other = schedule->first; other; other = other->next) {
    if (other == sequence || !may_go(other) || other->computed >= end || other->launched + other->planned < end)
      continue;
    if (memcmp(other->tokens, sequence->tokens, end * sizeof *sequence->tokens) == 0) return true;
  }
  return false;
}

/* What is left of a micro-batch for prompts. */
struct budget {
  uint32_t room; /* tokens */
  double time;   /* of a micro-batch's time, 0…1 */
};

/* The last chunk of a prompt is alone in the pipeline once the one before it has left a stage: on several stages a
 * prompt that has the pipeline to itself ends with small chunks. */
static uint32_t most_of_tail(const struct schedule *schedule, const struct sequence *sequence) {
  if (schedule->limits.micro_batches == 1) return UINT32_MAX;
  uint32_t part = sequence_pending(sequence) / TAIL_CHUNKS;
  return part > LEAST_TAIL_CHUNK ? part : LEAST_TAIL_CHUNK;
}

/* Plans as much of the sequence's prompt as fits into `time`, `limit` tokens at most, in place of what was planned of
 * it. */
static void plan_prefill(const struct schedule *schedule, struct sequence *sequence, double time, uint32_t limit,
                         struct budget *budget) {
  uint32_t most = cost_chunk(&schedule->cost, sequence->launched, schedule->limits.chunk);
  budget->room += sequence->planned;
  uint32_t tokens = (uint32_t)(most * time + 0.5), pending = sequence_pending(sequence);
  if (tokens == 0) tokens = 1; /* however little is left: no prompt stands still */
  if (tokens > limit) tokens = limit;
  if (tokens > budget->room) tokens = budget->room;
  if (tokens >= pending)
    tokens = pending;
  else if (tokens > PANEL)
    tokens -= tokens % PANEL;
  sequence->planned = tokens;
  budget->room -= tokens;
  budget->time -= (double)tokens / most;
}

static int by_pending(const void *a, const void *b) {
  const struct sequence *left = *(struct sequence *const *)a, *right = *(struct sequence *const *)b;
  uint32_t left_pending = sequence_pending(left), right_pending = sequence_pending(right);
  if (left_pending != right_pending) return left_pending < right_pending ? -1 : 1;
  return left->id < right->id ? -1 : left->id > right->id;
}

/* Half of the budget for the oldest, the rest for the shortest; what they leave for the oldest again. */
static void divide(struct schedule *schedule, uint32_t count, struct budget *budget) {
  struct sequence **candidates = schedule->candidates, *oldest = NULL;
  uint32_t others = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (!oldest && !follows_another(schedule, candidates[i]))
      oldest = candidates[i];
    else
      candidates[others++] = candidates[i];
  }
  if (!oldest) return;
  double whole = budget->time;
  if (others == 0) {
    plan_prefill(schedule, oldest, whole, most_of_tail(schedule, oldest), budget);
    return;
  }
  plan_prefill(schedule, oldest, whole / 2, UINT32_MAX, budget);
  double spent = whole - budget->time;
  qsort(candidates, others, sizeof(struct sequence *), by_pending);
  for (uint32_t i = 0; i < others && budget->room > 0 && budget->time > 0; i++)
    if (!follows_another(schedule, candidates[i]))
      plan_prefill(schedule, candidates[i], budget->time, UINT32_MAX, budget);
  if (budget->time <= 0) return;
  budget->time += spent;
  plan_prefill(schedule, oldest, budget->time, UINT32_MAX, budget);
}

static int take_prefill(struct schedule *schedule, struct micro_batch *micro_batch, struct kj_error *error) {
  struct budget budget = {.room = schedule->limits.chunk - micro_batch->batch.tokens};
  budget.time = (double)budget.room / schedule->limits.chunk;
  uint32_t count = 0;
  for (struct sequence *sequence = schedule->first; sequence; sequence = sequence->next) {
    sequence->planned = 0;
    if (may_go(sequence) && sequence_pending(sequence) > 1) schedule->candidates[count++] = sequence;
  }
  if (count == 0 || budget.room == 0) return 0;
  divide(schedule, count, &budget);
  int code = 0;
  for (struct sequence *sequence = schedule->first; sequence && !code; sequence = sequence->next) {
    if (sequence->planned > 0) code = take(schedule, micro_batch, sequence, sequence->planned, NULL, 0, error);
    sequence->planned = 0;
  }
  return code;
}

int schedule_next(struct schedule *schedule, uint64_t number, struct micro_batch **result, struct kj_error *error) {
  *result = NULL;
  schedule_admit(schedule);
  uint32_t candidates = 0;
  struct sequence *any = NULL;
  for (struct sequence *sequence = schedule->first; sequence; sequence = sequence->next) {
    if (!may_go(sequence) || sequence_pending(sequence) == 0) continue;
    candidates++;
    any = sequence;
    schedule_adopt(schedule, sequence);
  }
  if (candidates == 0) return 0;
  struct micro_batch *micro_batch;
  int code = micro_batch_create(&micro_batch, candidates, schedule->limits.chunk, error);
  if (code) { /* out of memory: fewer sequences may fit */
    sequence_fail(any, error);
    return code;
  }
  micro_batch->number = number;
  code = take_decoding(schedule, micro_batch, error);
  if (!code) code = take_prefill(schedule, micro_batch, error);
  if (code) {
    schedule_abandon(micro_batch, error);
    micro_batch_free(micro_batch);
    return code;
  }
  if (micro_batch->batch.span_count == 0) { /* all candidates wait for others or were cancelled meanwhile */
    micro_batch_free(micro_batch);
    return 0;
  }
  *result = micro_batch;
  return 0;
}

void schedule_abandon(struct micro_batch *micro_batch, const struct kj_error *error) {
  for (uint32_t i = 0; i < micro_batch->batch.span_count; i++) {
    struct sequence *sequence = micro_batch->sequences[i];
    sequence->in_flight--;
    sequence_fail(sequence, error);
  }
}

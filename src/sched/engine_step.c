#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "sched/engine_state.h"
#include "stage/ledger.h"

static void unlink_live(struct engine *engine, struct sequence *sequence) {
  double now = clock_seconds();
  pthread_mutex_lock(&engine->mutex);
  struct sequence **link = &engine->live;
  while (*link && *link != sequence) link = &(*link)->next_live;
  if (*link) {
    *link = sequence->next_live;
    engine->live_count--;
  }
  if (engine->finished_at > 0) {
    double interval = now - engine->finished_at;
    engine->finish_interval += (interval - engine->finish_interval) * (engine->finish_interval > 0 ? 0.1 : 1);
  }
  engine->finished_at = now;
  pthread_mutex_unlock(&engine->mutex);
}

/* Accounts for work of the lead that began at `begin` and ends now; returns its seconds. */
static double account(struct engine *engine, double begin) {
  double end = clock_seconds();
  engine->totals[0].compute += end - begin;
  if (engine->last_finished_at > 0) engine->totals[0].wait += begin - engine->last_finished_at;
  engine->last_finished_at = end;
  return end - begin;
}

static void observe_latency(struct engine *engine, struct sequence *sequence) {
  double now = clock_seconds();
  if (sequence->last_token_at == 0)
    histogram_observe(&engine->progress.first_token, now - sequence->submitted_at);
  else
    histogram_observe(&engine->progress.inter_token, now - sequence->last_token_at);
  sequence->last_token_at = now;
}

/* Tells the client, with what is known of its sequence added to the event. */
static void deliver(const struct sequence *sequence, struct engine_event *event) {
  event->request = sequence->id;
  event->prompt_tokens = sequence->prompt_count;
  event->completion_tokens = sequence->token_count - sequence->prompt_count;
  event->prefilled = sequence->computed < sequence->prompt_count ? sequence->computed : sequence->prompt_count;
  event->cached_tokens = sequence->cached;
  event->drafted_tokens = sequence->drafted;
  event->draft_accepted = sequence->draft_accepted;
  sequence->on_event(sequence->context, event);
}

void engine_finish(struct engine *engine, struct sequence *sequence, enum finish finish, const struct sampled *sampled,
                   const struct kj_error *error) {
  unlink_live(engine, sequence);
  schedule_remove(engine->schedule, sequence);
  if (finish == FINISH_CANCELLED)
    engine->progress.cancelled++;
  else if (finish == FINISH_ERROR)
    engine->progress.failed++;
  else
    engine->progress.finished++;
  engine->progress.cached_tokens += sequence->cached;
  engine_publish_status(engine); /* a client that has its last event finds it counted */
  struct engine_event event = {.has_token = sampled != NULL, .finish = finish, .error = error};
  if (sampled) event.sampled = *sampled;
  deliver(sequence, &event);
  sequence_free(sequence);
}

static bool is_eos(const struct config *config, uint32_t token) {
  for (size_t i = 0; i < config->generation.eos_count; i++)
    if (config->generation.eos[i] == token) return true;
  return false;
}

/* The rows of a span whose logits are being read, one after the other. */
struct reading {
  struct sequence *sequence; /* NULL: the rows that are left are of no use */
  const struct span *span;
  uint32_t drafted; /* tokens at the end of the span */
};

/* A token of the prompt, that the row's logits were to foresee. */
static void score_row(struct engine *engine, struct sequence *sequence, uint32_t position, float *logits) {
  if (position <= sequence->scored) return; /* the client had it before a recovery */
  struct sampled sampled;
  sampler_score(engine->sampler, &sequence->sampling, sequence->tokens[position], logits, &sampled);
  sequence->scored = position;
  deliver(sequence, &(struct engine_event){.has_score = true, .sampled = sampled});
}

/* The tokens that the sequence's constraint allows. End tokens of a sequence that ignores them are no way on, unless
 * they are the only one. */
static int constrain(struct engine *engine, const struct sequence *sequence, const uint64_t **allowed,
                     struct kj_error *error) {
  const struct generation_defaults *generation = &engine->config->generation;
  uint32_t vocabulary = engine->config->vocabulary, words = (vocabulary + 63) / 64;
  int code = sequence->constraint->operations->allowed(sequence->constraint, vocabulary, allowed, error);
  if (code) return code;
  uint32_t used = 0;
  while (used < words && (*allowed)[used] == 0) used++;
  if (used == words)
    return kj_fail(error, KJ_UNSUPPORTED, "no token of the model's vocabulary continues the text within its grammar");
  if (!sequence->ignore_eos) return 0;
  memcpy(engine->allowed, *allowed, words * sizeof *engine->allowed);
  for (size_t i = 0; i < generation->eos_count; i++)
    if (generation->eos[i] < vocabulary)
      engine->allowed[generation->eos[i] / 64] &= ~((uint64_t)1 << generation->eos[i] % 64);
  for (used = 0; used < words && engine->allowed[used] == 0;) used++;
  if (used < words) *allowed = engine->allowed;
  return 0;
}

/* Draws the sequence's next token within its constraint. */
static int draw(struct engine *engine, struct sequence *sequence, float *logits, struct sampled *sampled,
                struct kj_error *error) {
  struct sampling sampling = sequence->sampling;
  struct token_constraint *constraint = sequence->constraint;
  int code = constraint ? constrain(engine, sequence, &sampling.allowed, error) : 0;
  if (code) return code;
  sampler_draw(engine->sampler, &sampling, sequence->tokens, sequence->prompt_count, sequence->token_count, logits,
               sampled);
  if (!constraint || is_eos(engine->config, sampled->token)) return 0;
  return constraint->operations->accept(constraint, sampled->token, error);
}

/* Appends the token that the logits give and tells the client. If it is the one that was drafted, the next row is of
 * use, too. `row` counts from the span's last known token. */
static void sample_row(struct engine *engine, struct reading *reading, uint32_t row, float *logits) {
  struct sequence *sequence = reading->sequence;
  const struct span *span = reading->span;
  uint32_t drafted = reading->drafted;
  struct sampled sampled;
  struct kj_error error;
  if (draw(engine, sequence, logits, &sampled, &error)) {
    sequence_fail(sequence, &error);
    reading->sequence = NULL;
    return;
  }
  sequence->tokens[sequence->token_count++] = sampled.token;
  engine->progress.completion_tokens++;
  observe_latency(engine, sequence);
  bool confirmed = row < drafted && sampled.token == span->token_ids[span->tokens - drafted + row];
  if (confirmed) {
    sequence->draft_accepted++;
    engine->progress.draft_accepted++;
  }
  bool eos = is_eos(engine->config, sampled.token) && (!sequence->ignore_eos || sequence->constraint);
  if (eos || sequence->token_count == sequence->capacity) {
    reading->sequence = NULL;
    engine_finish(engine, sequence, eos ? FINISH_EOS : FINISH_LENGTH, &sampled, NULL);
    return;
  }
  if (confirmed) {
    schedule_accept(engine->schedule, sequence);
  } else {
    schedule_learn(sequence, drafted, row);
    reading->sequence = NULL;
  }
  deliver(sequence, &(struct engine_event){.has_token = true, .sampled = sampled});
}

/* One of the span's rows that were wanted. */
static void read_row(struct engine *engine, struct reading *reading, uint32_t row, float *logits) {
  struct sequence *sequence = reading->sequence;
  const struct span *span = reading->span;
  uint32_t position = span->first_position + span->tokens - span->outputs + row + 1;
  if (position < sequence->prompt_count)
    score_row(engine, sequence, position, logits);
  else if (position == sequence->token_count)
    sample_row(engine, reading, row - (span->outputs - 1 - reading->drafted), logits);
  /* What lies between is known from before a recovery. */
}

/* Counts what was computed of a prompt, and tells the client of it where no token follows. */
static void after_span(struct engine *engine, struct sequence *sequence, const struct span *span) {
  uint32_t end = span->first_position + span->tokens, prompt = sequence->prompt_count;
  uint32_t prompt_end = end < prompt ? end : prompt;
  if (prompt_end > span->first_position) engine->progress.prompt_tokens += prompt_end - span->first_position;
  if (span->outputs == 0 && !sequence->failure && !atomic_load(&sequence->cancelled))
    deliver(sequence, &(struct engine_event){0});
}

/* Reads the tokens of all rows that were wanted, PLAN_LOGIT_ROWS at a time. */
static void read_rows(struct engine *engine, const struct micro_batch *micro_batch, const float *rows) {
  size_t hidden = engine->config->hidden, vocabulary = engine->config->vocabulary;
  struct kj_error error;
  uint32_t done = 0, total = micro_batch->batch.outputs, span_index = 0, row = 0;
  struct reading current = {0};
  while (done < total) {
    uint32_t count = total - done < PLAN_LOGIT_ROWS ? total - done : PLAN_LOGIT_ROWS;
    int code = head_logits(engine->head, rows + done * hidden, count, engine->logits, &error);
    for (uint32_t i = 0; i < count; i++) {
      while (row == 0 && micro_batch->spans[span_index].outputs == 0) span_index++;
      const struct span *span = &micro_batch->spans[span_index];
      struct sequence *sequence = micro_batch->sequences[span_index];
      if (row == 0) {
        bool gone = sequence->failure || atomic_load(&sequence->cancelled);
        uint32_t drafted = micro_batch->drafted[span_index];
        current = (struct reading){.sequence = gone ? NULL : sequence, .span = span, .drafted = drafted};
        if (!gone) sequence->drafted += drafted;
        engine->progress.drafted_tokens += drafted;
      }
      if (current.sequence && code) {
        sequence_fail(current.sequence, &error);
        current.sequence = NULL;
      }
      if (current.sequence) read_row(engine, &current, row, engine->logits + i * vocabulary);
      if (++row == span->outputs) {
        row = 0;
        span_index++;
      }
    }
    done += count;
  }
}

void engine_complete(struct engine *engine, const float *rows, double slowest) {
  struct micro_batch *micro_batch = engine->in_flight;
  engine->in_flight = micro_batch->next;
  if (!engine->in_flight) engine->in_flight_end = &engine->in_flight;
  engine->in_flight_count--;
  engine->fruitless_epochs = 0;
  engine->progress.steps++;
  engine->progress.steps_overlapped += micro_batch->overlapped;
  histogram_observe(&engine->progress.batch_tokens, micro_batch->batch.tokens);

  double begin = clock_seconds();
  schedule_complete(engine->schedule, micro_batch);
  for (uint32_t i = 0; i < micro_batch->batch.span_count; i++)
    after_span(engine, micro_batch->sequences[i], &micro_batch->spans[i]);
  read_rows(engine, micro_batch, rows);
  double seconds = account(engine, begin), lead = micro_batch->lead_seconds + seconds;
  schedule_observe(engine->schedule, micro_batch, lead > slowest ? lead : slowest);
  micro_batch_free(micro_batch);
}

void engine_drop_flight(struct engine *engine, const struct kj_error *failure) {
  struct micro_batch *micro_batch = engine->in_flight;
  for (uint32_t i = 0; micro_batch && failure && i < micro_batch->batch.span_count; i++)
    sequence_fail(micro_batch->sequences[i], failure);
  while (micro_batch) {
    struct micro_batch *next = micro_batch->next;
    micro_batch_free(micro_batch);
    micro_batch = next;
  }
  engine->in_flight = NULL;
  engine->in_flight_end = &engine->in_flight;
  engine->in_flight_count = 0;
}

/* Runs the lead's own layers on the batch and, with nodes, sends it on. */
static int compute(struct engine *engine, const struct batch *batch, uint64_t number, double *seconds,
                   struct kj_error *error) {
  double begin = clock_seconds();
  size_t row = 0;
  int code = 0;
  for (uint32_t i = 0; i < batch->span_count && !code; i++) {
    code = head_embed(engine->head, batch->spans[i].token_ids, batch->spans[i].tokens,
                      engine->hidden + row * engine->config->hidden, error);
    row += batch->spans[i].tokens;
  }
  if (!code) code = stage_forward(engine->stage, batch, engine->hidden, error);
  if (code) return code;
  *seconds = account(engine, begin);
  engine->totals[0].tokens += batch->tokens;
  if (!engine->cluster) {
    stage_pack_outputs(batch, engine->config->hidden, engine->hidden);
    return 0;
  }
  struct message_work work = {.number = number,
                              .hidden = engine->config->hidden,
                              .timing_count = 1, /* the lead's own, which it knows */
                              .batch = *batch,
                              .rows = engine->hidden};
  /* What is to be restored must be there before the micro-batch that reads it. */
  if (engine->disk && (code = disk_cache_send(engine->disk, error))) return code;
  cluster_expect(engine->cluster, number, batch->outputs);
  return cluster_send(engine->cluster, &work, error);
}

int engine_prove_ring(struct engine *engine, struct kj_error *error) {
  uint32_t block = 0, token = 0;
  struct span span = {.tokens = 1,
                      .outputs = 1,
                      .block_count = 1,
                      .blocks = &block,
                      .token_ids = &token,
                      .prefix_hash = token_hash_start()};
  struct batch batch = {.span_count = 1, .tokens = 1, .outputs = 1, .spans = &span};
  double seconds;
  return compute(engine, &batch, engine->next_number++, &seconds, error);
}

bool engine_launch(struct engine *engine) {
  if (engine->in_flight_count >= engine->in_flight_limit) return false;
  struct kj_error error;
  struct micro_batch *micro_batch;
  if (schedule_next(engine->schedule, engine->next_number, &micro_batch, &error)) {
    log_error("cannot compose a micro-batch: %s", error.message);
    return true;
  }
  if (!micro_batch) return false;
  double seconds = 0;
  int code = compute(engine, &micro_batch->batch, micro_batch->number, &seconds, &error);
  /* A link that is down is reported by the cluster, which then starts a new epoch with this micro-batch's tokens. */
  if (code && code != KJ_NETWORK) {
    log_error("a micro-batch failed: %s", error.message);
    schedule_abandon(micro_batch, &error);
    micro_batch_free(micro_batch);
    return true;
  }
  engine->next_number++;
  micro_batch->lead_seconds = (float)seconds;
  micro_batch->launched_at = clock_seconds();
  micro_batch->overlapped = engine->in_flight_count > 0;
  *engine->in_flight_end = micro_batch;
  engine->in_flight_end = &micro_batch->next;
  engine->in_flight_count++;
  if (!engine->cluster) engine_complete(engine, engine->hidden, 0);
  return true;
}

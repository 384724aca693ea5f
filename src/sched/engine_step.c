#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "sched/engine_state.h"
#include "stage/ledger.h"

static void unlink_live(struct engine *engine, struct sequence *sequence) {
  pthread_mutex_lock(&engine->mutex);
  struct sequence **link = &engine->live;
  while (*link && *link != sequence) link = &(*link)->next_live;
  if (*link) *link = sequence->next_live;
  pthread_mutex_unlock(&engine->mutex);
}

static void deliver(const struct sequence *sequence, const struct sampled *sampled, enum finish finish,
                    const struct kj_error *error) {
  struct engine_event event = {
      .request = sequence->id,
      .has_token = sampled != NULL,
      .finish = finish,
      .prompt_tokens = sequence->prompt_count,
      .completion_tokens = sequence->token_count - sequence->prompt_count,
      .prefilled = sequence->computed < sequence->prompt_count ? sequence->computed : sequence->prompt_count,
      .error = error,
  };
  if (sampled) event.sampled = *sampled;
  sequence->on_event(sequence->context, &event);
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
  engine_publish_status(engine); /* a client that has its last event finds it counted */
  deliver(sequence, sampled, finish, error);
  sequence_free(sequence);
}

static bool is_eos(const struct config *config, uint32_t token) {
  for (size_t i = 0; i < config->generation.eos_count; i++)
    if (config->generation.eos[i] == token) return true;
  return false;
}

/* Appends the token that the logits give and tells the client. */
static void sample(struct engine *engine, struct sequence *sequence, float *logits) {
  struct sampled sampled;
  sampler_draw(engine->sampler, &sequence->sampling, sequence->tokens, sequence->prompt_count, sequence->token_count,
               logits, &sampled);
  sequence->tokens[sequence->token_count++] = sampled.token;
  engine->progress.completion_tokens++;
  if (is_eos(engine->config, sampled.token) && !sequence->ignore_eos)
    engine_finish(engine, sequence, FINISH_EOS, &sampled, NULL);
  else if (sequence->token_count == sequence->capacity)
    engine_finish(engine, sequence, FINISH_LENGTH, &sampled, NULL);
  else
    deliver(sequence, &sampled, FINISH_NONE, NULL);
}

/* What is left for a sequence whose span asked for no logits, or whose client has gone. */
static void after_span(struct engine *engine, struct sequence *sequence, const struct span *span, bool cancelled) {
  uint32_t prompt_end = span->first_position + span->tokens;
  if (prompt_end > sequence->prompt_count) prompt_end = sequence->prompt_count;
  if (prompt_end > span->first_position) engine->progress.prompt_tokens += prompt_end - span->first_position;
  if (cancelled)
    engine_finish(engine, sequence, FINISH_CANCELLED, NULL, NULL);
  else if (span->outputs == 0)
    deliver(sequence, NULL, FINISH_NONE, NULL);
}

void engine_complete(struct engine *engine, const float *rows) {
  struct micro_batch *micro_batch = engine->in_flight;
  engine->in_flight = NULL;
  engine->fruitless_epochs = 0;
  schedule_complete(micro_batch);
  engine->progress.steps++;

  size_t hidden = engine->config->hidden, vocabulary = engine->config->vocabulary;
  struct sequence *sampled[PLAN_LOGIT_ROWS];
  uint32_t row = 0, pending = 0;
  struct kj_error error;
  for (uint32_t i = 0; i < micro_batch->batch.span_count; i++) {
    struct sequence *sequence = micro_batch->sequences[i];
    bool wanted = micro_batch->spans[i].outputs > 0;
    bool cancelled = atomic_load(&sequence->cancelled);
    after_span(engine, sequence, &micro_batch->spans[i], cancelled);
    if (wanted) sampled[pending++] = cancelled ? NULL : sequence;
    bool last = i + 1 == micro_batch->batch.span_count;
    if (pending == 0 || (pending < PLAN_LOGIT_ROWS && !last)) continue;
    int code = head_logits(engine->head, rows + row * hidden, pending, engine->logits, &error);
    for (uint32_t j = 0; j < pending; j++) {
      if (sampled[j] && code) engine_finish(engine, sampled[j], FINISH_ERROR, NULL, &error);
      if (sampled[j] && !code) sample(engine, sampled[j], engine->logits + j * vocabulary);
    }
    row += pending;
    pending = 0;
  }
  micro_batch_free(micro_batch);
}

/* Runs the lead's own layers on the batch and, with nodes, sends it on. */
static int compute(struct engine *engine, const struct batch *batch, uint64_t number, struct kj_error *error) {
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
  double end = clock_seconds();
  struct stage_timing timing = {
      .compute = (float)(end - begin),
      .wait = engine->last_finished_at > 0 ? (float)(begin - engine->last_finished_at) : 0,
  };
  engine->last_finished_at = end;
  engine->stage_compute[0] += timing.compute;
  engine->stage_wait[0] += timing.wait;
  if (!engine->cluster) {
    stage_pack_outputs(batch, engine->config->hidden, engine->hidden);
    return 0;
  }
  struct message_work work = {.number = number,
                              .hidden = engine->config->hidden,
                              .timing_count = 1,
                              .timings = {timing},
                              .batch = *batch,
                              .rows = engine->hidden};
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
  return compute(engine, &batch, engine->next_number++, error);
}

/* A micro-batch that the lead itself cannot compute: its sequences end with the error, the engine goes on. */
static void abandon(struct engine *engine, const struct kj_error *error) {
  struct micro_batch *micro_batch = engine->in_flight;
  engine->in_flight = NULL;
  log_error("a micro-batch failed: %s", error->message);
  for (uint32_t i = 0; i < micro_batch->batch.span_count; i++) {
    micro_batch->sequences[i]->in_flight = false;
    engine_finish(engine, micro_batch->sequences[i], FINISH_ERROR, NULL, error);
  }
  micro_batch_free(micro_batch);
}

bool engine_launch(struct engine *engine) {
  struct kj_error error;
  if (schedule_next(engine->schedule, engine->next_number, &engine->in_flight, &error)) {
    log_error("cannot compose a micro-batch: %s", error.message);
    /* Out of memory: fewer sequences may fit. */
    if (schedule_first(engine->schedule))
      engine_finish(engine, schedule_first(engine->schedule), FINISH_ERROR, NULL, &error);
    return true;
  }
  if (!engine->in_flight) return false;
  int code = compute(engine, &engine->in_flight->batch, engine->in_flight->number, &error);
  if (!code) engine->next_number++;
  /* A link that is down is reported by the cluster, which then starts a new epoch with this micro-batch's tokens. */
  if (code && code != KJ_NETWORK)
    abandon(engine, &error);
  else if (!engine->cluster)
    engine_complete(engine, engine->hidden);
  return true;
}

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "sched/engine_state.h"

/* Seconds that a stage's busy share is measured over. */
static const double BUSY_WINDOW = 2;

static const struct engine_options defaults = {.parallel = ENGINE_DEFAULT_PARALLEL,
                                               .chunk = ENGINE_DEFAULT_CHUNK,
                                               .queue = ENGINE_DEFAULT_QUEUE,
                                               .draft = ENGINE_DEFAULT_DRAFT,
                                               .connect_timeout = 30,
                                               .recovery_timeout = 60,
                                               .deadline = 10,
                                               .step_timeout = 120,
                                               .isa = "auto"};

static void apply_defaults(struct engine *engine) {
  struct engine_options *options = &engine->options;
  if (!options->parallel) options->parallel = defaults.parallel;
  if (!options->chunk) options->chunk = defaults.chunk;
  if (!options->queue) options->queue = defaults.queue;
  if (!options->draft) options->draft = defaults.draft;
  if (!options->connect_timeout) options->connect_timeout = defaults.connect_timeout;
  if (!options->recovery_timeout) options->recovery_timeout = defaults.recovery_timeout;
  if (!options->deadline) options->deadline = defaults.deadline;
  if (!options->step_timeout) options->step_timeout = defaults.step_timeout;
  if (!options->isa) options->isa = defaults.isa;
  if (!options->memory) options->memory = memory_available();
  uint32_t longest = engine->config->max_positions;
  uint32_t usual = longest < ENGINE_DEFAULT_CONTEXT ? longest : ENGINE_DEFAULT_CONTEXT;
  engine->context = options->context ? options->context : usual;
  engine->parallel = options->parallel;
  engine->chunk = options->chunk < engine->context ? options->chunk : engine->context;
  engine->max_batch_tokens = engine->chunk > engine->parallel ? engine->chunk : engine->parallel;
  if (!options->micro_batches) options->micro_batches = (uint32_t)options->node_count + 1;
  engine->in_flight_limit = plan_in_flight(options->node_count + 1, options->micro_batches);
}

static int check_options(const struct engine_options *options, struct kj_error *error) {
  if (options->node_count > ENGINE_MAX_NODES)
    return kj_fail(error, KJ_INVALID, "%zu nodes were given; at most %d are possible", options->node_count,
                   ENGINE_MAX_NODES);
  for (size_t i = 0; i < options->node_count; i++)
    for (size_t j = 0; j < i; j++)
      if (strcmp(options->nodes[i], options->nodes[j]) == 0)
        return kj_fail(error, KJ_INVALID, "the node %s is named twice", options->nodes[i]);
  if (options->chunk > MESSAGE_MAX_BATCH_TOKENS || options->parallel > MESSAGE_MAX_SPANS)
    return kj_fail(error, KJ_INVALID, "at most %d tokens a step and %d parallel sequences are possible",
                   MESSAGE_MAX_BATCH_TOKENS, MESSAGE_MAX_SPANS);
  if (options->draft > ENGINE_MAX_DRAFT && options->draft != ENGINE_NO_DRAFT)
    return kj_fail(error, KJ_INVALID, "drafts of %u tokens: at most %d are possible", options->draft, ENGINE_MAX_DRAFT);
  if (options->micro_batches > PLAN_MAX_MICRO_BATCHES)
    return kj_fail(error, KJ_INVALID, "%u micro-batches: at most %d are possible", options->micro_batches,
                   (int)PLAN_MAX_MICRO_BATCHES);
  return 0;
}

static void fill_plan_nodes(struct engine *engine) {
  const struct engine_options *options = &engine->options;
  snprintf(engine->plan_nodes[0].name, sizeof engine->plan_nodes[0].name, "lead");
  engine->plan_nodes[0].memory = options->memory;
  engine->plan_nodes[0].threads = (uint32_t)threads_count(engine->threads);
  for (size_t i = 0; i < options->node_count; i++)
    snprintf(engine->plan_nodes[i + 1].name, sizeof engine->plan_nodes[i + 1].name, "%s", options->nodes[i]);
}

static int check_context(const struct engine *engine, struct kj_error *error) {
  if (engine->context > engine->config->max_positions)
    return kj_fail(error, KJ_INVALID, "a context of %u tokens was asked for; the model is made for at most %u",
                   engine->context, engine->config->max_positions);
  uint64_t blocks = plan_pool_blocks(engine->context, engine->parallel, engine->options.kv_tokens);
  if (blocks > MESSAGE_MAX_BLOCKS)
    return kj_fail(error, KJ_INVALID,
                   "a KV pool of %llu blocks; at most %d are possible: lower --parallel, --ctx or "
                   "--kv-tokens",
                   (unsigned long long)blocks, (int)MESSAGE_MAX_BLOCKS);
  return 0;
}

static int open_model(struct engine *engine, struct kj_error *error) {
  struct engine_options *options = &engine->options;
  int code = checkpoint_open(&engine->checkpoint, options->model, error);
  if (code) return code;
  engine->config = checkpoint_config(engine->checkpoint);
  apply_defaults(engine);
  if ((code = check_context(engine, error))) return code;
  if ((code = threads_create_on(&engine->threads, options->threads, options->cpus, error))) return code;
  if ((code = backend_cpu_create(&engine->backend, options->isa, engine->threads, engine->max_batch_tokens,
                                 plan_max_columns(engine->config), error)))
    return code;
  if ((code = head_open(&engine->head, engine->checkpoint, engine->backend, engine->max_batch_tokens, error)))
    return code;
  if ((code = sampler_create(&engine->sampler, engine->config->vocabulary, error))) return code;
  engine->hidden = calloc((size_t)engine->max_batch_tokens * engine->config->hidden, sizeof *engine->hidden);
  engine->logits = calloc((size_t)PLAN_LOGIT_ROWS * engine->config->vocabulary, sizeof *engine->logits);
  engine->allowed = calloc(((size_t)engine->config->vocabulary + 63) / 64, sizeof *engine->allowed);
  if (!engine->hidden || !engine->logits || !engine->allowed) return kj_fail_memory(error, "hidden states and logits");
  return 0;
}

struct plan_request engine_plan_request(const struct engine *engine) {
  const struct engine_options *options = &engine->options;
  size_t count = options->node_count + 1;
  return (struct plan_request){.nodes = engine->plan_nodes,
                               .node_count = count,
                               .split = engine->split_known ? engine->split : options->split,
                               .split_count = engine->split_known ? count : options->split_count,
                               .context = engine->context,
                               .parallel = engine->parallel,
                               .kv_tokens = options->kv_tokens,
                               .micro_batches = options->micro_batches,
                               .kv_disk = options->kv_disk != NULL,
                               .max_batch_tokens = engine->max_batch_tokens};
}

int engine_create(struct engine **result, const struct engine_options *options, struct kj_error *error) {
  *result = NULL;
  int code = check_options(options, error);
  if (code) return code;
  struct engine *engine = calloc(1, sizeof *engine);
  if (!engine) return kj_fail_memory(error, "the engine");
  engine->options = *options;
  engine->started_at = clock_seconds();
  engine->next_id = 1;
  engine->in_flight_end = &engine->in_flight;
  pthread_mutex_init(&engine->mutex, NULL);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&engine->wake, &attributes);
  pthread_condattr_destroy(&attributes);
  code = open_model(engine, error);
  if (!code) {
    fill_plan_nodes(engine);
    struct plan_request request = engine_plan_request(engine);
    code = plan_make(&engine->plan, engine->checkpoint, &request, error);
  }
  if (!code) {
    struct schedule_limits limits = {
        .parallel = engine->parallel,
        .kv_blocks = engine->plan->kv_blocks,
        .chunk = engine->max_batch_tokens,
        .micro_batches = engine->options.micro_batches,
        .draft = engine->options.draft == ENGINE_NO_DRAFT ? 0 : engine->options.draft,
    };
    code = schedule_create(&engine->schedule, &limits, error);
  }
  if (code) {
    engine_destroy(engine);
    return code;
  }
  engine_publish_status(engine);
  *result = engine;
  return 0;
}

void engine_destroy(struct engine *engine) {
  if (!engine) return;
  if (engine->schedule) engine_cancel_all(engine); /* of an engine that never ran; otherwise there is nothing left */
  disk_cache_destroy(engine->disk);
  cluster_close(engine->cluster);
  schedule_destroy(engine->schedule);
  stage_close(engine->stage);
  head_close(engine->head);
  sampler_destroy(engine->sampler);
  if (engine->backend) engine->backend->operations->destroy(engine->backend);
  threads_destroy(engine->threads);
  plan_free(engine->plan);
  checkpoint_close(engine->checkpoint);
  free(engine->hidden);
  free(engine->logits);
  free(engine->allowed);
  pthread_cond_destroy(&engine->wake);
  pthread_mutex_destroy(&engine->mutex);
  free(engine);
}

void engine_wake(void *context) {
  struct engine *engine = context;
  pthread_mutex_lock(&engine->mutex);
  engine->woken = true;
  pthread_cond_signal(&engine->wake);
  pthread_mutex_unlock(&engine->mutex);
}

void engine_stop(struct engine *engine) {
  pthread_mutex_lock(&engine->mutex);
  engine->stop = true;
  engine->woken = true;
  pthread_cond_signal(&engine->wake);
  pthread_mutex_unlock(&engine->mutex);
}

static int check_request(const struct engine *engine, const struct request *request, struct kj_error *error) {
  if (request->token_count == 0) return kj_fail(error, KJ_INVALID, "the prompt is empty");
  if (request->token_count >= engine->context)
    return kj_fail(error, KJ_UNSUPPORTED,
                   "the prompt has %zu tokens, but the context is %u tokens long and at least one must be left for the "
                   "answer",
                   request->token_count, engine->context);
  for (size_t i = 0; i < request->token_count; i++)
    if (request->tokens[i] >= engine->config->vocabulary)
      return kj_fail(error, KJ_INVALID, "token %zu of the prompt is %u, beyond the vocabulary of %u", i,
                     request->tokens[i], engine->config->vocabulary);
  return 0;
}

int engine_submit(struct engine *engine, const struct request *request, uint64_t *id, struct kj_error *error) {
  int code = check_request(engine, request, error);
  if (code) return code;
  uint32_t room = engine->context - (uint32_t)request->token_count;
  uint32_t max_tokens = request->max_tokens && request->max_tokens < room ? request->max_tokens : room;
  struct sequence *sequence;
  if ((code = sequence_create(&sequence, 0, request, max_tokens, error))) return code;
  sequence->submitted_at = clock_seconds();
  pthread_mutex_lock(&engine->mutex);
  if (engine->stop) {
    code = kj_fail(error, KJ_CANCELLED, "the server is shutting down");
  } else if (engine->live_count >= engine->parallel + engine->options.queue) {
    code = kj_fail(error, KJ_BUSY, "%u requests are running and %u wait, which is as many as may (--queue)",
                   engine->parallel, engine->options.queue);
    engine->status.refused++;
  } else {
    *id = sequence->id = engine->next_id++;
    struct sequence **end = &engine->inbox;
    while (*end) end = &(*end)->next;
    *end = sequence;
    sequence->next_live = engine->live;
    engine->live = sequence;
    engine->live_count++;
    engine->status.requests++;
    engine->woken = true;
    pthread_cond_signal(&engine->wake);
  }
  pthread_mutex_unlock(&engine->mutex);
  if (code) {
    sequence->constraint = NULL; /* still the caller's */
    sequence_free(sequence);
  }
  return code;
}

void engine_cancel(struct engine *engine, uint64_t id) {
  pthread_mutex_lock(&engine->mutex);
  for (struct sequence *sequence = engine->live; sequence; sequence = sequence->next_live)
    if (sequence->id == id) atomic_store(&sequence->cancelled, true);
  engine->woken = true;
  pthread_cond_signal(&engine->wake);
  pthread_mutex_unlock(&engine->mutex);
}

const struct config *engine_config(const struct engine *engine) { return engine->config; }
uint32_t engine_context(const struct engine *engine) { return engine->context; }
uint32_t engine_capacity(const struct engine *engine) { return engine->parallel + engine->options.queue; }

static void fill_node_status(struct engine *engine, size_t index, struct engine_node_status *node) {
  const struct plan_stage *stage = &engine->plan->stages[index];
  node->first_layer = stage->first_layer;
  node->layer_count = stage->layer_count;
  node->planned_memory = stage->peak;
  const struct stage_totals *totals = &engine->totals[index];
  node->compute_seconds = totals->compute;
  node->wait_seconds = totals->wait;
  node->transfer_seconds = totals->transfer;
  node->tokens = totals->tokens;
  node->busy = totals->busy;
  if (index == 0) {
    snprintf(node->name, sizeof node->name, "lead");
    snprintf(node->engine, sizeof node->engine, "%s", engine->backend->operations->describe(engine->backend));
    node->connected = true;
    return;
  }
  size_t count;
  const struct cluster_node *known = &cluster_nodes(engine->cluster, &count)[index - 1];
  snprintf(node->name, sizeof node->name, "%s", known->address);
  snprintf(node->engine, sizeof node->engine, "%s", known->introduction.engine);
  snprintf(node->host, sizeof node->host, "%s", known->introduction.host);
  node->connected = known->introduced;
  node->layers_warm = known->layers_warm;
  node->peak_memory = known->peak_memory;
  struct link_statistics statistics;
  if (cluster_statistics(engine->cluster, index - 1, &statistics)) {
    node->round_trip = statistics.round_trip;
    node->bytes_sent = statistics.bytes_sent;
    node->bytes_received = statistics.bytes_received;
  }
}

/* The share of time that each stage has computed, over windows of BUSY_WINDOW seconds. */
static void measure_busy(struct engine *engine) {
  double now = clock_seconds();
  for (size_t i = 0; i <= engine->options.node_count; i++) {
    struct stage_totals *totals = &engine->totals[i];
    double seconds = now - totals->window_began;
    if (totals->window_began > 0 && seconds < BUSY_WINDOW) continue;
    double busy = (totals->compute - totals->window_compute) / seconds;
    totals->busy = totals->window_began == 0 ? 0 : busy < 1 ? busy : 1;
    totals->window_began = now;
    totals->window_compute = totals->compute;
  }
}

double engine_next_measurement(const struct engine *engine) {
  double next = INFINITY;
  for (size_t i = 0; i <= engine->options.node_count; i++) {
    const struct stage_totals *totals = &engine->totals[i];
    if (totals->busy > 0 || totals->compute > totals->window_compute)
      next = fmin(next, totals->window_began + BUSY_WINDOW);
  }
  return next;
}

void engine_publish_status(struct engine *engine) {
  struct engine_status *status = &engine->progress;
  if (engine->schedule) {
    struct schedule_counts counts;
    schedule_count(engine->schedule, &counts);
    status->running = counts.running;
    status->waiting = counts.waiting;
    status->kv_blocks_used = counts.blocks_used;
    status->kv_blocks_cached = counts.blocks_cached;
  }
  status->queue = engine->options.queue;
  status->micro_batches = engine->in_flight_limit;
  status->micro_batches_in_flight = engine->in_flight_count;
  measure_busy(engine);
  status->kv_blocks = engine->plan->kv_blocks;
  status->epoch = engine->cluster ? cluster_epoch(engine->cluster) : 0;
  status->node_count = engine->cluster ? engine->options.node_count + 1 : 1;
  for (size_t i = 0; i < status->node_count; i++) fill_node_status(engine, i, &status->nodes[i]);
  pthread_mutex_lock(&engine->mutex);
  status->requests = engine->status.requests;
  status->refused = engine->status.refused;
  engine->status = *status;
  pthread_mutex_unlock(&engine->mutex);
}

void engine_get_status(struct engine *engine, struct engine_status *status) {
  pthread_mutex_lock(&engine->mutex);
  *status = engine->status;
  for (struct sequence *sequence = engine->inbox; sequence; sequence = sequence->next) status->waiting++;
  pthread_mutex_unlock(&engine->mutex);
  status->nodes[0].peak_memory = memory_peak();
  status->uptime = clock_seconds() - engine->started_at;
}

uint32_t engine_retry_after(struct engine *engine) {
  pthread_mutex_lock(&engine->mutex);
  double interval = engine->finish_interval;
  pthread_mutex_unlock(&engine->mutex);
  return interval < 1 ? 1 : interval > 60 ? 60 : (uint32_t)ceil(interval);
}

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "sched/engine_state.h"

/* Seconds in which nodes that are just being connected to are still told that the cluster could not be formed. */
static const double STOP_PATIENCE = 2;

static void set_state(struct engine *engine, enum engine_state state, const char *reason) {
  engine->progress.state = state;
  engine->progress.nodes[0].peak_memory = memory_peak();
  snprintf(engine->progress.reason, sizeof engine->progress.reason, "%s", reason);
  engine_publish_status(engine);
}

static bool stopping(struct engine *engine) {
  pthread_mutex_lock(&engine->mutex);
  bool stop = engine->stop;
  pthread_mutex_unlock(&engine->mutex);
  return stop;
}

static void report_progress(struct engine *engine) {
  engine_publish_status(engine);
  if (engine->options.on_progress) engine->options.on_progress(engine->options.progress_context, &engine->progress);
}

/* After a few of the lead's own layers: shows the progress and notices what ends the warm-up early. */
static bool on_layers_warm(void *context, uint32_t done, uint32_t total) {
  struct engine *engine = context;
  (void)total;
  engine->progress.nodes[0].layers_warm = done;
  if (engine->cluster && engine->early_event.kind != CLUSTER_FAILED) {
    struct cluster_event event;
    cluster_poll(engine->cluster, &event);
    if (event.kind != CLUSTER_NOTHING) engine->early_event = event; /* after CLUSTER_READY only a failure can come */
  }
  if (engine->early_event.kind == CLUSTER_FAILED) return false;
  report_progress(engine);
  return !stopping(engine);
}

/* The plan with what the nodes have said of themselves; the split of the first epoch stays. */
static int make_plan(struct engine *engine, struct kj_error *error) {
  size_t count = engine->options.node_count + 1;
  engine->plan_nodes[0].bandwidth = engine->options.bandwidth;
  if (engine->cluster) {
    size_t nodes;
    const struct cluster_node *node = cluster_nodes(engine->cluster, &nodes);
    for (size_t i = 0; i < nodes; i++) {
      engine->plan_nodes[i + 1].memory = node[i].introduction.memory;
      engine->plan_nodes[i + 1].bandwidth = node[i].introduction.bandwidth;
      engine->plan_nodes[i + 1].threads = node[i].introduction.threads;
    }
  }
  struct plan_request request = engine_plan_request(engine);
  struct plan *plan;
  int code = plan_make(&plan, engine->checkpoint, &request, error);
  if (code) return code;
  plan_free(engine->plan);
  engine->plan = plan;
  for (size_t i = 0; i < count; i++) engine->split[i] = plan->stages[i].layer_count;
  engine->split_known = true;
  return 0;
}

/* Opens the lead's own layers once the split is known; warms them on the first time. */
static int open_stage(struct engine *engine, struct kj_error *error) {
  const struct plan_stage *own = &engine->plan->stages[0];
  struct stage_options options = {.checkpoint = engine->checkpoint,
                                  .backend = engine->backend,
                                  .first_layer = own->first_layer,
                                  .layer_count = own->layer_count,
                                  .kv_blocks = engine->plan->kv_blocks,
                                  .max_batch_tokens = engine->max_batch_tokens,
                                  .huge_page_threads = engine->options.huge_pages ? engine->threads : NULL};
  int code = stage_open(&engine->stage, &options, error);
  if (code) return code;
  set_state(engine, ENGINE_LOADING, "the weights are being read");
  if ((code = head_warm(engine->head, options.huge_page_threads, error))) return code;
  report_progress(engine);
  code = stage_warm(engine->stage, on_layers_warm, engine, error);
  if (code && engine->early_event.kind == CLUSTER_FAILED) {
    if (error) *error = engine->early_event.error;
    code = engine->early_event.error.code;
  }
  return code;
}

static int open_disk(struct engine *engine, struct kj_error *error) {
  struct disk_cache_options options = {.root = engine->options.kv_disk,
                                       .limit = engine->options.kv_disk_size,
                                       .checkpoint = engine->checkpoint,
                                       .backend = engine->backend,
                                       .cluster = engine->cluster,
                                       .notify = engine_wake,
                                       .context = engine};
  int code = disk_cache_create(&engine->disk, &options, error);
  if (!code) schedule_use_disk(engine->schedule, engine->disk);
  return code;
}

static int begin_epoch_work(struct engine *engine, struct kj_error *error) {
  int code = make_plan(engine, error);
  if (code) return code;
  if (engine->disk) disk_cache_begin(engine->disk);
  if (engine->cluster) {
    struct checkpoint_identity identity = {0};
    code = checkpoint_identity(engine->checkpoint, 0, engine->config->layers, true, &identity, error);
    if (!code)
      code = cluster_assign(engine->cluster, engine->plan, &identity, engine->max_batch_tokens, engine->config->hidden,
                            error);
    checkpoint_identity_free(&identity);
    if (code) return code;
  }
  if (engine->stage)
    stage_reset(engine->stage);
  else if ((code = open_stage(engine, error)))
    return code;
  const struct plan_stage *own = &engine->plan->stages[0];
  return engine->disk ? disk_cache_attach(engine->disk, engine->stage, own->first_layer, own->layer_count, error) : 0;
}

/* All stages are ready: the epoch's first token. */
static int begin_serving(struct engine *engine, struct kj_error *error) {
  if (engine->disk) disk_cache_ready(engine->disk);
  return engine_prove_ring(engine, error);
}

static int open_cluster(struct engine *engine, struct kj_error *error) {
  struct checkpoint_identity identity = {0};
  int code = checkpoint_identity(engine->checkpoint, 0, 0, true, &identity, error);
  if (code) return code;
  const struct engine_options *options = &engine->options;
  struct cluster_options cluster = {
      .addresses = options->nodes,
      .count = options->node_count,
      .link = {.provider = options->provider,
               .key = options->key,
               .deadline = options->deadline,
               .notify = engine_wake,
               .context = engine},
      .introduction = {.memory = options->memory,
                       .bandwidth = options->bandwidth,
                       .threads = (uint32_t)threads_count(engine->threads)},
  };
  struct message_introduce *introduction = &cluster.introduction;
  snprintf(introduction->version, sizeof introduction->version, "%s", KAIJU_VERSION);
  snprintf(introduction->engine, sizeof introduction->engine, "%s",
           engine->backend->operations->describe(engine->backend));
  gethostname(introduction->host, sizeof introduction->host - 1);
  memcpy(introduction->config_hash, identity.config, sizeof introduction->config_hash);
  checkpoint_identity_free(&identity);
  if ((code = cluster_open(&engine->cluster, &cluster, error))) return code;
  log_info("connecting to %zu %s over %s", options->node_count, options->node_count == 1 ? "node" : "nodes",
           cluster_provider(engine->cluster));
  return 0;
}

/* The epoch is over: keeps weights, clients and tokens, and starts the next one. */
static void recover(struct engine *engine, const struct kj_error *error) {
  bool was_ready = engine->progress.state == ENGINE_READY;
  /* Whoever reads of it in the log finds it in the status. */
  set_state(engine, ENGINE_RECOVERING, error->message);
  log_warning("epoch %llu ended: %s", (unsigned long long)cluster_epoch(engine->cluster), error->message);
  engine->ring_proven = false;
  engine->next_number = 0;
  engine->last_finished_at = 0;
  engine->sending_reported = 0;
  bool hopeless = engine->in_flight && ++engine->fruitless_epochs >= 3;
  if (hopeless) engine->fruitless_epochs = 0;
  engine_drop_flight(engine, hopeless ? error : NULL);
  schedule_reset(engine->schedule);
  if (was_ready)
    for (struct sequence *sequence = schedule_first(engine->schedule); sequence; sequence = sequence->next)
      sequence->stalled_since = clock_seconds();
  cluster_begin(engine->cluster);
}

static void become_ready(struct engine *engine, void (*on_ready)(void *context), void *context) {
  set_state(engine, ENGINE_READY, "");
  for (struct sequence *sequence = schedule_first(engine->schedule); sequence; sequence = sequence->next)
    sequence->stalled_since = 0;
  if (engine->started) {
    log_info("epoch %llu: all nodes are back", (unsigned long long)cluster_epoch(engine->cluster));
    return;
  }
  engine->started = true;
  log_info("ready after %.1f s", clock_seconds() - engine->started_at);
  for (size_t i = 0; i < engine->progress.node_count; i++) {
    const struct engine_node_status *node = &engine->progress.nodes[i];
    log_write(node->peak_memory > node->planned_memory ? LOG_WARNING : LOG_INFO,
              "%s: peak memory %.2f GB of %.2f GB planned", node->name, (double)node->peak_memory * 1e-9,
              (double)node->planned_memory * 1e-9);
  }
  if (on_ready) on_ready(context);
}

static void take_result(struct engine *engine, struct message_result *result, void (*on_ready)(void *context),
                        void *context) {
  struct link_statistics statistics;
  if (cluster_statistics(engine->cluster, 0, &statistics))
    engine->totals[0].transfer += link_sending_since(&statistics, &engine->sending_reported);
  double slowest = 0;
  for (uint32_t i = 1; i < result->timing_count && i <= engine->options.node_count; i++) {
    struct stage_totals *totals = &engine->totals[i];
    totals->compute += result->timings[i].compute;
    totals->wait += result->timings[i].wait;
    totals->transfer += result->timings[i].transfer;
    if (engine->in_flight) totals->tokens += engine->in_flight->batch.tokens;
    if (result->timings[i].compute > slowest) slowest = result->timings[i].compute;
  }
  if (!engine->ring_proven) {
    engine->ring_proven = true;
    become_ready(engine, on_ready, context);
  } else if (engine->in_flight) {
    engine_complete(engine, result->rows, slowest);
  }
  message_free_result(result);
}

/* A node whose links live but whose compute thread hangs is noticed by what does not come back from it. */
static bool step_timeout_passed(const struct engine *engine) {
  return engine->in_flight && clock_seconds() >= engine->in_flight->launched_at + engine->options.step_timeout;
}

static bool connect_timeout_passed(const struct engine *engine) {
  return engine->progress.state == ENGINE_CONNECTING && !engine->started &&
         clock_seconds() >= engine->started_at + engine->options.connect_timeout;
}

static int explain_connect_timeout(const struct engine *engine, struct kj_error *error) {
  size_t count, missing = 0;
  const struct cluster_node *nodes = cluster_nodes(engine->cluster, &count);
  while (missing + 1 < count && nodes[missing].introduced) missing++;
  return kj_fail(error, KJ_TIMEOUT, "%s: not there after %g s (--connect-timeout): %s", nodes[missing].address,
                 engine->options.connect_timeout, nodes[missing].unreached[0] ? nodes[missing].unreached : "no answer");
}

/* Handles one event of the cluster; *happened says whether there was one. An error is final: only before the first
 * token has gone round. */
static int serve_cluster(struct engine *engine, void (*on_ready)(void *context), void *context, bool *happened,
                         struct kj_error *error) {
  struct cluster_event event;
  struct kj_error failure = {0};
  int code = 0;
  if (engine->early_event.kind != CLUSTER_NOTHING) {
    event = engine->early_event;
    engine->early_event.kind = CLUSTER_NOTHING;
  } else {
    cluster_poll(engine->cluster, &event);
  }
  *happened = event.kind != CLUSTER_NOTHING;
  switch (event.kind) {
    case CLUSTER_NOTHING:
      /* Nodes tell their progress without an event. */
      if (engine->progress.state == ENGINE_LOADING) report_progress(engine);
      if (step_timeout_passed(engine))
        code = kj_fail(&failure, KJ_TIMEOUT, "micro-batch %llu did not come back within %g s (--step-timeout)",
                       (unsigned long long)engine->in_flight->number, engine->options.step_timeout);
      else if (connect_timeout_passed(engine))
        code = explain_connect_timeout(engine, &failure);
      else
        return 0;
      break;
    case CLUSTER_INTRODUCED:
      code = begin_epoch_work(engine, &failure);
      break;
    case CLUSTER_READY:
      code = begin_serving(engine, &failure);
      break;
    case CLUSTER_RESULT:
      take_result(engine, &event.result, on_ready, context);
      return 0;
    case CLUSTER_UNREACHED:
      if (event.news) {
        log_info("waiting: %s", event.error.message);
        set_state(engine, engine->started ? ENGINE_RECOVERING : ENGINE_CONNECTING, event.error.message);
      }
      if (!connect_timeout_passed(engine)) return 0;
      code = explain_connect_timeout(engine, &failure);
      break;
    case CLUSTER_FAILED:
      failure = event.error;
      code = failure.code ? failure.code : KJ_INTERNAL;
      break;
  }
  report_progress(engine);
  /* A link that is down is reported by the cluster too, with the reason if the node has given one. */
  if (!code || (code == KJ_NETWORK && event.kind != CLUSTER_FAILED)) return 0;
  if (engine->started) {
    recover(engine, &failure);
    return 0;
  }
  if (error) *error = failure;
  return code;
}

/* Moves what other threads have submitted into the schedule. */
static void take_inbox(struct engine *engine) {
  pthread_mutex_lock(&engine->mutex);
  struct sequence *sequence = engine->inbox;
  engine->inbox = NULL;
  pthread_mutex_unlock(&engine->mutex);
  while (sequence) {
    struct sequence *next = sequence->next;
    sequence->next = NULL;
    if (engine->progress.state != ENGINE_READY) sequence->stalled_since = clock_seconds();
    schedule_add(engine->schedule, sequence);
    sequence = next;
  }
}

/* Ends the sequences that nobody wants any more or that have waited too long for a lost node. */
static void drop_sequences(struct engine *engine) {
  double now = clock_seconds();
  struct sequence *next;
  for (struct sequence *sequence = schedule_first(engine->schedule); sequence; sequence = next) {
    next = sequence->next;
    if (sequence->in_flight) continue;
    if (sequence->failure) {
      struct kj_error error = *sequence->failure;
      engine_finish(engine, sequence, FINISH_ERROR, NULL, &error);
    } else if (atomic_load(&sequence->cancelled)) {
      engine_finish(engine, sequence, FINISH_CANCELLED, NULL, NULL);
    } else if (sequence->stalled_since > 0 && now - sequence->stalled_since > engine->options.recovery_timeout) {
      struct kj_error error;
      kj_fail(&error, KJ_TIMEOUT, "the cluster did not recover within %.0f s: %.800s", engine->options.recovery_timeout,
              engine->progress.reason);
      engine_finish(engine, sequence, FINISH_ERROR, NULL, &error);
    }
  }
}

/* When something must be done even if nobody wakes the engine. */
static double next_deadline(struct engine *engine) {
  double next = engine_next_measurement(engine);
  if (engine->cluster) next = fmin(next, cluster_next_retry(engine->cluster));
  if (engine->cluster && !engine->started && engine->progress.state == ENGINE_CONNECTING)
    next = fmin(next, engine->started_at + engine->options.connect_timeout);
  if (engine->cluster && engine->in_flight)
    next = fmin(next, engine->in_flight->launched_at + engine->options.step_timeout);
  for (struct sequence *sequence = schedule_first(engine->schedule); sequence; sequence = sequence->next)
    if (sequence->stalled_since > 0) next = fmin(next, sequence->stalled_since + engine->options.recovery_timeout);
  return next;
}

static void wait_until(struct engine *engine, double deadline) {
  pthread_mutex_lock(&engine->mutex);
  while (!engine->woken && clock_seconds() < deadline) {
    if (isinf(deadline)) {
      pthread_cond_wait(&engine->wake, &engine->mutex);
    } else {
      double until = deadline + 1e-3;
      struct timespec time = {.tv_sec = (time_t)until, .tv_nsec = (long)((until - floor(until)) * 1e9)};
      pthread_cond_timedwait(&engine->wake, &engine->mutex, &time);
    }
  }
  engine->woken = false;
  pthread_mutex_unlock(&engine->mutex);
}

void engine_cancel_all(struct engine *engine) {
  /* Also after a failure: nothing may be accepted that nobody would end. */
  engine_stop(engine);
  set_state(engine, ENGINE_STOPPING, "the server is shutting down");
  engine_drop_flight(engine, NULL);
  schedule_reset(engine->schedule);
  take_inbox(engine);
  while (schedule_first(engine->schedule))
    engine_finish(engine, schedule_first(engine->schedule), FINISH_CANCELLED, NULL, NULL);
}

static int serve(struct engine *engine, void (*on_ready)(void *context), void *context, struct kj_error *error) {
  int code = 0;
  while (!stopping(engine)) {
    bool happened = false;
    take_inbox(engine);
    drop_sequences(engine);
    if (engine->cluster && (code = serve_cluster(engine, on_ready, context, &happened, error))) return code;
    if (engine->disk) disk_cache_poll(engine->disk);
    if (engine->progress.state == ENGINE_READY) happened |= engine_launch(engine);
    /* A link that is down is reported by the cluster. */
    if (engine->disk && engine->cluster) disk_cache_send(engine->disk, NULL);
    engine_publish_status(engine);
    if (!happened) wait_until(engine, next_deadline(engine));
  }
  return 0;
}

/* The cluster could not be formed: no node may be left waiting for it, also one that is just being reached. */
static void stop_nodes(struct engine *engine, const struct kj_error *reason) {
  double give_up = clock_seconds() + STOP_PATIENCE;
  while (!cluster_stop(engine->cluster, reason) && clock_seconds() < give_up && !stopping(engine))
    wait_until(engine, give_up);
}

int engine_run(struct engine *engine, void (*on_ready)(void *context), void *context, struct kj_error *error) {
  int code = 0;
  if (engine->options.node_count > 0) {
    code = open_cluster(engine, error);
    if (!code && engine->options.kv_disk) code = open_disk(engine, error);
    if (!code) cluster_begin(engine->cluster);
  } else {
    if (engine->options.kv_disk) code = open_disk(engine, error);
    if (!code) code = begin_epoch_work(engine, error);
    if (!code) code = begin_serving(engine, error);
    if (!code) become_ready(engine, on_ready, context);
  }
  if (!code) code = serve(engine, on_ready, context, error);
  if (code == KJ_CANCELLED && stopping(engine)) code = 0;
  if (code && engine->cluster && error) stop_nodes(engine, error);
  engine_cancel_all(engine);
  return code;
}

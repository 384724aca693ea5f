/* The engine's parts, shared by engine.c (what other threads call), engine_run.c (the cluster and its epochs) and
 * engine_step.c (micro-batches). Only what stands under `mutex` may be touched off the engine's thread.
 */
#ifndef KAIJU_SCHED_ENGINE_STATE_H
#define KAIJU_SCHED_ENGINE_STATE_H

#include <pthread.h>

#include "sched/cluster.h"
#include "sched/engine.h"
#include "sched/schedule.h"
#include "stage/stage.h"

/* Of one stage, since the start. The window is what `busy` is computed over. */
struct stage_totals {
  double compute, wait, transfer; /* seconds */
  uint64_t tokens;
  double window_began, window_compute, busy;
};

struct engine {
  struct engine_options options;
  uint32_t context, parallel, chunk, max_batch_tokens;
  struct checkpoint *checkpoint;
  const struct config *config;
  struct threads *threads;
  struct backend *backend;
  struct head *head;
  struct stage *stage; /* NULL until the split is known */
  struct plan *plan;
  struct plan_node plan_nodes[ENGINE_MAX_NODES + 1];
  uint32_t split[ENGINE_MAX_NODES + 1]; /* of the first plan; later epochs keep it */
  bool split_known;
  struct cluster *cluster; /* NULL without nodes */
  struct schedule *schedule;
  struct disk_cache *disk; /* NULL without --kv-disk */
  struct sampler *sampler;

  float *hidden;                                  /* [max_batch_tokens, hidden] */
  float *logits;                                  /* [PLAN_LOGIT_ROWS, vocabulary] */
  uint64_t *allowed;                              /* [(vocabulary + 63) / 64] tokens of a sequence that ignores ends */
  struct micro_batch *in_flight, **in_flight_end; /* queue, the oldest first */
  uint32_t in_flight_count, in_flight_limit;
  uint64_t next_number;      /* of the next micro-batch of this epoch */
  bool ring_proven;          /* the warm-up token of this epoch has gone round */
  unsigned fruitless_epochs; /* that failed in a row without a micro-batch coming back */
  bool started;              /* was ready once */
  double started_at, last_finished_at;
  struct cluster_event early_event; /* that came while the lead's own layers were read in; handled after that */
  struct stage_totals totals[ENGINE_MAX_NODES + 1];
  double sending_reported;       /* of the link to stage 1 */
  struct engine_status progress; /* working copy of the status */

  pthread_mutex_t mutex;
  pthread_cond_t wake;
  bool woken, stop;       /* under mutex, as all below */
  struct sequence *inbox; /* submitted, oldest first */
  struct sequence *live;  /* all not finished, inbox included; linked by next_live */
  uint32_t live_count;
  double finish_interval; /* seconds between requests that end, a moving average; 0: unknown */
  double finished_at;     /* clock; when the last one ended */
  uint64_t next_id;
  struct engine_status status; /* as of the last turn of the loop */
};

/* Wakes the engine's thread; may be given as a callback. */
void engine_wake(void *engine);
void engine_publish_status(struct engine *engine);
/* Clock time at which a busy share is to be measured again; INFINITY once all are 0. */
double engine_next_measurement(const struct engine *engine);
/* What the plan is asked for: with the split of the options, or of the first epoch once that is known. */
struct plan_request engine_plan_request(const struct engine *engine);

/* Composes and computes the next micro-batch if there is one and it may be in flight; false if there was nothing to do.
 */
bool engine_launch(struct engine *engine);
/* Sends the warm-up token of the epoch round the ring. */
int engine_prove_ring(struct engine *engine, struct kj_error *error);
/* The oldest micro-batch in flight came back with the rows that were wanted [outputs, hidden]; `slowest` is the time
 * that it took in the slowest stage but the lead's. */
void engine_complete(struct engine *engine, const float *rows, double slowest);
/* Forgets what is in flight; what is in the oldest of it fails with `failure`, if that is not NULL. */
void engine_drop_flight(struct engine *engine, const struct kj_error *failure);
/* Ends every sequence that is not finished, as cancelled; nothing is accepted any more. */
void engine_cancel_all(struct engine *engine);
/* Ends a sequence that is not in flight: last event, then gone. */
void engine_finish(struct engine *engine, struct sequence *sequence, enum finish finish, const struct sampled *sampled,
                   const struct kj_error *error);

#endif

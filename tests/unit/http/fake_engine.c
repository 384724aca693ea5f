#include "unit/http/fake_engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/config.h"

struct job {
  uint64_t id;
  struct request request;
  uint32_t *script;
  size_t script_count;
  bool cancelled;
  struct job *next;
};

struct engine {
  struct fake_settings settings;
  struct config config;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct job *first, *last, *history; /* waiting or running; ended */
  struct job *latest;
  uint32_t *script;
  size_t script_count;
  int pause;
  bool stopping, fails;
  struct kj_error failure;
  enum engine_state state;
  char reason[200];
  const char *full; /* or NULL */
  uint32_t retry_after;
  struct fake_savings savings;
  uint64_t counts[FAKE_COUNTS];
};

static void count(struct engine *engine, enum fake_count what) {
  engine->counts[what]++;
  pthread_cond_broadcast(&engine->changed);
}

static void send(struct engine *engine, struct job *job, const struct engine_event *event) {
  pthread_mutex_unlock(&engine->lock);
  job->request.on_event(job->request.context, event);
  pthread_mutex_lock(&engine->lock);
}

static struct sampled sample(const struct job *job, uint32_t token, size_t index) {
  struct sampled sampled = {.token = token, .logprob = -0.25f * (float)(index + 1)};
  for (int i = 0; i < job->request.sampling.top_logprobs; i++)
    sampled.top[sampled.top_count++] =
        (struct token_logprob){token + (uint32_t)i, i == 0 ? sampled.logprob : -10.0f - (float)i};
  return sampled;
}

/* Under the lock. */
static void wait_if_paused(struct engine *engine, const struct job *job, size_t index) {
  if (engine->pause != (int)index) return;
  count(engine, FAKE_PAUSED);
  while (engine->pause == (int)index && !job->cancelled && !engine->stopping)
    pthread_cond_wait(&engine->changed, &engine->lock);
}

/* Under the lock, which is released around callbacks. */
static void serve(struct engine *engine, struct job *job) {
  const struct request *request = &job->request;
  size_t room = engine->settings.context - request->token_count;
  size_t limit = request->max_tokens && request->max_tokens < room ? request->max_tokens : room;
  struct engine_event event = {.request = job->id,
                               .prompt_tokens = (uint32_t)request->token_count,
                               .cached_tokens = engine->savings.cached_tokens,
                               .drafted_tokens = engine->savings.drafted_tokens,
                               .draft_accepted = engine->savings.draft_accepted};
  struct engine_event prefill = event;
  prefill.prefilled = event.prompt_tokens;
  send(engine, job, &prefill);
  for (size_t i = 1; request->score_prompt && i < request->token_count; i++) {
    prefill.has_score = true;
    prefill.sampled = sample(job, request->tokens[i], i);
    send(engine, job, &prefill);
  }
  for (size_t i = 0; event.finish == FINISH_NONE; i++) {
    wait_if_paused(engine, job, i);
    bool script_ends = i >= job->script_count && !request->ignore_eos;
    event.has_token = true;
    event.completion_tokens = (uint32_t)i + 1;
    if (job->cancelled || engine->stopping) {
      event = (struct engine_event){.request = job->id, .finish = FINISH_CANCELLED};
    } else if (script_ends && engine->fails) {
      event = (struct engine_event){.request = job->id, .finish = FINISH_ERROR, .error = &engine->failure};
    } else if (script_ends) {
      event.sampled = sample(job, engine->settings.eos, i);
      event.finish = FINISH_EOS;
    } else {
      uint32_t token = job->script_count ? job->script[i % job->script_count] : engine->settings.eos;
      event.sampled = sample(job, token, i);
      if (i + 1 >= limit) event.finish = FINISH_LENGTH;
    }
    send(engine, job, &event);
  }
}

static void *run(void *context) {
  struct engine *engine = context;
  pthread_mutex_lock(&engine->lock);
  while (!engine->stopping || engine->first) {
    struct job *job = engine->first;
    if (!job) {
      pthread_cond_wait(&engine->changed, &engine->lock);
      continue;
    }
    serve(engine, job);
    engine->first = job->next;
    if (!engine->first) engine->last = NULL;
    job->next = engine->history;
    engine->history = job;
    count(engine, FAKE_ENDED);
  }
  pthread_mutex_unlock(&engine->lock);
  return NULL;
}

struct engine *fake_engine_create(const struct fake_settings *settings) {
  struct engine *engine = calloc(1, sizeof *engine);
  if (!engine) abort();
  engine->settings = *settings;
  if (!settings->capacity) engine->settings.capacity = UINT32_MAX;
  engine->config = (struct config){
      .vocabulary = settings->vocabulary,
      .generation = {.sample = true, .temperature = 0.7f, .top_p = 0.8f, .top_k = 20, .repetition_penalty = 1.05f}};
  engine->state = ENGINE_READY;
  engine->pause = FAKE_NO_PAUSE;
  pthread_mutex_init(&engine->lock, NULL);
  pthread_cond_init(&engine->changed, NULL);
  if (pthread_create(&engine->thread, NULL, run, engine) != 0) abort();
  return engine;
}

/* Ends all requests and the thread, as engine_stop and the return of engine_run do. */
void engine_stop(struct engine *engine) {
  pthread_mutex_lock(&engine->lock);
  bool was_stopping = engine->stopping;
  engine->stopping = true;
  engine->state = ENGINE_STOPPING;
  pthread_cond_broadcast(&engine->changed);
  pthread_mutex_unlock(&engine->lock);
  if (!was_stopping) pthread_join(engine->thread, NULL);
}

void engine_destroy(struct engine *engine) {
  engine_stop(engine);
  for (struct job *job = engine->history, *next = NULL; job; job = next) {
    next = job->next;
    free((uint32_t *)job->request.tokens);
    free(job->request.sampling.bias);
    token_constraint_release(job->request.constraint);
    free(job->script);
    free(job);
  }
  pthread_mutex_destroy(&engine->lock);
  pthread_cond_destroy(&engine->changed);
  free(engine->script);
  free(engine);
}

void fake_engine_set_tokens(struct engine *engine, const uint32_t *tokens, size_t token_count) {
  pthread_mutex_lock(&engine->lock);
  free(engine->script);
  engine->script = calloc(token_count + 1, sizeof *tokens);
  if (!engine->script) abort();
  memcpy(engine->script, tokens, token_count * sizeof *tokens);
  engine->script_count = token_count;
  pthread_mutex_unlock(&engine->lock);
}

void fake_engine_pause_before(struct engine *engine, int index) {
  pthread_mutex_lock(&engine->lock);
  engine->pause = index;
  pthread_cond_broadcast(&engine->changed);
  pthread_mutex_unlock(&engine->lock);
}

void fake_engine_resume(struct engine *engine) { fake_engine_pause_before(engine, FAKE_NO_PAUSE); }

void fake_engine_set_failure(struct engine *engine, enum kj_code code, const char *message) {
  pthread_mutex_lock(&engine->lock);
  engine->fails = true;
  kj_fail(&engine->failure, code, "%s", message);
  pthread_mutex_unlock(&engine->lock);
}

void fake_engine_set_full(struct engine *engine, const char *message, uint32_t seconds) {
  pthread_mutex_lock(&engine->lock);
  engine->full = message;
  engine->retry_after = seconds;
  pthread_mutex_unlock(&engine->lock);
}

void fake_engine_set_savings(struct engine *engine, const struct fake_savings *savings) {
  pthread_mutex_lock(&engine->lock);
  engine->savings = *savings;
  pthread_mutex_unlock(&engine->lock);
}

void fake_engine_set_state(struct engine *engine, enum engine_state state, const char *reason) {
  pthread_mutex_lock(&engine->lock);
  engine->state = state;
  snprintf(engine->reason, sizeof engine->reason, "%s", reason);
  pthread_mutex_unlock(&engine->lock);
}

bool fake_engine_wait(struct engine *engine, enum fake_count what, uint64_t wanted) {
  struct timespec deadline;
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += 20;
  pthread_mutex_lock(&engine->lock);
  int result = 0;
  while (engine->counts[what] < wanted && result == 0)
    result = pthread_cond_timedwait(&engine->changed, &engine->lock, &deadline);
  bool reached = engine->counts[what] >= wanted;
  pthread_mutex_unlock(&engine->lock);
  return reached;
}

struct request fake_engine_last(struct engine *engine) {
  pthread_mutex_lock(&engine->lock);
  struct request request = engine->latest ? engine->latest->request : (struct request){0};
  pthread_mutex_unlock(&engine->lock);
  return request;
}

static void *copy(const void *bytes, size_t length) {
  void *result = malloc(length + 1);
  if (!result) abort();
  if (length) memcpy(result, bytes, length);
  return result;
}

int engine_submit(struct engine *engine, const struct request *request, uint64_t *id, struct kj_error *error) {
  pthread_mutex_lock(&engine->lock);
  if (engine->stopping) {
    pthread_mutex_unlock(&engine->lock);
    return kj_fail(error, KJ_CANCELLED, "the engine is stopping");
  }
  if (engine->full || engine->counts[FAKE_SUBMITTED] - engine->counts[FAKE_ENDED] >= engine->settings.capacity) {
    int code = kj_fail(error, KJ_BUSY, "%s", engine->full ? engine->full : "the queue is full");
    pthread_mutex_unlock(&engine->lock);
    return code;
  }
  struct job *job = calloc(1, sizeof *job);
  if (!job) abort();
  job->request = *request;
  job->request.tokens = copy(request->tokens, request->token_count * sizeof *request->tokens);
  job->request.sampling.bias =
      copy(request->sampling.bias, request->sampling.bias_count * sizeof *request->sampling.bias);
  job->script = copy(engine->script, engine->script_count * sizeof *engine->script);
  job->script_count = engine->script_count;
  job->id = ++engine->counts[FAKE_SUBMITTED];
  *id = job->id;
  engine->latest = job;
  if (engine->last)
    engine->last->next = job;
  else
    engine->first = job;
  engine->last = job;
  pthread_cond_broadcast(&engine->changed);
  pthread_mutex_unlock(&engine->lock);
  return 0;
}

void engine_cancel(struct engine *engine, uint64_t id) {
  pthread_mutex_lock(&engine->lock);
  for (struct job *job = engine->first; job; job = job->next) {
    if (job->id != id || job->cancelled) continue;
    job->cancelled = true;
    count(engine, FAKE_CANCELLED);
  }
  pthread_mutex_unlock(&engine->lock);
}

const struct config *engine_config(const struct engine *engine) { return &engine->config; }
uint32_t engine_context(const struct engine *engine) { return engine->settings.context; }
uint32_t engine_capacity(const struct engine *engine) { return engine->settings.capacity; }

uint32_t engine_retry_after(struct engine *engine) {
  pthread_mutex_lock(&engine->lock);
  uint32_t seconds = engine->retry_after;
  pthread_mutex_unlock(&engine->lock);
  return seconds;
}

void engine_get_status(struct engine *engine, struct engine_status *status) {
  pthread_mutex_lock(&engine->lock);
  *status = (struct engine_status){.state = engine->state,
                                   .requests = engine->counts[FAKE_SUBMITTED],
                                   .finished = engine->counts[FAKE_ENDED],
                                   .cancelled = engine->counts[FAKE_CANCELLED],
                                   .kv_blocks = 64,
                                   .node_count = 2};
  snprintf(status->reason, sizeof status->reason, "%s", engine->reason);
  snprintf(status->nodes[0].name, sizeof status->nodes[0].name, "lead");
  snprintf(status->nodes[1].name, sizeof status->nodes[1].name, "odd\"name\\");
  pthread_mutex_unlock(&engine->lock);
}

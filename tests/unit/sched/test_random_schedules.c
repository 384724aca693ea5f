/* Exactness: whatever the schedule, a request's tokens and log-probabilities are those that it gets alone, to the bit.
 *
 * Every schedule is drawn from its seed: stages and their split, chunk, places, micro-batches, size of the KV pool,
 * drafts; requests that share beginnings, that are equal, that go on where an earlier answer ended; when they come,
 * how they sample, which are cancelled; a node that is lost and comes back; a whole cluster that starts again on the KV
 * blocks it left on disk. The lone run of each request is on one stage, with nothing else running, nothing cached and
 * no drafts.
 *
 *   sched_test_random_schedules SEED   one schedule alone
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/log.h"
#include "compute/batch.h"
#include "model/synth.h"
#include "unit/model/checkpoint_files.h"
#include "unit/sched/cluster_in_threads.h"
#include "unit/sched/counted_constraint.h"

#if defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined SANITIZED || defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { SCHEDULES = 48 };
#else
enum { SCHEDULES = 320 };
#endif

enum { LANES = 2, CONTEXT = 320, VOCABULARY = 256, LAYERS = 5, MOST_REQUESTS = 10, END_TOKEN = 7, LIVES = 2 };

static const char model_config[] =
    "{\"model_type\":\"qwen3_moe\",\"num_hidden_layers\":5,\"hidden_size\":128,\"vocab_size\":256,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":64,\"intermediate_size\":128,"
    "\"max_position_embeddings\":512,\"rope_theta\":10000,\"rms_norm_eps\":1e-6,\"tie_word_embeddings\":false,"
    "\"num_experts\":6,\"num_experts_per_tok\":2,\"moe_intermediate_size\":64,\"norm_topk_prob\":true,"
    "\"eos_token_id\":7,\"quantization\":{\"bits\":4,\"group_size\":64}}";

/* splitmix64 (Steele, Lea & Flood 2014). */
static uint64_t random_next(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static uint32_t below(uint64_t *state, uint32_t limit) { return (uint32_t)(random_next(state) % limit); }

static bool one_in(uint64_t *state, uint32_t n) { return below(state, n) == 0; }

#define pick(state, values) ((values)[below(state, sizeof(values) / sizeof *(values))])

struct draw {
  uint32_t prompt[CONTEXT], prompt_count;
  struct request request; /* without its callback */
  struct logit_bias bias[2];
  uint32_t cancel_after, cancel_prefilled;
  bool constrained;
  uint32_t arrives_at; /* events of this life so far, or earlier when nothing else runs */
  unsigned life;
  struct thread_client lone, crowded;
};

struct schedule_draw {
  uint64_t seed, random;
  struct engine_options options;
  uint32_t split[CLUSTER_MOST_NODES + 1], node_threads[CLUSTER_MOST_NODES];
  const char *node_isa[CLUSTER_MOST_NODES];
  size_t nodes;
  unsigned lives;
  bool disk;
  uint32_t lost_at; /* events; 0: no node is lost */
  uint32_t count;
  struct draw draws[MOST_REQUESTS];
};

/* What all schedules together have tried: a test that never meets a cached block proves nothing about them. */
struct totals {
  atomic_uint_least64_t schedules, requests, tokens, cached, restored, drafted, accepted, overlapped, cancelled, losses,
      scored, constrained;
};

struct world {
  struct directory directory;
  char model[200];
  struct thread_cluster lone;
  atomic_uint_least64_t next_seed;
  uint64_t end_seed;
  struct totals totals;
  atomic_int constraints; /* that are not released */
  pthread_mutex_t mutex;
  struct kj_error failure; /* the first, under the mutex */
  atomic_bool failed;
};

static void draw_cluster(struct schedule_draw *schedule, const char *model) {
  static const uint32_t chunks[] = {1, 5, 16, 33, 64, 100, 150, 512}, pools[] = {CONTEXT, CONTEXT, 2 * CONTEXT, 0},
                        drafts[] = {0, 0, 1, 4, 16, ENGINE_NO_DRAFT};
  uint64_t *random = &schedule->random;
  schedule->nodes = below(random, CLUSTER_MOST_NODES + 1);
  schedule->disk = one_in(random, 6);
  schedule->lives = schedule->disk ? LIVES : 1;
  if (schedule->nodes > 0 && one_in(random, 8)) schedule->lost_at = 1 + below(random, 60);
  schedule->options = (struct engine_options){.model = model,
                                              .context = CONTEXT,
                                              .parallel = 1 + below(random, 8),
                                              .kv_tokens = pick(random, pools),
                                              .chunk = pick(random, chunks),
                                              .micro_batches = below(random, 5),
                                              .draft = pick(random, drafts),
                                              .threads = 1 + one_in(random, 6),
                                              .isa = one_in(random, 12) ? "reference" : "auto"};
  for (size_t i = 0; i < schedule->nodes; i++) {
    schedule->node_threads[i] = 1 + one_in(random, 6);
    schedule->node_isa[i] = one_in(random, 12) ? "reference" : "auto";
  }
  if (one_in(random, 4)) return; /* the automatic split */
  uint32_t left = LAYERS;
  for (size_t i = schedule->nodes; i > 0; i--) {
    schedule->split[i] = 1 + below(random, left - (uint32_t)i + 1);
    left -= schedule->split[i];
  }
  schedule->split[0] = left; /* the lead alone may hold none */
  schedule->options.split = schedule->split;
  schedule->options.split_count = schedule->nodes + 1;
}

static void append_random(uint64_t *random, struct draw *draw, uint32_t count) {
  for (uint32_t i = 0; i < count && draw->prompt_count < CONTEXT - 1; i++)
    draw->prompt[draw->prompt_count++] = below(random, VOCABULARY);
}

/* New, repeating itself, equal to an earlier one, beginning like it, or going on after its answer. */
static void draw_prompt(struct schedule_draw *schedule, struct draw *draw, const struct draw *earlier) {
  uint64_t *random = &schedule->random;
  uint32_t kind = below(random, earlier ? 6 : 2);
  if (kind == 0) {
    append_random(random, draw, 1 + below(random, one_in(random, 4) ? CONTEXT - 1 : 120));
    return;
  }
  if (kind == 1) {
    uint32_t phrase = 2 + below(random, 20), length = phrase + below(random, 100);
    append_random(random, draw, phrase);
    for (; draw->prompt_count < length; draw->prompt_count++)
      draw->prompt[draw->prompt_count] = draw->prompt[draw->prompt_count - phrase];
    return;
  }
  uint32_t kept = kind == 2 ? 1 + below(random, earlier->prompt_count) : earlier->prompt_count;
  memcpy(draw->prompt, earlier->prompt, kept * sizeof *draw->prompt);
  draw->prompt_count = kept;
  if (kind >= 4)
    for (uint32_t i = 0; i < earlier->lone.count && draw->prompt_count < CONTEXT - 1; i++)
      draw->prompt[draw->prompt_count++] = earlier->lone.answer[i].token;
  if (kind != 3) append_random(random, draw, 1 + below(random, 40));
}

static void draw_sampling(uint64_t *random, struct draw *draw) {
  static const int top[] = {-1, 0, 1, 5, SAMPLING_MAX_TOP_LOGPROBS};
  struct sampling *sampling = &draw->request.sampling;
  *sampling = (struct sampling){
      .top_p = 1, .repetition_penalty = 1, .seed = below(random, 3), .top_logprobs = pick(random, top)};
  if (one_in(random, 3)) {
    sampling->temperature = 0.5f + (float)below(random, 100) / 100;
    if (one_in(random, 2)) sampling->top_p = 0.9f;
    if (one_in(random, 3)) sampling->top_k = 1 + below(random, 40);
    if (one_in(random, 4)) sampling->min_p = 0.05f;
  }
  if (one_in(random, 5)) sampling->repetition_penalty = 1.1f;
  if (one_in(random, 5)) sampling->presence_penalty = 0.5f;
  if (one_in(random, 5)) sampling->frequency_penalty = -0.5f;
  if (one_in(random, 6)) {
    for (size_t i = 0; i < 2; i++) draw->bias[i] = (struct logit_bias){below(random, VOCABULARY), 1};
    sampling->bias = draw->bias;
    sampling->bias_count = 2;
  }
}

static void draw_request(struct schedule_draw *schedule, uint32_t index) {
  uint64_t *random = &schedule->random;
  struct draw *draw = &schedule->draws[index];
  draw_prompt(schedule, draw, index > 0 ? &schedule->draws[below(random, index)] : NULL);
  draw->request.tokens = draw->prompt;
  draw->request.token_count = draw->prompt_count;
  draw->request.max_tokens = 1 + below(random, one_in(random, 4) ? CLUSTER_MOST_TOKENS : 24);
  draw->request.ignore_eos = !one_in(random, 3);
  draw->request.ignore_cache = one_in(random, 8);
  draw->request.score_prompt = one_in(random, 8);
  draw_sampling(random, draw);
  draw->constrained = one_in(random, 4);
  if (one_in(random, 7)) draw->cancel_after = 1 + below(random, 12);
  if (one_in(random, 9)) draw->cancel_prefilled = 1 + below(random, draw->prompt_count);
  draw->life = index * schedule->lives / schedule->count;
  draw->arrives_at = one_in(random, 2) ? 0 : below(random, 100);
}

/* Submits it, with a constraint of its own where it has one. */
static int submit(struct world *world, const struct draw *draw, struct thread_client *client,
                  struct thread_cluster *cluster, struct request request, struct kj_error *error) {
  if (draw->constrained) {
    request.constraint = counted_constraint_create(END_TOKEN, &world->constraints);
    if (!request.constraint) return kj_fail_memory(error, "a constraint");
  }
  int code = thread_client_submit(client, cluster, request, error);
  if (code) token_constraint_release(request.constraint);
  return code;
}

/* Alone: one place, nothing taken from the cache. Lanes take turns. */
static int run_alone(struct world *world, struct draw *draw, struct kj_error *error) {
  struct request request = draw->request;
  request.ignore_cache = true;
  int code = submit(world, draw, &draw->lone, &world->lone, request, error);
  if (code) return code;
  pthread_mutex_lock(&world->lone.mutex);
  while (!draw->lone.finals && thread_cluster_wait(&world->lone)) continue;
  if (!draw->lone.finals) code = kj_fail(error, KJ_TIMEOUT, "the lone run hangs");
  pthread_mutex_unlock(&world->lone.mutex);
  if (!code && draw->lone.wrong) code = kj_fail(error, KJ_INTERNAL, "the lone run: %s", draw->lone.wrong);
  if (!code && draw->lone.finish == FINISH_ERROR)
    code = kj_fail(error, KJ_INTERNAL, "the lone run fails: %s", draw->lone.error);
  return code;
}

/* A node ends in the middle, and another one comes in its place. */
static int lose_node(struct schedule_draw *schedule, struct thread_cluster *cluster, struct kj_error *error) {
  struct thread_node *node = &cluster->nodes[below(&schedule->random, (uint32_t)schedule->nodes)];
  thread_node_stop(node);
  int code = thread_node_start(node, error);
  if (!code) return 0;
  /* It is no longer there to be stopped: the last one takes its slot. */
  *node = cluster->nodes[--cluster->node_count];
  return kj_fail_context(error, "the node does not come back");
}

/* Submits the life's requests as they come and waits for the last event of each. */
static int run_life(struct world *world, struct schedule_draw *schedule, struct thread_cluster *cluster, unsigned life,
                    struct kj_error *error) {
  uint32_t next = 0, lost = schedule->lost_at;
  int code = 0;
  pthread_mutex_lock(&cluster->mutex);
  while (!code) {
    while (next < schedule->count && schedule->draws[next].life != life) next++;
    struct draw *draw = next < schedule->count ? &schedule->draws[next] : NULL;
    if (lost > 0 && cluster->active > 0 && cluster->events >= lost) {
      lost = 0;
      world->totals.losses++;
      pthread_mutex_unlock(&cluster->mutex);
      code = lose_node(schedule, cluster, error);
      pthread_mutex_lock(&cluster->mutex);
    } else if (draw && (cluster->active == 0 || cluster->events >= draw->arrives_at)) {
      pthread_mutex_unlock(&cluster->mutex);
      draw->crowded.cancel_after = draw->cancel_after;
      draw->crowded.cancel_prefilled = draw->cancel_prefilled;
      code = submit(world, draw, &draw->crowded, cluster, draw->request, error);
      next++;
      pthread_mutex_lock(&cluster->mutex);
    } else if (!draw && cluster->active == 0) {
      break;
    } else if (!thread_cluster_wait(cluster)) {
      code = kj_fail(error, KJ_TIMEOUT, "%u requests hang", cluster->active);
    }
  }
  pthread_mutex_unlock(&cluster->mutex);
  return code;
}

static bool same_bits(float a, float b) { return memcmp(&a, &b, sizeof a) == 0; }

static bool same_sampled(const struct sampled *a, const struct sampled *b) {
  if (a->token != b->token || !same_bits(a->logprob, b->logprob) || a->top_count != b->top_count) return false;
  for (uint32_t i = 0; i < a->top_count; i++)
    if (a->top[i].token != b->top[i].token || !same_bits(a->top[i].logprob, b->top[i].logprob)) return false;
  return true;
}

static int compare(const struct draw *draw, uint32_t number, struct kj_error *error) {
  const struct thread_client *lone = &draw->lone, *crowded = &draw->crowded;
  bool cancellable = draw->cancel_after || draw->cancel_prefilled;
  if (crowded->wrong) return kj_fail(error, KJ_INTERNAL, "request %u: %s", number, crowded->wrong);
  if (crowded->finish == FINISH_ERROR)
    return kj_fail(error, KJ_INTERNAL, "request %u fails: %.800s", number, crowded->error);
  bool cut = crowded->finish == FINISH_CANCELLED;
  if (cut ? !cancellable || crowded->count > lone->count
          : crowded->finish != lone->finish || crowded->count != lone->count)
    return kj_fail(error, KJ_INTERNAL, "request %u: %u tokens and finish %d, alone %u and %d", number, crowded->count,
                   crowded->finish, lone->count, lone->finish);
  for (uint32_t i = 0; i < crowded->count; i++)
    if (!same_sampled(&lone->answer[i], &crowded->answer[i]))
      return kj_fail(error, KJ_INTERNAL, "request %u: token %u is %u with %a, alone %u with %a", number, i,
                     crowded->answer[i].token, (double)crowded->answer[i].logprob, lone->answer[i].token,
                     (double)lone->answer[i].logprob);
  if (!cut && draw->request.score_prompt &&
      (crowded->scored != draw->prompt_count - 1 || lone->scored != crowded->scored || lone->scores != crowded->scores))
    return kj_fail(error, KJ_INTERNAL, "request %u: %u scores of the prompt's %u tokens, alone %u, or others", number,
                   crowded->scored, draw->prompt_count, lone->scored);
  if (!draw->request.score_prompt && crowded->scored > 0)
    return kj_fail(error, KJ_INTERNAL, "request %u: scores that nobody asked for", number);
  if (draw->request.ignore_cache && crowded->cached_tokens > 0)
    return kj_fail(error, KJ_INTERNAL, "request %u: %u tokens from the cache, which it was to ignore", number,
                   crowded->cached_tokens);
  return 0;
}

/* Nothing is left of what has ended. The status is that of the loop's last turn: waits until it has seen all ends. */
static int check_idle(struct thread_cluster *cluster, struct totals *totals, struct kj_error *error) {
  struct engine_status *status = calloc(1, sizeof *status);
  if (!status) return kj_fail_memory(error, "the status");
  int code = 0;
  do {
    engine_get_status(cluster->engine, status);
  } while (status->requests > status->finished + status->cancelled + status->failed || status->running > 0);
  if (status->kv_blocks_used > 0 || status->waiting > 0 || status->failed > 0)
    code = kj_fail(error, KJ_INTERNAL, "at the end %u KV blocks are in use, %u requests wait, %" PRIu64 " have failed",
                   status->kv_blocks_used, status->waiting, status->failed);
  totals->overlapped += status->steps_overlapped;
  free(status);
  return code;
}

static int run_cluster(struct world *world, struct schedule_draw *schedule, unsigned life, struct kj_error *error) {
  static const char *const places[CLUSTER_MOST_NODES + 1] = {"lead", "a", "b", "c"};
  struct thread_cluster *cluster = calloc(1, sizeof *cluster);
  if (!cluster) return kj_fail_memory(error, "a cluster");
  char disks[CLUSTER_MOST_NODES + 1][300];
  struct engine_options options = schedule->options;
  for (size_t i = 0; i <= schedule->nodes; i++)
    snprintf(disks[i], sizeof disks[i], "%s/disk-%" PRIu64 "-%s", world->directory.path, schedule->seed, places[i]);
  if (schedule->disk) options.kv_disk = disks[0];
  for (size_t i = 0; i < schedule->nodes; i++)
    cluster->nodes[i].options = (struct node_options){.model = options.model,
                                                      .threads = schedule->node_threads[i],
                                                      .isa = schedule->node_isa[i],
                                                      .kv_disk = schedule->disk ? disks[i + 1] : NULL};
  int code = thread_cluster_start(cluster, options, schedule->nodes, error);
  if (!code) {
    code = run_life(world, schedule, cluster, life, error);
    if (!code) code = check_idle(cluster, &world->totals, error);
    struct kj_error late;
    if (thread_cluster_stop(cluster, &late) && !code) code = kj_fail(error, late.code, "%.900s", late.message);
  }
  free(cluster);
  return code;
}

static void count(struct totals *totals, const struct schedule_draw *schedule) {
  totals->schedules++;
  for (uint32_t i = 0; i < schedule->count; i++) {
    const struct thread_client *client = &schedule->draws[i].crowded;
    bool first_of_life = i > 0 && schedule->draws[i].life != schedule->draws[i - 1].life;
    totals->requests++;
    totals->tokens += client->count;
    totals->cached += client->cached_tokens;
    if (first_of_life) totals->restored += client->cached_tokens;
    totals->drafted += client->drafted;
    totals->accepted += client->accepted;
    totals->scored += client->scored;
    if (schedule->draws[i].constrained) totals->constrained += client->count;
    totals->cancelled += client->finish == FINISH_CANCELLED;
  }
}

static int run_schedule(struct world *world, uint64_t seed, struct kj_error *error) {
  struct schedule_draw *schedule = calloc(1, sizeof *schedule);
  if (!schedule) return kj_fail_memory(error, "a schedule");
  schedule->seed = schedule->random = seed;
  draw_cluster(schedule, world->model);
  schedule->count = 2 + below(&schedule->random, MOST_REQUESTS - 1);
  int code = 0;
  for (uint32_t i = 0; i < schedule->count && !code; i++) {
    draw_request(schedule, i);
    code = run_alone(world, &schedule->draws[i], error);
  }
  for (unsigned life = 0; life < schedule->lives && !code; life++) code = run_cluster(world, schedule, life, error);
  for (uint32_t i = 0; i < schedule->count && !code; i++) code = compare(&schedule->draws[i], i, error);
  if (!code) count(&world->totals, schedule);
  free(schedule);
  return code;
}

static void *run_lane(void *context) {
  struct world *world = context;
  uint64_t seed;
  while (!world->failed && (seed = world->next_seed++) < world->end_seed) {
    struct kj_error error = {0};
    if (!run_schedule(world, seed, &error)) continue;
    pthread_mutex_lock(&world->mutex);
    if (!world->failed) kj_fail(&world->failure, KJ_INTERNAL, "schedule %" PRIu64 ": %.900s", seed, error.message);
    world->failed = true;
    pthread_mutex_unlock(&world->mutex);
  }
  return NULL;
}

static struct world *open_world(uint64_t first, uint64_t end) {
  struct world *world = calloc(1, sizeof *world);
  assert_non_null(world);
  struct kj_error error = {0};
  directory_create(&world->directory);
  write_text(&world->directory, "config.json", model_config);
  snprintf(world->model, sizeof world->model, "%s/model", world->directory.path);
  struct synth_request synth = {
      .config_path = directory_file(&world->directory, "config.json"), .directory = world->model, .seed = 1};
  if (synth_write(&synth, &error)) fail_msg("%s", error.message);
  struct engine_options alone = {
      .model = world->model, .context = CONTEXT, .parallel = 1, .draft = ENGINE_NO_DRAFT, .threads = 1};
  if (thread_cluster_start(&world->lone, alone, 0, &error)) fail_msg("%s", error.message);
  pthread_mutex_init(&world->mutex, NULL);
  world->next_seed = first;
  world->end_seed = end;
  return world;
}

static void close_world(struct world *world) {
  assert_int_equal(thread_cluster_stop(&world->lone, NULL), 0);
  assert_int_equal(world->constraints, 0);
  pthread_mutex_destroy(&world->mutex);
  directory_remove(&world->directory);
  free(world);
}

static void run_seeds(struct world *world) {
  pthread_t lanes[LANES];
  for (size_t i = 0; i < LANES; i++) assert_int_equal(pthread_create(&lanes[i], NULL, run_lane, world), 0);
  for (size_t i = 0; i < LANES; i++) pthread_join(lanes[i], NULL);
  const struct totals *totals = &world->totals;
  print_message(
      "%ju schedules: %ju requests, %ju tokens, %ju prompt tokens cached (%ju restored), %ju of %ju drafted "
      "tokens accepted, %ju steps overlapped, %ju requests cancelled, %ju nodes lost\n",
      (uintmax_t)totals->schedules, (uintmax_t)totals->requests, (uintmax_t)totals->tokens, (uintmax_t)totals->cached,
      (uintmax_t)totals->restored, (uintmax_t)totals->accepted, (uintmax_t)totals->drafted,
      (uintmax_t)totals->overlapped, (uintmax_t)totals->cancelled, (uintmax_t)totals->losses);
  if (world->failed) fail_msg("%s", world->failure.message);
}

static uint64_t only_seed;

static void test_exact_under_any_schedule(void **state) {
  (void)state;
  struct world *world = only_seed ? open_world(only_seed, only_seed + 1) : open_world(1, SCHEDULES + 1);
  run_seeds(world);
  const struct totals *totals = &world->totals;
  if (!only_seed) {
    assert_int_equal(totals->schedules, SCHEDULES);
    assert_true(totals->cancelled > 0 && totals->losses > 0 && totals->scored > 0 && totals->constrained > 0);
    assert_true(totals->cached > 0 && totals->restored > 0 && totals->accepted > 0 && totals->overlapped > 0);
  }
  close_world(world);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact_under_any_schedule)};
  if (argc > 1) only_seed = strtoull(argv[1], NULL, 10);
  log_set_level(LOG_ERROR);
  return cmocka_run_group_tests(tests, NULL, NULL);
}

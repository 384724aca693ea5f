/* The engine in one process, with the shipped model: every accepted request ends with exactly one final event, and its
 * tokens are its own whatever else runs. */
#include "sched/engine.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit/unit.h"

enum { CONTEXT = 200, PARALLEL = 3, CHUNK = 32, MAX_OUTPUT = CONTEXT };

/* An engine that runs on a thread of its own. */
struct running {
  struct engine *engine;
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool ready;
  int code;
  struct kj_error error;
};

/* What a client has seen of its request; guarded by the running engine's mutex. */
struct client {
  struct running *running;
  uint64_t id;
  uint32_t tokens[MAX_OUTPUT], count, progress_events, finals;
  uint32_t prompt_tokens, completion_tokens, prefilled;
  enum finish finish;
  uint32_t cancel_after; /* tokens; 0: never. The callback itself cancels */
  uint32_t cancel_prefilled;
  bool wrong;
};

static void on_ready(void *context) {
  struct running *running = context;
  pthread_mutex_lock(&running->mutex);
  running->ready = true;
  pthread_cond_broadcast(&running->changed);
  pthread_mutex_unlock(&running->mutex);
}

static void *run(void *context) {
  struct running *running = context;
  running->code = engine_run(running->engine, on_ready, running, &running->error);
  return NULL;
}

static void on_event(void *context, const struct engine_event *event) {
  struct client *client = context;
  struct running *running = client->running;
  pthread_mutex_lock(&running->mutex);
  client->wrong |= client->finals > 0 || client->count == MAX_OUTPUT;
  if (event->has_token && client->count < MAX_OUTPUT) client->tokens[client->count++] = event->sampled.token;
  if (!event->has_token && event->finish == FINISH_NONE) {
    client->progress_events++;
    client->wrong |= event->prefilled <= client->prefilled;
  }
  client->wrong |= event->completion_tokens != client->count || event->prefilled > event->prompt_tokens;
  client->wrong |= (event->finish == FINISH_ERROR) != (event->error != NULL);
  client->prefilled = event->prefilled;
  client->prompt_tokens = event->prompt_tokens;
  client->completion_tokens = event->completion_tokens;
  bool cancel = (client->cancel_after && client->count >= client->cancel_after) ||
                (client->cancel_prefilled && event->prefilled >= client->cancel_prefilled);
  if (event->finish != FINISH_NONE) {
    client->finish = event->finish;
    client->finals++;
    pthread_cond_broadcast(&running->changed);
  }
  pthread_mutex_unlock(&running->mutex);
  if (cancel && event->finish == FINISH_NONE) engine_cancel(running->engine, event->request);
}

static struct engine *create(uint32_t parallel, uint32_t chunk) {
  struct engine_options options = {.model = KAIJU_SOURCE_DIR "/models/kaiju-mini",
                                   .context = CONTEXT,
                                   .parallel = parallel,
                                   .chunk = chunk,
                                   .threads = 2};
  struct engine *engine;
  struct kj_error error = {0};
  if (engine_create(&engine, &options, &error)) fail_msg("%s", error.message);
  assert_int_equal(engine_context(engine), CONTEXT);
  return engine;
}

static struct running *start(uint32_t parallel, uint32_t chunk) {
  struct running *running = calloc(1, sizeof *running);
  assert_non_null(running);
  running->engine = create(parallel, chunk);
  pthread_mutex_init(&running->mutex, NULL);
  pthread_cond_init(&running->changed, NULL);
  assert_int_equal(pthread_create(&running->thread, NULL, run, running), 0);
  pthread_mutex_lock(&running->mutex);
  while (!running->ready) pthread_cond_wait(&running->changed, &running->mutex);
  pthread_mutex_unlock(&running->mutex);
  return running;
}

static void stop(struct running *running) {
  engine_stop(running->engine);
  pthread_join(running->thread, NULL);
  if (running->code) fail_msg("%s", running->error.message);
  engine_destroy(running->engine);
  pthread_cond_destroy(&running->changed);
  pthread_mutex_destroy(&running->mutex);
  free(running);
}

static int setup(void **state) {
  *state = start(PARALLEL, CHUNK);
  return 0;
}

static int teardown(void **state) {
  stop(*state);
  return 0;
}

static void fill_prompt(uint32_t *tokens, uint32_t count, uint32_t seed) {
  for (uint32_t i = 0; i < count; i++) tokens[i] = (seed * 7919 + i * i * 31 + 5 * i) % 12000;
}

static int submit(struct running *running, struct client *client, uint32_t prompt, uint32_t max_tokens, uint32_t seed) {
  uint32_t tokens[CONTEXT + 1];
  fill_prompt(tokens, prompt, seed);
  struct request request = {
      .tokens = tokens,
      .token_count = prompt,
      .max_tokens = max_tokens,
      .ignore_eos = true,
      .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = seed, .top_logprobs = -1},
      .on_event = on_event,
      .context = client};
  client->running = running;
  return engine_submit(running->engine, &request, &client->id, NULL);
}

static void wait_for(struct client *client) {
  pthread_mutex_lock(&client->running->mutex);
  while (!client->finals) pthread_cond_wait(&client->running->changed, &client->running->mutex);
  pthread_mutex_unlock(&client->running->mutex);
}

static void assert_ended(struct client *client, enum finish finish, uint32_t tokens) {
  wait_for(client);
  assert_false(client->wrong);
  assert_int_equal(client->finals, 1);
  assert_int_equal(client->finish, finish);
  assert_int_equal(client->count, tokens);
}

static void test_length(void **state) {
  struct client client = {0};
  assert_int_equal(submit(*state, &client, 70, 10, 1), 0);
  assert_ended(&client, FINISH_LENGTH, 10);
  assert_int_equal(client.prompt_tokens, 70);
  assert_int_equal(client.completion_tokens, 10);
  assert_int_equal(client.prefilled, 70);
  assert_int_equal(client.progress_events, 2); /* 32, 64; the last chunk gives a token */
}

static void test_end_token(void **state) {
  struct running *running = *state;
  const struct config *config = engine_config(running->engine);
  assert_true(config->generation.eos_count > 0);
  uint32_t prompt = 17;
  struct logit_bias bias = {config->generation.eos[0], 1000};
  struct request request = {.tokens = &prompt,
                            .token_count = 1,
                            .sampling = {.top_p = 1, .repetition_penalty = 1, .bias = &bias, .bias_count = 1},
                            .on_event = on_event};
  struct client ends = {.running = running}, goes_on = {.running = running};
  request.context = &ends;
  assert_int_equal(engine_submit(running->engine, &request, &ends.id, NULL), 0);
  request.context = &goes_on;
  request.ignore_eos = true;
  request.max_tokens = 3;
  assert_int_equal(engine_submit(running->engine, &request, &goes_on.id, NULL), 0);
  assert_ended(&ends, FINISH_EOS, 1);
  assert_int_equal(ends.tokens[0], bias.token);
  assert_ended(&goes_on, FINISH_LENGTH, 3);
  assert_int_equal(goes_on.tokens[2], bias.token);
}

/* The last token that fits is delivered; a prompt that leaves room for none is refused with both numbers. */
static void test_prompts_as_long_as_the_context(void **state) {
  struct running *running = *state;
  struct client fits = {0}, full = {0}, refused = {.running = running};
  assert_int_equal(submit(running, &fits, CONTEXT - 1, 0, 1), 0);
  assert_int_equal(submit(running, &full, CONTEXT - 5, 0, 2), 0);
  assert_ended(&fits, FINISH_LENGTH, 1);
  assert_ended(&full, FINISH_LENGTH, 5);
  uint32_t tokens[CONTEXT] = {0};
  struct request request = {.tokens = tokens, .token_count = CONTEXT, .on_event = on_event, .context = &refused};
  struct kj_error error = {0};
  assert_int_equal(engine_submit(running->engine, &request, &refused.id, &error), KJ_UNSUPPORTED);
  assert_non_null(strstr(error.message, "200 tokens"));
  request.token_count = 0;
  assert_int_equal(engine_submit(running->engine, &request, &refused.id, &error), KJ_INVALID);
  request.token_count = 3;
  tokens[2] = engine_config(running->engine)->vocabulary;
  assert_int_equal(engine_submit(running->engine, &request, &refused.id, &error), KJ_INVALID);
  assert_int_equal(refused.finals, 0);
}

static void test_cancelled_while_queued(void **state) {
  struct client busy[PARALLEL] = {{0}}, queued = {0};
  for (uint32_t i = 0; i < PARALLEL; i++) assert_int_equal(submit(*state, &busy[i], 10, 0, i), 0);
  assert_int_equal(submit(*state, &queued, 10, 0, 9), 0);
  engine_cancel(queued.running->engine, queued.id);
  assert_ended(&queued, FINISH_CANCELLED, 0);
  assert_int_equal(queued.prefilled, 0);
  for (uint32_t i = 0; i < PARALLEL; i++) {
    engine_cancel(busy[i].running->engine, busy[i].id);
    wait_for(&busy[i]);
    assert_ended(&busy[i], FINISH_CANCELLED, busy[i].count);
  }
}

static void test_cancelled_while_prefilling(void **state) {
  struct client client = {.cancel_prefilled = 2 * CHUNK};
  assert_int_equal(submit(*state, &client, CONTEXT - 10, 0, 77), 0);
  assert_ended(&client, FINISH_CANCELLED, 0);
  assert_int_equal(client.prefilled, 2 * CHUNK);
}

static void test_cancelled_while_decoding(void **state) {
  struct client client = {.cancel_after = 4};
  assert_int_equal(submit(*state, &client, 5, 0, 1), 0);
  assert_ended(&client, FINISH_CANCELLED, 4);
  /* Again, and ids that are not there: nothing happens. */
  engine_cancel(client.running->engine, client.id);
  engine_cancel(client.running->engine, 1u << 30);
  struct client next = {0};
  assert_int_equal(submit(*state, &next, 5, 2, 1), 0);
  assert_ended(&next, FINISH_LENGTH, 2);
  assert_int_equal(client.finals, 1);
}

/* The status is that of the loop's last turn: waits until it has seen the end of all that was submitted. */
static void wait_until_idle(struct engine *engine, struct engine_status *status) {
  do {
    sched_yield();
    engine_get_status(engine, status);
  } while (status->requests > status->finished + status->cancelled + status->failed);
}

/* Nothing is left behind: no sequence, no block; the counts add up. */
static void test_status_adds_up(void **state) {
  struct running *running = *state;
  struct engine_status before, after;
  struct client short_one = {0}, cancelled = {.cancel_after = 2};
  wait_until_idle(running->engine, &before);
  assert_int_equal(submit(running, &short_one, 40, 3, 1), 0);
  assert_int_equal(submit(running, &cancelled, 5, 0, 2), 0);
  assert_ended(&short_one, FINISH_LENGTH, 3);
  assert_ended(&cancelled, FINISH_CANCELLED, 2);
  struct client last = {0};
  assert_int_equal(submit(running, &last, 1, 1, 3), 0);
  assert_ended(&last, FINISH_LENGTH, 1);
  wait_until_idle(running->engine, &after);
  assert_int_equal(after.state, ENGINE_READY);
  assert_int_equal(after.kv_blocks_used, 0);
  assert_int_equal(after.running, 0);
  assert_int_equal(after.waiting, 0);
  assert_int_equal(after.requests - before.requests, 3);
  assert_int_equal(after.finished - before.finished, 2);
  assert_int_equal(after.cancelled - before.cancelled, 1);
  assert_int_equal(after.failed - before.failed, 0);
  assert_int_equal(after.prompt_tokens - before.prompt_tokens, 46);
  assert_int_equal(after.completion_tokens - before.completion_tokens, 6);
  assert_int_equal(after.node_count, 1);
}

/* An engine with nothing to do says so, though nobody wakes it. */
static void test_busy_share_of_an_idle_engine(void **state) {
  struct running *running = *state;
  struct engine_status status;
  double end = clock_seconds() + 60;
  do { /* until a window that is over had work in it */
    struct client client = {0};
    assert_int_equal(submit(running, &client, 40, 30, 1), 0);
    assert_ended(&client, FINISH_LENGTH, 30);
    engine_get_status(running->engine, &status);
  } while (status.nodes[0].busy == 0 && clock_seconds() < end);
  assert_true(status.nodes[0].busy > 0);
  do {
    usleep(50000);
    engine_get_status(running->engine, &status);
  } while (status.nodes[0].busy > 0 && clock_seconds() < end);
  assert_true(status.nodes[0].busy == 0);
}

/* One after the other, and all at once in one with room for more than it takes logits of at a time. */
static void test_same_tokens_alone_and_together(void **state) {
  enum { COUNT = 12 };
  static struct client together[COUNT], alone[COUNT];
  const uint32_t prompts[COUNT] = {1, 33, 64, 65, 90, 12, 128, 2, 3, 4, 5, 6};
  struct running *crowded = start(COUNT, 64);
  for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(submit(crowded, &together[i], prompts[i], 6 + i, i + 1), 0);
  for (uint32_t i = 0; i < COUNT; i++) {
    assert_int_equal(submit(*state, &alone[i], prompts[i], 6 + i, i + 1), 0);
    assert_ended(&alone[i], FINISH_LENGTH, 6 + i);
    assert_ended(&together[i], FINISH_LENGTH, 6 + i);
    assert_memory_equal(alone[i].tokens, together[i].tokens, (6 + i) * sizeof(uint32_t));
    assert_true(i == 0 || memcmp(alone[i].tokens, alone[i - 1].tokens, 6 * sizeof(uint32_t)) != 0);
  }
  stop(crowded);
}

enum { THREADS = 6, REQUESTS = 8 };

struct crowd {
  struct running *running;
  uint32_t number, finished, cancelled;
  bool wrong;
};

/* One of many clients: sends, waits, cancels from another thread at any moment, asks for the status. */
static void *crowd_run(void *context) {
  struct crowd *crowd = context;
  for (uint32_t i = 0; i < REQUESTS; i++) {
    struct client client = {0};
    struct engine_status status;
    uint32_t length = 1 + (crowd->number * 31 + i * 17) % 60, wanted = 1 + (crowd->number + i) % 6;
    bool cancels = (crowd->number + i) % 3 == 0;
    if (cancels) wanted = 0;
    if (submit(crowd->running, &client, length, wanted, i)) {
      crowd->wrong = true;
      continue;
    }
    engine_get_status(crowd->running->engine, &status);
    if (cancels) engine_cancel(crowd->running->engine, client.id);
    wait_for(&client);
    crowd->finished += client.finish == FINISH_LENGTH;
    crowd->cancelled += client.finish == FINISH_CANCELLED;
    crowd->wrong |=
        client.wrong || client.finals != 1 || (client.finish == FINISH_LENGTH && !cancels && client.count != wanted);
  }
  return NULL;
}

static void test_many_clients_on_threads(void **state) {
  pthread_t threads[THREADS];
  struct crowd crowd[THREADS];
  uint32_t finished = 0, cancelled = 0;
  for (uint32_t i = 0; i < THREADS; i++) {
    crowd[i] = (struct crowd){.running = *state, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, crowd_run, &crowd[i]), 0);
  }
  for (uint32_t i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_false(crowd[i].wrong);
    finished += crowd[i].finished;
    cancelled += crowd[i].cancelled;
  }
  assert_int_equal(finished + cancelled, THREADS * REQUESTS);
  assert_true(finished >= THREADS * REQUESTS / 2);
}

static void test_stop_ends_everything(void **state) {
  (void)state;
  enum { COUNT = 8 };
  static struct client clients[COUNT];
  struct running *running = start(2, 16);
  struct engine *engine = running->engine;
  for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(submit(running, &clients[i], 50, 0, i), 0);
  engine_stop(engine);
  struct client late = {0};
  assert_int_equal(submit(running, &late, 5, 1, 1), KJ_CANCELLED);
  pthread_join(running->thread, NULL);
  for (uint32_t i = 0; i < COUNT; i++) assert_ended(&clients[i], FINISH_CANCELLED, clients[i].count);
  assert_int_equal(late.finals, 0);
  assert_int_equal(running->code, 0);
  engine_destroy(engine);
  pthread_cond_destroy(&running->changed);
  pthread_mutex_destroy(&running->mutex);
  free(running);
}

static void test_stopped_before_it_is_ready(void **state) {
  (void)state;
  struct running running = {.engine = create(1, 0)};
  pthread_mutex_init(&running.mutex, NULL);
  pthread_cond_init(&running.changed, NULL);
  struct client client = {0};
  assert_int_equal(submit(&running, &client, 5, 3, 1), 0);
  engine_stop(running.engine);
  run(&running);
  assert_int_equal(running.code, 0);
  assert_false(running.ready);
  assert_ended(&client, FINISH_CANCELLED, 0);
  engine_destroy(running.engine);
  pthread_cond_destroy(&running.changed);
  pthread_mutex_destroy(&running.mutex);
}

static void test_destroyed_without_having_run(void **state) {
  (void)state;
  struct running running = {.engine = create(1, 0)};
  pthread_mutex_init(&running.mutex, NULL);
  pthread_cond_init(&running.changed, NULL);
  struct client client = {0};
  assert_int_equal(submit(&running, &client, 5, 3, 1), 0);
  engine_destroy(running.engine);
  assert_ended(&client, FINISH_CANCELLED, 0);
  pthread_cond_destroy(&running.changed);
  pthread_mutex_destroy(&running.mutex);
}

/* Submitted before the engine runs: served once it does. */
static void test_requests_before_the_start_wait(void **state) {
  (void)state;
  struct running running = {.engine = create(1, 0)};
  pthread_mutex_init(&running.mutex, NULL);
  pthread_cond_init(&running.changed, NULL);
  struct client first = {0}, second = {0};
  assert_int_equal(submit(&running, &first, 5, 3, 1), 0);
  assert_int_equal(submit(&running, &second, 5, 3, 1), 0);
  struct engine_status status;
  engine_get_status(running.engine, &status);
  assert_int_equal(status.waiting, 2);
  engine_cancel(running.engine, first.id);
  assert_int_equal(pthread_create(&running.thread, NULL, run, &running), 0);
  assert_ended(&first, FINISH_CANCELLED, 0);
  assert_ended(&second, FINISH_LENGTH, 3);
  engine_stop(running.engine);
  pthread_join(running.thread, NULL);
  assert_int_equal(running.code, 0);
  engine_destroy(running.engine);
  pthread_cond_destroy(&running.changed);
  pthread_mutex_destroy(&running.mutex);
}

/* A cluster that cannot be formed: what was accepted ends, and nothing is accepted any more. */
static void test_start_that_fails_ends_everything(void **state) {
  (void)state;
  const char *node = "127.0.0.1:1";
  struct engine_options options = {.model = KAIJU_SOURCE_DIR "/models/kaiju-mini",
                                   .nodes = &node,
                                   .node_count = 1,
                                   .context = CONTEXT,
                                   .threads = 1,
                                   .connect_timeout = 0.01};
  struct running running = {0};
  assert_int_equal(engine_create(&running.engine, &options, NULL), 0);
  pthread_mutex_init(&running.mutex, NULL);
  pthread_cond_init(&running.changed, NULL);
  struct client client = {0}, late = {0};
  assert_int_equal(submit(&running, &client, 5, 3, 1), 0);
  run(&running);
  assert_int_equal(running.code, KJ_TIMEOUT);
  assert_non_null(strstr(running.error.message, node));
  assert_ended(&client, FINISH_CANCELLED, 0);
  assert_int_equal(submit(&running, &late, 5, 3, 1), KJ_CANCELLED);
  engine_destroy(running.engine);
  pthread_cond_destroy(&running.changed);
  pthread_mutex_destroy(&running.mutex);
}

static void test_options_that_are_refused(void **state) {
  (void)state;
  const char *twice[] = {"127.0.0.1:1", "127.0.0.1:1"};
  const uint32_t split[] = {5, 6};
  struct engine_options right = {.model = KAIJU_SOURCE_DIR "/models/kaiju-mini", .context = CONTEXT, .threads = 1};
  struct engine_options wrong[] = {right, right, right, right, right};
  wrong[0].model = KAIJU_SOURCE_DIR "/models/no-such-model";
  wrong[1].nodes = twice;
  wrong[1].node_count = 2;
  wrong[2].nodes = twice;
  wrong[2].node_count = 1;
  wrong[2].split = split;
  wrong[2].split_count = 2;
  wrong[3].isa = "sse2";
  wrong[4].memory = 1000;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct engine *engine = (struct engine *)1;
    struct kj_error error = {0};
    assert_int_not_equal(engine_create(&engine, &wrong[i], &error), 0);
    assert_null(engine);
    assert_true(strlen(error.message) > 10);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_length),
      cmocka_unit_test(test_end_token),
      cmocka_unit_test(test_prompts_as_long_as_the_context),
      cmocka_unit_test(test_cancelled_while_queued),
      cmocka_unit_test(test_cancelled_while_prefilling),
      cmocka_unit_test(test_cancelled_while_decoding),
      cmocka_unit_test(test_status_adds_up),
      cmocka_unit_test(test_busy_share_of_an_idle_engine),
      cmocka_unit_test(test_same_tokens_alone_and_together),
      cmocka_unit_test(test_many_clients_on_threads),
      cmocka_unit_test(test_stop_ends_everything),
      cmocka_unit_test(test_stopped_before_it_is_ready),
      cmocka_unit_test(test_destroyed_without_having_run),
      cmocka_unit_test(test_requests_before_the_start_wait),
      cmocka_unit_test(test_start_that_fails_ends_everything),
      cmocka_unit_test(test_options_that_are_refused),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}

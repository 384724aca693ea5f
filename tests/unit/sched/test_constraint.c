/* Sequences under a constraint, in an engine with the shipped model: only allowed tokens come, ends come where they are
 * allowed, failures end the sequence with an error, and the constraint is released once, by whom it belongs to. */
#include <pthread.h>

#include "sched/engine.h"
#include "unit/sched/counted_constraint.h"
#include "unit/unit.h"

enum { CONTEXT = 200, MOST_TOKENS = 64 };

static struct engine *engine;
static pthread_t thread;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static atomic_int living;
static uint32_t end_token;

struct client {
  uint32_t tokens[MOST_TOKENS], count, finals, accepted_drafts;
  enum finish finish;
  struct kj_error error;
};

static void on_event(void *context, const struct engine_event *event) {
  struct client *client = context;
  pthread_mutex_lock(&mutex);
  if (event->has_token && client->count < MOST_TOKENS) client->tokens[client->count++] = event->sampled.token;
  client->accepted_drafts = event->draft_accepted;
  if (event->finish != FINISH_NONE) {
    client->finish = event->finish;
    if (event->error) client->error = *event->error;
    client->finals++;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&mutex);
}

/* Allows a script's tokens, one after the other, from the place where the client sees it; then the end, or nothing. */
struct scripted {
  struct token_constraint base;
  const uint32_t *script;
  uint32_t count, at, accepted, fail_at;
  bool ends;
  uint64_t bits[COUNTED_WORDS];
};

static int scripted_allowed(struct token_constraint *base, uint32_t vocabulary, const uint64_t **bits,
                            struct kj_error *error) {
  struct scripted *scripted = (struct scripted *)base;
  (void)vocabulary;
  if (scripted->at == scripted->fail_at) return kj_fail(error, KJ_UNSUPPORTED, "too ambiguous");
  memset(scripted->bits, 0, sizeof scripted->bits);
  uint32_t token = scripted->at < scripted->count ? scripted->script[scripted->at] : end_token;
  if (scripted->at < scripted->count || scripted->ends) scripted->bits[token / 64] |= (uint64_t)1 << token % 64;
  *bits = scripted->bits;
  return 0;
}

static int scripted_accept(struct token_constraint *base, uint32_t token, struct kj_error *error) {
  struct scripted *scripted = (struct scripted *)base;
  if (scripted->at >= scripted->count || token != scripted->script[scripted->at])
    return kj_fail(error, KJ_INTERNAL, "token %u at %u", token, scripted->at);
  scripted->at++;
  return 0;
}

static void scripted_release(struct token_constraint *base) {
  atomic_fetch_sub(&living, 1);
  free(base);
}

static struct token_constraint *scripted_create(const uint32_t *script, uint32_t count, bool ends, uint32_t fail_at) {
  static const struct token_constraint_operations operations = {scripted_allowed, scripted_accept, scripted_release};
  struct scripted *scripted = calloc(1, sizeof *scripted);
  assert_non_null(scripted);
  scripted->base.operations = &operations;
  scripted->script = script;
  scripted->count = count;
  scripted->ends = ends;
  scripted->fail_at = fail_at;
  atomic_fetch_add(&living, 1);
  return &scripted->base;
}

static void *run(void *context) {
  (void)context;
  return engine_run(engine, NULL, NULL, NULL) ? &engine : NULL;
}

static int setup(void **state) {
  (void)state;
  struct engine_options options = {
      .model = KAIJU_SOURCE_DIR "/models/kaiju-mini", .context = CONTEXT, .parallel = 2, .queue = 1, .threads = 2};
  struct kj_error error = {0};
  if (engine_create(&engine, &options, &error)) fail_msg("%s", error.message);
  end_token = engine_config(engine)->generation.eos[0];
  return pthread_create(&thread, NULL, run, NULL);
}

static int teardown(void **state) {
  (void)state;
  void *failed;
  engine_stop(engine);
  pthread_join(thread, &failed);
  engine_destroy(engine);
  assert_int_equal(living, 0);
  return failed != NULL;
}

static const uint32_t PROMPT[] = {500, 501, 502, 503, 504, 505, 506, 507, 500, 501, 502, 503, 504, 505};

static void answer(struct client *client, struct token_constraint *constraint, bool ignore_eos, float temperature) {
  struct request request = {.tokens = PROMPT,
                            .token_count = sizeof PROMPT / sizeof *PROMPT,
                            .max_tokens = 40,
                            .ignore_eos = ignore_eos,
                            .constraint = constraint,
                            .sampling = {.temperature = temperature, .top_p = 1, .repetition_penalty = 1, .seed = 3},
                            .on_event = on_event,
                            .context = client};
  uint64_t id;
  struct kj_error error;
  *client = (struct client){0};
  if (engine_submit(engine, &request, &id, &error)) fail_msg("%s", error.message);
  pthread_mutex_lock(&mutex);
  while (!client->finals) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
  assert_int_equal(client->finals, 1);
}

static void test_only_allowed_tokens_come(void **state) {
  (void)state;
  struct client client;
  for (int round = 0; round < 2; round++) {
    answer(&client, counted_constraint_create(end_token, &living), false, (float)round);
    bool ended = client.finish == FINISH_EOS;
    assert_true(ended || client.finish == FINISH_LENGTH);
    for (uint32_t i = 0, last = 0; i < client.count; i++) {
      assert_true(counted_allows(last, i, client.tokens[i], end_token));
      assert_true((client.tokens[i] == end_token) == (ended && i + 1 == client.count));
      last = client.tokens[i];
    }
  }
}

/* What repeats itself is drafted, and a draft that the constraint confirms is taken like any other. */
static void test_drafts_go_through_the_constraint(void **state) {
  (void)state;
  uint32_t script[36];
  struct client client;
  for (uint32_t i = 0; i < 36; i++) script[i] = 506 + i % 2 - (i % 12 == 11 ? 100 : 0);
  answer(&client, scripted_create(script, 36, true, UINT32_MAX), false, 0);
  assert_int_equal(client.finish, FINISH_EOS);
  assert_int_equal(client.count, 37);
  assert_memory_equal(client.tokens, script, sizeof script);
  assert_int_equal(client.tokens[36], end_token);
  assert_true(client.accepted_drafts > 0);
}

static void test_ignored_ends(void **state) {
  (void)state;
  struct client client;
  static const uint32_t SCRIPT[] = {600, 601};
  /* Nothing else may follow: the only way is the end. */
  answer(&client, scripted_create(SCRIPT, 2, true, UINT32_MAX), true, 0);
  assert_int_equal(client.finish, FINISH_EOS);
  assert_int_equal(client.count, 3);
  /* Where others may follow as well, none is an end. */
  answer(&client, counted_constraint_create(end_token, &living), true, 1);
  assert_int_equal(client.finish, FINISH_LENGTH);
  for (uint32_t i = 0; i < client.count; i++) assert_int_not_equal(client.tokens[i], end_token);
}

static void test_no_token_fits(void **state) {
  (void)state;
  struct client client;
  static const uint32_t SCRIPT[] = {600, 601};
  answer(&client, scripted_create(SCRIPT, 2, false, UINT32_MAX), false, 0);
  assert_int_equal(client.finish, FINISH_ERROR);
  assert_int_equal(client.count, 2);
  assert_int_equal(client.error.code, KJ_UNSUPPORTED);
  assert_non_null(strstr(client.error.message, "no token of the model's vocabulary"));
}

static void test_a_constraint_that_fails(void **state) {
  (void)state;
  struct client client;
  static const uint32_t SCRIPT[] = {600, 601};
  answer(&client, scripted_create(SCRIPT, 2, true, 1), false, 0);
  assert_int_equal(client.finish, FINISH_ERROR);
  assert_int_equal(client.count, 1);
  assert_string_equal(client.error.message, "too ambiguous");
}

/* What is refused keeps its constraint. */
static void test_refused_requests(void **state) {
  (void)state;
  uint32_t outside = UINT32_MAX;
  uint64_t id;
  struct client client = {0};
  int before = atomic_load(&living);
  struct token_constraint *constraint = counted_constraint_create(end_token, &living);
  struct request request = {.tokens = &outside,
                            .token_count = 1,
                            .constraint = constraint,
                            .sampling = {.top_p = 1, .repetition_penalty = 1},
                            .on_event = on_event,
                            .context = &client};
  assert_int_equal(engine_submit(engine, &request, &id, NULL), KJ_INVALID);
  assert_int_equal(atomic_load(&living), before + 1);
  /* More requests than may run and wait. */
  struct client busy[4];
  uint32_t accepted = 0;
  int code = 0;
  request.tokens = PROMPT;
  request.token_count = 4;
  for (uint32_t i = 0; i < 4 && !code; i++) {
    busy[i] = (struct client){0};
    request.context = &busy[i];
    code = engine_submit(engine, &request, &id, NULL);
    if (code) break;
    accepted++;
    engine_cancel(engine, id);
    request.constraint = counted_constraint_create(end_token, &living);
  }
  if (code) assert_int_equal(code, KJ_BUSY);
  token_constraint_release(request.constraint);
  pthread_mutex_lock(&mutex);
  for (uint32_t i = 0; i < accepted; i++)
    while (!busy[i].finals) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_only_allowed_tokens_come),
      cmocka_unit_test(test_drafts_go_through_the_constraint),
      cmocka_unit_test(test_ignored_ends),
      cmocka_unit_test(test_no_token_fits),
      cmocka_unit_test(test_a_constraint_that_fails),
      cmocka_unit_test(test_refused_requests),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}

#include "cmd/bench_measure.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"

struct measurement {
  struct engine *engine;
  uint32_t streams, tokens, rounds; /* 0 rounds: only the time to the first tokens is wanted */
  uint64_t *requests;               /* [streams] */

  pthread_mutex_t mutex;
  pthread_cond_t news;
  uint32_t started, ended;            /* streams; under mutex, as all below */
  uint64_t before;                    /* tokens that came before all streams had started */
  uint64_t counted;                   /* tokens since then */
  uint32_t marked;                    /* marks set */
  double marks[BENCH_MAX_ROUNDS + 1]; /* when all had started, and when each round was over */
  int code;
  struct kj_error error;
};

static bool is_complete(const struct measurement *measurement) { return measurement->marked > measurement->rounds; }

static void count_token(struct measurement *measurement, uint32_t completion_tokens) {
  if (measurement->started < measurement->streams) {
    measurement->before++;
    if (completion_tokens == 1 && ++measurement->started == measurement->streams)
      measurement->marks[measurement->marked++] = clock_seconds();
  } else if (!is_complete(measurement)) {
    uint64_t round_tokens = (uint64_t)measurement->streams * measurement->tokens;
    if (++measurement->counted == round_tokens * measurement->marked)
      measurement->marks[measurement->marked++] = clock_seconds();
  }
}

/* A stream that ends before the measurement is over takes it with it. */
static void fail(struct measurement *measurement, const struct engine_event *event) {
  if (event->finish == FINISH_ERROR)
    measurement->error = *event->error;
  else if (event->finish == FINISH_LENGTH)
    kj_fail(&measurement->error, KJ_INVALID,
            "a stream reached the end of the context of %u tokens before the measurement was over; give a larger --ctx",
            engine_context(measurement->engine));
  else
    kj_fail(&measurement->error, KJ_CANCELLED, "stopped");
  measurement->code = measurement->error.code;
}

static void on_event(void *context, const struct engine_event *event) {
  struct measurement *measurement = context;
  pthread_mutex_lock(&measurement->mutex);
  if (event->has_token) count_token(measurement, event->completion_tokens);
  if (event->finish != FINISH_NONE) {
    measurement->ended++;
    if (!is_complete(measurement) && !measurement->code) fail(measurement, event);
  }
  pthread_cond_signal(&measurement->news);
  pthread_mutex_unlock(&measurement->mutex);
}

static void fill_prompt(uint32_t *tokens, uint32_t count, uint64_t seed, uint32_t vocabulary) {
  uint64_t state = seed;
  for (uint32_t i = 0; i < count; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX; its high bits are the random ones */
    tokens[i] = (uint32_t)((state >> 32) * vocabulary >> 32);
  }
}

static int submit(struct measurement *measurement, uint32_t stream, uint32_t *tokens, uint32_t count, uint64_t seed,
                  struct kj_error *error) {
  fill_prompt(tokens, count, seed, engine_config(measurement->engine)->vocabulary);
  struct request request = {.tokens = tokens,
                            .token_count = count,
                            .max_tokens = measurement->rounds ? 0 : 1,
                            .ignore_eos = true,
                            .sampling = {.top_p = 1, .repetition_penalty = 1, .top_logprobs = -1},
                            .on_event = on_event,
                            .context = measurement};
  return engine_submit(measurement->engine, &request, &measurement->requests[stream], error);
}

/* Submits all streams, waits for the last mark, then ends what still runs. *seconds: until all had started. */
static int measure(struct measurement *measurement, uint32_t prompt_tokens, uint64_t seed, double *seconds,
                   struct kj_error *error) {
  uint32_t *tokens = calloc(prompt_tokens, sizeof *tokens), submitted = 0;
  int code = 0;
  measurement->requests = calloc(measurement->streams, sizeof *measurement->requests);
  if (!tokens || !measurement->requests) {
    code = kj_fail_memory(error, "the prompts");
    goto done;
  }
  pthread_mutex_init(&measurement->mutex, NULL);
  pthread_cond_init(&measurement->news, NULL);
  double begin = clock_seconds();
  while (submitted < measurement->streams && !code) {
    code = submit(measurement, submitted, tokens, prompt_tokens, seed + submitted, error);
    submitted += !code;
  }
  pthread_mutex_lock(&measurement->mutex);
  while (!code && !measurement->code && !is_complete(measurement))
    pthread_cond_wait(&measurement->news, &measurement->mutex);
  pthread_mutex_unlock(&measurement->mutex);
  for (uint32_t i = 0; i < submitted; i++) engine_cancel(measurement->engine, measurement->requests[i]);
  pthread_mutex_lock(&measurement->mutex);
  while (measurement->ended < submitted) pthread_cond_wait(&measurement->news, &measurement->mutex);
  pthread_mutex_unlock(&measurement->mutex);
  pthread_cond_destroy(&measurement->news);
  pthread_mutex_destroy(&measurement->mutex);
  if (!code && measurement->code) {
    *error = measurement->error;
    code = measurement->code;
  }
  *seconds = measurement->marks[0] - begin;
done:
  free(measurement->requests);
  free(tokens);
  return code;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static struct bench_spread spread_of(double *values, uint32_t count) {
  qsort(values, count, sizeof *values, compare);
  return (struct bench_spread){
      .median = (values[(count - 1) / 2] + values[count / 2]) / 2, .least = values[0], .most = values[count - 1]};
}

int bench_prefill(struct engine *engine, uint32_t prompt_tokens, uint32_t rounds, struct bench_prefill *result,
                  struct kj_error *error) {
  double rates[BENCH_MAX_ROUNDS];
  for (uint32_t round = 0; round < rounds; round++) {
    struct measurement measurement = {.engine = engine, .streams = 1};
    double seconds;
    int code = measure(&measurement, prompt_tokens, (uint64_t)prompt_tokens << 32 | round, &seconds, error);
    if (code) return code;
    rates[round] = prompt_tokens / seconds;
  }
  *result = (struct bench_prefill){.prompt_tokens = prompt_tokens, .rate = spread_of(rates, rounds)};
  return 0;
}

int bench_decode(struct engine *engine, uint32_t streams, uint32_t context, uint32_t tokens, uint32_t rounds,
                 struct bench_decode *result, struct kj_error *error) {
  double rates[BENCH_MAX_ROUNDS];
  struct measurement measurement = {.engine = engine, .streams = streams, .tokens = tokens, .rounds = rounds};
  *result = (struct bench_decode){.streams = streams, .context = context, .tokens = tokens};
  int code = measure(&measurement, context, (uint64_t)context << 32 | (uint64_t)streams << 16, &result->prefill_seconds,
                     error);
  if (code) return code;
  for (uint32_t round = 0; round < rounds; round++)
    rates[round] = (double)streams * tokens / (measurement.marks[round + 1] - measurement.marks[round]);
  result->rate = spread_of(rates, rounds);
  result->mean_context = context + (double)measurement.before / streams + (double)tokens * rounds / 2;
  return 0;
}

uint64_t bench_decode_length(uint32_t streams, uint32_t context, uint32_t tokens, uint32_t rounds, uint32_t chunk) {
  uint64_t step = chunk > streams ? chunk : streams;
  if (step > context) step = context;
  uint64_t prompt_a_step = step > streams ? step - streams + 1 : 1;
  uint64_t steps = streams == 1 ? 0 : (uint64_t)streams * context / prompt_a_step + streams;
  return context + steps + (uint64_t)tokens * rounds + 2;
}

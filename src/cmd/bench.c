#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bandwidth.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/engine_flags.h"
#include "cmd/number.h"
#include "cmd/signals.h"

static const char manual[] =
    "Usage: kaiju bench [MODEL] [options]\n"
    "\n"
    "Measures prefill and decode speed through the whole engine, alone or over nodes, with a prompt of random tokens, "
    "next\n"
    "to the read bandwidth of this machine's memory, which bounds decoding. Prints medians.\n"
    "\n"
    "  --prompt-tokens N      length of the prompt (default: 512)\n"
    "  --tokens N             tokens to decode (default: 64)\n"
    "  --rounds N             repetitions (default: 3)\n"
    "  --json                 print JSON\n" ENGINE_FLAGS_MANUAL "  --help                 this text\n";

enum { FLAG_PROMPT_TOKENS = 2000, FLAG_TOKENS, FLAG_ROUNDS, FLAG_JSON };
enum { MAX_ROUNDS = 1000 };

/* Read once to measure the bandwidth: several times any last level cache share of a core. */
static const size_t BANDWIDTH_BYTES = (size_t)1 << 30;

struct bench_flags {
  struct engine_flags engine;
  uint32_t prompt_tokens, tokens, rounds;
  bool json;
};

struct round {
  double prefill_seconds, decode_seconds;
};

struct benching {
  const struct bench_flags *flags;
  struct engine *engine;
  struct round rounds[MAX_ROUNDS];
  pthread_t thread;
  bool thread_started;
  int code;
  struct kj_error error;

  pthread_mutex_t mutex;
  pthread_cond_t news;
  enum finish finish; /* under mutex, as all below */
  double first_at, last_at;
  uint32_t completion_tokens;
};

static int take(void *context, int option, const char *value, struct kj_error *error) {
  struct bench_flags *flags = context;
  switch (option) {
    case FLAG_PROMPT_TOKENS:
      return cmd_number("--prompt-tokens", value, 1, 1u << 24, &flags->prompt_tokens, error);
    case FLAG_TOKENS:
      return cmd_number("--tokens", value, 2, 1u << 24, &flags->tokens, error);
    case FLAG_ROUNDS:
      return cmd_number("--rounds", value, 1, MAX_ROUNDS, &flags->rounds, error);
    case FLAG_JSON:
      flags->json = true;
      return 0;
    default:
      return engine_flags_take(&flags->engine, option, value, error);
  }
}

static int take_arguments(void *context, int count, char **arguments, struct kj_error *error) {
  struct bench_flags *flags = context;
  return command_take_model(&flags->engine.options.model, count, arguments, error);
}

static void on_event(void *context, const struct engine_event *event) {
  struct benching *benching = context;
  pthread_mutex_lock(&benching->mutex);
  if (event->has_token) {
    benching->last_at = clock_seconds();
    if (event->completion_tokens == 1) benching->first_at = benching->last_at;
  }
  benching->completion_tokens = event->completion_tokens;
  benching->finish = event->finish;
  if (event->error) benching->error = *event->error;
  pthread_cond_signal(&benching->news);
  pthread_mutex_unlock(&benching->mutex);
}

static int run_round(struct benching *benching, uint32_t *tokens, uint32_t index) {
  const struct bench_flags *flags = benching->flags;
  uint32_t vocabulary = engine_config(benching->engine)->vocabulary;
  uint64_t state = index + 1;
  for (uint32_t i = 0; i < flags->prompt_tokens; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
    tokens[i] = (uint32_t)(state >> 33) % vocabulary;
  }
  struct request request = {.tokens = tokens,
                            .token_count = flags->prompt_tokens,
                            .max_tokens = flags->tokens,
                            .ignore_eos = true,
                            .sampling = {.top_p = 1, .repetition_penalty = 1, .top_logprobs = -1},
                            .on_event = on_event,
                            .context = benching};
  uint64_t id;
  double begin = clock_seconds();
  benching->finish = FINISH_NONE;
  int code = engine_submit(benching->engine, &request, &id, &benching->error);
  if (code) return code;
  pthread_mutex_lock(&benching->mutex);
  while (benching->finish == FINISH_NONE) pthread_cond_wait(&benching->news, &benching->mutex);
  benching->rounds[index] = (struct round){benching->first_at - begin, benching->last_at - benching->first_at};
  if (benching->finish == FINISH_ERROR)
    code = benching->error.code;
  else if (benching->finish != FINISH_LENGTH)
    code = kj_fail(&benching->error, KJ_CANCELLED, "stopped");
  else if (benching->completion_tokens != flags->tokens)
    code = kj_fail(&benching->error, KJ_INVALID,
                   "%u prompt tokens and %u more do not fit the context of %u; give a larger --ctx",
                   flags->prompt_tokens, flags->tokens, engine_context(benching->engine));
  pthread_mutex_unlock(&benching->mutex);
  return code;
}

static void *run_rounds(void *context) {
  struct benching *benching = context;
  uint32_t *tokens = calloc(benching->flags->prompt_tokens, sizeof *tokens);
  if (!tokens) benching->code = kj_fail_memory(&benching->error, "the prompt");
  for (uint32_t i = 0; i < benching->flags->rounds && !benching->code; i++)
    benching->code = run_round(benching, tokens, i);
  free(tokens);
  engine_stop(benching->engine);
  return NULL;
}

static void start_rounds(void *context) {
  struct benching *benching = context;
  benching->thread_started = pthread_create(&benching->thread, NULL, run_rounds, benching) == 0;
  if (benching->thread_started) return;
  benching->code = kj_fail(&benching->error, KJ_MEMORY, "cannot start the thread of the measurement");
  engine_stop(benching->engine);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(const struct benching *benching, bool decode) {
  double values[MAX_ROUNDS];
  uint32_t count = benching->flags->rounds;
  for (uint32_t i = 0; i < count; i++)
    values[i] = decode ? benching->rounds[i].decode_seconds : benching->rounds[i].prefill_seconds;
  qsort(values, count, sizeof *values, compare);
  return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Bytes of weights that one token of one sequence reads on all stages together. */
static int bytes_per_token(const struct engine_options *options, uint64_t *bytes, struct kj_error *error) {
  struct checkpoint *checkpoint;
  struct plan *plan;
  struct plan_node node = {.name = "all"};
  struct plan_request request = {.nodes = &node, .node_count = 1, .parallel = 1};
  int code = checkpoint_open(&checkpoint, options->model, error);
  if (code) return code;
  code = plan_estimate(&plan, checkpoint, &request, error);
  if (!code) {
    *bytes = plan->stages[0].bytes_per_token;
    plan_free(plan);
  }
  checkpoint_close(checkpoint);
  return code;
}

static int print_results(const struct benching *benching, double bandwidth, uint64_t bytes, uint64_t peak,
                         struct kj_error *error) {
  const struct bench_flags *flags = benching->flags;
  struct engine_status status;
  engine_get_status(benching->engine, &status);
  double prefill = flags->prompt_tokens / median(benching, false);
  double decode = (flags->tokens - 1) / median(benching, true);
  double achieved = decode * (double)bytes;
  if (!flags->json) {
    printf("%s on %s\n", flags->engine.options.model, status.nodes[0].engine);
    printf("  prefill      %9.1f tokens/s   (%u tokens)\n", prefill, flags->prompt_tokens);
    printf("  decode       %9.2f tokens/s   (%u tokens after %u)\n", decode, flags->tokens, flags->prompt_tokens);
    printf("  weights      %9.3f GB a token, %.2f GB/s\n", (double)bytes * 1e-9, achieved * 1e-9);
    printf("  read speed   %9.2f GB/s of this machine's memory; decode uses %.0f %% of it\n", bandwidth * 1e-9,
           achieved / bandwidth * 100);
    printf("  peak memory  %9.2f GB\n", (double)peak * 1e-9);
    return 0;
  }
  json_t *object = json_pack(
      "{s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:I, s:f, s:f, s:f, s:I}", "model", flags->engine.options.model, "engine",
      status.nodes[0].engine, "prompt_tokens", (int)flags->prompt_tokens, "tokens", (int)flags->tokens, "rounds",
      (int)flags->rounds, "prefill_tokens_per_second", prefill, "decode_tokens_per_second", decode, "bytes_per_token",
      (json_int_t)bytes, "achieved_bytes_per_second", achieved, "read_bytes_per_second", bandwidth,
      "share_of_read_speed", achieved / bandwidth, "peak_memory", (json_int_t)peak);
  int failed = !object || json_dumpf(object, stdout, JSON_INDENT(2)) || putchar('\n') == EOF;
  json_decref(object);
  return failed ? kj_fail(error, KJ_IO, "cannot print the results") : 0;
}

static void stop(void *context, int signal) {
  (void)signal;
  engine_stop(context);
}

static int run(void *context, struct kj_error *error) {
  struct bench_flags *flags = context;
  struct engine_options *options = &flags->engine.options;
  struct threads *threads = NULL;
  uint64_t bytes = 0;
  int code = engine_flags_model(&flags->engine, error);
  if (code) return code;
  signals_block();
  log_set_level(LOG_WARNING);
  struct benching *benching = calloc(1, sizeof *benching);
  if (!benching) return kj_fail_memory(error, "the measurement");
  benching->flags = flags;
  pthread_mutex_init(&benching->mutex, NULL);
  pthread_cond_init(&benching->news, NULL);
  if ((code = bytes_per_token(options, &bytes, error))) goto done;
  if ((code = engine_create(&benching->engine, options, error))) goto done;
  if ((code = signals_watch(stop, benching->engine, error))) goto done;
  code = engine_run(benching->engine, start_rounds, benching, error);
  if (benching->thread_started) pthread_join(benching->thread, NULL);
  if (!code && benching->code) {
    *error = benching->error;
    code = benching->code;
  }
  if (!code && !benching->thread_started) code = kj_fail(error, KJ_CANCELLED, "stopped");
  if (code) goto done;
  uint64_t peak = memory_peak(); /* before the measurement's own buffer */
  if ((code = threads_create(&threads, options->threads, error))) goto done;
  double bandwidth = bandwidth_measure(threads, BANDWIDTH_BYTES);
  threads_destroy(threads);
  if (bandwidth <= 0)
    code = kj_fail_memory(error, "the buffer that the read speed is measured on");
  else
    code = print_results(benching, bandwidth, bytes, peak, error);
done:
  signals_unwatch();
  engine_destroy(benching->engine);
  pthread_cond_destroy(&benching->news);
  pthread_mutex_destroy(&benching->mutex);
  free(benching);
  return code;
}

int cmd_bench(int argc, char **argv) {
  static const struct option known[] = {{"prompt-tokens", required_argument, NULL, FLAG_PROMPT_TOKENS},
                                        {"tokens", required_argument, NULL, FLAG_TOKENS},
                                        {"rounds", required_argument, NULL, FLAG_ROUNDS},
                                        {"json", no_argument, NULL, FLAG_JSON},
                                        {"help", no_argument, NULL, COMMAND_HELP},
                                        ENGINE_LONG_OPTIONS,
                                        {NULL, 0, NULL, 0}};
  static const struct command command = {"bench", manual, "", known, take, take_arguments, run};
  struct bench_flags flags = {.prompt_tokens = 512, .tokens = 64, .rounds = 3};
  engine_flags_init(&flags.engine);
  int status = command_main(&command, &flags, argc, argv);
  engine_flags_free(&flags.engine);
  return status;
}

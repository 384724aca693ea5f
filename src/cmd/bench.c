#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/bandwidth.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/log.h"
#include "base/memory.h"
#include "cmd/bench_measure.h"
#include "cmd/bench_report.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/engine_flags.h"
#include "cmd/number.h"
#include "cmd/signals.h"

static const char manual[] =
    "Usage: kaiju bench [MODEL] [options]\n"
    "\n"
    "Measures prefill and decode speed through the whole engine, alone or over nodes, with prompts of random\n"
    "tokens, next to the read bandwidth of this machine's memory, which bounds decoding. Prints medians and\n"
    "ranges. LIST is a number or several: 64,512,2048.\n"
    "\n"
    "  --prompt-tokens LIST   prompts whose prefill is measured (default: 512)\n"
    "  --streams LIST         sequences that decode at once (default: 1)\n"
    "  --contexts LIST        tokens that they have read before (default: the first of --prompt-tokens)\n"
    "  --tokens N             tokens that each decodes a round (default: 64)\n"
    "  --rounds N             repetitions (default: 3)\n"
    "  --json                 print JSON\n" ENGINE_FLAGS_MANUAL
    "  --help                 this text\n"
    "\n"
    "--ctx and --parallel are as large as the measurement needs if they are not given. Bytes of a decoded\n"
    "token are the weights that a step reads, each once, shared by its streams (of a sparse layer, as many\n"
    "experts as independent random choices hit on average), and the keys and values of the token's own context.\n"
    "Nothing is drafted unless --draft is given: what a draft gains depends on the text, and random tokens are none.\n";

enum {
  FLAG_PROMPT_TOKENS = 2000,
  FLAG_STREAMS,
  FLAG_CONTEXTS,
  FLAG_TOKENS,
  FLAG_ROUNDS,
  FLAG_JSON,
};

/* Several times any last level cache share of a core. */
static const size_t BANDWIDTH_BYTES = (size_t)1 << 30;

struct bench_flags {
  struct engine_flags engine;
  struct cmd_list prompt_tokens, streams, contexts;
  uint32_t tokens, rounds;
  bool json;
};

struct benching {
  const struct bench_flags *flags;
  struct engine *engine;
  struct bench_report report;
  double begin; /* of the engine */
  pthread_t thread;
  bool thread_started;
  int code;
  struct kj_error error;
};

static int take(void *context, int option, const char *value, struct kj_error *error) {
  struct bench_flags *flags = context;
  switch (option) {
    case FLAG_PROMPT_TOKENS:
      return cmd_number_list("--prompt-tokens", value, 1, 1u << 24, &flags->prompt_tokens, error);
    case FLAG_STREAMS:
      return cmd_number_list("--streams", value, 1, 4096, &flags->streams, error);
    case FLAG_CONTEXTS:
      return cmd_number_list("--contexts", value, 1, 1u << 24, &flags->contexts, error);
    case FLAG_TOKENS:
      return cmd_number("--tokens", value, 1, 1u << 20, &flags->tokens, error);
    case FLAG_ROUNDS:
      return cmd_number("--rounds", value, 1, BENCH_MAX_ROUNDS, &flags->rounds, error);
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

static uint32_t largest(const struct cmd_list *list) {
  uint32_t value = 0;
  for (size_t i = 0; i < list->count; i++)
    if (list->values[i] > value) value = list->values[i];
  return value;
}

/* Gives the engine the places and the context that the measurement needs, or checks those that it was given. */
static int size_engine(struct bench_flags *flags, struct kj_error *error) {
  struct engine_options *options = &flags->engine.options;
  if (!flags->contexts.count) flags->contexts = (struct cmd_list){{flags->prompt_tokens.values[0]}, 1};
  uint32_t streams = largest(&flags->streams), chunk = options->chunk ? options->chunk : ENGINE_DEFAULT_CHUNK;
  if (!options->parallel) options->parallel = streams;
  if (!options->draft) options->draft = ENGINE_NO_DRAFT;
  if (options->parallel < streams)
    return kj_fail(error, KJ_INVALID, "--streams %u needs --parallel %u or more", streams, streams);
  uint64_t longest = (uint64_t)largest(&flags->prompt_tokens) + 1;
  for (size_t i = 0; i < flags->streams.count; i++)
    for (size_t j = 0; j < flags->contexts.count; j++) {
      uint32_t context = flags->contexts.values[j];
      uint64_t length = bench_decode_length(flags->streams.values[i], context, flags->tokens, flags->rounds, chunk);
      if (length > longest) longest = length;
    }
  if (!options->context && longest <= UINT32_MAX) options->context = (uint32_t)longest;
  if (longest > options->context)
    return kj_fail(error, KJ_INVALID,
                   "the measurement needs sequences of %llu tokens; they do not fit the context of %u",
                   (unsigned long long)longest, options->context);
  return 0;
}

static int measure(struct benching *benching) {
  const struct bench_flags *flags = benching->flags;
  struct bench_report *report = &benching->report;
  int code = 0;
  for (size_t i = 0; i < flags->prompt_tokens.count && !code; i++)
    code = bench_prefill(benching->engine, flags->prompt_tokens.values[i], flags->rounds,
                         &report->prefills[report->prefill_count++], &benching->error);
  for (size_t i = 0; i < flags->streams.count; i++)
    for (size_t j = 0; j < flags->contexts.count && !code; j++)
      code = bench_decode(benching->engine, flags->streams.values[i], flags->contexts.values[j], flags->tokens,
                          flags->rounds, &report->decodes[report->decode_count++], &benching->error);
  return code;
}

static void *run_measurement(void *context) {
  struct benching *benching = context;
  benching->code = measure(benching);
  engine_stop(benching->engine);
  return NULL;
}

static void start_measurement(void *context) {
  struct benching *benching = context;
  benching->report.ready_seconds = clock_seconds() - benching->begin;
  benching->thread_started = pthread_create(&benching->thread, NULL, run_measurement, benching) == 0;
  if (benching->thread_started) return;
  benching->code = kj_fail(&benching->error, KJ_MEMORY, "cannot start the thread of the measurement");
  engine_stop(benching->engine);
}

static int measure_read_speed(const struct engine_options *options, double *speed, struct kj_error *error) {
  struct threads *threads;
  int code = threads_create_on(&threads, options->threads, options->cpus, error);
  if (code) return code;
  *speed = bandwidth_measure(threads, BANDWIDTH_BYTES);
  threads_destroy(threads);
  return *speed > 0 ? 0 : kj_fail_memory(error, "the buffer that the read speed is measured on");
}

static void stop(void *context, int signal) {
  (void)signal;
  engine_stop(context);
}

/* Creates the engine, runs it until all is measured, and notes what only it can say. */
static int run_engine(struct benching *benching, struct kj_error *error) {
  struct bench_report *report = &benching->report;
  struct engine_status status;
  benching->begin = clock_seconds();
  int code = engine_create(&benching->engine, &benching->flags->engine.options, error);
  if (!code) code = signals_watch(stop, benching->engine, error);
  if (code) return code;
  code = engine_run(benching->engine, start_measurement, benching, error);
  if (benching->thread_started) pthread_join(benching->thread, NULL);
  if (code) return code;
  if (benching->code) {
    *error = benching->error;
    return benching->code;
  }
  if (!benching->thread_started) return kj_fail(error, KJ_CANCELLED, "stopped");
  engine_get_status(benching->engine, &status);
  memcpy(report->engine, status.nodes[0].engine, sizeof report->engine);
  report->peak_memory = memory_peak();
  return 0;
}

static int run(void *context, struct kj_error *error) {
  struct bench_flags *flags = context;
  struct engine_options *options = &flags->engine.options;
  int code = engine_flags_prepare(&flags->engine, error);
  if (!code) code = size_engine(flags, error);
  if (code) return code;
  signals_block();
  log_set_level(LOG_WARNING);
  struct benching *benching = calloc(1, sizeof *benching);
  if (!benching) return kj_fail_memory(error, "the measurement");
  struct bench_report *report = &benching->report;
  benching->flags = flags;
  report->model = options->model;
  report->rounds = flags->rounds;
  report->cpus = cpus_available(); /* before this thread is pinned to one of them */
  if ((code = bench_model_read(&report->weights, options->model, error))) goto done;
  if ((code = measure_read_speed(options, &report->read_before, error))) goto done;
  memory_reset_peak();
  if ((code = run_engine(benching, error))) goto done;
  if ((code = measure_read_speed(options, &report->read_after, error))) goto done;
  if (flags->json)
    code = bench_print_json(report, error);
  else
    bench_print(report);
done:
  signals_unwatch();
  engine_destroy(benching->engine);
  free(benching);
  return code;
}

int cmd_bench(int argc, char **argv) {
  static const struct option known[] = {{"prompt-tokens", required_argument, NULL, FLAG_PROMPT_TOKENS},
                                        {"streams", required_argument, NULL, FLAG_STREAMS},
                                        {"contexts", required_argument, NULL, FLAG_CONTEXTS},
                                        {"tokens", required_argument, NULL, FLAG_TOKENS},
                                        {"rounds", required_argument, NULL, FLAG_ROUNDS},
                                        {"json", no_argument, NULL, FLAG_JSON},
                                        {"help", no_argument, NULL, COMMAND_HELP},
                                        ENGINE_LONG_OPTIONS,
                                        {NULL, 0, NULL, 0}};
  static const struct command command = {"bench", manual, "", known, take, take_arguments, run};
  struct bench_flags flags = {.prompt_tokens = {{512}, 1}, .streams = {{1}, 1}, .tokens = 64, .rounds = 3};
  engine_flags_init(&flags.engine);
  int status = command_main(&command, &flags, argc, argv);
  engine_flags_free(&flags.engine);
  return status;
}

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/conversation.h"
#include "cmd/engine_flags.h"
#include "cmd/number.h"
#include "cmd/progress.h"
#include "cmd/signals.h"

static const char manual[] =
    "Usage: kaiju run [MODEL] [-p PROMPT] [options]\n"
    "\n"
    "Answers one prompt, given with -p or on standard input, or chats when standard input is a terminal. Ctrl-C stops "
    "a\n"
    "reply; between replies it ends the program, as Ctrl-D does. MODEL defaults to the shipped kaiju-mini.\n"
    "\n"
    "  -p, --prompt TEXT      the prompt\n"
    "  --raw                  complete the prompt as it is, without the chat template\n"
    "  --system TEXT          a system message\n"
    "  --max-tokens N         tokens of a reply at most (default: until the context is full)\n"
    "  --temperature X, --top-p X, --top-k N, --min-p X, --repetition-penalty X\n"
    "                         sampling (default: as generation_config.json says); temperature 0: the best token\n"
    "  --seed N               the same seed gives the same reply\n"
    "  --quiet                no statistics after the reply\n" ENGINE_FLAGS_MANUAL
    "                         (of --parallel the default is 1 here: there is one conversation)\n"
    "  --help                 this text\n";

enum {
  FLAG_SYSTEM = 2000,
  FLAG_RAW,
  FLAG_MAX_TOKENS,
  FLAG_TEMPERATURE,
  FLAG_TOP_P,
  FLAG_TOP_K,
  FLAG_MIN_P,
  FLAG_REPETITION,
  FLAG_SEED,
  FLAG_QUIET
};

struct run_flags {
  struct engine_flags engine;
  const char *prompt, *system;
  uint32_t max_tokens, top_k;
  uint64_t seed;
  float temperature, top_p, min_p, repetition_penalty; /* NaN: not given */
  bool top_k_given, seed_given, raw, quiet;
};

struct running {
  const struct run_flags *flags;
  struct engine *engine;
  struct tokenizer *tokenizer;
  struct chat_template *chat;
  struct conversation *conversation;
  atomic_bool ending; /* by a signal */
  int wake;           /* eventfd that ends the wait for a line */
  struct progress progress;
  pthread_t thread; /* of the conversation */
  bool thread_started;
  int code; /* of the conversation */
  struct kj_error error;
};

static int take_float(const char *option, const char *text, float least, float most, float *value,
                      struct kj_error *error) {
  char *end;
  *value = strtof(text, &end);
  if (end == text || *end || !(*value >= least && *value <= most))
    return kj_fail(error, KJ_INVALID, "%s \"%s\": a number from %g to %g is needed", option, text, (double)least,
                   (double)most);
  return 0;
}

static int take(void *context, int option, const char *value, struct kj_error *error) {
  struct run_flags *flags = context;
  switch (option) {
    case 'p':
      flags->prompt = value;
      return 0;
    case FLAG_SYSTEM:
      flags->system = value;
      return 0;
    case FLAG_RAW:
      flags->raw = true;
      return 0;
    case FLAG_MAX_TOKENS:
      return cmd_number("--max-tokens", value, 1, UINT32_MAX, &flags->max_tokens, error);
    case FLAG_TEMPERATURE:
      return take_float("--temperature", value, 0, 100, &flags->temperature, error);
    case FLAG_TOP_P:
      return take_float("--top-p", value, 0, 1, &flags->top_p, error);
    case FLAG_TOP_K:
      flags->top_k_given = true;
      return cmd_number("--top-k", value, 0, UINT32_MAX, &flags->top_k, error);
    case FLAG_MIN_P:
      return take_float("--min-p", value, 0, 1, &flags->min_p, error);
    case FLAG_REPETITION:
      return take_float("--repetition-penalty", value, 0.01f, 100, &flags->repetition_penalty, error);
    case FLAG_SEED:
      flags->seed_given = true;
      return cmd_number64("--seed", value, &flags->seed, error);
    case FLAG_QUIET:
      flags->quiet = true;
      return 0;
    default:
      return engine_flags_take(&flags->engine, option, value, error);
  }
}

static int take_arguments(void *context, int count, char **arguments, struct kj_error *error) {
  struct run_flags *flags = context;
  return command_take_model(&flags->engine.options.model, count, arguments, error);
}

static struct sampling choose_sampling(const struct run_flags *flags, const struct config *config) {
  struct sampling sampling = sampling_defaults(&config->generation);
  sampling.seed = flags->seed;
  if (!isnan(flags->temperature)) sampling.temperature = flags->temperature;
  if (!isnan(flags->top_p)) sampling.top_p = flags->top_p;
  if (!isnan(flags->min_p)) sampling.min_p = flags->min_p;
  if (!isnan(flags->repetition_penalty)) sampling.repetition_penalty = flags->repetition_penalty;
  if (flags->top_k_given) sampling.top_k = flags->top_k;
  return sampling;
}

/* Bytes of standard input; 0 at its end or when the program is to end, -1 on an error. */
static ssize_t read_input(struct running *running, char *bytes, size_t size) {
  for (;;) {
    struct pollfd files[] = {{STDIN_FILENO, POLLIN, 0}, {running->wake, POLLIN, 0}};
    if (poll(files, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return -1;
    }
    if (files[1].revents) return 0;
    if (files[0].revents) return read(STDIN_FILENO, bytes, size);
  }
}

/* One line from standard input without its newline; false at the end of the input or when the program is to end. */
static bool read_line(struct running *running, struct buffer *pending, struct buffer *line) {
  buffer_clear(line);
  for (;;) {
    char *newline = pending->length ? memchr(pending->data, '\n', pending->length) : NULL;
    if (newline) {
      size_t length = (size_t)(newline - pending->data);
      buffer_append(line, pending->data, length);
      buffer_consume(pending, length + 1);
      return true;
    }
    char bytes[4096];
    ssize_t count = read_input(running, bytes, sizeof bytes);
    if (count <= 0) {
      buffer_append(line, buffer_text(pending), pending->length);
      buffer_clear(pending);
      return line->length > 0;
    }
    buffer_append(pending, bytes, (size_t)count);
  }
}

static int say(struct running *running, const char *prompt) {
  struct reply_statistics statistics;
  int code = conversation_say(running->conversation, prompt, stdout, &statistics, &running->error);
  if (code) return code;
  putchar('\n');
  fflush(stdout);
  if (running->flags->quiet) return 0;
  fprintf(stderr, "[%u prompt tokens, first token after %.2f s, %u tokens at %.1f tokens/s%s]\n",
          statistics.prompt_tokens, statistics.first_token_seconds, statistics.completion_tokens,
          statistics.tokens_per_second,
          statistics.finish == FINISH_LENGTH      ? ", cut at the limit"
          : statistics.finish == FINISH_CANCELLED ? ", stopped"
                                                  : "");
  return 0;
}

static int say_all_of_input(struct running *running) {
  struct buffer text = {0};
  char bytes[4096];
  ssize_t count;
  while ((count = read_input(running, bytes, sizeof bytes)) > 0) buffer_append(&text, bytes, (size_t)count);
  int code = 0;
  if (count < 0)
    code = kj_fail_errno(&running->error, "read", "standard input");
  else if (atomic_load(&running->ending)) /* told to end before the prompt was complete */
    code = 0;
  else if (buffer_failed(&text))
    code = kj_fail_memory(&running->error, "the prompt");
  else if (memchr(buffer_text(&text), '\0', text.length))
    code = kj_fail(&running->error, KJ_INVALID, "the prompt on standard input contains a NUL byte");
  else
    code = say(running, buffer_text(&text));
  buffer_free(&text);
  return code;
}

static void *converse(void *context) {
  struct running *running = context;
  struct buffer pending = {0}, line = {0};
  if (running->flags->prompt) {
    running->code = say(running, running->flags->prompt);
  } else if (!isatty(STDIN_FILENO)) {
    running->code = say_all_of_input(running);
  } else {
    for (;;) {
      fputs("> ", stdout);
      fflush(stdout);
      if (!read_line(running, &pending, &line)) break;
      if (line.length == 0) continue;
      if (say(running, buffer_text(&line))) fprintf(stderr, "kaiju run: %s\n", running->error.message);
    }
    putchar('\n');
  }
  /* What a signal cut short is no failure. */
  if (running->code == KJ_CANCELLED && atomic_load(&running->ending)) running->code = 0;
  buffer_free(&pending);
  buffer_free(&line);
  engine_stop(running->engine);
  return NULL;
}

static void start_conversation(void *context) {
  struct running *running = context;
  running->thread_started = pthread_create(&running->thread, NULL, converse, running) == 0;
  if (running->thread_started) return;
  running->code = kj_fail(&running->error, KJ_MEMORY, "cannot start the conversation's thread");
  engine_stop(running->engine);
}

/* Ctrl-C stops a reply; without one, or for SIGTERM, the program ends. */
static void on_signal(void *context, int signal) {
  struct running *running = context;
  if (signal == SIGINT && conversation_cancel(running->conversation)) return;
  atomic_store(&running->ending, true);
  uint64_t one = 1;
  ssize_t ignored = write(running->wake, &one, sizeof one);
  (void)ignored;
  engine_stop(running->engine);
}

static int open_all(struct running *running, struct run_flags *flags, struct kj_error *error) {
  struct engine_options *options = &flags->engine.options;
  options->on_progress = isatty(STDERR_FILENO) ? progress_cluster : NULL;
  options->progress_context = &running->progress;
  /* One conversation needs one place: more would only take memory. */
  if (!options->parallel) options->parallel = 1;
  int code = tokenizer_load(&running->tokenizer, options->model, error);
  if (!code && !flags->raw) code = chat_template_load(&running->chat, options->model, error);
  if (!code) code = engine_create(&running->engine, options, error);
  if (code) return code;
  struct conversation_options conversation = {.engine = running->engine,
                                              .tokenizer = running->tokenizer,
                                              .chat = running->chat,
                                              .system = flags->system,
                                              .sampling = choose_sampling(flags, engine_config(running->engine)),
                                              .seed_given = flags->seed_given,
                                              .max_tokens = flags->max_tokens};
  if ((code = conversation_create(&running->conversation, &conversation, error))) return code;
  return signals_watch(on_signal, running, error);
}

static int run(void *context, struct kj_error *error) {
  struct run_flags *flags = context;
  struct running running = {.flags = flags, .wake = eventfd(0, EFD_CLOEXEC)};
  if (running.wake < 0) return kj_fail_errno(error, "create", "an eventfd");
  signals_block();
  log_set_level(LOG_WARNING);
  int code = engine_flags_prepare(&flags->engine, error);
  if (code) goto done;
  if ((code = open_all(&running, flags, error))) goto done;
  code = engine_run(running.engine, start_conversation, &running, error);
  if (running.thread_started) pthread_join(running.thread, NULL);
  if (!code && running.code) {
    *error = running.error;
    code = running.code;
  }
done:
  signals_unwatch();
  conversation_free(running.conversation);
  engine_destroy(running.engine);
  chat_template_free(running.chat);
  tokenizer_free(running.tokenizer);
  close(running.wake);
  return code;
}

int cmd_run(int argc, char **argv) {
  static const struct option known[] = {{"prompt", required_argument, NULL, 'p'},
                                        {"system", required_argument, NULL, FLAG_SYSTEM},
                                        {"raw", no_argument, NULL, FLAG_RAW},
                                        {"max-tokens", required_argument, NULL, FLAG_MAX_TOKENS},
                                        {"temperature", required_argument, NULL, FLAG_TEMPERATURE},
                                        {"top-p", required_argument, NULL, FLAG_TOP_P},
                                        {"top-k", required_argument, NULL, FLAG_TOP_K},
                                        {"min-p", required_argument, NULL, FLAG_MIN_P},
                                        {"repetition-penalty", required_argument, NULL, FLAG_REPETITION},
                                        {"seed", required_argument, NULL, FLAG_SEED},
                                        {"quiet", no_argument, NULL, FLAG_QUIET},
                                        {"help", no_argument, NULL, COMMAND_HELP},
                                        ENGINE_LONG_OPTIONS,
                                        {NULL, 0, NULL, 0}};
  static const struct command command = {"run", manual, "p:", known, take, take_arguments, run};
  struct run_flags flags = {.temperature = NAN, .top_p = NAN, .min_p = NAN, .repetition_penalty = NAN};
  engine_flags_init(&flags.engine);
  int status = command_main(&command, &flags, argc, argv);
  engine_flags_free(&flags.engine);
  return status;
}

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/engine_flags.h"
#include "cmd/number.h"
#include "cmd/progress.h"
#include "cmd/signals.h"
#include "http/server.h"

static const char manual[] =
    "Usage: kaiju serve [MODEL] [options]\n"
    "\n"
    "Serves the checkpoint in directory MODEL (default: the shipped kaiju-mini) over the OpenAI API, alone or as the "
    "lead\n"
    "of a pipeline of nodes.\n"
    "\n"
    "  --host ADDRESS         where the HTTP server listens (default: 127.0.0.1)\n"
    "  --port N               (default: 8080; 0: any free one)\n"
    "  --drop-prompt-lines REGEX\n"
    "                         leave out lines of system messages that match, such as a header with the time: what "
    "comes\n"
    "                         behind them stays in the prefix cache from one request to the next\n" ENGINE_FLAGS_MANUAL
    "  --help                 this text\n";

enum { FLAG_HOST = 2000, FLAG_PORT, FLAG_DROP_PROMPT_LINES };

struct serve_flags {
  struct engine_flags engine;
  const char *host;
  uint32_t port;
  struct prompt_lines *dropped_lines;
};

struct serving {
  struct engine *engine;
  struct tokenizer *tokenizer;
  struct chat_template *chat;
  struct http_server *server;
  char url[300];
  struct progress progress;
};

static int take(void *context, int option, const char *value, struct kj_error *error) {
  struct serve_flags *flags = context;
  switch (option) {
    case FLAG_HOST:
      flags->host = value;
      return 0;
    case FLAG_PORT:
      return cmd_number("--port", value, 0, 65535, &flags->port, error);
    case FLAG_DROP_PROMPT_LINES:
      prompt_lines_free(flags->dropped_lines);
      flags->dropped_lines = NULL;
      if (prompt_lines_compile(&flags->dropped_lines, value, error) == 0) return 0;
      return kj_fail_context(error, "--drop-prompt-lines");
    default:
      return engine_flags_take(&flags->engine, option, value, error);
  }
}

static int take_arguments(void *context, int count, char **arguments, struct kj_error *error) {
  struct serve_flags *flags = context;
  return command_take_model(&flags->engine.options.model, count, arguments, error);
}

static void stop(void *context, int signal) {
  (void)signal;
  log_info("stopping");
  engine_stop(context);
}

static void announce(void *context) {
  const struct serving *serving = context;
  log_info("serving at %s", serving->url);
}

/* The last part of the directory's real name, as clients know the model. */
static void name_model(const char *directory, char *name, size_t size) {
  char *real = realpath(directory, NULL);
  snprintf(name, size, "%s", real ? basename(real) : directory);
  free(real);
}

static int open_text(struct serving *serving, const char *model, struct kj_error *error) {
  int code = tokenizer_load(&serving->tokenizer, model, error);
  if (code) return code;
  code = chat_template_load(&serving->chat, model, error);
  if (code != KJ_NOT_FOUND) return code;
  log_warning("%s: chat completions are off", error->message);
  return 0;
}

static int run(void *context, struct kj_error *error) {
  struct serve_flags *flags = context;
  struct serving serving = {0};
  struct engine_options *options = &flags->engine.options;
  char name[256];
  int code = engine_flags_prepare(&flags->engine, error);
  if (code) return code;
  signals_block();
  options->on_progress = progress_cluster;
  options->progress_context = &serving.progress;
  if ((code = open_text(&serving, options->model, error))) goto done;
  if ((code = engine_create(&serving.engine, options, error))) goto done;
  if ((code = signals_watch(stop, serving.engine, error))) goto done;
  name_model(options->model, name, sizeof name);
  struct http_options http = {.host = flags->host,
                              .port = (uint16_t)flags->port,
                              .model_name = name,
                              .engine = serving.engine,
                              .tokenizer = serving.tokenizer,
                              .chat = serving.chat,
                              .dropped_lines = flags->dropped_lines};
  uint16_t port;
  if ((code = http_server_start(&serving.server, &http, &port, error))) goto done;
  bool is_ipv6 = strchr(flags->host, ':') != NULL;
  snprintf(serving.url, sizeof serving.url, "http://%s%.200s%s:%u", is_ipv6 ? "[" : "", flags->host, is_ipv6 ? "]" : "",
           port);
  log_info("loading %s; %s/health says when it is ready", name, serving.url);
  code = engine_run(serving.engine, announce, &serving, error);
done:
  signals_unwatch();
  if (serving.server) http_server_stop(serving.server);
  engine_destroy(serving.engine);
  chat_template_free(serving.chat);
  tokenizer_free(serving.tokenizer);
  return code;
}

int cmd_serve(int argc, char **argv) {
  static const struct option known[] = {{"host", required_argument, NULL, FLAG_HOST},
                                        {"port", required_argument, NULL, FLAG_PORT},
                                        {"drop-prompt-lines", required_argument, NULL, FLAG_DROP_PROMPT_LINES},
                                        {"help", no_argument, NULL, COMMAND_HELP},
                                        ENGINE_LONG_OPTIONS,
                                        {NULL, 0, NULL, 0}};
  static const struct command command = {"serve", manual, "", known, take, take_arguments, run};
  struct serve_flags flags = {.host = "127.0.0.1", .port = 8080};
  engine_flags_init(&flags.engine);
  int status = command_main(&command, &flags, argc, argv);
  engine_flags_free(&flags.engine);
  prompt_lines_free(flags.dropped_lines);
  return status;
}

#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/engine_flags.h"
#include "cmd/number.h"
#include "cmd/progress.h"
#include "cmd/shipped.h"
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
    "  --port N               (default: 8080; 0: any free one)\n" ENGINE_FLAGS_MANUAL
    "  --help                 this text\n";

enum { FLAG_HOST = 2000, FLAG_PORT, FLAG_HELP };

struct serve_flags {
  struct engine_flags engine;
  const char *host;
  uint32_t port;
  bool help;
};

struct serving {
  struct engine *engine;
  struct tokenizer *tokenizer;
  struct chat_template *chat;
  struct http_server *server;
  char url[300];
  uint64_t layers_shown;
};

static int parse(struct serve_flags *flags, int argc, char **argv, struct kj_error *error) {
  static const struct option known[] = {{"host", required_argument, NULL, FLAG_HOST},
                                        {"port", required_argument, NULL, FLAG_PORT},
                                        {"help", no_argument, NULL, FLAG_HELP},
                                        ENGINE_LONG_OPTIONS,
                                        {NULL, 0, NULL, 0}};
  int option, code = 0;
  opterr = 0;
  optind = 0;
  while (!code && (option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    if (option == FLAG_HOST)
      flags->host = optarg;
    else if (option == FLAG_PORT)
      code = cmd_number("--port", optarg, 0, 65535, &flags->port, error);
    else if (option == FLAG_HELP)
      flags->help = true;
    else if ((code = engine_flags_take(&flags->engine, option, optarg, error)) && option == '?')
      kj_fail_context(error, "%s", argv[optind - 1]);
  }
  if (code || flags->help) return code;
  if (argc - optind > 1) return kj_fail(error, KJ_INVALID, "unexpected argument \"%s\"", argv[optind + 1]);
  if (optind < argc) flags->engine.options.model = argv[optind];
  return 0;
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

static int serve(struct serve_flags *flags, struct kj_error *error) {
  struct serving serving = {0};
  struct engine_options *options = &flags->engine.options;
  char shipped[PATH_MAX], name[256];
  int code = 0;
  if (!options->model) {
    if ((code = shipped_model(shipped, sizeof shipped, error))) return code;
    options->model = shipped;
  }
  options->on_progress = progress_cluster;
  options->progress_context = &serving.layers_shown;
  if ((code = open_text(&serving, options->model, error))) goto done;
  if ((code = engine_create(&serving.engine, options, error))) goto done;
  if ((code = signals_watch(stop, serving.engine, error))) goto done;
  name_model(options->model, name, sizeof name);
  struct http_options http = {.host = flags->host,
                              .port = (uint16_t)flags->port,
                              .model_name = name,
                              .engine = serving.engine,
                              .tokenizer = serving.tokenizer,
                              .chat = serving.chat};
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
  struct kj_error error;
  struct serve_flags flags = {.host = "127.0.0.1", .port = 8080};
  engine_flags_init(&flags.engine);
  int status = 0;
  if (parse(&flags, argc, argv, &error)) {
    fprintf(stderr, "kaiju serve: %s\nTry: kaiju serve --help\n", error.message);
    status = 2;
  } else if (flags.help) {
    status = fputs(manual, stdout) == EOF;
  } else {
    signals_block();
    if (serve(&flags, &error)) {
      fprintf(stderr, "kaiju serve: %s\n", error.message);
      status = 1;
    }
  }
  engine_flags_free(&flags.engine);
  return status;
}

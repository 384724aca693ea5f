#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/progress.h"
#include "cmd/serve_flags.h"
#include "cmd/signals.h"

struct serving {
  struct engine *engine;
  struct tokenizer *tokenizer;
  struct chat_template *chat;
  struct http_server *server;
  char url[300];
  const char *also_socket; /* besides the port, or NULL */
  struct progress progress;
};

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
  const char *also = serving->also_socket ? serving->also_socket : "";
  log_info("serving at %s%s%s", serving->url, *also ? " and unix:" : "", also);
}

/* The last part of the directory's real name, as clients know the model. */
static void name_model(const char *directory, char *name, size_t size) {
  char *real = realpath(directory, NULL);
  snprintf(name, size, "%s", real ? basename(real) : directory);
  free(real);
}

/* Of what decides the tokens of an answer, besides its request and the weights: this version and the model's structure.
 */
static int take_fingerprint(const char *directory, char text[40], struct kj_error *error) {
  struct checkpoint *checkpoint;
  struct checkpoint_identity identity;
  int code = checkpoint_open(&checkpoint, directory, error);
  if (code) return code;
  code = checkpoint_identity(checkpoint, 0, 0, false, &identity, error);
  if (!code) {
    int length = snprintf(text, 40, "fp_%.16s_", KAIJU_VERSION);
    for (size_t i = 0; i < CHECKPOINT_HASH; i++)
      length += snprintf(text + length, 40 - (size_t)length, "%02x", identity.config[i]);
    checkpoint_identity_free(&identity);
  }
  checkpoint_close(checkpoint);
  return code;
}

static void write_url(struct serving *serving, const struct serve_flags *flags, uint16_t port) {
  if (!flags->host) {
    snprintf(serving->url, sizeof serving->url, "unix:%s", flags->socket_path);
    return;
  }
  bool is_ipv6 = strchr(flags->host, ':') != NULL;
  snprintf(serving->url, sizeof serving->url, "http%s://%s%.200s%s:%u", flags->tls ? "s" : "", is_ipv6 ? "[" : "",
           flags->host, is_ipv6 ? "]" : "", port);
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
  char name[256], fingerprint[40];
  int code = serve_flags_prepare(flags, error);
  if (code) return code;
  signals_block();
  options->on_progress = progress_cluster;
  options->progress_context = &serving.progress;
  if ((code = open_text(&serving, options->model, error))) goto done;
  if ((code = engine_create(&serving.engine, options, error))) goto done;
  if ((code = signals_watch(stop, serving.engine, error))) goto done;
  name_model(options->model, name, sizeof name);
  if ((code = take_fingerprint(options->model, fingerprint, error))) goto done;
  struct http_options http = {.host = flags->host,
                              .port = (uint16_t)flags->port,
                              .socket_path = flags->socket_path,
                              .tls = flags->tls,
                              .keys = flags->keys,
                              .cors = flags->cors,
                              .insecure = flags->insecure,
                              .without_page = flags->without_page,
                              .limits = flags->limits,
                              .model_name = name,
                              .aliases = flags->aliases,
                              .fingerprint = fingerprint,
                              .engine = serving.engine,
                              .tokenizer = serving.tokenizer,
                              .chat = serving.chat,
                              .dropped_lines = flags->dropped_lines};
  uint16_t port;
  if ((code = http_server_start(&serving.server, &http, &port, error))) goto done;
  write_url(&serving, flags, port);
  if (flags->host) serving.also_socket = flags->socket_path;
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
  /* A string of C has 4095 bytes at most. */
  struct buffer manual = {0};
  buffer_append_text(&manual, serve_manual);
  buffer_append_text(&manual, serve_manual_rest);
  struct command command = {"serve", buffer_text(&manual), "", serve_options, serve_flags_take, take_arguments, run};
  struct serve_flags flags;
  serve_flags_init(&flags);
  int status = command_main(&command, &flags, argc, argv);
  serve_flags_free(&flags);
  buffer_free(&manual);
  return status;
}

/* The command-line options of kaiju serve. */
#ifndef KAIJU_CMD_SERVE_FLAGS_H
#define KAIJU_CMD_SERVE_FLAGS_H

#include <getopt.h>

#include "cmd/engine_flags.h"
#include "http/server.h"

struct serve_flags {
  struct engine_flags engine;
  const char *host; /* NULL until given */
  uint32_t port;
  bool port_given;
  const char *socket_path;
  const char *aliases;
  const char *certificate_file, *tls_key_file;
  bool insecure, without_page;
  struct http_limits limits;
  /* Owned. */
  struct prompt_lines *dropped_lines;
  struct api_keys *keys;
  struct cors *cors;
  struct tls *tls; /* from serve_flags_prepare on */
};

extern const char serve_manual[], serve_manual_rest[];
extern const struct option serve_options[];

void serve_flags_init(struct serve_flags *flags);
void serve_flags_free(struct serve_flags *flags);
/* As struct command wants it. */
int serve_flags_take(void *flags, int option, const char *value, struct kj_error *error);
/* After parsing: what the options come to together; opens the certificate. */
int serve_flags_prepare(struct serve_flags *flags, struct kj_error *error);

#endif

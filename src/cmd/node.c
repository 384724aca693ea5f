#include "stage/node.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/engine_flags.h"
#include "cmd/number.h"
#include "cmd/progress.h"
#include "cmd/shipped.h"
#include "cmd/signals.h"

static const char manual[] =
    "Usage: kaiju node --listen HOST:PORT [--model DIR] [options]\n"
    "\n"
    "Computes some layers of the model for a lead (kaiju serve --nodes HOST:PORT). Needs only the shard files that "
    "hold\n"
    "its layers (kaiju plan names them).\n"
    "\n"
    "  --listen HOST:PORT     where leads and other nodes connect\n"
    "  --model DIR            the checkpoint (default: the shipped kaiju-mini)\n"
    "  --threads N            compute threads (default: one per CPU)\n"
    "  --cpu NAME             auto, reference, avx2, avx512 or neon (default: auto)\n"
    "  --memory SIZE          memory ceiling of this machine, for example 240GB (default: what is available)\n"
    "  --bandwidth SIZE       memory bytes that this machine reads a second, for the automatic split\n"
    "  --key-file FILE        the cluster's key (make one with: kaiju keygen); without it, loopback only\n"
    "  --provider NAME        tcp or verbs (RDMA); default: verbs where there is a device, else tcp\n"
    "  --deadline S           seconds of silence after which a link counts as lost (default: 10)\n"
    "  --help                 this text\n";

enum { FLAG_LISTEN = 2000, FLAG_MODEL, FLAG_HELP };

struct node_flags {
  struct engine_flags shared; /* what a node has in common with a lead */
  const char *listen, *model;
  bool help;
};

static int parse(struct node_flags *flags, int argc, char **argv, struct kj_error *error) {
  static const struct option known[] = {{"listen", required_argument, NULL, FLAG_LISTEN},
                                        {"model", required_argument, NULL, FLAG_MODEL},
                                        {"threads", required_argument, NULL, FLAG_THREADS},
                                        {"cpu", required_argument, NULL, FLAG_CPU},
                                        {"memory", required_argument, NULL, FLAG_MEMORY},
                                        {"bandwidth", required_argument, NULL, FLAG_BANDWIDTH},
                                        {"key-file", required_argument, NULL, FLAG_KEY_FILE},
                                        {"provider", required_argument, NULL, FLAG_PROVIDER},
                                        {"deadline", required_argument, NULL, FLAG_DEADLINE},
                                        {"help", no_argument, NULL, FLAG_HELP},
                                        {NULL, 0, NULL, 0}};
  int option, code = 0;
  opterr = 0;
  optind = 0;
  while (!code && (option = getopt_long(argc, argv, "", known, NULL)) != -1) {
    if (option == FLAG_LISTEN)
      flags->listen = optarg;
    else if (option == FLAG_MODEL)
      flags->model = optarg;
    else if (option == FLAG_HELP)
      flags->help = true;
    else if ((code = engine_flags_take(&flags->shared, option, optarg, error)) && option == '?')
      kj_fail_context(error, "%s", argv[optind - 1]);
  }
  if (code || flags->help) return code;
  if (optind < argc) return kj_fail(error, KJ_INVALID, "unexpected argument \"%s\"", argv[optind]);
  if (!flags->listen) return kj_fail(error, KJ_INVALID, "--listen HOST:PORT is needed");
  return 0;
}

static void stop(void *context, int signal) {
  (void)signal;
  log_info("stopping");
  node_stop(context);
}

static void show_progress(void *context, uint32_t done, uint32_t total) {
  (void)context;
  progress_layers("loading", done, total);
}

static int serve(const struct node_flags *flags, struct kj_error *error) {
  char shipped[4096], bound[128];
  const char *model = flags->model;
  int code = 0;
  if (!model) {
    if ((code = shipped_model(shipped, sizeof shipped, error))) return code;
    model = shipped;
  }
  const struct engine_options *shared = &flags->shared.options;
  struct node_options options = {.model = model,
                                 .listen = flags->listen,
                                 .threads = shared->threads,
                                 .isa = shared->isa,
                                 .memory = shared->memory,
                                 .bandwidth = shared->bandwidth,
                                 .provider = shared->provider,
                                 .key = shared->key,
                                 .deadline = shared->deadline,
                                 .on_progress = show_progress};
  struct node *node;
  if ((code = node_create(&node, &options, bound, sizeof bound, error))) return code;
  code = signals_watch(stop, node, error);
  if (!code) {
    log_info("node of %s listens at %s", model, bound);
    code = node_run(node, error);
  }
  signals_unwatch();
  node_destroy(node);
  return code;
}

int cmd_node(int argc, char **argv) {
  struct kj_error error;
  struct node_flags flags = {0};
  engine_flags_init(&flags.shared);
  int status = 0;
  if (parse(&flags, argc, argv, &error)) {
    fprintf(stderr, "kaiju node: %s\nTry: kaiju node --help\n", error.message);
    status = 2;
  } else if (flags.help) {
    status = fputs(manual, stdout) == EOF;
  } else {
    signals_block();
    if (serve(&flags, &error)) {
      fprintf(stderr, "kaiju node: %s\n", error.message);
      status = 1;
    }
  }
  engine_flags_free(&flags.shared);
  return status;
}

#include "stage/node.h"

#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/engine_flags.h"
#include "cmd/progress.h"
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
    "  --pin LIST             CPUs to keep to, one a compute thread: 0-3,8 (default: the system chooses)\n"
    "  --huge-pages           copy the weights from the page cache into huge pages: decodes faster, starts slower\n"
    "  --cpu NAME             auto, reference, avx2, avxvnni, avx512, neon or neon-i8mm (default: auto)\n"
    "  --memory SIZE          memory ceiling of this machine, for example 240GB (default: what is available)\n"
    "  --bandwidth SIZE       memory bytes that this machine reads a second, for the automatic split\n"
    "  --kv-disk DIR          keep this node's part of the prefix cache in DIR, over restarts; the lead needs it, too\n"
    "  --kv-disk-size SIZE    bytes it may take in DIR (default: 32GiB)\n"
    "  --key-file FILE        the cluster's key (make one with: kaiju keygen); without it, loopback only\n"
    "  --provider NAME        tcp or verbs (RDMA); default: verbs where there is a device, else tcp\n"
    "  --deadline S           seconds of silence after which a link counts as lost (default: 10)\n"
    "  --help                 this text\n";

enum { FLAG_LISTEN = 2000, FLAG_MODEL };

struct node_flags {
  struct engine_flags shared; /* what a node has in common with a lead */
  const char *listen;
};

static int take(void *context, int option, const char *value, struct kj_error *error) {
  struct node_flags *flags = context;
  switch (option) {
    case FLAG_LISTEN:
      flags->listen = value;
      return 0;
    case FLAG_MODEL:
      flags->shared.options.model = value;
      return 0;
    default:
      return engine_flags_take(&flags->shared, option, value, error);
  }
}

static int take_arguments(void *context, int count, char **arguments, struct kj_error *error) {
  const struct node_flags *flags = context;
  if (count) return kj_fail(error, KJ_INVALID, "unexpected argument \"%s\"", arguments[0]);
  return flags->listen ? 0 : kj_fail(error, KJ_INVALID, "--listen HOST:PORT is needed");
}

static void stop(void *context, int signal) {
  (void)signal;
  log_info("stopping");
  node_stop(context);
}

static void show_progress(void *context, uint32_t done, uint32_t total) { progress_layers(context, done, total); }

static int run(void *context, struct kj_error *error) {
  struct node_flags *flags = context;
  char bound[128];
  int code = engine_flags_prepare(&flags->shared, error);
  if (code) return code;
  const struct engine_options *shared = &flags->shared.options;
  struct progress progress = {0};
  struct node_options options = {.model = shared->model,
                                 .listen = flags->listen,
                                 .threads = shared->threads,
                                 .cpus = shared->cpus,
                                 .huge_pages = shared->huge_pages,
                                 .isa = shared->isa,
                                 .memory = shared->memory,
                                 .bandwidth = shared->bandwidth,
                                 .provider = shared->provider,
                                 .key = shared->key,
                                 .deadline = shared->deadline,
                                 .kv_disk = shared->kv_disk,
                                 .kv_disk_size = shared->kv_disk_size,
                                 .on_progress = show_progress,
                                 .context = &progress};
  struct node *node;
  signals_block();
  if ((code = node_create(&node, &options, bound, sizeof bound, error))) return code;
  code = signals_watch(stop, node, error);
  if (!code) {
    log_info("node of %s listens at %s", shared->model, bound);
    code = node_run(node, error);
  }
  signals_unwatch();
  node_destroy(node);
  return code;
}

int cmd_node(int argc, char **argv) {
  static const struct option known[] = {{"listen", required_argument, NULL, FLAG_LISTEN},
                                        {"model", required_argument, NULL, FLAG_MODEL},
                                        {"threads", required_argument, NULL, FLAG_THREADS},
                                        {"pin", required_argument, NULL, FLAG_PIN},
                                        {"huge-pages", no_argument, NULL, FLAG_HUGE_PAGES},
                                        {"cpu", required_argument, NULL, FLAG_CPU},
                                        {"memory", required_argument, NULL, FLAG_MEMORY},
                                        {"bandwidth", required_argument, NULL, FLAG_BANDWIDTH},
                                        {"kv-disk", required_argument, NULL, FLAG_KV_DISK},
                                        {"kv-disk-size", required_argument, NULL, FLAG_KV_DISK_SIZE},
                                        {"key-file", required_argument, NULL, FLAG_KEY_FILE},
                                        {"provider", required_argument, NULL, FLAG_PROVIDER},
                                        {"deadline", required_argument, NULL, FLAG_DEADLINE},
                                        {"help", no_argument, NULL, COMMAND_HELP},
                                        {NULL, 0, NULL, 0}};
  static const struct command command = {"node", manual, "", known, take, take_arguments, run};
  struct node_flags flags = {0};
  engine_flags_init(&flags.shared);
  int status = command_main(&command, &flags, argc, argv);
  engine_flags_free(&flags.shared);
  return status;
}

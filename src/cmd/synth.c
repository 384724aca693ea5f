#include "model/synth.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/number.h"
#include "model/plan.h"

static const char manual[] =
    "Usage: kaiju synth SHAPE DIR [options]\n"
    "       kaiju synth --config FILE DIR [options]\n"
    "\n"
    "Writes a checkpoint in MLX's format with random weights into the new directory DIR, for benchmarks and tests.\n"
    "SHAPE: qwen3-coder-480b, qwen3-coder-30b or qwen3-235b, at 4 bits in groups of 64.\n"
    "\n"
    "  --config FILE      the model that a config.json describes (qwen3_moe or qwen3); not quantized if it is not\n"
    "  --layers N         this many layers\n"
    "  --seed N           another seed gives other weights, the same seed the same files (default: 0)\n"
    "  --bits 4|8         bits of a quantized weight\n"
    "  --group 32|64|128  weights that share a scale\n"
    "  --sparse           headers and holes only, which take hardly any disk: for planning and loading tests\n"
    "  --shard-size SIZE  of a file at most (default: 5GiB)\n"
    "  --tokenizer DIR    copy the tokenizer's files from this directory\n"
    "  --help             this text\n";

/* A line on a terminal that is rewritten a few times a second. */
struct progress {
  bool terminal;
  double begin, shown;
  uint64_t total;
};

static void show(void *context, uint64_t done, uint64_t total) {
  struct progress *progress = context;
  double now = clock_seconds(), seconds = now - progress->begin;
  progress->total = total;
  if (!progress->terminal || (done < total && now - progress->shown < 0.2)) return;
  progress->shown = now;
  fprintf(stderr, "\r%.2f of %.2f GB written (%.0f MB/s)  %s", (double)done * 1e-9, (double)total * 1e-9,
          seconds > 0 ? (double)done * 1e-6 / seconds : 0.0, done < total ? "" : "\n");
}

static int take(void *flags, int option, const char *value, struct kj_error *error) {
  struct synth_request *request = flags;
  switch (option) {
    case 'c':
      request->config_path = value;
      return 0;
    case 'l':
      return cmd_number("--layers", value, 1, CONFIG_MAX_LAYERS, &request->layers, error);
    case 's':
      return cmd_number64("--seed", value, &request->seed, error);
    case 'b':
      return cmd_number("--bits", value, 1, 32, &request->bits, error);
    case 'g':
      return cmd_number("--group", value, 1, 1024, &request->group, error);
    case 'z':
      return plan_parse_size(value, &request->shard_bytes, error);
    case 't':
      request->tokenizer = value;
      return 0;
    case 'p':
      request->sparse = true;
      return 0;
    default:
      return command_unknown_option(error);
  }
}

static int take_arguments(void *flags, int count, char **arguments, struct kj_error *error) {
  struct synth_request *request = flags;
  int needed = request->config_path ? 1 : 2;
  if (count != needed)
    return kj_fail(error, KJ_INVALID,
                   needed == 1 ? "with --config, one DIR is needed" : "a SHAPE and a DIR are needed");
  if (needed == 2) request->shape = arguments[0];
  request->directory = arguments[count - 1];
  return 0;
}

static int run(void *flags, struct kj_error *error) {
  struct synth_request *request = flags;
  struct progress progress = {.terminal = isatty(STDERR_FILENO), .begin = clock_seconds()};
  request->progress = show;
  request->context = &progress;
  int code = synth_write(request, error);
  if (code) return code;
  bool large = progress.total >= 1000000000;
  printf("%s: %.3f %s of weights%s\n", request->directory, (double)progress.total * (large ? 1e-9 : 1e-6),
         large ? "GB" : "MB", request->sparse ? ", all holes" : "");
  return 0;
}

int cmd_synth(int argc, char **argv) {
  static const struct option known[] = {
      {"config", required_argument, NULL, 'c'},     {"layers", required_argument, NULL, 'l'},
      {"seed", required_argument, NULL, 's'},       {"bits", required_argument, NULL, 'b'},
      {"group", required_argument, NULL, 'g'},      {"sparse", no_argument, NULL, 'p'},
      {"shard-size", required_argument, NULL, 'z'}, {"tokenizer", required_argument, NULL, 't'},
      {"help", no_argument, NULL, COMMAND_HELP},    {NULL, 0, NULL, 0}};
  static const struct command command = {"synth", manual, "", known, take, take_arguments, run};
  struct synth_request request = {0};
  return command_main(&command, &request, argc, argv);
}

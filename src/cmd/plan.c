#include <inttypes.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/number.h"
#include "model/checkpoint.h"
#include "model/plan.h"
#include "sched/engine.h"

static const char manual[] =
    "Usage: kaiju plan MODEL [--node NAME=MEMORY[,BANDWIDTH]]... [options]\n"
    "\n"
    "Shows how the layers of the checkpoint in directory MODEL are split over nodes, and the peak memory of each "
    "node.\n"
    "Reads only the headers of the checkpoint's files. Exit code 1 if the model does not fit.\n"
    "\n"
    "  --node NAME=MEMORY[,BANDWIDTH]  a node, its memory ceiling (256GB, 512MiB) and what it reads a second "
    "(800GB/s).\n"
    "                         The first is the lead, which also holds embedding and head. Without --node: no "
    "ceilings.\n"
    "  --split N,N,...        layers of each node; otherwise the split whose slowest stage is fastest, within the "
    "memory,\n"
    "                         in decode steps of --parallel / --micro-batches sequences\n"
    "  --ctx N                tokens of one sequence (default: the model's maximum)\n"
    "  --parallel N           sequences at once (default: 4)\n"
    "  --kv-tokens N          tokens in the KV cache (default: --parallel times --ctx)\n"
    "  --micro-batches N      that sequences are dealt into (default: one for each node)\n"
    "  --batch-tokens N       tokens of a micro-batch at most (default: 512)\n"
    "  --kv-disk              with what nodes and lead need for their option of that name\n"
    "  --threads N            threads of each node, for its scratch memory (default: 64)\n"
    "  --head-on-last         the last node holds embedding, norm and head too\n"
    "  --json                 print JSON\n"
    "  --help                 this text\n";

struct options {
  struct plan_request request;
  struct plan_node nodes[PLAN_MAX_NODES];
  uint32_t split[PLAN_MAX_NODES];
  uint32_t threads;
  const char *model;
  bool json;
};

static int add_node(struct options *options, const char *text, struct kj_error *error) {
  if (options->request.node_count == PLAN_MAX_NODES)
    return kj_fail(error, KJ_INVALID, "more than %d nodes", PLAN_MAX_NODES);
  return plan_parse_node(text, &options->nodes[options->request.node_count++], error);
}

/* Without --node there is one for each part of the split, with no ceiling. */
static void name_nodes(struct options *options) {
  struct plan_request *request = &options->request;
  if (!request->node_count) {
    request->node_count = request->split ? request->split_count : 1;
    for (size_t i = 0; i < request->node_count; i++)
      if (i)
        snprintf(options->nodes[i].name, sizeof options->nodes[i].name, "node%zu", i);
      else
        snprintf(options->nodes[i].name, sizeof options->nodes[i].name, "lead");
  }
  for (size_t i = 0; i < request->node_count; i++) options->nodes[i].threads = options->threads;
  request->nodes = options->nodes;
}

static int take(void *flags, int option, const char *value, struct kj_error *error) {
  struct options *options = flags;
  struct plan_request *request = &options->request;
  switch (option) {
    case 'n':
      return add_node(options, value, error);
    case 's':
      request->split = options->split;
      return plan_parse_split(value, options->split, &request->split_count, error);
    case 'c':
      return cmd_number("--ctx", value, 1, UINT32_MAX, &request->context, error);
    case 'p':
      return cmd_number("--parallel", value, 1, UINT32_MAX, &request->parallel, error);
    case 'k':
      return cmd_number("--kv-tokens", value, 1, UINT32_MAX, &request->kv_tokens, error);
    case 'm':
      return cmd_number("--micro-batches", value, 1, PLAN_MAX_MICRO_BATCHES, &request->micro_batches, error);
    case 'b':
      return cmd_number("--batch-tokens", value, 1, UINT32_MAX, &request->max_batch_tokens, error);
    case 't':
      return cmd_number("--threads", value, 1, UINT32_MAX, &options->threads, error);
    case 'l':
      request->head_on_last = true;
      return 0;
    case 'd':
      request->kv_disk = true;
      return 0;
    case 'j':
      options->json = true;
      return 0;
    default:
      return command_unknown_option(error);
  }
}

static int take_arguments(void *flags, int count, char **arguments, struct kj_error *error) {
  struct options *options = flags;
  if (count != 1) return kj_fail(error, KJ_INVALID, "one MODEL directory is needed");
  options->model = arguments[0];
  name_nodes(options);
  return 0;
}

static int run(void *flags, struct kj_error *error) {
  struct options *options = flags;
  struct checkpoint *checkpoint = NULL;
  struct plan *plan = NULL;
  int code = checkpoint_open(&checkpoint, options->model, error);
  if (!code) code = plan_estimate(&plan, checkpoint, &options->request, error);
  if (!code && options->json) code = plan_print_json(plan, stdout, error);
  if (!code && !options->json) plan_print(plan, stdout);
  if (!code) code = plan_check_memory(plan, error);
  plan_free(plan);
  checkpoint_close(checkpoint);
  return code;
}

int cmd_plan(int argc, char **argv) {
  static const struct option known[] = {{"node", required_argument, NULL, 'n'},
                                        {"split", required_argument, NULL, 's'},
                                        {"ctx", required_argument, NULL, 'c'},
                                        {"parallel", required_argument, NULL, 'p'},
                                        {"kv-tokens", required_argument, NULL, 'k'},
                                        {"micro-batches", required_argument, NULL, 'm'},
                                        {"batch-tokens", required_argument, NULL, 'b'},
                                        {"threads", required_argument, NULL, 't'},
                                        {"kv-disk", no_argument, NULL, 'd'},
                                        {"head-on-last", no_argument, NULL, 'l'},
                                        {"json", no_argument, NULL, 'j'},
                                        {"help", no_argument, NULL, COMMAND_HELP},
                                        {NULL, 0, NULL, 0}};
  static const struct command command = {"plan", manual, "", known, take, take_arguments, run};
  struct options options = {.request.parallel = ENGINE_DEFAULT_PARALLEL};
  return command_main(&command, &options, argc, argv);
}

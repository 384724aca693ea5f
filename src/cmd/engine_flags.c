#include "cmd/engine_flags.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/command.h"
#include "cmd/number.h"
#include "cmd/shipped.h"

void engine_flags_init(struct engine_flags *flags) {
  memset(flags, 0, sizeof *flags);
  flags->options.nodes = flags->nodes;
}

int engine_flags_prepare(struct engine_flags *flags, struct kj_error *error) {
  if (flags->options.cpus && cpus_restrict(flags->options.cpus, error)) return kj_fail_context(error, "--pin");
  if (flags->options.model) return 0;
  flags->options.model = flags->shipped;
  return shipped_model(flags->shipped, sizeof flags->shipped, error);
}

void engine_flags_free(struct engine_flags *flags) { free(flags->node_list); }

static int take_nodes(struct engine_flags *flags, const char *value, struct kj_error *error) {
  free(flags->node_list);
  flags->node_list = strdup(value);
  if (!flags->node_list) return kj_fail_memory(error, "the list of nodes");
  flags->options.node_count = 0;
  char *rest = flags->node_list, *name;
  while ((name = strsep(&rest, ","))) {
    if (!*name) return kj_fail(error, KJ_INVALID, "--nodes \"%s\": an address is empty", value);
    if (flags->options.node_count == ENGINE_MAX_NODES)
      return kj_fail(error, KJ_INVALID, "--nodes: more than %d nodes", ENGINE_MAX_NODES);
    flags->nodes[flags->options.node_count++] = name;
  }
  return 0;
}

static int take_provider(const char *value, const char **provider, struct kj_error *error) {
  if (strcmp(value, "tcp") != 0 && strcmp(value, "verbs") != 0)
    return kj_fail(error, KJ_INVALID, "--provider \"%s\": tcp or verbs is needed", value);
  *provider = value;
  return 0;
}

int engine_flags_take(struct engine_flags *flags, int flag, const char *value, struct kj_error *error) {
  struct engine_options *options = &flags->options;
  uint64_t bandwidth;
  int code;
  switch (flag) {
    case FLAG_NODES:
      return take_nodes(flags, value, error);
    case FLAG_SPLIT:
      options->split = flags->split;
      return plan_parse_split(value, flags->split, &options->split_count, error);
    case FLAG_CTX:
      return cmd_number("--ctx", value, 2, 1u << 28, &options->context, error);
    case FLAG_PARALLEL:
      return cmd_number("--parallel", value, 1, 4096, &options->parallel, error);
    case FLAG_KV_TOKENS:
      return cmd_number("--kv-tokens", value, 1, UINT32_MAX, &options->kv_tokens, error);
    case FLAG_QUEUE:
      return cmd_number("--queue", value, 1, 1u << 20, &options->queue, error);
    case FLAG_MICRO_BATCHES:
      return cmd_number("--micro-batches", value, 1, PLAN_MAX_MICRO_BATCHES, &options->micro_batches, error);
    case FLAG_DRAFT:
      code = cmd_number("--draft", value, 0, ENGINE_MAX_DRAFT, &options->draft, error);
      if (!code && options->draft == 0) options->draft = ENGINE_NO_DRAFT;
      return code;
    case FLAG_KV_DISK:
      options->kv_disk = value;
      return 0;
    case FLAG_KV_DISK_SIZE:
      code = plan_parse_size(value, &options->kv_disk_size, error);
      return code ? kj_fail_context(error, "--kv-disk-size") : 0;
    case FLAG_CHUNK:
      return cmd_number("--chunk", value, 1, 65536, &options->chunk, error);
    case FLAG_THREADS:
      return cmd_number("--threads", value, 1, 1024, &options->threads, error);
    case FLAG_PIN:
      options->cpus = &flags->cpus;
      code = cpus_parse(value, &flags->cpus, error);
      return code ? kj_fail_context(error, "--pin") : 0;
    case FLAG_HUGE_PAGES:
      options->huge_pages = true;
      return 0;
    case FLAG_CPU:
      options->isa = value;
      return 0;
    case FLAG_MEMORY:
      return plan_parse_size(value, &options->memory, error);
    case FLAG_BANDWIDTH:
      code = plan_parse_size(value, &bandwidth, error);
      options->bandwidth = (double)bandwidth;
      return code;
    case FLAG_KEY_FILE:
      options->key = flags->key;
      return link_key_load(value, flags->key, error);
    case FLAG_PROVIDER:
      return take_provider(value, &options->provider, error);
    case FLAG_CONNECT_TIMEOUT:
      return cmd_seconds("--connect-timeout", value, &options->connect_timeout, error);
    case FLAG_RECOVERY_TIMEOUT:
      return cmd_seconds("--recovery-timeout", value, &options->recovery_timeout, error);
    case FLAG_DEADLINE:
      return cmd_seconds("--deadline", value, &options->deadline, error);
    case FLAG_STEP_TIMEOUT:
      return cmd_seconds("--step-timeout", value, &options->step_timeout, error);
    default:
      return command_unknown_option(error);
  }
}

#include "cmd/bench_report.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "compute/backend.h"
#include "model/checkpoint.h"

int bench_model_read(struct bench_model *model, const char *directory, struct kj_error *error) {
  struct checkpoint *checkpoint;
  struct checkpoint_sizes sizes;
  int code = checkpoint_open(&checkpoint, directory, error);
  if (code) return code;
  code = checkpoint_sizes(checkpoint, &sizes, error);
  if (!code) {
    const struct config *config = checkpoint_config(checkpoint);
    const struct attention_shape shape = {
        .query_heads = config->query_heads, .kv_heads = config->kv_heads, .head_dim = config->head_dim};
    *model = (struct bench_model){
        .experts = config->experts,
        .chosen = config->experts_per_token,
        .common_bytes = sizes.norm_bytes + (config->tied_embeddings ? sizes.embedding_bytes : sizes.head_bytes),
        .kv_bytes_a_position = backend_kv_block_bytes(shape) * config->layers / KV_BLOCK};
    for (uint32_t layer = 0; layer < sizes.layers; layer++) {
      model->common_bytes += sizes.layer_bytes[layer] - sizes.expert_bytes[layer];
      model->expert_bytes += sizes.expert_bytes[layer];
    }
    checkpoint_sizes_free(&sizes);
  }
  checkpoint_close(checkpoint);
  return code;
}

double bench_distinct_experts(const struct bench_model *model, uint32_t streams) {
  if (!model->experts) return 0;
  return model->experts * (1 - pow(1 - (double)model->chosen / model->experts, streams));
}

/* What one decoded token moves, and how fast that was. */
struct traffic {
  double distinct_experts, weight_bytes, kv_bytes; /* bytes a token: a step's, shared by its streams; one stream's */
  double bytes_per_second, share;
};

static double read_speed(const struct bench_report *report) { return (report->read_before + report->read_after) / 2; }

static struct traffic traffic_of(const struct bench_report *report, const struct bench_decode *decode) {
  const struct bench_model *model = &report->weights;
  struct traffic traffic = {.distinct_experts = bench_distinct_experts(model, decode->streams)};
  double weights = (double)model->common_bytes;
  if (model->experts) weights += (double)model->expert_bytes * traffic.distinct_experts / model->experts;
  traffic.weight_bytes = weights / decode->streams;
  traffic.kv_bytes = (double)model->kv_bytes_a_position * decode->mean_context;
  traffic.bytes_per_second = (traffic.weight_bytes + traffic.kv_bytes) * decode->rate.median;
  traffic.share = traffic.bytes_per_second / read_speed(report);
  return traffic;
}

static void describe_cpu(char *name, size_t size) {
  struct utsname machine;
  char line[512];
  snprintf(name, size, "%s", uname(&machine) == 0 ? machine.machine : "unknown");
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (!file) return;
  while (fgets(line, sizeof line, file)) {
    char *value = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !value || !value[1]) continue;
    snprintf(name, size, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
    break;
  }
  fclose(file);
}

void bench_print(const struct bench_report *report) {
  char cpu[256];
  describe_cpu(cpu, sizeof cpu);
  printf("%s on %s, %zu CPUs: %s\n", report->model, report->engine, report->cpus, cpu);
  printf("  ready after %.2f s, peak memory %.2f GB\n", report->ready_seconds, (double)report->peak_memory * 1e-9);
  printf("  read speed of this machine's memory: %.2f GB/s before, %.2f GB/s after\n\n", report->read_before * 1e-9,
         report->read_after * 1e-9);
  printf("  prompt    prefill tokens/s\n");
  for (size_t i = 0; i < report->prefill_count; i++) {
    const struct bench_prefill *prefill = &report->prefills[i];
    printf("  %6u  %18.1f  (%.1f…%.1f)\n", prefill->prompt_tokens, prefill->rate.median, prefill->rate.least,
           prefill->rate.most);
  }
  printf("\n  streams  context    decode tokens/s   each  GB a token    GB/s  of read speed\n");
  for (size_t i = 0; i < report->decode_count; i++) {
    const struct bench_decode *decode = &report->decodes[i];
    const struct traffic traffic = traffic_of(report, decode);
    printf("  %7u  %7u  %17.2f %6.2f  %10.3f  %6.2f  %11.0f %%  (%.2f…%.2f)\n", decode->streams, decode->context,
           decode->rate.median, decode->rate.median / decode->streams, (traffic.weight_bytes + traffic.kv_bytes) * 1e-9,
           traffic.bytes_per_second * 1e-9, traffic.share * 100, decode->rate.least, decode->rate.most);
  }
}

static int append(json_t *array, json_t *object) { return object ? json_array_append_new(array, object) : -1; }

static int append_prefills(const struct bench_report *report, json_t *array) {
  int failed = 0;
  for (size_t i = 0; i < report->prefill_count && !failed; i++) {
    const struct bench_prefill *prefill = &report->prefills[i];
    failed = append(array,
                    json_pack("{s:i, s:f, s:f, s:f}", "prompt_tokens", (int)prefill->prompt_tokens, "tokens_per_second",
                              prefill->rate.median, "least", prefill->rate.least, "most", prefill->rate.most));
  }
  return failed;
}

static int append_decodes(const struct bench_report *report, json_t *array) {
  int failed = 0;
  for (size_t i = 0; i < report->decode_count && !failed; i++) {
    const struct bench_decode *decode = &report->decodes[i];
    const struct traffic traffic = traffic_of(report, decode);
    failed = append(array,
                    json_pack("{s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "streams",
                              (int)decode->streams, "context", (int)decode->context, "tokens", (int)decode->tokens,
                              "tokens_per_second", decode->rate.median, "least", decode->rate.least, "most",
                              decode->rate.most, "tokens_per_second_each", decode->rate.median / decode->streams,
                              "prefill_seconds", decode->prefill_seconds, "distinct_experts", traffic.distinct_experts,
                              "weight_bytes_per_token", traffic.weight_bytes, "kv_bytes_per_token", traffic.kv_bytes,
                              "bytes_per_token", traffic.weight_bytes + traffic.kv_bytes, "bytes_per_second",
                              traffic.bytes_per_second, "share_of_read_speed", traffic.share));
  }
  return failed;
}

int bench_print_json(const struct bench_report *report, struct kj_error *error) {
  char cpu[256];
  describe_cpu(cpu, sizeof cpu);
  json_t *prefills = json_array(), *decodes = json_array();
  int failed = !prefills || !decodes || append_prefills(report, prefills) || append_decodes(report, decodes);
  json_t *object =
      json_pack("{s:s, s:s, s:{s:s, s:i}, s:i, s:o, s:o, s:f, s:f, s:f, s:f, s:I}", "model", report->model, "engine",
                report->engine, "machine", "cpu", cpu, "cpus", (int)report->cpus, "rounds", (int)report->rounds,
                "prefill", prefills, "decode", decodes, "read_bytes_per_second", read_speed(report),
                "read_bytes_per_second_before", report->read_before, "read_bytes_per_second_after", report->read_after,
                "ready_seconds", report->ready_seconds, "peak_memory", (json_int_t)report->peak_memory);
  failed = failed || !object || json_dumpf(object, stdout, JSON_INDENT(2)) || putchar('\n') == EOF;
  json_decref(object);
  return failed ? kj_fail(error, KJ_IO, "cannot print the results") : 0;
}

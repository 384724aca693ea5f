#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "compute/batch.h"
#include "model/plan.h"

enum { BAR_CELLS = 60 };

/* "183.3 GB", "12 MB", "248 KB", "12 B": short enough for a column of a table. */
struct size_text {
  char text[24];
};

static struct size_text size_text(uint64_t bytes) {
  struct size_text size;
  double value = (double)bytes;
  if (value >= 999.95e9)
    snprintf(size.text, sizeof size.text, "%.2f TB", value * 1e-12);
  else if (value >= 999.5e6)
    snprintf(size.text, sizeof size.text, "%.1f GB", value * 1e-9);
  else if (value >= 999.5e3)
    snprintf(size.text, sizeof size.text, "%.0f MB", value * 1e-6);
  else if (value >= 10e3)
    snprintf(size.text, sizeof size.text, "%.0f KB", value * 1e-3);
  else
    snprintf(size.text, sizeof size.text, "%" PRIu64 " B", bytes);
  return size;
}

/* A layer's size matters to the third decimal: it is multiplied by their number. */
static struct size_text layer_size_text(uint64_t bytes) {
  struct size_text size;
  if (bytes < 1000000)
    snprintf(size.text, sizeof size.text, "%.3f KB", (double)bytes * 1e-3);
  else
    snprintf(size.text, sizeof size.text, "%.3f %s", (double)bytes * (bytes < 1000000000 ? 1e-6 : 1e-9),
             bytes < 1000000000 ? "MB" : "GB");
  return size;
}

static void print_summary(const struct plan *plan, FILE *file) {
  fprintf(file, "%s of weights in %" PRIu32 " layer%s of %s", size_text(plan->total_weights).text, plan->layers,
          plan->layers == 1 ? "" : "s", layer_size_text(plan->smallest_layer).text);
  if (plan->largest_layer > plan->smallest_layer) fprintf(file, " to %s", layer_size_text(plan->largest_layer).text);
  fprintf(file, ", %g KiB of KV a token\n", (double)plan->kv_bytes_per_token / 1024);
  fprintf(file,
          "%" PRIu32 " sequence%s of up to %" PRIu32 " tokens: %" PRIu32
          " KV blocks of %d positions on each node; what they leave free is the prefix cache\n\n",
          plan->parallel, plan->parallel == 1 ? "" : "s", plan->context, plan->kv_blocks, KV_BLOCK);
}

/* One cell of a bar: what lies at this part of the scale. */
static char bar_cell(const struct plan_stage *stage, uint64_t memory, double position) {
  if (memory && position >= (double)memory) return '!';
  if (position < (double)stage->weights) return '#';
  if (position < (double)stage->weights + (double)stage->kv) return '+';
  if (position < (double)stage->peak) return '-';
  return '.';
}

static void print_bar(const struct plan *plan, size_t i, uint64_t largest_peak, FILE *file) {
  const struct plan_stage *stage = &plan->stages[i];
  uint64_t memory = plan->nodes[i].memory;
  uint64_t scale = memory ? (stage->peak > memory ? stage->peak : memory) : largest_peak;
  fputs("  [", file);
  for (int cell = 0; cell < BAR_CELLS; cell++)
    fputc(bar_cell(stage, memory, ((double)cell + 0.5) / BAR_CELLS * (double)scale), file);
  fputc(']', file);
  if (memory && stage->peak > memory) fprintf(file, " too big by %s", size_text(stage->peak - memory).text);
  fputc('\n', file);
}

/* "model-00003-of-00056.safetensors" → 3 and 56. */
static bool shard_number(const char *name, unsigned *number, unsigned *total) {
  int end = 0;
  return sscanf(name, "model-%5u-of-%5u.safetensors%n", number, total, &end) == 2 && end && !name[end];
}

static bool shards_numbered(const struct plan_stage *stage) {
  unsigned number, total, first_total = 0;
  for (size_t i = 0; i < stage->shard_count; i++) {
    if (!shard_number(stage->shards[i], &number, &total)) return false;
    if (i == 0) first_total = total;
    if (total != first_total) return false;
  }
  return stage->shard_count > 0;
}

static void print_shards(const struct plan *plan, const struct plan_stage *stage, FILE *file) {
  if (!stage->shard_count) return;
  if (!shards_numbered(stage)) {
    fprintf(file, "  %zu of %zu shard file%s: ", stage->shard_count, plan->shard_count,
            plan->shard_count == 1 ? "" : "s");
    for (size_t i = 0; i < stage->shard_count; i++) fprintf(file, "%s%s", i ? ", " : "", stage->shards[i]);
    fputc('\n', file);
    return;
  }
  const char *separator = "";
  unsigned first, last, next, total;
  shard_number(stage->shards[0], &first, &total);
  fprintf(file, "  %zu of %u shard files (model-NNNNN-of-%05u.safetensors): ", stage->shard_count, total, total);
  for (size_t i = 0; i < stage->shard_count;) {
    shard_number(stage->shards[i], &first, &total);
    last = first;
    while (++i < stage->shard_count && shard_number(stage->shards[i], &next, &total) && next == last + 1) last = next;
    fprintf(file, first == last ? "%s%u" : "%s%u-%u", separator, first, last);
    separator = ", ";
  }
  fputc('\n', file);
}

static void print_node(const struct plan *plan, size_t i, int name_width, bool timed, FILE *file) {
  const struct plan_stage *stage = &plan->stages[i];
  const struct plan_node *node = &plan->nodes[i];
  char layers[32] = "none", share[16] = "-", time[24] = "", step[48] = "";
  if (stage->layer_count)
    snprintf(layers, sizeof layers, "%" PRIu32 "-%" PRIu32, stage->first_layer,
             stage->first_layer + stage->layer_count - 1);
  if (node->memory) snprintf(share, sizeof share, "%.1f %%", 100 * (double)stage->peak / (double)node->memory);
  if (node->bandwidth > 0)
    snprintf(time, sizeof time, " %9.2f ms", 1e3 * (double)stage->bytes_per_token / node->bandwidth);
  if (plan->step_rows > 1 && node->bandwidth > 0)
    snprintf(step, sizeof step, " %9s %9.2f ms", size_text(stage->bytes_per_step).text,
             1e3 * (double)stage->bytes_per_step / node->bandwidth);
  else if (plan->step_rows > 1)
    snprintf(step, sizeof step, "%*s %9s", timed ? 13 : 0, "", size_text(stage->bytes_per_step).text);
  fprintf(file, "%-*s %9s %5" PRIu32 " %9s %9s %8s %8s %9s %9s %8s %9s%s%s\n", name_width, node->name, layers,
          stage->layer_count, size_text(stage->weights).text, size_text(stage->kv).text, size_text(stage->working).text,
          size_text(stage->runtime).text, size_text(stage->peak).text,
          node->memory ? size_text(node->memory).text : "-", share, size_text(stage->bytes_per_token).text, time, step);
}

void plan_print(const struct plan *plan, FILE *file) {
  int name_width = 4;
  uint64_t largest_peak = 0;
  bool timed = false, several = plan->step_rows > 1;
  for (size_t i = 0; i < plan->stage_count; i++) {
    int length = (int)strlen(plan->nodes[i].name);
    if (length > name_width) name_width = length;
    if (plan->stages[i].peak > largest_peak) largest_peak = plan->stages[i].peak;
    timed |= plan->nodes[i].bandwidth > 0;
  }
  print_summary(plan, file);
  fprintf(file, "%-*s %9s %5s %9s %9s %8s %8s %9s %9s %8s %9s%s%s%s\n", name_width, "node", "layers", "count",
          "weights", "KV", "working", "runtime", "peak", "ceiling", "share", "reads", timed ? "   a token in" : "",
          several ? "    a step" : "", several && timed ? "           in" : "");
  for (size_t i = 0; i < plan->stage_count; i++) {
    print_node(plan, i, name_width, timed, file);
    print_bar(plan, i, largest_peak, file);
    print_shards(plan, &plan->stages[i], file);
  }
  fputs(
      "\n# weights  + KV  - working set and runtime  . free  ! above the ceiling;"
      " reads: weights read for a decoded token\n",
      file);
  if (several)
    fprintf(file,
            "step: weights read for a token each of the %" PRIu32 " sequences of a micro-batch (of %" PRIu32 ")\n",
            plan->step_rows, plan->micro_batches);
}

static json_t *stage_json(const struct plan_stage *stage, const struct plan_node *node) {
  json_t *shards = json_array();
  for (size_t i = 0; i < stage->shard_count; i++) json_array_append_new(shards, json_string(stage->shards[i]));
  json_t *object =
      json_pack("{s:s, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "name", node->name, "first_layer",
                (json_int_t)stage->first_layer, "layers", (json_int_t)stage->layer_count, "head",
                (int)stage->holds_head, "weights_bytes", (json_int_t)stage->weights, "kv_bytes", (json_int_t)stage->kv,
                "working_bytes", (json_int_t)stage->working, "runtime_bytes", (json_int_t)stage->runtime, "peak_bytes",
                (json_int_t)stage->peak, "bytes_per_token", (json_int_t)stage->bytes_per_token, "bytes_per_step",
                (json_int_t)stage->bytes_per_step, "shards", shards);
  if (!object) return NULL;
  bool fits = !node->memory || stage->peak <= node->memory;
  int failed = json_object_set_new(object, "fits", json_boolean(fits));
  failed |=
      json_object_set_new(object, "memory_bytes", node->memory ? json_integer((json_int_t)node->memory) : json_null());
  failed |= json_object_set_new(object, "share",
                                node->memory ? json_real((double)stage->peak / (double)node->memory) : json_null());
  failed |= json_object_set_new(object, "bandwidth", node->bandwidth > 0 ? json_real(node->bandwidth) : json_null());
  failed |= json_object_set_new(
      object, "seconds_per_token",
      node->bandwidth > 0 ? json_real((double)stage->bytes_per_token / node->bandwidth) : json_null());
  failed |= json_object_set_new(
      object, "seconds_per_step",
      node->bandwidth > 0 ? json_real((double)stage->bytes_per_step / node->bandwidth) : json_null());
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

int plan_print_json(const struct plan *plan, FILE *file, struct kj_error *error) {
  int code = 0;
  bool fits = plan_check_memory(plan, NULL) == 0;
  json_t *nodes = json_array();
  for (size_t i = 0; i < plan->stage_count; i++)
    if (json_array_append_new(nodes, stage_json(&plan->stages[i], &plan->nodes[i]))) {
      json_decref(nodes);
      return kj_fail_memory(error, "the plan's JSON");
    }
  json_t *root = json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "fits", (int)fits,
                           "layers", (json_int_t)plan->layers, "context", (json_int_t)plan->context, "parallel",
                           (json_int_t)plan->parallel, "micro_batches", (json_int_t)plan->micro_batches, "step_rows",
                           (json_int_t)plan->step_rows, "kv_block_positions", (json_int_t)KV_BLOCK, "kv_blocks",
                           (json_int_t)plan->kv_blocks, "kv_bytes_per_token", (json_int_t)plan->kv_bytes_per_token,
                           "total_weights_bytes", (json_int_t)plan->total_weights, "smallest_layer_bytes",
                           (json_int_t)plan->smallest_layer, "largest_layer_bytes", (json_int_t)plan->largest_layer,
                           "shard_count", (json_int_t)plan->shard_count, "nodes", nodes);
  if (!root)
    code = kj_fail_memory(error, "the plan's JSON");
  else if (json_dumpf(root, file, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) || fputc('\n', file) == EOF)
    code = kj_fail(error, KJ_IO, "cannot write the plan's JSON");
  json_decref(root);
  return code;
}

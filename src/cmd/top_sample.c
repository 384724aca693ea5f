#include "cmd/top_sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/exposition.h"

/* Larger numbers mean nothing here, and adding them up must stay finite. */
static const double LARGEST = 1e18;

static double sane(double value) {
  if (!(value > 0)) return 0;
  return value < LARGEST ? value : LARGEST;
}

struct target {
  const char *name;
  size_t offset; /* of a double */
};

static void store(void *object, const struct target *targets, size_t count, const char *name, double value) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(name, targets[i].name) == 0) memcpy((char *)object + targets[i].offset, &value, sizeof value);
}

static void store_number(struct top_sample *sample, const char *name, double value) {
  static const struct target targets[] = {
      {"kaiju_engine_epoch", offsetof(struct top_sample, epoch)},
      {"kaiju_engine_uptime_seconds", offsetof(struct top_sample, uptime)},
      {"kaiju_requests_running", offsetof(struct top_sample, running)},
      {"kaiju_requests_waiting", offsetof(struct top_sample, waiting)},
      {"kaiju_requests_waiting_limit", offsetof(struct top_sample, waiting_limit)},
      {"kaiju_requests_finished_total", offsetof(struct top_sample, finished)},
      {"kaiju_requests_cancelled_total", offsetof(struct top_sample, cancelled)},
      {"kaiju_requests_failed_total", offsetof(struct top_sample, failed)},
      {"kaiju_requests_refused_total", offsetof(struct top_sample, refused)},
      {"kaiju_prompt_tokens_total", offsetof(struct top_sample, prompt_tokens)},
      {"kaiju_cached_prompt_tokens_total", offsetof(struct top_sample, cached_tokens)},
      {"kaiju_completion_tokens_total", offsetof(struct top_sample, completion_tokens)},
      {"kaiju_drafted_tokens_total", offsetof(struct top_sample, drafted_tokens)},
      {"kaiju_accepted_draft_tokens_total", offsetof(struct top_sample, accepted_tokens)},
      {"kaiju_kv_blocks", offsetof(struct top_sample, kv_blocks)},
      {"kaiju_kv_blocks_used", offsetof(struct top_sample, kv_used)},
      {"kaiju_kv_blocks_cached", offsetof(struct top_sample, kv_cached)},
      {"kaiju_micro_batches", offsetof(struct top_sample, micro_batches)},
      {"kaiju_micro_batches_in_flight", offsetof(struct top_sample, in_flight)},
      {"kaiju_steps_total", offsetof(struct top_sample, steps)},
      {"kaiju_steps_overlapped_total", offsetof(struct top_sample, overlapped)},
      {"kaiju_micro_batch_tokens_sum", offsetof(struct top_sample, batch_tokens_sum)},
      {"kaiju_micro_batch_tokens_count", offsetof(struct top_sample, batch_tokens_count)},
  };
  store(sample, targets, sizeof targets / sizeof targets[0], name, sane(value));
}

static void store_node_number(struct top_node *node, const char *name, double value) {
  static const struct target targets[] = {
      {"kaiju_node_connected", offsetof(struct top_node, connected)},
      {"kaiju_node_first_layer", offsetof(struct top_node, first_layer)},
      {"kaiju_node_layers", offsetof(struct top_node, layers)},
      {"kaiju_node_layers_warm", offsetof(struct top_node, layers_warm)},
      {"kaiju_node_planned_memory_bytes", offsetof(struct top_node, planned_memory)},
      {"kaiju_node_peak_memory_bytes", offsetof(struct top_node, peak_memory)},
      {"kaiju_node_compute_seconds_total", offsetof(struct top_node, compute_seconds)},
      {"kaiju_node_wait_seconds_total", offsetof(struct top_node, wait_seconds)},
      {"kaiju_node_transfer_seconds_total", offsetof(struct top_node, transfer_seconds)},
      {"kaiju_node_busy_ratio", offsetof(struct top_node, busy)},
      {"kaiju_node_tokens_total", offsetof(struct top_node, tokens)},
      {"kaiju_node_round_trip_seconds", offsetof(struct top_node, round_trip)},
  };
  store(node, targets, sizeof targets / sizeof targets[0], name, sane(value));
}

static void copy_label(const struct exposition_sample *from, const char *name, char *to, size_t size) {
  const char *value = exposition_label(from, name);
  if (value) snprintf(to, size, "%s", value);
}

static void take_node(struct top_sample *sample, const struct exposition_sample *read) {
  const char *stage = exposition_label(read, "stage");
  if (!stage || strlen(stage) > 2 || strspn(stage, "0123456789") != strlen(stage) || !*stage) return;
  size_t index = (size_t)atoi(stage);
  if (index >= TOP_MAX_NODES) return;
  if (index >= sample->node_count) sample->node_count = index + 1;
  struct top_node *node = &sample->nodes[index];
  copy_label(read, "node", node->name, sizeof node->name);
  copy_label(read, "host", node->host, sizeof node->host);
  store_node_number(node, read->name, read->value);
}

static void take_bucket(struct top_histogram *histogram, const struct exposition_sample *read) {
  const char *le = exposition_label(read, "le");
  if (!le || histogram->count == TOP_MAX_BUCKETS) return;
  char *end = NULL;
  double bound = strtod(le, &end), previous = histogram->count ? histogram->counts[histogram->count - 1] : 0;
  bool ascends = !histogram->count || bound > histogram->bounds[histogram->count - 1];
  if (end == le || *end || !(bound > 0) || !ascends) return;
  double count = sane(read->value);
  histogram->bounds[histogram->count] = bound;
  histogram->counts[histogram->count++] = count > previous ? count : previous;
}

static void take(struct top_sample *sample, const struct exposition_sample *read) {
  if (strcmp(read->name, "kaiju_engine_state") == 0) {
    if (read->value == 1) copy_label(read, "state", sample->state, sizeof sample->state);
  } else if (strcmp(read->name, "kaiju_info") == 0) {
    copy_label(read, "model", sample->model, sizeof sample->model);
    copy_label(read, "version", sample->version, sizeof sample->version);
  } else if (strcmp(read->name, "kaiju_time_to_first_token_seconds_bucket") == 0) {
    take_bucket(&sample->first_token, read);
  } else if (strcmp(read->name, "kaiju_inter_token_seconds_bucket") == 0) {
    take_bucket(&sample->inter_token, read);
  } else if (strncmp(read->name, "kaiju_node_", strlen("kaiju_node_")) == 0) {
    take_node(sample, read);
  } else if (read->label_count == 0) {
    store_number(sample, read->name, read->value);
  }
}

int top_sample_parse(struct top_sample *sample, const char *text, size_t length, struct kj_error *error) {
  memset(sample, 0, sizeof *sample);
  struct exposition_reader reader = exposition_read(text, length);
  struct exposition_sample read;
  for (bool found = true; found;) {
    int code = exposition_next(&reader, &read, &found, error);
    if (code) return code;
    if (found) take(sample, &read);
  }
  if (sample->state[0]) return 0;
  return kj_fail(error, KJ_INVALID, "its metrics are not those of a Kaiju server: kaiju_engine_state is missing");
}

bool top_sample_follows(const struct top_sample *now, const struct top_sample *before) {
  /* A server that was started again counts from 0. */
  if (!(now->uptime > before->uptime) || now->completion_tokens < before->completion_tokens ||
      now->prompt_tokens < before->prompt_tokens || now->node_count != before->node_count)
    return false;
  for (size_t i = 0; i < now->node_count; i++)
    if (strcmp(now->nodes[i].name, before->nodes[i].name) != 0) return false;
  return true;
}

/* Observations up to a bucket's bound since `before`, which has the same buckets or is not looked at. */
static double observed(const struct top_histogram *now, const struct top_histogram *before, size_t bucket) {
  double count = now->counts[bucket];
  if (before && before->count == now->count && before->bounds[bucket] == now->bounds[bucket])
    count -= before->counts[bucket];
  return count > 0 ? count : 0;
}

double top_quantile(const struct top_histogram *now, const struct top_histogram *before, double quantile) {
  double total = now->count ? observed(now, before, now->count - 1) : 0;
  if (!(total > 0)) return NAN;
  double rank = quantile * total, below = 0, lower = 0;
  for (size_t i = 0; i < now->count; i++) {
    double upto = observed(now, before, i);
    if (upto >= rank && upto > below) {
      if (isinf(now->bounds[i])) return lower;
      return lower + (now->bounds[i] - lower) * (rank - below) / (upto - below);
    }
    below = upto > below ? upto : below;
    if (!isinf(now->bounds[i])) lower = now->bounds[i];
  }
  return lower;
}

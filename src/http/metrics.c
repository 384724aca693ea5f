#include "http/metrics.h"

#include <stdbool.h>

void metrics_count_response(struct metrics *metrics, int status) {
  for (size_t i = 0; i < METRICS_STATUSES; i++) {
    if (metrics->responses[i].status != status && metrics->responses[i].count > 0) continue;
    metrics->responses[i].status = status;
    metrics->responses[i].count++;
    return;
  }
}

const char *engine_state_name(enum engine_state state) {
  switch (state) {
    case ENGINE_CONNECTING:
      return "connecting";
    case ENGINE_LOADING:
      return "loading";
    case ENGINE_READY:
      return "ready";
    case ENGINE_RECOVERING:
      return "recovering";
    case ENGINE_STOPPING:
      return "stopping";
  }
  return "unknown";
}

static void describe(struct buffer *out, const char *name, const char *type, const char *help) {
  buffer_append_format(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void counter(struct buffer *out, const char *name, const char *help, uint64_t value) {
  describe(out, name, "counter", help);
  buffer_append_format(out, "%s %llu\n", name, (unsigned long long)value);
}

static void gauge(struct buffer *out, const char *name, const char *help, double value) {
  describe(out, name, "gauge", help);
  buffer_append_format(out, "%s %.17g\n", name, value);
}

/* Buckets from the one that ends at `least` on: a count has none below 1. */
static void histogram(struct buffer *out, const char *name, const char *help, double least,
                      const struct histogram *values) {
  describe(out, name, "histogram", help);
  uint64_t total = 0;
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
    total += values->counts[i];
    if (histogram_bound(i) < least) continue;
    buffer_append_format(out, "%s_bucket{le=\"%g\"} %llu\n", name, histogram_bound(i), (unsigned long long)total);
  }
  total += values->counts[HISTOGRAM_BUCKETS];
  buffer_append_format(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9g\n%s_count %llu\n", name,
                       (unsigned long long)total, name, values->sum, name, (unsigned long long)total);
}

/* A label's value with the escapes of the exposition format. */
static void label(struct buffer *out, const char *name, const char *value) {
  buffer_append_format(out, "%s=\"", name);
  for (; *value; value++) {
    if (*value == '\\' || *value == '"')
      buffer_append_format(out, "\\%c", *value);
    else if (*value == '\n')
      buffer_append_text(out, "\\n");
    else
      buffer_append(out, value, 1);
  }
  buffer_append_text(out, "\"");
}

static void write_state(const struct engine_status *status, struct buffer *out) {
  describe(out, "kaiju_engine_state", "gauge", "1 for the state that the engine is in.");
  for (enum engine_state state = ENGINE_CONNECTING; state <= ENGINE_STOPPING; state++)
    buffer_append_format(out, "kaiju_engine_state{state=\"%s\"} %d\n", engine_state_name(state),
                         status->state == state);
  gauge(out, "kaiju_engine_epoch", "Number of the current epoch; failures of nodes start new ones.",
        (double)status->epoch);
  gauge(out, "kaiju_engine_uptime_seconds", "Seconds since the engine was started.", status->uptime);
}

static void write_requests(const struct engine_status *status, struct buffer *out) {
  gauge(out, "kaiju_requests_running", "Requests that are generating.", status->running);
  gauge(out, "kaiju_requests_waiting", "Requests that wait for a place.", status->waiting);
  gauge(out, "kaiju_requests_waiting_limit", "Requests that may wait; more are refused.", status->queue);
  counter(out, "kaiju_requests_total", "Requests taken by the engine.", status->requests);
  counter(out, "kaiju_requests_finished_total", "Requests that ended as they should.", status->finished);
  counter(out, "kaiju_requests_cancelled_total", "Requests that were cancelled.", status->cancelled);
  counter(out, "kaiju_requests_failed_total", "Requests that ended with an error.", status->failed);
  counter(out, "kaiju_requests_refused_total", "Requests that found the queue full.", status->refused);
}

static void write_work(const struct engine_status *status, struct buffer *out) {
  gauge(out, "kaiju_kv_blocks", "KV blocks of the pool.", status->kv_blocks);
  gauge(out, "kaiju_kv_blocks_used", "KV blocks of running requests.", status->kv_blocks_used);
  gauge(out, "kaiju_kv_blocks_cached", "KV blocks that only the prefix cache holds.", status->kv_blocks_cached);
  counter(out, "kaiju_prompt_tokens_total", "Prompt tokens computed.", status->prompt_tokens);
  counter(out, "kaiju_cached_prompt_tokens_total", "Prompt tokens taken from the prefix cache.", status->cached_tokens);
  counter(out, "kaiju_completion_tokens_total", "Tokens generated.", status->completion_tokens);
  counter(out, "kaiju_drafted_tokens_total", "Tokens proposed by speculative decoding.", status->drafted_tokens);
  counter(out, "kaiju_accepted_draft_tokens_total", "Proposed tokens that the model confirmed.",
          status->draft_accepted);
  gauge(out, "kaiju_micro_batches", "Micro-batches that may be in the pipeline at once.", status->micro_batches);
  gauge(out, "kaiju_micro_batches_in_flight", "Micro-batches in the pipeline.", status->micro_batches_in_flight);
  counter(out, "kaiju_steps_total", "Micro-batches that went through the pipeline.", status->steps);
  counter(out, "kaiju_steps_overlapped_total", "Of these, launched while another one was in the pipeline.",
          status->steps_overlapped);
  histogram(out, "kaiju_micro_batch_tokens", "Tokens of a micro-batch.", 1, &status->batch_tokens);
  histogram(out, "kaiju_time_to_first_token_seconds", "From a request's submission to the engine to its first token.",
            0, &status->first_token);
  histogram(out, "kaiju_inter_token_seconds", "Between tokens of a request.", 0, &status->inter_token);
}

/* One metric of a node. */
struct node_metric {
  const char *name, *type, *help;
  double (*value)(const struct engine_node_status *node);
};

static double connected(const struct engine_node_status *node) { return node->connected; }
static double first_layer(const struct engine_node_status *node) { return node->first_layer; }
static double layers(const struct engine_node_status *node) { return node->layer_count; }
static double layers_warm(const struct engine_node_status *node) { return node->layers_warm; }
static double planned_memory(const struct engine_node_status *node) { return (double)node->planned_memory; }
static double peak_memory(const struct engine_node_status *node) { return (double)node->peak_memory; }
static double compute_seconds(const struct engine_node_status *node) { return node->compute_seconds; }
static double wait_seconds(const struct engine_node_status *node) { return node->wait_seconds; }
static double transfer_seconds(const struct engine_node_status *node) { return node->transfer_seconds; }
static double busy(const struct engine_node_status *node) { return node->busy; }
static double tokens(const struct engine_node_status *node) { return (double)node->tokens; }
static double round_trip(const struct engine_node_status *node) { return node->round_trip; }
static double bytes_sent(const struct engine_node_status *node) { return (double)node->bytes_sent; }
static double bytes_received(const struct engine_node_status *node) { return (double)node->bytes_received; }

static void write_node_metric(const struct node_metric *metric, const struct engine_status *status,
                              struct buffer *out) {
  describe(out, metric->name, metric->type, metric->help);
  for (size_t node = 0; node < status->node_count && node <= ENGINE_MAX_NODES; node++) {
    buffer_append_format(out, "%s{stage=\"%zu\",", metric->name, node);
    label(out, "node", status->nodes[node].name);
    buffer_append_format(out, "} %.17g\n", metric->value(&status->nodes[node]));
  }
}

static void write_nodes(const struct engine_status *status, struct buffer *out) {
  static const struct node_metric metrics[] = {
      {"kaiju_node_connected", "gauge", "1 if the node is part of the cluster.", connected},
      {"kaiju_node_first_layer", "gauge", "First layer of the node's stage.", first_layer},
      {"kaiju_node_layers", "gauge", "Layers of the node's stage.", layers},
      {"kaiju_node_layers_warm", "gauge", "Layers that are warmed up.", layers_warm},
      {"kaiju_node_planned_memory_bytes", "gauge", "Peak memory as planned.", planned_memory},
      {"kaiju_node_peak_memory_bytes", "gauge", "Peak memory so far.", peak_memory},
      {"kaiju_node_compute_seconds_total", "counter", "Time spent computing.", compute_seconds},
      {"kaiju_node_wait_seconds_total", "counter", "Time spent waiting for work.", wait_seconds},
      {"kaiju_node_transfer_seconds_total", "counter",
       "Time from a frame's being handed to the link to the end of its transmission.", transfer_seconds},
      {"kaiju_node_busy_ratio", "gauge", "Share of the last seconds spent computing, 0 to 1.", busy},
      {"kaiju_node_tokens_total", "counter", "Tokens that went through the node's layers.", tokens},
      {"kaiju_node_round_trip_seconds", "gauge", "Round-trip time of the lead's link to the node.", round_trip},
      {"kaiju_node_sent_bytes_total", "counter", "Bytes sent on the lead's link to the node.", bytes_sent},
      {"kaiju_node_received_bytes_total", "counter", "Bytes received on the lead's link to the node.", bytes_received},
  };
  describe(out, "kaiju_node_info", "gauge", "The host of a node and what computes there.");
  for (size_t node = 0; node < status->node_count && node <= ENGINE_MAX_NODES; node++) {
    buffer_append_format(out, "kaiju_node_info{stage=\"%zu\",", node);
    label(out, "node", status->nodes[node].name);
    buffer_append_text(out, ",");
    label(out, "host", status->nodes[node].host);
    buffer_append_text(out, ",");
    label(out, "engine", status->nodes[node].engine);
    buffer_append_text(out, "} 1\n");
  }
  for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) write_node_metric(&metrics[i], status, out);
}

static void write_http(const struct metrics *metrics, size_t connections, struct buffer *out) {
  describe(out, "kaiju_http_responses_total", "counter", "HTTP responses by status.");
  for (size_t i = 0; i < METRICS_STATUSES && metrics->responses[i].count > 0; i++)
    buffer_append_format(out, "kaiju_http_responses_total{status=\"%d\"} %llu\n", metrics->responses[i].status,
                         (unsigned long long)metrics->responses[i].count);
  gauge(out, "kaiju_http_connections", "Open HTTP connections.", (double)connections);
  counter(out, "kaiju_http_clients_left_total", "Requests whose client left before the end.", metrics->clients_left);
  histogram(out, "kaiju_http_time_to_first_token_seconds", "From a request's last byte to its first token.", 0,
            &metrics->first_token);
}

void metrics_write(const struct metrics *metrics, const struct engine_status *status, const char *model_name,
                   size_t connections, struct buffer *out) {
  describe(out, "kaiju_info", "gauge", "What is served, and by which version.");
  buffer_append_text(out, "kaiju_info{");
  label(out, "model", model_name);
  buffer_append_text(out, ",version=\"" KAIJU_VERSION "\"} 1\n");
  write_state(status, out);
  write_requests(status, out);
  write_work(status, out);
  write_nodes(status, out);
  write_http(metrics, connections, out);
}

#include "http/cluster_status.h"

#include <math.h>

#include "http/json.h"
#include "http/metrics.h"

static json_t *number(uint64_t value) { return json_integer((json_int_t)value); }

/* JSON knows no infinity and no NaN. */
static json_t *real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *names_json(const struct model_names *names) {
  json_t *list = json_array();
  for (size_t i = 0; i < model_names_count(names); i++)
    json_array_append_new(list, json_text(model_names_at(names, i)));
  return list;
}

static json_t *requests_json(const struct engine_status *status) {
  return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "running", number(status->running), "waiting",
                   number(status->waiting), "waiting_limit", number(status->queue), "total", number(status->requests),
                   "finished", number(status->finished), "cancelled", number(status->cancelled), "failed",
                   number(status->failed), "refused", number(status->refused));
}

static json_t *tokens_json(const struct engine_status *status) {
  return json_pack("{s:o, s:o, s:o, s:o, s:o}", "prompt", number(status->prompt_tokens), "cached_prompt",
                   number(status->cached_tokens), "completion", number(status->completion_tokens), "drafted",
                   number(status->drafted_tokens), "accepted_draft", number(status->draft_accepted));
}

static json_t *kv_blocks_json(const struct engine_status *status) {
  return json_pack("{s:o, s:o, s:o}", "total", number(status->kv_blocks), "used", number(status->kv_blocks_used),
                   "cached", number(status->kv_blocks_cached));
}

static json_t *micro_batches_json(const struct engine_status *status) {
  return json_pack("{s:o, s:o, s:o, s:o}", "limit", number(status->micro_batches), "in_flight",
                   number(status->micro_batches_in_flight), "steps", number(status->steps), "overlapped",
                   number(status->steps_overlapped));
}

static json_t *latency_json(const struct histogram *values) {
  uint64_t count = 0;
  for (unsigned i = 0; i <= HISTOGRAM_BUCKETS; i++) count += values->counts[i];
  return json_pack("{s:o, s:o}", "count", number(count), "seconds", real(values->sum));
}

static json_t *node_json(const struct engine_node_status *node, size_t stage) {
  json_t *value = json_pack("{s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "stage", number(stage), "name",
                            json_text(node->name), "host", json_text(node->host), "engine", json_text(node->engine),
                            "connected", (int)node->connected, "first_layer", number(node->first_layer), "layers",
                            number(node->layer_count), "layers_warm", number(node->layers_warm));
  json_t *work = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "planned_memory_bytes",
                           number(node->planned_memory), "peak_memory_bytes", number(node->peak_memory),
                           "compute_seconds", real(node->compute_seconds), "wait_seconds", real(node->wait_seconds),
                           "transfer_seconds", real(node->transfer_seconds), "busy", real(node->busy), "tokens",
                           number(node->tokens), "round_trip_seconds", real(node->round_trip), "sent_bytes",
                           number(node->bytes_sent), "received_bytes", number(node->bytes_received));
  if (json_object_update(value, work) != 0) {
    json_decref(value);
    value = NULL;
  }
  json_decref(work);
  return value;
}

static json_t *nodes_json(const struct engine_status *status) {
  json_t *list = json_array();
  for (size_t i = 0; i < status->node_count && i <= ENGINE_MAX_NODES; i++)
    if (json_array_append_new(list, node_json(&status->nodes[i], i)) != 0) {
      json_decref(list);
      return NULL;
    }
  return list;
}

json_t *cluster_status_json(const struct engine_status *status, const struct model_names *names, uint32_t context) {
  return json_pack("{s:o, s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o}, s:o}", "models",
                   names_json(names), "version", KAIJU_VERSION, "context", number(context), "state",
                   engine_state_name(status->state), "reason", json_text(status->reason), "epoch",
                   number(status->epoch), "uptime_seconds", real(status->uptime), "requests", requests_json(status),
                   "tokens", tokens_json(status), "kv_blocks", kv_blocks_json(status), "micro_batches",
                   micro_batches_json(status), "latency", "first_token", latency_json(&status->first_token),
                   "inter_token", latency_json(&status->inter_token), "nodes", nodes_json(status));
}

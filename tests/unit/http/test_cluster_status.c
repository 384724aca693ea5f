/* The JSON of /cluster: every field of the engine's status under its name. */
#include "http/cluster_status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "http/json.h"
#include "unit/unit.h"

struct fixture {
  struct engine_status status;
  struct model_names *names;
};

static int start(void **state) {
  struct kj_error error;
  struct fixture *fixture = calloc(1, sizeof *fixture);
  if (!fixture || model_names_create(&fixture->names, "kaiju-mini", "coder,small", &error)) return -1;
  *state = fixture;
  return 0;
}

static int stop(void **state) {
  struct fixture *fixture = *state;
  model_names_free(fixture->names);
  free(fixture);
  return 0;
}

static void expect(const struct fixture *fixture, const char *text) {
  json_error_t error;
  json_t *expected = json_loads(text, 0, &error);
  if (!expected) fail_msg("%s", error.text);
  json_t *value = cluster_status_json(&fixture->status, fixture->names, 4096);
  if (!json_equal(value, expected)) fail_msg("%s\nis not\n%s", json_dumps(value, 0), json_dumps(expected, 0));
  json_decref(value);
  json_decref(expected);
}

static void c12_has_everything_of_the_status(void **state) {
  struct fixture *fixture = *state;
  struct engine_status *status = &fixture->status;
  *status = (struct engine_status){.state = ENGINE_RECOVERING,
                                   .reason = "node studio2: gone",
                                   .epoch = 4,
                                   .uptime = 12.5,
                                   .running = 3,
                                   .waiting = 7,
                                   .queue = 256,
                                   .kv_blocks = 1000,
                                   .kv_blocks_used = 200,
                                   .kv_blocks_cached = 300,
                                   .micro_batches = 5,
                                   .micro_batches_in_flight = 2,
                                   .requests = 101,
                                   .finished = 102,
                                   .cancelled = 103,
                                   .failed = 104,
                                   .refused = 105,
                                   .prompt_tokens = 106,
                                   .cached_tokens = 107,
                                   .completion_tokens = 108,
                                   .drafted_tokens = 109,
                                   .draft_accepted = 110,
                                   .steps = 111,
                                   .steps_overlapped = 112,
                                   .node_count = 2};
  histogram_observe(&status->first_token, 0.5);
  histogram_observe(&status->first_token, 5000);
  histogram_observe(&status->inter_token, 0.25);
  snprintf(status->nodes[0].name, sizeof status->nodes[0].name, "lead");
  status->nodes[1] = (struct engine_node_status){.name = "studio2:7000",
                                                 .engine = "cpu avx512, 2 threads",
                                                 .host = "studio2",
                                                 .first_layer = 8,
                                                 .layer_count = 4,
                                                 .layers_warm = 3,
                                                 .connected = true,
                                                 .peak_memory = 1001,
                                                 .planned_memory = 1002,
                                                 .compute_seconds = 1.5,
                                                 .wait_seconds = 2.5,
                                                 .transfer_seconds = 3.5,
                                                 .busy = 0.75,
                                                 .tokens = 1003,
                                                 .round_trip = 0.25,
                                                 .bytes_sent = 1004,
                                                 .bytes_received = 1005};
  expect(fixture,
         "{\"models\": [\"kaiju-mini\", \"coder\", \"small\"], \"version\": \"" KAIJU_VERSION
         "\", \"context\": 4096,"
         " \"state\": \"recovering\", \"reason\": \"node studio2: gone\", \"epoch\": 4, \"uptime_seconds\": 12.5,"
         " \"requests\": {\"running\": 3, \"waiting\": 7, \"waiting_limit\": 256, \"total\": 101, \"finished\": 102,"
         "  \"cancelled\": 103, \"failed\": 104, \"refused\": 105},"
         " \"tokens\": {\"prompt\": 106, \"cached_prompt\": 107, \"completion\": 108, \"drafted\": 109,"
         "  \"accepted_draft\": 110},"
         " \"kv_blocks\": {\"total\": 1000, \"used\": 200, \"cached\": 300},"
         " \"micro_batches\": {\"limit\": 5, \"in_flight\": 2, \"steps\": 111, \"overlapped\": 112},"
         " \"latency\": {\"first_token\": {\"count\": 2, \"seconds\": 5000.5},"
         "  \"inter_token\": {\"count\": 1, \"seconds\": 0.25}},"
         " \"nodes\": [{\"stage\": 0, \"name\": \"lead\", \"host\": \"\", \"engine\": \"\", \"connected\": false,"
         "  \"first_layer\": 0, \"layers\": 0, \"layers_warm\": 0, \"planned_memory_bytes\": 0,"
         "  \"peak_memory_bytes\": 0, \"compute_seconds\": 0.0, \"wait_seconds\": 0.0, \"transfer_seconds\": 0.0,"
         "  \"busy\": 0.0, \"tokens\": 0, \"round_trip_seconds\": 0.0, \"sent_bytes\": 0, \"received_bytes\": 0},"
         " {\"stage\": 1, \"name\": \"studio2:7000\", \"host\": \"studio2\", \"engine\": \"cpu avx512, 2 threads\","
         "  \"connected\": true, \"first_layer\": 8, \"layers\": 4, \"layers_warm\": 3,"
         "  \"planned_memory_bytes\": 1002, \"peak_memory_bytes\": 1001, \"compute_seconds\": 1.5,"
         "  \"wait_seconds\": 2.5, \"transfer_seconds\": 3.5, \"busy\": 0.75, \"tokens\": 1003,"
         "  \"round_trip_seconds\": 0.25, \"sent_bytes\": 1004, \"received_bytes\": 1005}]}");
}

/* What nodes say of themselves cannot break it. */
static void is_json_whatever_nodes_are_called(void **state) {
  struct fixture *fixture = *state;
  fixture->status.node_count = ENGINE_MAX_NODES + 1;
  snprintf(fixture->status.nodes[0].name, sizeof fixture->status.nodes[0].name, "\xff\"\n</script>");
  snprintf(fixture->status.reason, sizeof fixture->status.reason, "cut \xe2\x82");
  fixture->status.nodes[0].round_trip = INFINITY;
  struct buffer out = {0};
  assert_true(json_append(&out, cluster_status_json(&fixture->status, fixture->names, 1)));
  json_t *value = json_loads(buffer_text(&out), 0, NULL);
  json_t *nodes = json_object_get(value, "nodes");
  assert_int_equal(json_array_size(nodes), ENGINE_MAX_NODES + 1);
  assert_string_equal(json_string_value(json_object_get(json_array_get(nodes, 0), "name")), "?\"\n</script>");
  assert_true(json_is_null(json_object_get(json_array_get(nodes, 0), "round_trip_seconds")));
  assert_string_equal(json_string_value(json_object_get(value, "reason")), "cut ??");
  json_decref(value);
  buffer_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(c12_has_everything_of_the_status, start, stop),
      cmocka_unit_test_setup_teardown(is_json_whatever_nodes_are_called, start, stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

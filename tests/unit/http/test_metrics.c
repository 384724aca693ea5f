/* The Prometheus text of /metrics: every field of the engine's status under its name. */
#include "http/metrics.h"

#include <stdio.h>
#include <stdlib.h>

#include "unit/unit.h"

struct text {
  struct engine_status status;
  struct metrics metrics;
  struct buffer written;
};

static int start(void **state) {
  *state = calloc(1, sizeof(struct text));
  return *state ? 0 : -1;
}

static int stop(void **state) {
  struct text *text = *state;
  buffer_free(&text->written);
  free(text);
  return 0;
}

static void write_all(struct text *text) {
  buffer_clear(&text->written);
  metrics_write(&text->metrics, &text->status, "kaiju-mini", 3, &text->written);
  assert_false(buffer_failed(&text->written));
}

/* The text has this whole line. */
static void expect(const struct text *text, const char *line) {
  char framed[400];
  snprintf(framed, sizeof framed, "\n%s\n", line);
  if (!strstr(buffer_text(&text->written), framed)) fail_msg("no line %s in:\n%s", line, text->written.data);
}

static void writes_the_engine(void **state) {
  struct text *text = *state;
  text->status = (struct engine_status){.state = ENGINE_RECOVERING,
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
                                        .steps_overlapped = 112};
  write_all(text);
  expect(text, "kaiju_info{model=\"kaiju-mini\",version=\"" KAIJU_VERSION "\"} 1");
  expect(text, "kaiju_engine_state{state=\"ready\"} 0");
  expect(text, "kaiju_engine_state{state=\"recovering\"} 1");
  expect(text, "kaiju_engine_epoch 4");
  expect(text, "kaiju_engine_uptime_seconds 12.5");
  expect(text, "kaiju_requests_running 3");
  expect(text, "kaiju_requests_waiting 7");
  expect(text, "kaiju_requests_waiting_limit 256");
  expect(text, "kaiju_kv_blocks 1000");
  expect(text, "kaiju_kv_blocks_used 200");
  expect(text, "kaiju_kv_blocks_cached 300");
  expect(text, "kaiju_micro_batches 5");
  expect(text, "kaiju_micro_batches_in_flight 2");
  expect(text, "kaiju_requests_total 101");
  expect(text, "kaiju_requests_finished_total 102");
  expect(text, "kaiju_requests_cancelled_total 103");
  expect(text, "kaiju_requests_failed_total 104");
  expect(text, "kaiju_requests_refused_total 105");
  expect(text, "kaiju_prompt_tokens_total 106");
  expect(text, "kaiju_cached_prompt_tokens_total 107");
  expect(text, "kaiju_completion_tokens_total 108");
  expect(text, "kaiju_drafted_tokens_total 109");
  expect(text, "kaiju_accepted_draft_tokens_total 110");
  expect(text, "kaiju_steps_total 111");
  expect(text, "kaiju_steps_overlapped_total 112");
}

static void c12_writes_every_stage(void **state) {
  struct text *text = *state;
  text->status.node_count = 2;
  snprintf(text->status.nodes[0].name, sizeof text->status.nodes[0].name, "lead");
  text->status.nodes[1] = (struct engine_node_status){.name = "odd\"name\\\n",
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
  write_all(text);
  static const char *const values[] = {
      "connected{%s} 1",
      "first_layer{%s} 8",
      "layers{%s} 4",
      "layers_warm{%s} 3",
      "peak_memory_bytes{%s} 1001",
      "planned_memory_bytes{%s} 1002",
      "compute_seconds_total{%s} 1.5",
      "wait_seconds_total{%s} 2.5",
      "transfer_seconds_total{%s} 3.5",
      "busy_ratio{%s} 0.75",
      "tokens_total{%s} 1003",
      "round_trip_seconds{%s} 0.25",
      "sent_bytes_total{%s} 1004",
      "received_bytes_total{%s} 1005",
      "info{%s,host=\"studio2\",engine=\"cpu avx512, 2 threads\"} 1",
  };
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    char line[300], *labels = strstr(values[i], "%s");
    snprintf(line, sizeof line, "kaiju_node_%.*s%s%s", (int)(labels - values[i]), values[i],
             "stage=\"1\",node=\"odd\\\"name\\\\\\n\"", labels + 2);
    expect(text, line);
  }
  expect(text, "kaiju_node_connected{stage=\"0\",node=\"lead\"} 0");
}

static void writes_cumulative_histograms(void **state) {
  struct text *text = *state;
  histogram_observe(&text->status.first_token, 0.3);
  histogram_observe(&text->status.first_token, 0.3);
  histogram_observe(&text->status.first_token, 5000);
  histogram_observe(&text->status.inter_token, 0.00005);
  histogram_observe(&text->status.batch_tokens, 1);
  histogram_observe(&text->status.batch_tokens, 400);
  histogram_observe(&text->metrics.first_token, 0.7);
  write_all(text);
  expect(text, "kaiju_time_to_first_token_seconds_bucket{le=\"0.25\"} 0");
  expect(text, "kaiju_time_to_first_token_seconds_bucket{le=\"0.5\"} 2");
  expect(text, "kaiju_time_to_first_token_seconds_bucket{le=\"1000\"} 2");
  expect(text, "kaiju_time_to_first_token_seconds_bucket{le=\"+Inf\"} 3");
  expect(text, "kaiju_time_to_first_token_seconds_sum 5000.6");
  expect(text, "kaiju_time_to_first_token_seconds_count 3");
  expect(text, "kaiju_inter_token_seconds_bucket{le=\"0.0001\"} 1");
  expect(text, "kaiju_http_time_to_first_token_seconds_bucket{le=\"1\"} 1");
  expect(text, "kaiju_micro_batch_tokens_bucket{le=\"1\"} 1");
  expect(text, "kaiju_micro_batch_tokens_bucket{le=\"500\"} 2");
  expect(text, "kaiju_micro_batch_tokens_count 2");
  assert_null(strstr(buffer_text(&text->written), "kaiju_micro_batch_tokens_bucket{le=\"0."));
}

static void counts_responses_by_status(void **state) {
  struct text *text = *state;
  metrics_count_response(&text->metrics, 200);
  metrics_count_response(&text->metrics, 429);
  metrics_count_response(&text->metrics, 200);
  text->metrics.clients_left = 6;
  write_all(text);
  expect(text, "kaiju_http_responses_total{status=\"200\"} 2");
  expect(text, "kaiju_http_responses_total{status=\"429\"} 1");
  expect(text, "kaiju_http_connections 3");
  expect(text, "kaiju_http_clients_left_total 6");
}

/* Each name is described once, before its values, and counters are called so. */
static void describes_every_metric(void **state) {
  struct text *text = *state;
  text->status.node_count = 2;
  write_all(text);
  size_t described = 0;
  for (const char *at = buffer_text(&text->written); (at = strstr(at, "# TYPE ")); described++) {
    char name[100], type[20], help[120];
    assert_int_equal(sscanf(at, "# TYPE %99s %19s", name, type), 2);
    at += 7;
    snprintf(help, sizeof help, "# HELP %s ", name);
    const char *first = strstr(buffer_text(&text->written), help);
    assert_true(first && first < at && !strstr(first + 1, help));
    size_t length = strlen(name);
    bool total = length > 6 && strcmp(name + length - 6, "_total") == 0;
    assert_int_equal(total, strcmp(type, "counter") == 0);
  }
  assert_true(described > 40);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(writes_the_engine, start, stop),
      cmocka_unit_test_setup_teardown(c12_writes_every_stage, start, stop),
      cmocka_unit_test_setup_teardown(writes_cumulative_histograms, start, stop),
      cmocka_unit_test_setup_teardown(counts_responses_by_status, start, stop),
      cmocka_unit_test_setup_teardown(describes_every_metric, start, stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

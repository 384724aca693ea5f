/* From the text of /metrics to numbers, and what two moments say together. */
#include "cmd/top_sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit/unit.h"

struct moments {
  struct top_sample now, before;
};

static int start(void **state) {
  *state = calloc(1, sizeof(struct moments));
  return *state ? 0 : -1;
}

static int stop(void **state) {
  free(*state);
  return 0;
}

static void parse(struct top_sample *sample, const char *text) {
  struct kj_error error;
  if (top_sample_parse(sample, text, strlen(text), &error)) fail_msg("%s", error.message);
}

static const char ready[] = "kaiju_engine_state{state=\"loading\"} 0\nkaiju_engine_state{state=\"ready\"} 1\n";

static void reads_the_whole(void **state) {
  struct top_sample *now = &((struct moments *)*state)->now;
  parse(now,
        "kaiju_info{model=\"mini\",version=\"1.2\"} 1\nkaiju_engine_state{state=\"ready\"} 1\nkaiju_engine_epoch 3\n"
        "kaiju_engine_uptime_seconds 60.5\nkaiju_requests_running 4\nkaiju_requests_waiting 5\n"
        "kaiju_requests_waiting_limit 256\nkaiju_requests_refused_total 6\nkaiju_prompt_tokens_total 1e3\n"
        "kaiju_cached_prompt_tokens_total 7\nkaiju_accepted_draft_tokens_total 8\nkaiju_kv_blocks_cached 9\n"
        "kaiju_steps_overlapped_total 10\nkaiju_micro_batch_tokens_sum 11\nkaiju_unknown{a=\"b\"} 1\nother 2\n");
  assert_string_equal(now->model, "mini");
  assert_string_equal(now->version, "1.2");
  assert_string_equal(now->state, "ready");
  assert_true(now->epoch == 3 && now->uptime == 60.5 && now->running == 4 && now->waiting == 5);
  assert_true(now->waiting_limit == 256 && now->refused == 6 && now->prompt_tokens == 1000 && now->cached_tokens == 7);
  assert_true(now->accepted_tokens == 8 && now->kv_cached == 9 && now->overlapped == 10);
  assert_true(now->batch_tokens_sum == 11 && now->drafted_tokens == 0);
}

static void reads_nodes_by_stage(void **state) {
  struct top_sample *now = &((struct moments *)*state)->now;
  char text[2000];
  snprintf(text, sizeof text, "%s%s", ready,
           "kaiju_node_layers{stage=\"2\",node=\"c\"} 30\nkaiju_node_first_layer{stage=\"2\",node=\"c\"} 12\n"
           "kaiju_node_info{stage=\"0\",node=\"lead\",host=\"studio1\",engine=\"cpu\"} 1\n"
           "kaiju_node_busy_ratio{stage=\"0\",node=\"lead\"} 0.5\nkaiju_node_layers{stage=\"64\",node=\"x\"} 1\n"
           "kaiju_node_layers{stage=\"-1\",node=\"x\"} 1\nkaiju_node_layers{stage=\"\",node=\"x\"} 1\n"
           "kaiju_node_layers{node=\"x\"} 1\n");
  parse(now, text);
  assert_int_equal(now->node_count, 3);
  assert_string_equal(now->nodes[0].name, "lead");
  assert_string_equal(now->nodes[0].host, "studio1");
  assert_true(now->nodes[0].busy == 0.5);
  assert_string_equal(now->nodes[1].name, "");
  assert_string_equal(now->nodes[2].name, "c");
  assert_true(now->nodes[2].layers == 30 && now->nodes[2].first_layer == 12);
}

/* A view of them adds and divides without further checks. */
static void numbers_that_mean_nothing_are_0_or_bounded(void **state) {
  struct top_sample *now = &((struct moments *)*state)->now;
  char text[500];
  snprintf(
      text, sizeof text, "%s%s", ready,
      "kaiju_engine_epoch NaN\nkaiju_requests_running -4\nkaiju_prompt_tokens_total +Inf\nkaiju_kv_blocks 1e300\n");
  parse(now, text);
  assert_true(now->epoch == 0 && now->running == 0);
  assert_true(isfinite(now->prompt_tokens + now->kv_blocks));
}

static void refuses_what_is_no_kaiju_server(void **state) {
  struct top_sample *now = &((struct moments *)*state)->now;
  static const char *const texts[] = {"", "up 1\n", "<html>", "kaiju_engine_state{state=\"ready\"} 0\n",
                                      "kaiju_engine_state{state=\"ready\"} 1\n<"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    struct kj_error error;
    if (top_sample_parse(now, texts[i], strlen(texts[i]), &error) != KJ_INVALID) fail_msg("taken: %s", texts[i]);
  }
}

static void a_server_that_was_started_again_is_not_compared(void **state) {
  struct moments *moments = *state;
  struct top_sample *now = &moments->now, *before = &moments->before;
  before->uptime = 10;
  now->uptime = 11;
  now->node_count = before->node_count = 1;
  now->completion_tokens = before->completion_tokens = 5;
  assert_true(top_sample_follows(now, before));
  now->completion_tokens = 4;
  assert_false(top_sample_follows(now, before));
  now->completion_tokens = 6;
  snprintf(now->nodes[0].name, sizeof now->nodes[0].name, "lead");
  assert_false(top_sample_follows(now, before));
  now->nodes[0].name[0] = '\0';
  now->uptime = 10;
  assert_false(top_sample_follows(now, before));
}

static void about(double value, double expected) {
  if (!(fabs(value - expected) < 1e-9)) fail_msg("%.12g instead of %.12g", value, expected);
}

static void quantiles_are_interpolated_in_their_bucket(void **state) {
  struct top_histogram *now = &((struct moments *)*state)->now.first_token;
  char text[1000];
  snprintf(text, sizeof text, "%s%s", ready,
           "kaiju_time_to_first_token_seconds_bucket{le=\"0.1\"} 10\n"
           "kaiju_time_to_first_token_seconds_bucket{le=\"0.2\"} 20\n"
           "kaiju_time_to_first_token_seconds_bucket{le=\"1\"} 20\n"
           "kaiju_time_to_first_token_seconds_bucket{le=\"+Inf\"} 40\n");
  parse(&((struct moments *)*state)->now, text);
  assert_int_equal(now->count, 4);
  about(top_quantile(now, NULL, 0.125), 0.05);
  about(top_quantile(now, NULL, 0.25), 0.1);
  about(top_quantile(now, NULL, 0.375), 0.15);
  /* Above every bound all that is known is the last of them. */
  about(top_quantile(now, NULL, 0.95), 1);
  assert_true(isnan(top_quantile(&((struct moments *)*state)->now.inter_token, NULL, 0.5)));
}

static void quantiles_of_what_came_between_two_moments(void **state) {
  struct moments *moments = *state;
  struct top_histogram *now = &moments->now.inter_token, *before = &moments->before.inter_token;
  *before = (struct top_histogram){.count = 3, .bounds = {1, 2, INFINITY}, .counts = {100, 100, 100}};
  *now = *before;
  assert_true(isnan(top_quantile(now, before, 0.5)));
  now->counts[1] = now->counts[2] = 110;
  about(top_quantile(now, before, 0.5), 1.5);
  about(top_quantile(now, NULL, 0.5), 0.55);
  /* Other buckets are no earlier moment of these. */
  before->count = 2;
  about(top_quantile(now, before, 0.5), 0.55);
}

static void buckets_out_of_order_are_left_out(void **state) {
  struct top_sample *now = &((struct moments *)*state)->now;
  char text[1000];
  snprintf(text, sizeof text, "%s%s", ready,
           "kaiju_inter_token_seconds_bucket{le=\"2\"} 5\nkaiju_inter_token_seconds_bucket{le=\"1\"} 6\n"
           "kaiju_inter_token_seconds_bucket{le=\"x\"} 6\nkaiju_inter_token_seconds_bucket{le=\"-1\"} 6\n"
           "kaiju_inter_token_seconds_bucket 6\nkaiju_inter_token_seconds_bucket{le=\"3\"} 4\n");
  parse(now, text);
  assert_int_equal(now->inter_token.count, 2);
  assert_true(now->inter_token.bounds[1] == 3 && now->inter_token.counts[1] == 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(reads_the_whole, start, stop),
      cmocka_unit_test_setup_teardown(reads_nodes_by_stage, start, stop),
      cmocka_unit_test_setup_teardown(numbers_that_mean_nothing_are_0_or_bounded, start, stop),
      cmocka_unit_test_setup_teardown(refuses_what_is_no_kaiju_server, start, stop),
      cmocka_unit_test_setup_teardown(a_server_that_was_started_again_is_not_compared, start, stop),
      cmocka_unit_test_setup_teardown(quantiles_are_interpolated_in_their_bucket, start, stop),
      cmocka_unit_test_setup_teardown(quantiles_of_what_came_between_two_moments, start, stop),
      cmocka_unit_test_setup_teardown(buckets_out_of_order_are_left_out, start, stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

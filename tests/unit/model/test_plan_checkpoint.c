#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "model/plan.h"
#include "model/synth.h"
#include "unit/unit.h"

static const char mini[] = KAIJU_SOURCE_DIR "/models/kaiju-mini";

static struct checkpoint *open_checkpoint(const char *directory) {
  struct checkpoint *checkpoint;
  struct kj_error error;
  if (checkpoint_open(&checkpoint, directory, &error)) fail_msg("%s", error.message);
  return checkpoint;
}

/* What the plan prints. Free it. */
static char *printed(const struct plan *plan, bool json) {
  char *text = NULL;
  size_t length;
  FILE *file = open_memstream(&text, &length);
  assert_non_null(file);
  if (json)
    assert_int_equal(plan_print_json(plan, file, NULL), 0);
  else
    plan_print(plan, file);
  assert_int_equal(fclose(file), 0);
  return text;
}

static void assert_line(const char *text, const char *begin, const char *parts) {
  const char *line = strstr(text, begin);
  if (!line) fail_msg("no \"%s\" in:\n%s", begin, text);
  size_t length = strcspn(line, "\n");
  char copy[300];
  snprintf(copy, sizeof copy, "%s", parts);
  for (char *rest = copy, *part; (part = strsep(&rest, "|"));) {
    const char *found = strstr(line, part);
    if (!found || found > line + length) fail_msg("\"%s\" is not in: %.*s", part, (int)length, line);
  }
}

static void figures_of_the_480b_shape(void **state) {
  (void)state;
  char directory[] = "/tmp/kaiju-plan-XXXXXX", command[64];
  struct kj_error error;
  assert_non_null(mkdtemp(directory));
  struct synth_request synth = {.shape = "qwen3-coder-480b", .directory = directory, .sparse = true};
  assert_int_equal(synth_write(&synth, &error), 0);
  struct checkpoint *checkpoint = open_checkpoint(directory);
  const struct plan_node nodes[] = {{.name = "lead", .memory = 256000000000u, .bandwidth = 800e9},
                                    {.name = "second", .memory = 256000000000u, .bandwidth = 800e9}};
  const uint32_t split[] = {42, 20};
  struct plan_request request = {.nodes = nodes,
                                 .node_count = 2,
                                 .split = split,
                                 .split_count = 2,
                                 .context = 32768,
                                 .parallel = 1,
                                 .head_on_last = true};
  struct plan *plan;
  assert_int_equal(plan_make(&plan, checkpoint, &request, &error), 0);
  assert_int_equal(plan->kv_bytes_per_token, 248 * 1024);
  assert_int_equal(plan->stages[0].weights, 42 * 4339814912u + 2 * 525090816u + 12288);
  assert_int_equal(plan->stages[1].weights, 20 * 4339814912u + 2 * 525090816u + 12288);
  assert_int_equal(plan->stages[1].kv, (uint64_t)20 * 4096 * 32768);
  char *text = printed(plan, false);
  assert_line(text, "270.1 GB", "62 layers|of 4.340 GB|248 KiB of KV a token");
  assert_line(text, "lead ", "0-41|42|183.3 GB|256.0 GB");
  assert_line(text, "second ", "42-61|20|87.8 GB|256.0 GB");
  free(text);
  plan_free(plan);
  checkpoint_close(checkpoint);
  snprintf(command, sizeof command, "rm -rf %s", directory);
  assert_int_equal(system(command), 0);
}

/* 12 equal layers in 3 shards of about 4. */
static void nodes_need_only_the_shards_of_their_layers(void **state) {
  (void)state;
  struct checkpoint *checkpoint = open_checkpoint(mini);
  const struct plan_node nodes[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
  const uint32_t split[] = {2, 2, 8};
  struct plan_request request = {.nodes = nodes, .node_count = 3, .split = split, .split_count = 3, .parallel = 1};
  struct plan *plan;
  assert_int_equal(plan_make(&plan, checkpoint, &request, NULL), 0);
  assert_int_equal(plan->shard_count, 3);
  assert_int_equal(plan->stages[0].shard_count, 2); /* embedding and first layers; norm and head */
  assert_string_equal(plan->stages[0].shards[0], "model-00001-of-00003.safetensors");
  assert_string_equal(plan->stages[0].shards[1], "model-00003-of-00003.safetensors");
  assert_true(plan->stages[1].shard_count < 3);
  assert_true(plan->stages[2].shard_count >= 2);
  char *text = printed(plan, false);
  assert_line(text, "  2 of 3 shard files", "1, 3");
  free(text);
  plan_free(plan);
  checkpoint_close(checkpoint);
}

static void json_says_what_the_plan_says(void **state) {
  (void)state;
  struct checkpoint *checkpoint = open_checkpoint(mini);
  const struct plan_node nodes[] = {{.name = "a", .memory = 1000000000, .bandwidth = 1e9},
                                    {.name = "b", .memory = 1000, .bandwidth = 2e9}};
  struct plan_request request = {.nodes = nodes, .node_count = 2, .parallel = 2, .context = 100};
  struct plan *plan;
  assert_int_equal(plan_estimate(&plan, checkpoint, &request, NULL), 0);
  char *text = printed(plan, true);
  json_t *root = json_loads(text, 0, NULL);
  assert_non_null(root);
  assert_true(json_is_false(json_object_get(root, "fits")));
  assert_int_equal(json_integer_value(json_object_get(root, "layers")), 12);
  assert_int_equal(json_integer_value(json_object_get(root, "kv_blocks")), 4);
  assert_int_equal(json_integer_value(json_object_get(root, "total_weights_bytes")), 33281280);
  json_t *stages = json_object_get(root, "nodes");
  assert_int_equal(json_array_size(stages), 2);
  json_int_t layers = 0;
  for (size_t i = 0; i < 2; i++) {
    json_t *node = json_array_get(stages, i);
    assert_string_equal(json_string_value(json_object_get(node, "name")), nodes[i].name);
    assert_int_equal(json_integer_value(json_object_get(node, "peak_bytes")), plan->stages[i].peak);
    assert_int_equal(json_integer_value(json_object_get(node, "peak_bytes")),
                     json_integer_value(json_object_get(node, "weights_bytes")) +
                         json_integer_value(json_object_get(node, "kv_bytes")) +
                         json_integer_value(json_object_get(node, "working_bytes")) +
                         json_integer_value(json_object_get(node, "runtime_bytes")));
    assert_int_equal(json_is_true(json_object_get(node, "fits")), i == 0);
    assert_int_equal(json_array_size(json_object_get(node, "shards")), plan->stages[i].shard_count);
    layers += json_integer_value(json_object_get(node, "layers"));
  }
  assert_int_equal(layers, 12);
  json_decref(root);
  free(text);
  text = printed(plan, false);
  assert_non_null(strstr(text, "too big by"));
  assert_non_null(strstr(text, "!!!!"));
  free(text);
  plan_free(plan);
  checkpoint_close(checkpoint);
}

static void C9_plan_that_does_not_fit_is_none(void **state) {
  (void)state;
  struct checkpoint *checkpoint = open_checkpoint(mini);
  const struct plan_node nodes[] = {{.name = "a", .memory = 1000000000}, {.name = "b", .memory = 1000}};
  struct plan_request request = {.nodes = nodes, .node_count = 2, .parallel = 1};
  struct plan *plan = (struct plan *)&request;
  struct kj_error error;
  assert_int_equal(plan_make(&plan, checkpoint, &request, &error), KJ_MEMORY);
  assert_null(plan);
  assert_non_null(strstr(error.message, "b needs"));
  assert_non_null(strstr(error.message, "a needs"));
  checkpoint_close(checkpoint);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(figures_of_the_480b_shape),
      cmocka_unit_test(nodes_need_only_the_shards_of_their_layers),
      cmocka_unit_test(json_says_what_the_plan_says),
      cmocka_unit_test(C9_plan_that_does_not_fit_is_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

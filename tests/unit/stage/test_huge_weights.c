/* A stage's weights that were moved to huge pages compute the same, and its end gives these pages back. */
#include "unit/unit.h"
/* unit.h must come first. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/plan.h"
#include "model/synth.h"
#include "stage/ledger.h"
#include "stage/stage.h"

enum { LAYERS = 2, TOKENS = 3, HIDDEN = 512, PAGE = 4096 };

static const char config_text[] =
    "{\"model_type\": \"qwen3\", \"hidden_size\": 512, \"intermediate_size\": 8192, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 64, \"vocab_size\": 300,"
    " \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-6, \"rope_theta\": 10000.0, \"hidden_act\": \"silu\","
    " \"tie_word_embeddings\": false, \"eos_token_id\": 3, \"quantization\": {\"group_size\": 64, \"bits\": 4}}";

struct fixture {
  char root[64], config[96], model[96], weights[160];
  struct kj_error error;
  struct checkpoint *checkpoint;
  struct threads *threads;
  struct backend *backend;
};

static void check(const struct fixture *fixture, int code) {
  if (code) fail_msg("%s", fixture->error.message);
}

static int setup(void **state) {
  struct fixture *fixture = calloc(1, sizeof *fixture);
  assert_non_null(fixture);
  *state = fixture;
  const char *temporary = getenv("TMPDIR");
  snprintf(fixture->root, sizeof fixture->root, "%.40s/kaiju-huge-XXXXXX", temporary ? temporary : "/tmp");
  assert_non_null(mkdtemp(fixture->root));
  snprintf(fixture->config, sizeof fixture->config, "%s/config.json", fixture->root);
  snprintf(fixture->model, sizeof fixture->model, "%s/model", fixture->root);
  FILE *file = fopen(fixture->config, "w");
  assert_non_null(file);
  assert_true(fputs(config_text, file) >= 0);
  assert_int_equal(fclose(file), 0);
  const struct synth_request request = {.config_path = fixture->config, .directory = fixture->model, .seed = 5};
  check(fixture, synth_write(&request, &fixture->error));
  snprintf(fixture->weights, sizeof fixture->weights, "%s/model.safetensors", fixture->model);
  check(fixture, checkpoint_open(&fixture->checkpoint, fixture->model, &fixture->error));
  check(fixture, threads_create(&fixture->threads, 2, &fixture->error));
  check(fixture, backend_cpu_create(&fixture->backend, "auto", fixture->threads, TOKENS,
                                    plan_max_columns(checkpoint_config(fixture->checkpoint)), &fixture->error));
  return 0;
}

static int teardown(void **state) {
  struct fixture *fixture = *state;
  fixture->backend->operations->destroy(fixture->backend);
  threads_destroy(fixture->threads);
  checkpoint_close(fixture->checkpoint);
  static const char *const names[] = {"model/model.safetensors", "model/model.safetensors.index.json",
                                      "model/config.json", "model/generation_config.json", "config.json"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", fixture->root, names[i]);
    unlink(path);
  }
  int left = rmdir(fixture->model) || rmdir(fixture->root);
  free(fixture);
  return left;
}

/* Bytes of the process's memory that are mapped from the weights' file, whether or not it still has its name. */
static uint64_t mapped_bytes(const struct fixture *fixture) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  uint64_t total = 0;
  assert_non_null(maps);
  while (fgets(line, sizeof line, maps)) {
    uint64_t begin, end;
    if (strstr(line, fixture->weights) && sscanf(line, "%" SCNx64 "-%" SCNx64, &begin, &end) == 2) total += end - begin;
  }
  fclose(maps);
  return total;
}

static struct stage *open_warm(struct fixture *fixture, uint32_t first, uint32_t count, bool huge) {
  const struct stage_options options = {.checkpoint = fixture->checkpoint,
                                        .backend = fixture->backend,
                                        .first_layer = first,
                                        .layer_count = count,
                                        .kv_blocks = 1,
                                        .max_batch_tokens = TOKENS,
                                        .huge_page_threads = huge ? fixture->threads : NULL};
  struct stage *stage;
  check(fixture, stage_open(&stage, &options, &fixture->error));
  check(fixture, stage_warm(stage, NULL, NULL, &fixture->error));
  stage_reset(stage);
  return stage;
}

/* rows [TOKENS, HIDDEN] */
static void forward(struct fixture *fixture, struct stage *stage, float *rows) {
  uint32_t block = 0, tokens[TOKENS] = {1, 2, 3};
  struct span span = {.tokens = TOKENS,
                      .outputs = 1,
                      .block_count = 1,
                      .blocks = &block,
                      .token_ids = tokens,
                      .prefix_hash = token_hash_start()};
  const struct batch batch = {.span_count = 1, .tokens = TOKENS, .outputs = 1, .spans = &span};
  for (size_t i = 0; i < (size_t)TOKENS * HIDDEN; i++) rows[i] = (float)(i % 7) - 3;
  check(fixture, stage_forward(stage, &batch, rows, &fixture->error));
}

static void the_end_of_a_stage_gives_huge_pages_back(void **state) {
  struct fixture *fixture = *state;
  static float mapped[TOKENS * HIDDEN], moved[TOKENS * HIDDEN];
  struct stage *stage = open_warm(fixture, 0, LAYERS, false);
  const uint64_t all = mapped_bytes(fixture);
  assert_true(all > (uint64_t)LAYERS * 3 * HIDDEN * 8192 / 2);
  forward(fixture, stage, mapped);
  stage_close(stage);

  for (int round = 0; round < 2; round++) {
    stage = open_warm(fixture, 0, LAYERS, true);
    assert_true(mapped_bytes(fixture) < all / 2);
    forward(fixture, stage, moved);
    assert_memory_equal(moved, mapped, sizeof mapped);
    stage_close(stage);
    assert_int_equal(mapped_bytes(fixture), all);
  }
  /* A layer of its own leaves the other one alone. */
  stage = open_warm(fixture, 1, 1, true);
  const uint64_t without_one = mapped_bytes(fixture);
  struct stage *other = open_warm(fixture, 0, 1, true);
  assert_true(mapped_bytes(fixture) < without_one && without_one < all);
  stage_close(other);
  assert_int_equal(mapped_bytes(fixture), without_one);
  stage_close(stage);
  assert_int_equal(mapped_bytes(fixture), all);

  stage = open_warm(fixture, 0, LAYERS, false);
  forward(fixture, stage, moved);
  assert_memory_equal(moved, mapped, sizeof mapped);
  stage_close(stage);
}

static bool stop_at_once(void *context, uint32_t done, uint32_t total) {
  (void)context;
  return done > total;
}

static void a_cancelled_warm_up_gives_them_back_too(void **state) {
  struct fixture *fixture = *state;
  struct stage *stage = open_warm(fixture, 0, LAYERS, false);
  const uint64_t all = mapped_bytes(fixture);
  stage_close(stage);
  const struct stage_options options = {fixture->checkpoint, fixture->backend, 0, LAYERS, 1, TOKENS, fixture->threads};
  check(fixture, stage_open(&stage, &options, &fixture->error));
  assert_int_equal(stage_warm(stage, stop_at_once, NULL, &fixture->error), KJ_CANCELLED);
  assert_true(mapped_bytes(fixture) < all);
  stage_close(stage);
  assert_int_equal(mapped_bytes(fixture), all);
}

/* What cannot be mapped again stays where it is, and valid. */
static void weights_whose_file_has_gone_stay_moved(void **state) {
  struct fixture *fixture = *state;
  static float before[TOKENS * HIDDEN], after[TOKENS * HIDDEN];
  struct stage *stage = open_warm(fixture, 0, LAYERS, true);
  forward(fixture, stage, before);
  const uint64_t moved = mapped_bytes(fixture);
  assert_int_equal(unlink(fixture->weights), 0);
  stage_close(stage);
  assert_int_equal(mapped_bytes(fixture), moved);
  stage = open_warm(fixture, 0, LAYERS, false);
  forward(fixture, stage, after);
  assert_memory_equal(after, before, sizeof before);
  stage_close(stage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_end_of_a_stage_gives_huge_pages_back, setup, teardown),
      cmocka_unit_test_setup_teardown(a_cancelled_warm_up_gives_them_back_too, setup, teardown),
      cmocka_unit_test_setup_teardown(weights_whose_file_has_gone_stay_moved, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

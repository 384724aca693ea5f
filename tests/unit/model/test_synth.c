#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compute/number.h"
#include "model/checkpoint.h"
#include "model/synth.h"
#include "unit/unit.h"

/* A directory of the test's own, with the config files that the tests need. */
struct place {
  char root[64], path[128];
  struct kj_error error;
};

static const char sparse_config[] =
    "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 128, \"intermediate_size\": 256, \"num_hidden_layers\": 3,"
    " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 32, \"num_experts\": 8,"
    " \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 64, \"norm_topk_prob\": true, \"decoder_sparse_step\": 1,"
    " \"mlp_only_layers\": [1, 2], \"vocab_size\": 512, \"max_position_embeddings\": 1024, \"rms_norm_eps\": 1e-6,"
    " \"rope_theta\": 10000.0, \"tie_word_embeddings\": false, \"eos_token_id\": 3, \"hidden_act\": \"silu\"}";

static const char dense_config[] =
    "{\"model_type\": \"qwen3\", \"hidden_size\": 96, \"intermediate_size\": 160, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 32, \"vocab_size\": 300,"
    " \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-6, \"rope_theta\": 10000.0,"
    " \"tie_word_embeddings\": true, \"eos_token_id\": 3, \"hidden_act\": \"silu\"}";

static const char overridden_config[] =
    "{\"model_type\": \"qwen3\", \"hidden_size\": 128, \"intermediate_size\": 256, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 64, \"vocab_size\": 300,"
    " \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-6, \"rope_theta\": 10000.0, \"hidden_act\": \"silu\","
    " \"tie_word_embeddings\": false, \"eos_token_id\": 3, \"quantization\": {\"group_size\": 64, \"bits\": 4,"
    " \"model.layers.0.mlp.up_proj\": {\"group_size\": 128, \"bits\": 8}, \"model.layers.1.self_attn.q_proj\": false}}";

static void write_file(const struct place *place, const char *name, const char *text) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s", place->root, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static int make_place(void **state) {
  struct place *place = calloc(1, sizeof *place);
  assert_non_null(place);
  const char *temporary = getenv("TMPDIR");
  snprintf(place->root, sizeof place->root, "%.40s/kaiju-synth-XXXXXX", temporary ? temporary : "/tmp");
  assert_non_null(mkdtemp(place->root));
  write_file(place, "sparse.json", sparse_config);
  write_file(place, "dense.json", dense_config);
  write_file(place, "overridden.json", overridden_config);
  *state = place;
  return 0;
}

static int remove_place(void **state) {
  struct place *place = *state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", place->root);
  int failed = system(command);
  free(place);
  return failed;
}

/* The path of a name in the place, valid until the next call. */
static const char *in(struct place *place, const char *name) {
  snprintf(place->path, sizeof place->path, "%s/%s", place->root, name);
  return place->path;
}

/* Writes `directory` from config file `config` (or a shape) with the other fields of the request. */
static int synth(struct place *place, const char *config, const char *directory, struct synth_request request) {
  char config_path[200], target[200];
  snprintf(target, sizeof target, "%s/%s", place->root, directory);
  request.directory = target;
  if (strstr(config, ".json")) {
    snprintf(config_path, sizeof config_path, "%s/%s", place->root, config);
    request.config_path = config_path;
  } else {
    request.shape = config;
  }
  memset(&place->error, 0, sizeof place->error);
  return synth_write(&request, &place->error);
}

static struct checkpoint *open_checkpoint(struct place *place, const char *directory) {
  struct checkpoint *checkpoint;
  if (checkpoint_open(&checkpoint, in(place, directory), &place->error)) fail_msg("%s", place->error.message);
  return checkpoint;
}

static uint64_t hash_file(struct place *place, const char *name) {
  FILE *file = fopen(in(place, name), "rb");
  uint64_t hash = 0xcbf29ce484222325u;
  assert_non_null(file);
  for (int c; (c = fgetc(file)) != EOF;) hash = (hash ^ (unsigned)c) * 0x100000001b3u;
  fclose(file);
  return hash;
}

static void same_seed_same_bytes(void **state) {
  struct place *place = *state;
  assert_int_equal(synth(place, "sparse.json", "a", (struct synth_request){.seed = 5, .bits = 4}), 0);
  assert_int_equal(synth(place, "sparse.json", "b", (struct synth_request){.seed = 5, .bits = 4}), 0);
  assert_int_equal(synth(place, "sparse.json", "c", (struct synth_request){.seed = 6, .bits = 4}), 0);
  static const char *const names[] = {"config.json", "generation_config.json", "model.safetensors.index.json",
                                      "model.safetensors"};
  for (size_t i = 0; i < 4; i++) {
    char a[64], b[64], c[64];
    snprintf(a, sizeof a, "a/%s", names[i]);
    snprintf(b, sizeof b, "b/%s", names[i]);
    snprintf(c, sizeof c, "c/%s", names[i]);
    assert_true(hash_file(place, a) == hash_file(place, b));
    assert_int_equal(hash_file(place, a) == hash_file(place, c), i < 3);
  }
  /* The same on every machine and for ever: benchmarks of different days compare the same weights. */
  assert_true(hash_file(place, "a/model.safetensors") == 0x19401d7af2710a63u);
}

static float weight_at(const struct matrix *matrix, size_t row, size_t column) {
  size_t index = row * matrix->columns + column;
  if (matrix->format == MATRIX_PLAIN) return number_at(matrix->type, matrix->data, index);
  const unsigned char *bytes = matrix->data;
  unsigned q = matrix->bits == 8 ? bytes[index] : (bytes[index / 2] >> (index % 2 * 4)) & 15;
  size_t group = row * (matrix->columns / matrix->group) + column / matrix->group;
  return (float)q * number_at(matrix->type, matrix->scales, group) + number_at(matrix->type, matrix->biases, group);
}

static void assert_deviation(const struct matrix *matrix, double expected) {
  double sum = 0, squares = 0, count = (double)matrix->rows * matrix->columns;
  for (size_t row = 0; row < matrix->rows; row++)
    for (size_t column = 0; column < matrix->columns; column++) {
      double weight = weight_at(matrix, row, column);
      sum += weight;
      squares += weight * weight;
    }
  double deviation = sqrt(squares / count);
  assert_true(fabs(sum / count) < 6 * expected / sqrt(count) + 0.005 * expected);
  assert_true(deviation > 0.9 * expected && deviation < 1.1 * expected);
}

static void assert_sane_matrix(const struct matrix *matrix) { assert_deviation(matrix, 1 / sqrt(matrix->columns)); }

/* All that is added to the residual stream together is about as large as an embedding. */
static void assert_sane_residual(const struct matrix *matrix, const struct config *config) {
  assert_deviation(matrix, 1 / sqrt(2.0 * matrix->columns * config->hidden * config->layers));
}

static void assert_sane_norm(const struct matrix *norm) {
  assert_int_equal(norm->format, MATRIX_PLAIN);
  for (size_t i = 0; i < norm->columns; i++) {
    float value = weight_at(norm, 0, i);
    assert_true(value > 0.89f && value < 1.11f);
  }
}

static void assert_sane_checkpoint(struct checkpoint *checkpoint) {
  const struct config *config = checkpoint_config(checkpoint);
  struct kj_error error;
  struct head_weights head;
  for (uint32_t i = 0; i < config->layers; i++) {
    struct layer_weights weights;
    assert_int_equal(checkpoint_layer(checkpoint, i, &weights, &error), 0);
    assert_int_equal(weights.sparse, config->layer_is_sparse[i]);
    assert_sane_norm(&weights.input_norm);
    assert_sane_norm(&weights.post_attention_norm);
    assert_sane_norm(&weights.query_norm);
    assert_sane_norm(&weights.key_norm);
    assert_sane_matrix(&weights.query);
    assert_sane_matrix(&weights.key);
    assert_sane_matrix(&weights.value);
    assert_sane_residual(&weights.output, config);
    if (weights.sparse) assert_sane_matrix(&weights.router);
    for (uint32_t e = 0; e < (weights.sparse ? config->experts : 1); e++) {
      assert_sane_matrix(&weights.gate[e]);
      assert_sane_matrix(&weights.up[e]);
      assert_sane_residual(&weights.down[e], config);
    }
    layer_weights_free(&weights);
  }
  assert_int_equal(checkpoint_head(checkpoint, &head, &error), 0);
  assert_sane_matrix(&head.embedding);
  assert_sane_norm(&head.norm);
  assert_sane_matrix(&head.head);
}

static void weights_have_mean_zero_and_scale_of_their_width(void **state) {
  struct place *place = *state;
  static const struct {
    const char *config;
    uint32_t bits, group;
  } cases[] = {{"sparse.json", 4, 64}, {"sparse.json", 8, 32}, {"sparse.json", 4, 32},   {"sparse.json", 0, 0},
               {"dense.json", 8, 32},  {"dense.json", 0, 0},   {"overridden.json", 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char name[16];
    snprintf(name, sizeof name, "case%zu", i);
    struct synth_request request = {.seed = i, .bits = cases[i].bits, .group = cases[i].group};
    if (synth(place, cases[i].config, name, request)) fail_msg("%s", place->error.message);
    struct checkpoint *checkpoint = open_checkpoint(place, name);
    assert_sane_checkpoint(checkpoint);
    checkpoint_close(checkpoint);
  }
}

static void overrides_follow_the_number_of_layers(void **state) {
  struct place *place = *state;
  for (uint32_t layers = 1; layers <= 4; layers++) {
    char name[16];
    snprintf(name, sizeof name, "layers%u", layers);
    assert_int_equal(synth(place, "overridden.json", name, (struct synth_request){.layers = layers, .bits = 8}), 0);
    struct checkpoint *checkpoint = open_checkpoint(place, name);
    const struct config *config = checkpoint_config(checkpoint);
    assert_int_equal(config->layers, layers);
    assert_int_equal(config->quantization.bits, 8);
    assert_int_equal(config_quantization(config, "model.layers.0.mlp.up_proj").group, 128);
    for (uint32_t i = 0; i < layers; i++) {
      struct layer_weights weights;
      assert_int_equal(checkpoint_layer(checkpoint, i, &weights, NULL), 0);
      assert_int_equal(weights.query.format, i ? MATRIX_PLAIN : MATRIX_AFFINE);
      assert_int_equal(weights.up[0].group, i ? 64 : 128);
      layer_weights_free(&weights);
    }
    checkpoint_close(checkpoint);
  }
  /* Layers that are dense by number keep their number. */
  assert_int_equal(synth(place, "sparse.json", "cut", (struct synth_request){.layers = 2, .bits = 4}), 0);
  struct checkpoint *checkpoint = open_checkpoint(place, "cut");
  const struct config *config = checkpoint_config(checkpoint);
  assert_true(config->layer_is_sparse[0] && !config->layer_is_sparse[1]);
  assert_int_equal(config_quantization(config, "model.layers.0.mlp.gate").bits, 8);
  checkpoint_close(checkpoint);
}

static void shards_keep_their_limit_and_sparse_ones_their_size(void **state) {
  struct place *place = *state;
  struct synth_request request = {.bits = 4, .shard_bytes = 60000};
  assert_int_equal(synth(place, "sparse.json", "full", request), 0);
  request.sparse = true;
  assert_int_equal(synth(place, "sparse.json", "holes", request), 0);
  struct checkpoint *checkpoint = open_checkpoint(place, "full");
  char **names;
  size_t count;
  assert_int_equal(checkpoint_shards(checkpoint, 0, 3, true, &names, &count, NULL), 0);
  assert_true(count > 3);
  for (size_t i = 0; i < count; i++) {
    char full[64], holes[64];
    struct stat a, b;
    snprintf(full, sizeof full, "full/%s", names[i]);
    snprintf(holes, sizeof holes, "holes/%s", names[i]);
    assert_int_equal(stat(in(place, full), &a), 0);
    assert_int_equal(stat(in(place, holes), &b), 0);
    assert_int_equal(a.st_size, b.st_size);
    assert_true(a.st_size < 60000 + 8192);
  }
  checkpoint_names_free(names, count);
  checkpoint_close(checkpoint);
}

static void progress_reaches_the_total(void *context, uint64_t done, uint64_t total) {
  uint64_t *seen = context;
  assert_true(done >= seen[0] && done <= total);
  seen[0] = done;
  seen[1] = total;
}

static void shapes_have_the_published_sizes(void **state) {
  struct place *place = *state;
  static const struct {
    const char *shape;
    uint32_t layers;
    uint64_t layer_bytes, total_bytes; /* by hand from the published configs: 0.5625 bytes a 4-bit weight */
  } shapes[] = {{"qwen3-coder-480b", 62, 4339814912u, 270118718464u},
                {"qwen3-coder-30b", 48, 350642688u, 17180913664u},
                {"qwen3-235b", 94, 1399636480u, 132265958400u}};
  for (size_t i = 0; i < 3; i++) {
    uint64_t seen[2] = {0};
    struct synth_request request = {.sparse = true, .progress = progress_reaches_the_total, .context = seen};
    assert_int_equal(synth(place, shapes[i].shape, shapes[i].shape, request), 0);
    assert_int_equal(seen[0], shapes[i].total_bytes);
    assert_int_equal(seen[1], shapes[i].total_bytes);
    struct checkpoint *checkpoint = open_checkpoint(place, shapes[i].shape);
    struct checkpoint_sizes sizes;
    assert_int_equal(checkpoint_sizes(checkpoint, &sizes, NULL), 0);
    assert_int_equal(sizes.layers, shapes[i].layers);
    assert_int_equal(sizes.total_bytes, shapes[i].total_bytes);
    for (uint32_t layer = 0; layer < sizes.layers; layer++)
      assert_int_equal(sizes.layer_bytes[layer], shapes[i].layer_bytes);
    const struct config *config = checkpoint_config(checkpoint);
    assert_int_equal(config->generation.eos_count, 2);
    assert_int_equal(config->generation.eos[0], 151645);
    assert_int_equal(config->experts_per_token, 8);
    checkpoint_sizes_free(&sizes);
    checkpoint_close(checkpoint);
  }
}

static bool exists(struct place *place, const char *name) { return access(in(place, name), F_OK) == 0; }

static void assert_refused(struct place *place, int code, int expected, const char *part) {
  assert_int_equal(code, expected);
  if (!strstr(place->error.message, part)) fail_msg("\"%s\" is not in: %s", part, place->error.message);
}

static void wrong_requests_write_nothing(void **state) {
  struct place *place = *state;
  write_file(place, "broken.json", "{\"model_type\": ");
  write_file(place, "list.json", "[]");
  write_file(place, "llama.json", "{\"model_type\": \"llama\"}");
  struct synth_request none = {0};
  assert_refused(place, synth(place, "qwen3", "x", none), KJ_INVALID, "qwen3-coder-480b");
  assert_refused(place, synth(place, "absent.json", "x", none), KJ_NOT_FOUND, "absent.json");
  assert_refused(place, synth(place, "broken.json", "x", none), KJ_INVALID, "broken.json");
  assert_refused(place, synth(place, "list.json", "x", none), KJ_INVALID, "list.json");
  assert_refused(place, synth(place, "llama.json", "x", none), KJ_UNSUPPORTED, "llama");
  assert_refused(place, synth(place, "sparse.json", "x", (struct synth_request){.bits = 5}), KJ_INVALID, "5 bits");
  assert_refused(place, synth(place, "sparse.json", "x", (struct synth_request){.group = 16}), KJ_INVALID, "16");
  assert_refused(place, synth(place, "sparse.json", "x", (struct synth_request){.layers = 5000}), KJ_INVALID, "5000");
  assert_refused(place, synth(place, "dense.json", "x", (struct synth_request){.bits = 4}), KJ_INVALID,
                 "model.embed_tokens");
  assert_refused(place, synth(place, "dense.json", "no/such", none), KJ_NOT_FOUND, "no/such");
  assert_refused(place, synth(place, "dense.json", "x", (struct synth_request){.tokenizer = "/nowhere"}), KJ_NOT_FOUND,
                 "tokenizer.json");
  assert_refused(place, synth(place, "dense.json", "dense.json", none), KJ_INVALID, "no directory");
  struct synth_request both = {.shape = "qwen3-235b", .config_path = "a.json", .directory = "x"};
  assert_int_equal(synth_write(&both, NULL), KJ_INVALID);
  assert_false(exists(place, "x"));
}

static void errors_remove_only_what_was_made(void **state) {
  struct place *place = *state;
  struct synth_request none = {0};
  assert_int_equal(mkdir(in(place, "mine"), 0777), 0);
  write_file(place, "mine/notes.txt", "keep");
  write_file(place, "mine/model.safetensors", "keep");
  assert_refused(place, synth(place, "dense.json", "mine", none), KJ_INVALID, "model.safetensors exists");
  assert_true(exists(place, "mine/notes.txt") && exists(place, "mine/model.safetensors"));
  assert_false(exists(place, "mine/config.json"));

  /* The disk refuses more in the middle of a shard: here through the limit on a file's size. */
  assert_int_equal(unlink(in(place, "mine/model.safetensors")), 0);
  struct rlimit before, small;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = before;
  small.rlim_cur = 50000;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  int existing = synth(place, "dense.json", "mine", none), made = synth(place, "dense.json", "fresh", none);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  assert_int_equal(existing, KJ_IO);
  assert_int_equal(made, KJ_IO);
  assert_true(exists(place, "mine/notes.txt"));
  assert_false(exists(place, "mine/model.safetensors"));
  assert_false(exists(place, "fresh"));

  assert_int_equal(synth(place, "dense.json", "mine", none), 0);
  assert_refused(place, synth(place, "dense.json", "mine", none), KJ_INVALID, "config.json exists");
  assert_true(exists(place, "mine/config.json"));
}

static void tokenizer_is_copied(void **state) {
  struct place *place = *state;
  struct synth_request request = {.tokenizer = KAIJU_SOURCE_DIR "/models/kaiju-mini"};
  assert_int_equal(synth(place, "dense.json", "a", request), 0);
  struct stat copy, original;
  assert_int_equal(stat(in(place, "a/tokenizer.json"), &copy), 0);
  assert_int_equal(stat(KAIJU_SOURCE_DIR "/models/kaiju-mini/tokenizer.json", &original), 0);
  assert_int_equal(copy.st_size, original.st_size);
  assert_true(exists(place, "a/tokenizer_config.json"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(same_seed_same_bytes, make_place, remove_place),
      cmocka_unit_test_setup_teardown(weights_have_mean_zero_and_scale_of_their_width, make_place, remove_place),
      cmocka_unit_test_setup_teardown(overrides_follow_the_number_of_layers, make_place, remove_place),
      cmocka_unit_test_setup_teardown(shards_keep_their_limit_and_sparse_ones_their_size, make_place, remove_place),
      cmocka_unit_test_setup_teardown(shapes_have_the_published_sizes, make_place, remove_place),
      cmocka_unit_test_setup_teardown(wrong_requests_write_nothing, make_place, remove_place),
      cmocka_unit_test_setup_teardown(errors_remove_only_what_was_made, make_place, remove_place),
      cmocka_unit_test_setup_teardown(tokenizer_is_copied, make_place, remove_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

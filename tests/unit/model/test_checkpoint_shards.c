/* What planning reads, what a node of some layers opens and maps, and the sizes of both. */
#include <sys/stat.h>
#include <unistd.h>

#include "model/checkpoint.h"
#include "unit/model/mappings.h"
#include "unit/model/tiny_checkpoint.h"

static struct directory directory;
static struct checkpoint *checkpoint;
static const struct tiny tiny = {.layers = 3, .bits = 4, .group = 32, .router_8_bits = true};

static int setup(void **state) {
  (void)state;
  directory_create(&directory);
  tiny_write(&tiny, &directory);
  return checkpoint_open(&checkpoint, directory.path, NULL);
}

static int teardown(void **state) {
  (void)state;
  checkpoint_close(checkpoint);
  directory_remove(&directory);
  return 0;
}

static void assert_shards(uint32_t first, uint32_t count, bool head, size_t expected_count,
                          const char *const *expected) {
  char **names = NULL;
  size_t name_count = 0;
  struct kj_error error;
  assert_int_equal(checkpoint_shards(checkpoint, first, count, head, &names, &name_count, &error), 0);
  assert_int_equal(name_count, expected_count);
  for (size_t i = 0; i < name_count; i++) assert_string_equal(names[i], expected[i]);
  checkpoint_names_free(names, name_count);
}

static void test_shards_of_a_stage(void **state) {
  (void)state;
  static const char *const shards[] = {"model-0.safetensors", "model-1.safetensors", "model-2.safetensors",
                                       "model-3.safetensors"};
  assert_shards(0, 3, true, 4, shards);
  assert_shards(1, 1, false, 1, shards + 1);
  assert_shards(1, 2, true, 3, shards + 1);
  assert_shards(0, 0, true, 1, shards + 3);
  assert_shards(3, 0, false, 0, shards);
}

static void test_layers_that_are_not_there(void **state) {
  (void)state;
  char **names = NULL;
  size_t count = 0;
  struct kj_error error;
  assert_int_equal(checkpoint_shards(checkpoint, 2, 2, false, &names, &count, &error), KJ_INVALID);
  assert_message(error, "has 3 layers; layers 2 to 3 are not among them");
  assert_int_equal(checkpoint_shards(checkpoint, 4, 0, false, &names, &count, &error), KJ_INVALID);
  assert_int_equal(checkpoint_shards(checkpoint, 1, UINT32_MAX, false, &names, &count, &error), KJ_INVALID);
  assert_null(names);
}

/* Bytes of a file that are not header. */
static uint64_t data_bytes(const char *name) {
  struct stat status;
  uint8_t field[8];
  uint64_t header = 0;
  FILE *file = fopen(directory_file(&directory, name), "rb");
  assert_non_null(file);
  assert_int_equal(fread(field, 1, 8, file), 8);
  assert_int_equal(fstat(fileno(file), &status), 0);
  fclose(file);
  for (unsigned i = 0; i < 8; i++) header |= (uint64_t)field[i] << 8 * i;
  return (uint64_t)status.st_size - 8 - header;
}

static void assert_sizes(const struct checkpoint_sizes *sizes) {
  /* three matrices of three experts at 4 bits, with a scale and a bias of 2 bytes for 32 weights */
  uint64_t experts = 3ull * TINY_EXPERTS * TINY_EXPERT_INNER * TINY_HIDDEN * 5 / 8;
  uint64_t embedding = TINY_TOKENS * TINY_HIDDEN * 5 / 8;
  assert_int_equal(sizes->layers, 3);
  for (unsigned layer = 0; layer < 3; layer++) assert_int_equal(sizes->expert_bytes[layer], experts);
  assert_int_equal(sizes->embedding_bytes, embedding);
  assert_int_equal(sizes->head_bytes, embedding);
  assert_int_equal(sizes->norm_bytes, 2 * TINY_HIDDEN);
}

static void test_sizes_equal_the_data_of_the_files(void **state) {
  (void)state;
  struct checkpoint_sizes sizes;
  struct kj_error error;
  assert_int_equal(checkpoint_sizes(checkpoint, &sizes, &error), 0);
  assert_sizes(&sizes);
  assert_false(sizes.estimated);
  uint64_t total = data_bytes("model-3.safetensors");
  assert_int_equal(sizes.embedding_bytes + sizes.norm_bytes + sizes.head_bytes, total);
  for (unsigned layer = 0; layer < 3; layer++) {
    char name[40];
    snprintf(name, sizeof name, "model-%u.safetensors", layer);
    assert_int_equal(sizes.layer_bytes[layer], data_bytes(name));
    total += sizes.layer_bytes[layer];
  }
  assert_int_equal(sizes.total_bytes, total);
  assert_int_equal(mappings_of(directory.path).count, 0);
  checkpoint_sizes_free(&sizes);
}

static void test_sizes_of_shards_that_other_machines_hold(void **state) {
  (void)state;
  struct checkpoint_sizes exact, estimated;
  struct kj_error error;
  assert_int_equal(checkpoint_sizes(checkpoint, &exact, &error), 0);
  assert_int_equal(unlink(directory_file(&directory, "model-1.safetensors")), 0);
  assert_int_equal(unlink(directory_file(&directory, "model-3.safetensors")), 0);
  checkpoint_close(checkpoint);
  assert_int_equal(checkpoint_open(&checkpoint, directory.path, &error), 0);
  assert_int_equal(checkpoint_sizes(checkpoint, &estimated, &error), 0);
  assert_true(estimated.estimated);
  assert_sizes(&estimated);
  assert_memory_equal(estimated.layer_bytes, exact.layer_bytes, 3 * sizeof *exact.layer_bytes);
  assert_int_equal(estimated.total_bytes, exact.total_bytes);
  checkpoint_sizes_free(&exact);
  checkpoint_sizes_free(&estimated);
}

static void test_tied_embeddings_have_no_head(void **state) {
  (void)state;
  struct checkpoint_sizes sizes;
  struct kj_error error;
  checkpoint_close(checkpoint);
  tiny_write(&(struct tiny){.layers = 1, .dense = true, .tied = true}, &directory);
  assert_int_equal(checkpoint_open(&checkpoint, directory.path, &error), 0);
  assert_int_equal(checkpoint_sizes(checkpoint, &sizes, &error), 0);
  assert_int_equal(sizes.embedding_bytes, TINY_TOKENS * TINY_HIDDEN * 2);
  assert_int_equal(sizes.head_bytes, 0);
  assert_int_equal(sizes.expert_bytes[0], 0);
  assert_int_equal(sizes.total_bytes, data_bytes("model-0.safetensors") + data_bytes("model-1.safetensors"));
  checkpoint_sizes_free(&sizes);
}

/* A node of layer 1 needs no other file than that of layer 1, and its weights are not touched by being found. */
static void test_a_node_opens_and_maps_its_own_shards_alone(void **state) {
  (void)state;
  struct layer_weights weights;
  struct kj_error error;
  assert_int_equal(unlink(directory_file(&directory, "model-0.safetensors")), 0);
  assert_int_equal(unlink(directory_file(&directory, "model-2.safetensors")), 0);
  assert_int_equal(unlink(directory_file(&directory, "model-3.safetensors")), 0);
  assert_int_equal(mappings_of(directory.path).count, 0);
  assert_int_equal(checkpoint_layer(checkpoint, 1, &weights, &error), 0);
  struct mappings mapped = mappings_of(directory.path);
  assert_int_equal(mapped.count, 1);
  assert_int_equal(mapped.resident, 0);
  assert_int_equal(mapped.writable, 0);
  assert_int_equal(mappings_of("model-1.safetensors").count, 1);
  layer_weights_free(&weights);
  assert_int_equal(mappings_of(directory.path).count, 1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_shards_of_a_stage),
      TEST(test_layers_that_are_not_there),
      TEST(test_sizes_equal_the_data_of_the_files),
      TEST(test_sizes_of_shards_that_other_machines_hold),
      TEST(test_tied_embeddings_have_no_head),
      TEST(test_a_node_opens_and_maps_its_own_shards_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

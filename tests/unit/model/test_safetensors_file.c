/* Opening and mapping a safetensors file: what is read, when, and what happens to a file that is not as it was. */
#include <sys/stat.h>

#include "model/safetensors.h"
#include "unit/model/checkpoint_files.h"
#include "unit/model/mappings.h"

static struct directory directory;

static int setup(void **state) {
  (void)state;
  directory_create(&directory);
  struct shard_writer writer = {0};
  shard_add(&writer, "weight", "BF16", 2, (const size_t[]){300, 1000});
  shard_add(&writer, "norm", "F32", 1, (const size_t[]){7});
  shard_write(&writer, &directory, "a.safetensors");
  return 0;
}

static int teardown(void **state) {
  (void)state;
  directory_remove(&directory);
  return 0;
}

static void test_opening_maps_nothing_and_mapping_touches_nothing(void **state) {
  (void)state;
  struct safetensors *file = NULL;
  struct kj_error error;
  assert_int_equal(safetensors_open(&file, directory_file(&directory, "a.safetensors"), &error), 0);
  assert_string_equal(safetensors_path(file), directory_file(&directory, "a.safetensors"));
  assert_int_equal(mappings_of(directory.path).count, 0);
  assert_int_equal(safetensors_map(file, &error), 0);
  assert_int_equal(safetensors_map(file, &error), 0); /* once is enough */
  struct mappings mapped = mappings_of(directory.path);
  assert_int_equal(mapped.count, 1);
  assert_int_equal(mapped.resident, 0);
  assert_int_equal(mapped.writable, 0);
  const struct safetensors_tensor *tensor = safetensors_find(file, "norm");
  const uint8_t *bytes = safetensors_data(file, tensor);
  for (size_t i = 0; i < tensor->bytes; i++) assert_int_equal(bytes[i], pattern_byte(pattern_seed("norm"), i));
  assert_true(mappings_of(directory.path).resident > 0);
  safetensors_close(file);
  assert_int_equal(mappings_of(directory.path).count, 0);
}

static void test_F1_every_truncation_is_refused(void **state) {
  (void)state;
  struct shard_writer writer = {0};
  struct safetensors *file = NULL;
  struct kj_error error;
  struct stat status;
  shard_add(&writer, "only", "BF16", 1, (const size_t[]){20});
  shard_write(&writer, &directory, "cut.safetensors");
  const char *path = directory_file(&directory, "cut.safetensors");
  assert_int_equal(stat(path, &status), 0);
  for (off_t length = status.st_size - 1; length >= 0; length--) {
    assert_int_equal(truncate(path, length), 0);
    assert_int_equal(safetensors_open(&file, path, &error), KJ_INVALID);
    assert_message(error, "cut.safetensors: ");
    assert_null(file);
  }
}

static void test_F1_a_truncated_file_names_the_tensor(void **state) {
  (void)state;
  struct shard_writer writer = {0};
  struct safetensors *file = NULL;
  struct kj_error error;
  struct stat status;
  shard_add(&writer, "model.norm.weight", "BF16", 1, (const size_t[]){20});
  shard_write(&writer, &directory, "short.safetensors");
  const char *path = directory_file(&directory, "short.safetensors");
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(truncate(path, status.st_size - 3), 0);
  assert_int_equal(safetensors_open(&file, path, &error), KJ_INVALID);
  assert_message(error,
                 "short.safetensors: tensor model.norm.weight: ends at byte 40 of the data, but the file has only 37");
}

static void test_a_file_that_changed_is_not_mapped(void **state) {
  (void)state;
  struct shard_writer writer = {0};
  struct safetensors *file = NULL;
  struct kj_error error;
  shard_add(&writer, "a", "F32", 1, (const size_t[]){5});
  shard_write(&writer, &directory, "changing.safetensors");
  assert_int_equal(safetensors_open(&file, directory_file(&directory, "changing.safetensors"), &error), 0);
  assert_int_equal(truncate(directory_file(&directory, "changing.safetensors"), 40), 0);
  assert_int_equal(safetensors_map(file, &error), KJ_IO);
  assert_message(error, "changing.safetensors: changed since its header was read");
  safetensors_close(file);
}

static void test_what_is_not_a_file_is_refused(void **state) {
  (void)state;
  struct safetensors *file = NULL;
  struct kj_error error;
  assert_int_equal(safetensors_open(&file, directory_file(&directory, "none.safetensors"), &error), KJ_NOT_FOUND);
  assert_message(error, "none.safetensors: cannot open: No such file");
  assert_int_equal(safetensors_open(&file, directory.path, &error), KJ_INVALID);
  assert_message(error, "is not a regular file");
  assert_int_equal(mkfifo(directory_file(&directory, "pipe.safetensors"), 0600), 0);
  assert_int_equal(safetensors_open(&file, directory_file(&directory, "pipe.safetensors"), &error), KJ_INVALID);
  assert_message(error, "pipe.safetensors: is not a regular file");
  assert_null(file);
}

static void test_the_digest_covers_header_and_size(void **state) {
  (void)state;
  static const char *const names[] = {"one", "one", "two"};
  uint8_t digests[3][SAFETENSORS_DIGEST];
  for (unsigned i = 0; i < 3; i++) {
    struct shard_writer writer = {0};
    struct safetensors *file = NULL;
    shard_add(&writer, names[i], "F32", 1, (const size_t[]){5});
    shard_write(&writer, &directory, "digest.safetensors");
    assert_int_equal(safetensors_open(&file, directory_file(&directory, "digest.safetensors"), NULL), 0);
    memcpy(digests[i], safetensors_digest(file), SAFETENSORS_DIGEST);
    safetensors_close(file);
  }
  assert_memory_equal(digests[0], digests[1], SAFETENSORS_DIGEST);
  assert_memory_not_equal(digests[0], digests[2], SAFETENSORS_DIGEST);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_opening_maps_nothing_and_mapping_touches_nothing),
      cmocka_unit_test(test_F1_every_truncation_is_refused),
      cmocka_unit_test(test_F1_a_truncated_file_names_the_tensor),
      cmocka_unit_test(test_a_file_that_changed_is_not_mapped),
      cmocka_unit_test(test_what_is_not_a_file_is_refused),
      cmocka_unit_test(test_the_digest_covers_header_and_size),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}

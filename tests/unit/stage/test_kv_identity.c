/* KV blocks of one stage are used by no stage that would compute other ones. */
#include "stage/kv_identity.h"

#include "base/threads.h"
#include "unit/model/tiny_checkpoint.h"

static struct directory directory;
static struct threads *threads;
static struct backend *backend;
static struct backend_operations operations; /* of the backend, to be changed */
static const char *arithmetic_name;

static const char *arithmetic(const struct backend *asked) {
  (void)asked;
  return arithmetic_name;
}

static int setup(void **state) {
  (void)state;
  directory_create(&directory);
  if (threads_create(&threads, 1, NULL) || backend_cpu_create(&backend, "reference", threads, 1, TINY_INNER, NULL))
    return 1;
  operations = *backend->operations;
  operations.arithmetic = arithmetic;
  arithmetic_name = backend->operations->arithmetic(backend);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  backend->operations->destroy(backend);
  threads_destroy(threads);
  directory_remove(&directory);
  return 0;
}

struct identity {
  uint8_t bytes[KV_FILE_IDENTITY];
};

static struct identity identify(uint32_t first, uint32_t count, bool head) {
  struct checkpoint *checkpoint;
  struct identity identity;
  struct kj_error error = {0};
  if (checkpoint_open(&checkpoint, directory.path, &error)) fail_msg("%s", error.message);
  const struct backend_operations *before = backend->operations;
  backend->operations = &operations;
  if (kv_identity(identity.bytes, checkpoint, backend, first, count, head, &error)) fail_msg("%s", error.message);
  backend->operations = before;
  checkpoint_close(checkpoint);
  return identity;
}

static bool same(struct identity a, struct identity b) { return memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0; }

/* Changes a byte of a file at a place that is counted from its end. */
static void change(const char *name, long from_end) {
  FILE *file = fopen(directory_file(&directory, name), "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, -from_end, SEEK_END), 0);
  int byte = fgetc(file);
  assert_int_equal(fseek(file, -from_end, SEEK_END), 0);
  assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
  assert_int_equal(fclose(file), 0);
}

static void check_model(const struct tiny *tiny) {
  tiny_write(tiny, &directory);
  struct identity whole = identify(0, 2, true), first = identify(0, 1, true), second = identify(1, 1, false);
  assert_true(same(whole, identify(0, 2, true)));
  assert_true(same(second, identify(1, 1, false)));
  assert_false(same(whole, first));
  assert_false(same(first, second));
  assert_false(same(second, identify(1, 1, true)));
  arithmetic_name = "other 1";
  assert_false(same(second, identify(1, 1, false)));
  arithmetic_name = "cpu 1";
  assert_true(same(second, identify(1, 1, false)));
  /* The same shapes and sizes with other numbers: the last tensor of a layer is its last down projection, of which the
   * first row counts. */
  size_t inner = tiny->dense ? TINY_INNER : TINY_EXPERT_INNER;
  change("model-1.safetensors", (long)(TINY_HIDDEN * inner * 2));
  assert_false(same(second, identify(1, 1, false)));
  assert_true(same(first, identify(0, 1, true)));
}

static void test_same_shape_other_weights(void **state) {
  (void)state;
  check_model(&(struct tiny){.layers = 2, .dense = true});
  check_model(&(struct tiny){.layers = 2, .one_an_expert = true});
}

static void test_config_counts(void **state) {
  (void)state;
  tiny_write(&(struct tiny){.layers = 2}, &directory);
  struct identity before = identify(1, 1, false);
  tiny_write(&(struct tiny){.layers = 2, .config = "\"rms_norm_eps\":1e-5,"}, &directory);
  assert_false(same(before, identify(1, 1, false)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_same_shape_other_weights, setup, teardown),
      cmocka_unit_test_setup_teardown(test_config_counts, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

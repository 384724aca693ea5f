/* Blocks on disk: kept over restarts, up to a limit, never believed when torn or damaged, however the writer died. */
#include "stage/kv_store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "stage/kv_directory.h"
#include "unit/stage/kv_directories.h"

enum { PAYLOAD = 3000, FILE_BYTES = KV_FILE_HEADER + PAYLOAD + KV_FILE_CHECKSUM };

static struct directory root;
static const char own_name[] = "01000000000000000000000000000000", other_name[] = "02000000000000000000000000000000";

static int setup(void **state) {
  (void)state;
  directory_create(&root);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  directory_remove(&root);
  return 0;
}

static struct kv_store_options options_for(uint8_t identity, uint64_t blocks) {
  return (struct kv_store_options){.root = root.path,
                                   .limit = blocks * FILE_BYTES,
                                   .identity = {identity},
                                   .first_layer = 2,
                                   .layer_count = 3,
                                   .payload_bytes = PAYLOAD};
}

static struct kv_store *open_store(uint8_t identity, uint64_t blocks) {
  struct kv_store_options options = options_for(identity, blocks);
  struct kv_store *store;
  struct kj_error error = {0};
  if (kv_store_open(&store, &options, &error)) fail_msg("%s", error.message);
  return store;
}

static uint8_t payload_byte(uint32_t number, size_t i) { return (uint8_t)(number * 31 + i * 7 + (i >> 8)); }

/* False if the store does not take it. */
static bool submit(struct kv_store *store, uint32_t number) {
  struct block_operation operation = block_of(BLOCK_STORE, number);
  uint8_t *payload = kv_store_prepare(store, &operation);
  if (!payload) return false;
  for (size_t i = 0; i < PAYLOAD; i++) payload[i] = payload_byte(number, i);
  kv_store_submit(store, payload);
  return true;
}

/* Kept for sure: a queue of small files is long. */
static void keep(struct kv_store *store, uint32_t number) {
  assert_true(submit(store, number));
  kv_store_flush(store);
}

static int read_block(struct kv_store *store, uint32_t number, struct kj_error *error) {
  struct block_operation operation = block_of(BLOCK_RESTORE, number);
  const uint8_t *payload = NULL;
  *error = (struct kj_error){0};
  int code = kv_store_read(store, &operation, &payload, error);
  for (size_t i = 0; i < PAYLOAD && !code; i++) assert_int_equal(payload[i], payload_byte(number, i));
  return code;
}

static void assert_kept(struct kv_store *store, uint32_t number) {
  struct kj_error error;
  if (read_block(store, number, &error)) fail_msg("block %u: %s", number, error.message);
}

static void assert_not_kept(struct kv_store *store, uint32_t number) {
  struct kj_error error;
  assert_int_equal(read_block(store, number, &error), KJ_NOT_FOUND);
}

/* The store's keys are those of these blocks, in this order. */
static void assert_inventory(struct kv_store *store, const uint32_t *numbers, size_t count) {
  struct block_key *keys;
  size_t found;
  assert_int_equal(kv_store_inventory(store, &keys, &found, NULL), 0);
  assert_int_equal(found, count);
  for (size_t i = 0; i < count; i++) {
    struct block_operation operation = block_of(BLOCK_STORE, numbers[i]);
    if (!block_key_equal(&keys[i], &operation.key)) fail_msg("the key at %zu is not block %u's", i, numbers[i]);
  }
  free(keys);
}

static char *own_file(char path[400], uint32_t number) {
  char name[KV_FILE_NAME];
  struct block_operation operation = block_of(BLOCK_STORE, number);
  kv_file_name(name, &operation.key);
  snprintf(path, 400, "%s/%s/%s", root.path, own_name, name);
  return path;
}

static void set_age(uint32_t number, time_t seconds) {
  char path[400];
  const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
  assert_int_equal(utimensat(AT_FDCWD, own_file(path, number), times, 0), 0);
}

static void test_blocks_outlive_the_store(void **state) {
  (void)state;
  struct kv_store *store = open_store(1, 10);
  assert_int_equal(kv_store_capacity(store), 10);
  assert_inventory(store, NULL, 0);
  for (uint32_t i = 0; i < 5; i++) assert_true(submit(store, i));
  kv_store_close(store); /* writes what is queued */
  store = open_store(1, 10);
  for (uint32_t i = 0; i < 5; i++) assert_kept(store, i);
  assert_not_kept(store, 5);
  assert_inventory(store, (uint32_t[]){0, 1, 2, 3, 4}, 5);
  assert_kept(store, 1);
  assert_false(submit(store, 0)); /* it is there, and used now */
  assert_inventory(store, (uint32_t[]){2, 3, 4, 1, 0}, 5);
  kv_store_close(store);
}

static void test_what_was_written_is_told_once(void **state) {
  (void)state;
  struct kv_store *store = open_store(1, 10);
  struct block_key keys[3];
  assert_int_equal(kv_store_take_written(store, keys, 3), 0);
  for (uint32_t i = 0; i < 5; i++) keep(store, i);
  assert_int_equal(kv_store_take_written(store, keys, 3), 3);
  for (uint32_t i = 0; i < 3; i++) {
    struct block_operation operation = block_of(BLOCK_STORE, i);
    assert_true(block_key_equal(&keys[i], &operation.key));
  }
  assert_int_equal(kv_store_take_written(store, keys, 3), 2);
  assert_int_equal(kv_store_take_written(store, keys, 3), 0);
  keep(store, 6);
  assert_inventory(store, (uint32_t[]){0, 1, 2, 3, 4, 6}, 6);
  assert_int_equal(kv_store_take_written(store, keys, 3), 0); /* told with the inventory */
  kv_store_close(store);
}

static void test_dropped_blocks_are_gone(void **state) {
  (void)state;
  char path[400];
  struct kv_store *store = open_store(1, 10);
  for (uint32_t i = 0; i < 3; i++) keep(store, i);
  struct block_operation operation = block_of(BLOCK_DROP, 1);
  kv_store_drop(store, &operation.key);
  assert_inventory(store, (uint32_t[]){0, 2}, 2);
  assert_not_kept(store, 1);
  assert_int_equal(access(own_file(path, 1), F_OK), -1);
  keep(store, 1); /* and may come again */
  assert_kept(store, 1);
  /* While it waits, or is being written. */
  for (uint32_t i = 10; i < 16; i++) {
    operation = block_of(BLOCK_DROP, i);
    assert_true(submit(store, i));
    kv_store_drop(store, &operation.key);
    kv_store_drop(store, &operation.key);
  }
  assert_true(submit(store, 15));
  kv_store_flush(store);
  assert_inventory(store, (uint32_t[]){0, 2, 1, 15}, 4);
  assert_kept(store, 15);
  kv_store_close(store);
  snprintf(path, sizeof path, "%s/%s", root.path, own_name);
  assert_int_equal(count_files(path, ".kv", NULL, 0), 4);
}

static void test_limit(void **state) {
  (void)state;
  struct kv_store *store = open_store(1, 4);
  for (uint32_t i = 0; i < 4; i++) keep(store, i);
  assert_false(submit(store, 4));
  struct block_operation operation = block_of(BLOCK_DROP, 2);
  kv_store_drop(store, &operation.key);
  keep(store, 4);
  assert_false(submit(store, 5));
  kv_store_close(store);
  /* A lower limit when it is opened again: the longest unused go. */
  set_age(0, 3000);
  set_age(1, 1000);
  set_age(3, 2000);
  set_age(4, 4000);
  store = open_store(1, 2);
  assert_inventory(store, (uint32_t[]){0, 4}, 2);
  kv_store_close(store);
  /* Reading counts as use, also for the next process. */
  store = open_store(1, 2);
  assert_kept(store, 0);
  kv_store_close(store);
  store = open_store(1, 1);
  assert_inventory(store, (uint32_t[]){0}, 1);
  kv_store_close(store);
  struct kv_store_options options = options_for(1, 1);
  struct kj_error error;
  options.limit = FILE_BYTES - 1;
  assert_int_equal(kv_store_open(&store, &options, &error), KJ_INVALID);
  assert_null(store);
  options.payload_bytes = UINT64_MAX;
  assert_int_equal(kv_store_open(&store, &options, &error), KJ_INVALID);
}

static void test_leftovers_are_removed(void **state) {
  (void)state;
  struct kv_store *store = open_store(1, 10);
  keep(store, 7);
  kv_store_close(store);
  char name[100], path[400];
  static const char *const removed[] = {"00112233445566778899aabbccddeeff.part", "00112233445566778899aabbccddeeff.kv"};
  static const char *const left[] = {"notes.txt", "00112233445566778899AABBCCDDEEFF.kv", "0011.kv", "lock"};
  for (size_t i = 0; i < 2; i++) {
    snprintf(name, sizeof name, "%s/%s", own_name, removed[i]);
    write_text(&root, name, "torn");
  }
  for (size_t i = 0; i < 4; i++) {
    snprintf(name, sizeof name, "%s/%s", own_name, left[i]);
    write_text(&root, name, "not ours");
  }
  store = open_store(1, 10);
  assert_inventory(store, (uint32_t[]){7}, 1);
  assert_kept(store, 7);
  kv_store_close(store);
  for (size_t i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s/%s", root.path, own_name, removed[i]);
    assert_int_equal(access(path, F_OK), -1);
  }
  for (size_t i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s/%s/%s", root.path, own_name, left[i]);
    assert_int_equal(access(path, F_OK), 0);
  }
}

static void damage(uint32_t number, off_t at, bool truncate_here) {
  char path[400];
  uint8_t byte;
  int file = open(own_file(path, number), O_RDWR);
  assert_true(file >= 0);
  if (truncate_here) {
    assert_int_equal(ftruncate(file, at), 0);
  } else {
    assert_int_equal(pread(file, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
  }
  close(file);
}

static void test_damaged_files_are_removed_not_used(void **state) {
  (void)state;
  static const off_t places[] = {0,
                                 8,
                                 12,
                                 16,
                                 20,
                                 24,
                                 32,
                                 48,
                                 64,
                                 72,
                                 327,
                                 KV_FILE_HEADER,
                                 1500,
                                 KV_FILE_HEADER + PAYLOAD - 1,
                                 KV_FILE_HEADER + PAYLOAD,
                                 FILE_BYTES - 1};
  struct kv_store *store = open_store(1, 100);
  struct kj_error error;
  char path[400];
  keep(store, 99);
  for (uint32_t i = 0; i < 2 * sizeof places / sizeof *places; i++) {
    keep(store, i);
    damage(i, places[i / 2], i % 2);
    assert_int_equal(read_block(store, i, &error), KJ_INVALID);
    assert_message(error, own_name);
    assert_int_equal(access(own_file(path, i), F_OK), -1);
    assert_not_kept(store, i);
    keep(store, i); /* computed again, kept again */
    assert_kept(store, i);
  }
  /* Damaged while nobody has it open. */
  kv_store_close(store);
  for (uint32_t i = 0; i < 2 * sizeof places / sizeof *places; i++) damage(i, places[i / 2], i % 2);
  store = open_store(1, 100);
  assert_kept(store, 99);
  for (uint32_t i = 0; i < 2 * sizeof places / sizeof *places; i++)
    assert_int_equal(read_block(store, i, &error), i % 2 ? KJ_NOT_FOUND : KJ_INVALID);
  assert_inventory(store, (uint32_t[]){99}, 1);
  kv_store_close(store);
}

/* A file under another block's name, or of other tokens with the same name: whole, but not what is asked for. */
static void test_tokens_are_compared(void **state) {
  (void)state;
  char from[400], to[400];
  struct kv_store *store = open_store(1, 10);
  struct kj_error error;
  keep(store, 1);
  keep(store, 2);
  assert_int_equal(rename(own_file(from, 1), own_file(to, 2)), 0);
  assert_int_equal(read_block(store, 2, &error), KJ_INVALID);
  assert_int_equal(read_block(store, 1, &error), KJ_NOT_FOUND);
  assert_message(error, own_name);
  assert_inventory(store, NULL, 0);
  /* Whoever asks for the key of one text with another text. */
  keep(store, 3);
  struct block_operation operation = block_of(BLOCK_RESTORE, 3);
  const uint8_t *payload;
  operation.tokens[5]++;
  assert_int_equal(kv_store_read(store, &operation, &payload, &error), KJ_INVALID);
  kv_store_close(store);
}

static void test_one_process_at_a_time(void **state) {
  (void)state;
  struct kv_store *store = open_store(1, 10), *second;
  struct kv_store_options options = options_for(1, 10);
  struct kj_error error = {0};
  keep(store, 1);
  assert_int_equal(kv_store_open(&second, &options, &error), KJ_REFUSED);
  assert_message(error, root.path);
  assert_message(error, "in use by another process");
  /* Other layers or another model: a directory of their own. */
  struct kv_store *other = open_store(2, 10);
  assert_inventory(other, NULL, 0);
  keep(other, 1);
  kv_store_close(other);
  assert_kept(store, 1);
  kv_store_close(store);
  store = open_store(1, 10);
  assert_kept(store, 1);
  kv_store_close(store);
}

static void test_others_give_way(void **state) {
  (void)state;
  char path[400];
  snprintf(path, sizeof path, "%s/%s", root.path, other_name);
  struct kv_store *other = open_store(2, 10);
  for (uint32_t i = 0; i < 6; i++) keep(other, i);
  /* While they are in use, they count for their own process alone. */
  struct kv_store *store = open_store(1, 4);
  for (uint32_t i = 0; i < 4; i++) keep(store, i);
  assert_int_equal(count_files(path, ".kv", NULL, 0), 6);
  kv_store_close(store);
  kv_store_close(other);
  store = open_store(1, 10); /* 4 + 6 fit */
  assert_int_equal(count_files(path, ".kv", NULL, 0), 6);
  keep(store, 4);
  assert_int_equal(count_files(path, ".kv", NULL, 0), 0);
  for (uint32_t i = 0; i < 5; i++) assert_kept(store, i);
  assert_inventory(store, (uint32_t[]){0, 1, 2, 3, 4}, 5);
  kv_store_close(store);
  other = open_store(2, 10);
  assert_inventory(other, NULL, 0);
  kv_store_close(other);
}

static void test_directory_that_cannot_be_used(void **state) {
  (void)state;
  struct kv_store *store;
  struct kj_error error = {0};
  struct kv_store_options options = options_for(1, 10);
  char path[400];
  write_text(&root, "file", "x");
  snprintf(path, sizeof path, "%s/file", root.path);
  options.root = path;
  assert_int_not_equal(kv_store_open(&store, &options, &error), 0);
  assert_message(error, path);
  assert_int_not_equal(kv_root_prepare(path, &error), 0);
  snprintf(path, sizeof path, "%s/no/such", root.path);
  assert_int_equal(kv_store_open(&store, &options, &error), KJ_NOT_FOUND);
  assert_message(error, path);
  assert_null(store);
}

/* A disk that takes no more: as a limit on the size of files. */
static void test_failed_writes_leave_nothing(void **state) {
  (void)state;
  char path[400];
  struct rlimit before, small = {FILE_BYTES / 2, RLIM_INFINITY};
  struct kv_store *store = open_store(1, 10);
  keep(store, 1);
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small.rlim_max = before.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  assert_true(submit(store, 2));
  kv_store_flush(store);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_not_kept(store, 2);
  assert_inventory(store, (uint32_t[]){1}, 1);
  snprintf(path, sizeof path, "%s/%s", root.path, own_name);
  assert_int_equal(count_files(path, ".part", NULL, 0), 0);
  keep(store, 2);
  assert_kept(store, 2);
  kv_store_close(store);
}

static void count_notice(void *context) { __atomic_add_fetch((int *)context, 1, __ATOMIC_SEQ_CST); }

static void test_notices(void **state) {
  (void)state;
  int notices = 0;
  struct kv_store_options options = options_for(1, 10);
  struct kv_store *store;
  options.notify = count_notice;
  options.context = &notices;
  assert_int_equal(kv_store_open(&store, &options, NULL), 0);
  for (uint32_t i = 0; i < 4; i++) keep(store, i);
  kv_store_close(store);
  assert_int_equal(notices, 4);
}

/* Large blocks fill the queue: what does not fit is not kept, and the caller does not wait. */
static void test_queue_is_bounded(void **state) {
  (void)state;
  struct kv_store *store;
  struct kv_store_options options = options_for(1, 1);
  options.payload_bytes = 48 << 20;
  options.limit = (uint64_t)1 << 40;
  assert_int_equal(kv_store_open(&store, &options, NULL), 0);
  uint8_t *payloads[2];
  for (uint32_t i = 0; i < 3; i++) {
    struct block_operation operation = block_of(BLOCK_STORE, i);
    uint8_t *payload = kv_store_prepare(store, &operation);
    if (i < 2)
      assert_non_null(payloads[i] = payload);
    else
      assert_null(payload);
  }
  for (uint32_t i = 0; i < 2; i++) {
    struct block_operation operation = block_of(BLOCK_DROP, i);
    kv_store_submit(store, payloads[i]);
    kv_store_drop(store, &operation.key);
  }
  kv_store_flush(store);
  assert_inventory(store, NULL, 0);
  kv_store_close(store);
}

/* Writes until it is killed. */
static void write_for_ever(int ready) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct kv_store_options options = options_for(1, 100);
  struct kv_store *store;
  if (kv_store_open(&store, &options, NULL)) _exit(1);
  for (uint32_t number = 0;; number = (number + 1) % 90) {
    submit(store, number);
    if (number % 30 == 29) {
      kv_store_flush(store);
      if (write(ready, "x", 1) != 1) _exit(2);
    }
    struct block_operation operation = block_of(BLOCK_DROP, (number + 45) % 90);
    kv_store_drop(store, &operation.key);
  }
}

static void test_killed_while_writing(void **state) {
  (void)state;
  uint32_t verified = 0;
  for (int round = 0; round < 20; round++) {
    int ready[2], status;
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) write_for_ever(ready[1]);
    close(ready[1]);
    for (int i = 0; i <= round % 3; i++) assert_int_equal(read(ready[0], &byte, 1), 1);
    nanosleep(&(struct timespec){.tv_nsec = round * 150000}, NULL); /* anywhere in its work */
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    close(ready[0]);
    struct kv_store *store = open_store(1, 100); /* the lock went with its owner */
    struct block_key *keys;
    size_t count, found = 0;
    assert_int_equal(kv_store_inventory(store, &keys, &count, NULL), 0);
    for (uint32_t number = 0; number < 90; number++) {
      struct block_operation operation = block_of(BLOCK_RESTORE, number);
      bool listed = false;
      for (size_t i = 0; i < count; i++) listed |= block_key_equal(&keys[i], &operation.key);
      if (listed) assert_kept(store, number);
      found += listed;
    }
    assert_int_equal(found, count); /* and nothing else */
    verified += (uint32_t)count;
    free(keys);
    kv_store_close(store);
  }
  assert_true(verified > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_blocks_outlive_the_store, setup, teardown),
      cmocka_unit_test_setup_teardown(test_what_was_written_is_told_once, setup, teardown),
      cmocka_unit_test_setup_teardown(test_dropped_blocks_are_gone, setup, teardown),
      cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
      cmocka_unit_test_setup_teardown(test_leftovers_are_removed, setup, teardown),
      cmocka_unit_test_setup_teardown(test_damaged_files_are_removed_not_used, setup, teardown),
      cmocka_unit_test_setup_teardown(test_tokens_are_compared, setup, teardown),
      cmocka_unit_test_setup_teardown(test_one_process_at_a_time, setup, teardown),
      cmocka_unit_test_setup_teardown(test_others_give_way, setup, teardown),
      cmocka_unit_test_setup_teardown(test_directory_that_cannot_be_used, setup, teardown),
      cmocka_unit_test_setup_teardown(test_failed_writes_leave_nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(test_notices, setup, teardown),
      cmocka_unit_test_setup_teardown(test_queue_is_bounded, setup, teardown),
      cmocka_unit_test_setup_teardown(test_killed_while_writing, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

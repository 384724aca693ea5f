/* KV blocks on disk over a whole cluster: a lead and two nodes over loopback, driven as the engine drives them. What is
 * restored after everything was started anew gives the same bits as what was computed. */
#include "sched/disk_cache.h"

#include <pthread.h>

#include "stage/ledger.h"
#include "stage/node.h"
#include "unit/stage/kv_directories.h"

enum { NODES = 2, STAGES = NODES + 1, KV_BLOCKS = 16, CHUNK = 48, FULL = 3, LENGTH = FULL * KV_BLOCK + 10 };
static const uint32_t layers_of[STAGES] = {3, 4, 5};

struct running_node {
  struct node *node;
  pthread_t thread;
  char address[64];
  struct kj_error error;
  int code;
};

/* Everything that a run of the cluster consists of; a restart is another one. */
struct cluster_run {
  struct running_node nodes[NODES];
  const char *addresses[NODES];
  struct checkpoint *checkpoint;
  const struct config *config;
  struct threads *threads;
  struct backend *backend;
  struct head *head;
  struct stage *stage;
  struct plan *plan;
  struct cluster *cluster;
  struct disk_cache *disk;
  pthread_mutex_t mutex;
  pthread_cond_t wake;
  bool woken;
  uint64_t number;
  float *hidden;
};

static const char given_model[] = KAIJU_SOURCE_DIR "/models/kaiju-mini";
static const char *model = given_model;
static struct directory roots[STAGES];
static uint32_t tokens[LENGTH];

static int setup(void **state) {
  (void)state;
  for (int i = 0; i < STAGES; i++) directory_create(&roots[i]);
  for (uint32_t i = 0; i < LENGTH; i++) tokens[i] = (i * i * 17 + 3 * i) % 500;
  return 0;
}

static int teardown(void **state) {
  (void)state;
  for (int i = 0; i < STAGES; i++) directory_remove(&roots[i]);
  return 0;
}

static void *run_node(void *context) {
  struct running_node *node = context;
  node->code = node_run(node->node, &node->error);
  return NULL;
}

static void start_node(struct cluster_run *run, size_t i, bool disk) {
  struct node_options options = {.model = model,
                                 .listen = "127.0.0.1:0",
                                 .threads = 1,
                                 .memory = (uint64_t)4 << 30,
                                 .kv_disk = disk ? roots[i + 1].path : NULL,
                                 .kv_disk_size = 1 << 24};
  struct running_node *node = &run->nodes[i];
  struct kj_error error = {0};
  if (node_create(&node->node, &options, node->address, sizeof node->address, &error)) fail_msg("%s", error.message);
  assert_int_equal(pthread_create(&node->thread, NULL, run_node, node), 0);
  run->addresses[i] = node->address;
}

static void wake(void *context) {
  struct cluster_run *run = context;
  pthread_mutex_lock(&run->mutex);
  run->woken = true;
  pthread_cond_signal(&run->wake);
  pthread_mutex_unlock(&run->mutex);
}

/* The next event of the cluster that is one. */
static struct cluster_event next_event(struct cluster_run *run) {
  struct cluster_event event;
  for (;;) {
    cluster_poll(run->cluster, &event);
    if (event.kind != CLUSTER_NOTHING && event.kind != CLUSTER_UNREACHED) return event;
    pthread_mutex_lock(&run->mutex);
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 50000000; /* something may be due */
    soon.tv_sec += soon.tv_nsec / 1000000000;
    soon.tv_nsec %= 1000000000;
    if (!run->woken) pthread_cond_timedwait(&run->wake, &run->mutex, &soon);
    run->woken = false;
    pthread_mutex_unlock(&run->mutex);
  }
}

static void expect_event(struct cluster_run *run, enum cluster_event_kind kind) {
  struct cluster_event event = next_event(run);
  if (event.kind != kind) fail_msg("event %d instead of %d: %s", event.kind, kind, event.error.message);
}

static void open_lead(struct cluster_run *run) {
  struct kj_error error = {0};
  struct checkpoint_identity identity = {0};
  if (checkpoint_open(&run->checkpoint, model, &error) || threads_create(&run->threads, 1, &error))
    fail_msg("%s", error.message);
  run->config = checkpoint_config(run->checkpoint);
  if (backend_cpu_create(&run->backend, "auto", run->threads, CHUNK, plan_max_columns(run->config), &error) ||
      head_open(&run->head, run->checkpoint, run->backend, CHUNK, &error) ||
      checkpoint_identity(run->checkpoint, 0, 0, true, &identity, &error))
    fail_msg("%s", error.message);
  struct cluster_options options = {.addresses = run->addresses,
                                    .count = NODES,
                                    .link = {.notify = wake, .context = run},
                                    .introduction = {.memory = (uint64_t)4 << 30, .threads = 1}};
  memcpy(options.introduction.config_hash, identity.config, sizeof options.introduction.config_hash);
  checkpoint_identity_free(&identity);
  if (cluster_open(&run->cluster, &options, &error)) fail_msg("%s", error.message);
  struct disk_cache_options disk = {.root = roots[0].path,
                                    .limit = 1 << 24,
                                    .checkpoint = run->checkpoint,
                                    .backend = run->backend,
                                    .cluster = run->cluster,
                                    .notify = wake,
                                    .context = run};
  if (disk_cache_create(&run->disk, &disk, &error)) fail_msg("%s", error.message);
  run->hidden = calloc((size_t)CHUNK * run->config->hidden, sizeof(float));
  assert_non_null(run->hidden);
}

/* From cluster_begin on: until all are ready. */
static void form_epoch(struct cluster_run *run) {
  struct kj_error error = {0};
  struct checkpoint_identity identity = {0};
  struct plan_node nodes[STAGES] = {{.name = "lead"}, {.name = "one"}, {.name = "two"}};
  struct plan_request request = {.nodes = nodes,
                                 .node_count = STAGES,
                                 .split = layers_of,
                                 .split_count = STAGES,
                                 .context = KV_BLOCKS * KV_BLOCK / 2,
                                 .parallel = 2,
                                 .max_batch_tokens = CHUNK,
                                 .kv_disk = true};
  expect_event(run, CLUSTER_INTRODUCED);
  disk_cache_begin(run->disk);
  plan_free(run->plan);
  if (plan_make(&run->plan, run->checkpoint, &request, &error) ||
      checkpoint_identity(run->checkpoint, 0, run->config->layers, true, &identity, &error) ||
      cluster_assign(run->cluster, run->plan, &identity, CHUNK, run->config->hidden, &error))
    fail_msg("%s", error.message);
  assert_int_equal(run->plan->kv_blocks, KV_BLOCKS);
  checkpoint_identity_free(&identity);
  struct stage_options options = {.checkpoint = run->checkpoint,
                                  .backend = run->backend,
                                  .layer_count = layers_of[0],
                                  .kv_blocks = KV_BLOCKS,
                                  .max_batch_tokens = CHUNK};
  if (!run->stage && stage_open(&run->stage, &options, &error)) fail_msg("%s", error.message);
  stage_reset(run->stage);
  if (disk_cache_attach(run->disk, run->stage, 0, layers_of[0], &error)) fail_msg("%s", error.message);
  expect_event(run, CLUSTER_READY);
  disk_cache_ready(run->disk);
  run->number = 0;
}

static struct cluster_run *start(bool last_has_disk) {
  struct cluster_run *run = calloc(1, sizeof *run);
  assert_non_null(run);
  pthread_mutex_init(&run->mutex, NULL);
  pthread_cond_init(&run->wake, NULL);
  for (size_t i = 0; i < NODES; i++) start_node(run, i, i + 1 < NODES || last_has_disk);
  open_lead(run);
  cluster_begin(run->cluster);
  form_epoch(run);
  return run;
}

static void stop(struct cluster_run *run) {
  disk_cache_destroy(run->disk);
  cluster_close(run->cluster);
  for (size_t i = 0; i < NODES; i++) {
    node_stop(run->nodes[i].node);
    pthread_join(run->nodes[i].thread, NULL);
    if (run->nodes[i].code) fail_msg("%s", run->nodes[i].error.message);
    node_destroy(run->nodes[i].node);
  }
  stage_close(run->stage);
  head_close(run->head);
  plan_free(run->plan);
  run->backend->operations->destroy(run->backend);
  threads_destroy(run->threads);
  checkpoint_close(run->checkpoint);
  pthread_cond_destroy(&run->wake);
  pthread_mutex_destroy(&run->mutex);
  free(run->hidden);
  free(run);
}

/* One micro-batch over all stages; every row is an output. */
static void launch(struct cluster_run *run, const uint32_t *table, uint32_t first, uint32_t count) {
  struct kj_error error = {0};
  uint64_t hash = token_hash_start();
  for (uint32_t i = 0; i < first; i++) hash = token_hash_extend(hash, tokens[i]);
  struct span span = {.first_position = first,
                      .tokens = count,
                      .outputs = count,
                      .block_count = (first + count + KV_BLOCK - 1) / KV_BLOCK,
                      .blocks = table,
                      .token_ids = tokens + first,
                      .prefix_hash = hash};
  struct batch batch = {.span_count = 1, .tokens = count, .outputs = count, .spans = &span};
  if (head_embed(run->head, span.token_ids, count, run->hidden, &error) ||
      stage_forward(run->stage, &batch, run->hidden, &error) || disk_cache_send(run->disk, &error))
    fail_msg("%s", error.message);
  struct message_work work = {
      .number = run->number, .hidden = run->config->hidden, .batch = batch, .rows = run->hidden};
  cluster_expect(run->cluster, run->number++, count);
  if (cluster_send(run->cluster, &work, &error)) fail_msg("%s", error.message);
}

static void compute(struct cluster_run *run, const uint32_t *table, uint32_t first, uint32_t end, float *rows) {
  for (uint32_t next; first < end; first = next) {
    next = end - first < CHUNK ? end : first + CHUNK;
    launch(run, table, first, next - first);
    struct cluster_event event = next_event(run);
    if (event.kind != CLUSTER_RESULT) fail_msg("%s", event.error.message);
    size_t hidden = run->config->hidden;
    memcpy(rows + first * hidden, event.result.rows, (next - first) * hidden * sizeof *rows);
    message_free_result(&event.result);
  }
}

static void keep(struct cluster_run *run, const uint32_t *table) {
  struct block_chain chain = {0};
  struct kj_error error = {0};
  for (uint32_t i = 0; i < FULL; i++)
    if (disk_cache_store(run->disk, &chain, tokens, i, table[i], &error)) fail_msg("%s", error.message);
  if (disk_cache_send(run->disk, &error)) fail_msg("%s", error.message);
}

/* Until all stages have confirmed so many blocks. */
static void await(struct cluster_run *run, uint32_t blocks) {
  for (int i = 0; disk_cache_find(run->disk, tokens, 0, FULL) < blocks; i++) {
    struct cluster_event event;
    assert_true(i < 10000);
    disk_cache_poll(run->disk);
    cluster_poll(run->cluster, &event);
    assert_int_equal(event.kind, CLUSTER_NOTHING);
    usleep(1000);
  }
}

static float *rows_create(const struct cluster_run *run) {
  float *rows = calloc((size_t)LENGTH * run->config->hidden, sizeof *rows);
  assert_non_null(rows);
  return rows;
}

static const uint32_t table[] = {3, 9, 0, 12}, other_table[] = {7, 1, 15, 4};

static void restore(struct cluster_run *run, uint32_t blocks) {
  struct block_chain chain = {0};
  for (uint32_t i = 0; i < blocks; i++) assert_true(disk_cache_restore(run->disk, &chain, tokens, i, other_table[i]));
}

/* The stage's own directory in its root. */
static void own_directory(int stage, char path[400]) {
  struct dirent *entry;
  int found = 0;
  DIR *listing = opendir(roots[stage].path);
  assert_non_null(listing);
  while ((entry = readdir(listing))) {
    if (strlen(entry->d_name) != 32) continue;
    snprintf(path, 400, "%s/%s", roots[stage].path, entry->d_name);
    found++;
  }
  closedir(listing);
  assert_int_equal(found, 1);
}

/* Flips a bit of one of the stage's blocks, whose path is written to `path`. */
static void damage_one(int stage, char path[800]) {
  char directory[400];
  own_directory(stage, directory);
  assert_int_equal(count_files(directory, ".kv", path, 800), FULL);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, 1000, SEEK_SET), 0);
  int byte = fgetc(file);
  assert_int_equal(fseek(file, 1000, SEEK_SET), 0);
  assert_int_equal(fputc(byte ^ 4, file), byte ^ 4);
  assert_int_equal(fclose(file), 0);
}

static void test_restart_of_the_whole_cluster(void **state) {
  (void)state;
  struct cluster_run *run = start(true);
  float *expected = rows_create(run), *rows = rows_create(run);
  size_t hidden = run->config->hidden;
  assert_int_equal(disk_cache_find(run->disk, tokens, 0, FULL), 0);
  compute(run, table, 0, LENGTH, expected);
  keep(run, table);
  await(run, FULL);
  stop(run);

  run = start(true);
  for (uint32_t first = 0; first <= FULL; first++)
    assert_int_equal(disk_cache_find(run->disk, tokens, first, FULL), FULL - first);
  assert_int_equal(disk_cache_find(run->disk, tokens, 0, 2), 2);
  tokens[KV_BLOCK]++; /* another text: only its first block is the same */
  assert_int_equal(disk_cache_find(run->disk, tokens, 0, FULL), 1);
  tokens[KV_BLOCK]--;
  restore(run, FULL);
  compute(run, other_table, FULL * KV_BLOCK, LENGTH, rows);
  assert_memory_equal(rows + FULL * KV_BLOCK * hidden, expected + FULL * KV_BLOCK * hidden,
                      (LENGTH - FULL * KV_BLOCK) * hidden * sizeof *rows);
  keep(run, other_table); /* they are there: nothing to do */
  stop(run);
  free(expected);
  free(rows);
}

/* Where the tensor's bytes begin in a shard. */
static size_t find_tensor(const char *shard, const char *name) {
  char quoted[100];
  unsigned long begin;
  uint64_t length = 0;
  for (int i = 8; i-- > 0;) length = length << 8 | (uint8_t)shard[i];
  snprintf(quoted, sizeof quoted, "\"%s\"", name);
  const char *entry = strstr(shard + 8, quoted);
  const char *offsets = entry ? strstr(entry, "data_offsets\":[") : NULL;
  assert_non_null(offsets);
  assert_int_equal(sscanf(offsets, "data_offsets\":[%lu", &begin), 1);
  return 8 + length + begin;
}

/* The same checkpoint with another number in one tensor of this shard. */
static void write_changed_model(struct directory *directory, const char *changed, const char *tensor) {
  static const char *const files[] = {"config.json",
                                      "generation_config.json",
                                      "model.safetensors.index.json",
                                      "model-00001-of-00003.safetensors",
                                      "model-00002-of-00003.safetensors",
                                      "model-00003-of-00003.safetensors"};
  char path[300];
  directory_create(directory);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    if (strcmp(files[i], changed) == 0) continue;
    snprintf(path, sizeof path, "%s/%s", given_model, files[i]);
    assert_int_equal(symlink(path, directory_file(directory, files[i])), 0);
  }
  enum { MOST = 1 << 24 };
  char *shard = calloc(1, MOST + 1);
  assert_non_null(shard);
  snprintf(path, sizeof path, "%s/%s", given_model, changed);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t size = fread(shard, 1, MOST, file);
  fclose(file);
  shard[find_tensor(shard, tensor)] ^= 0x40;
  file = fopen(directory_file(directory, changed), "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(shard, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
  free(shard);
}

/* Blocks of the stages behind depend on the layers before theirs, too, which they do not know. */
static void check_changed_model(const char *shard, const char *tensor) {
  struct directory changed;
  struct cluster_run *run = start(true);
  float *expected = rows_create(run), *rows = rows_create(run);
  size_t hidden = run->config->hidden, behind = FULL * KV_BLOCK * hidden;
  compute(run, table, 0, LENGTH, rows);
  keep(run, table);
  await(run, FULL);
  stop(run);

  write_changed_model(&changed, shard, tensor);
  model = changed.path;
  run = start(true);
  assert_int_equal(disk_cache_find(run->disk, tokens, 0, FULL), 0);
  compute(run, table, 0, LENGTH, expected);
  assert_memory_not_equal(rows + behind, expected + behind, (LENGTH * hidden - behind) * sizeof *rows);
  keep(run, table);
  await(run, FULL);
  stop(run);

  run = start(true);
  assert_int_equal(disk_cache_find(run->disk, tokens, 0, FULL), FULL);
  restore(run, FULL);
  compute(run, other_table, FULL * KV_BLOCK, LENGTH, rows);
  assert_memory_equal(rows + behind, expected + behind, (LENGTH * hidden - behind) * sizeof *rows);
  stop(run);
  model = given_model;
  directory_remove(&changed);
  free(expected);
  free(rows);
}

static void test_other_layers_of_the_lead(void **state) {
  (void)state;
  check_changed_model("model-00001-of-00003.safetensors", "model.layers.0.input_layernorm.weight");
}

static void test_other_layers_of_a_node_between(void **state) {
  (void)state;
  check_changed_model("model-00002-of-00003.safetensors", "model.layers.4.input_layernorm.weight");
}

/* A damaged file at a node ends the epoch and is not offered again; at the lead it costs nothing. */
static void test_damaged_files(void **state) {
  (void)state;
  struct cluster_run *run = start(true);
  float *expected = rows_create(run), *rows = rows_create(run);
  size_t hidden = run->config->hidden;
  compute(run, table, 0, LENGTH, expected);
  keep(run, table);
  await(run, FULL);
  stop(run);
  for (int stage = STAGES - 1; stage >= 0; stage--) {
    char path[800];
    free(rows);
    run = start(true);
    rows = rows_create(run);
    assert_int_equal(disk_cache_find(run->disk, tokens, 0, FULL), FULL);
    damage_one(stage, path);
    struct block_chain chain = {0};
    uint32_t restored = 0;
    while (restored < FULL && disk_cache_restore(run->disk, &chain, tokens, restored, other_table[restored]))
      restored++;
    if (stage > 0) {
      assert_int_equal(restored, FULL);
      assert_int_equal(disk_cache_send(run->disk, NULL), 0);
      struct cluster_event event = next_event(run);
      assert_int_equal(event.kind, CLUSTER_FAILED);
      assert_true(strlen(event.error.message) > 10); /* by this node or by a neighbour, whose link it has closed */
      cluster_begin(run->cluster);
      form_epoch(run);
      restored = disk_cache_find(run->disk, tokens, 0, FULL);
      restore(run, restored);
    }
    assert_true(restored < FULL);
    assert_int_equal(access(path, F_OK), -1);
    compute(run, other_table, restored * KV_BLOCK, LENGTH, rows);
    assert_memory_equal(rows + restored * KV_BLOCK * hidden, expected + restored * KV_BLOCK * hidden,
                        (LENGTH - restored * KV_BLOCK) * hidden * sizeof *rows);
    keep(run, other_table);
    await(run, FULL);
    stop(run);
  }
  free(expected);
  free(rows);
}

static void test_a_node_without_a_disk(void **state) {
  (void)state;
  struct cluster_run *run = start(false);
  float *rows = rows_create(run);
  compute(run, table, 0, LENGTH, rows);
  keep(run, table);
  compute(run, table, LENGTH - 1, LENGTH, rows);
  disk_cache_poll(run->disk);
  assert_int_equal(disk_cache_find(run->disk, tokens, 0, FULL), 0);
  stop(run);
  for (int i = 0; i < STAGES - 1; i++) {
    char path[400];
    own_directory(i, path);
    assert_int_equal(count_files(path, ".kv", NULL, 0), 0);
  }
  free(rows);
}

/* Orders come in order with the micro-batches: a block is kept as the micro-batches before have left it, although the
 * ones after it write other tokens to it at once. */
static void test_orders_are_in_step_with_micro_batches(void **state) {
  (void)state;
  struct cluster_run *run = start(true);
  struct kj_error error = {0};
  struct block_chain chain = {0};
  launch(run, table, 0, CHUNK);
  launch(run, table, CHUNK, KV_BLOCK - CHUNK);
  assert_int_equal(disk_cache_store(run->disk, &chain, tokens, 0, table[0], &error), 0);
  tokens[0]++;
  launch(run, table, 0, CHUNK);
  tokens[0]--;
  for (int i = 0; i < 3; i++) {
    struct cluster_event event = next_event(run);
    if (event.kind != CLUSTER_RESULT) fail_msg("%s", event.error.message);
    message_free_result(&event.result);
  }
  await(run, 1);
  /* What the lead's pool does not hold is not kept. */
  assert_int_equal(disk_cache_store(run->disk, &chain, tokens, 1, table[1], &error), KJ_INVALID);
  stop(run);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_restart_of_the_whole_cluster, setup, teardown),
      cmocka_unit_test_setup_teardown(test_other_layers_of_the_lead, setup, teardown),
      cmocka_unit_test_setup_teardown(test_other_layers_of_a_node_between, setup, teardown),
      cmocka_unit_test_setup_teardown(test_damaged_files, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_node_without_a_disk, setup, teardown),
      cmocka_unit_test_setup_teardown(test_orders_are_in_step_with_micro_batches, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A stage's KV blocks on disk: what is restored gives the same bits as what was computed, and nothing wrong is taken.
 */
#include <sodium.h>
#include <stdbool.h>

#include "base/threads.h"
#include "model/plan.h"
#include "stage/kv_identity.h"
#include "stage/ledger.h"
#include "stage/stage.h"
#include "unit/stage/kv_directories.h"

enum { BLOCKS = 12, MAX_TOKENS = 96, FULL = 3, LENGTH = FULL * KV_BLOCK + 20, FIRST_LAYER = 2, LAYERS = 4 };

struct fixture {
  struct directory root;
  struct checkpoint *checkpoint;
  const struct config *config;
  struct threads *threads;
  struct backend *backend;
  struct head *head;
  uint32_t tokens[LENGTH];
  float *expected; /* [LENGTH, hidden] computed without a disk */
};

static struct stage *open_stage(struct fixture *fixture) {
  struct stage_options options = {.checkpoint = fixture->checkpoint,
                                  .backend = fixture->backend,
                                  .first_layer = FIRST_LAYER,
                                  .layer_count = LAYERS,
                                  .kv_blocks = BLOCKS,
                                  .max_batch_tokens = MAX_TOKENS};
  struct stage *stage;
  struct kj_error error = {0};
  if (stage_open(&stage, &options, &error)) fail_msg("%s", error.message);
  return stage;
}

static struct kv_store *open_store(struct fixture *fixture, const struct stage *stage) {
  struct kv_store_options options = {.root = fixture->root.path,
                                     .limit = (uint64_t)1 << 30,
                                     .first_layer = FIRST_LAYER,
                                     .layer_count = LAYERS,
                                     .payload_bytes = stage_block_bytes(stage)};
  struct kv_store *store = NULL;
  struct kj_error error = {0};
  if (kv_identity(options.identity, fixture->checkpoint, fixture->backend, FIRST_LAYER, LAYERS, false, &error) ||
      kv_store_open(&store, &options, &error))
    fail_msg("%s", error.message);
  return store;
}

static uint64_t hash_before(const struct fixture *fixture, uint32_t position) {
  uint64_t hash = token_hash_start();
  for (uint32_t i = 0; i < position; i++) hash = token_hash_extend(hash, fixture->tokens[i]);
  return hash;
}

/* Runs the positions first … end - 1 in one batch. */
static int forward(struct fixture *fixture, struct stage *stage, const uint32_t *table, uint32_t first, uint32_t end,
                   float *rows, struct kj_error *error) {
  struct span span = {.first_position = first,
                      .tokens = end - first,
                      .outputs = 1,
                      .block_count = (end + KV_BLOCK - 1) / KV_BLOCK,
                      .blocks = table,
                      .token_ids = fixture->tokens + first,
                      .prefix_hash = hash_before(fixture, first)};
  struct batch batch = {.span_count = 1, .tokens = span.tokens, .outputs = 1, .spans = &span};
  assert_int_equal(head_embed(fixture->head, span.token_ids, span.tokens, rows, error), 0);
  return stage_forward(stage, &batch, rows, error);
}

static void compute(struct fixture *fixture, struct stage *stage, const uint32_t *table, uint32_t first, uint32_t end,
                    float *rows) {
  struct kj_error error = {0};
  for (uint32_t next; first < end; first = next) {
    next = end - first < MAX_TOKENS ? end : first + MAX_TOKENS;
    if (forward(fixture, stage, table, first, next, rows + (size_t)first * fixture->config->hidden, &error))
      fail_msg("%s", error.message);
  }
}

/* The operation on block `index` of the text, lying in pool block `block`. */
static struct block_operation operation_on(const struct fixture *fixture, enum block_action action, uint32_t index,
                                           uint32_t block) {
  struct block_operation operation = {.action = action, .block = block, .previous = block_key_start()};
  for (uint32_t i = 0; i < index; i++)
    operation.previous = block_key_extend(&operation.previous, fixture->tokens + i * KV_BLOCK);
  operation.prefix_hash = hash_before(fixture, index * KV_BLOCK);
  memcpy(operation.tokens, fixture->tokens + index * KV_BLOCK, sizeof operation.tokens);
  operation.key = block_key_extend(&operation.previous, operation.tokens);
  return operation;
}

static const uint32_t table[] = {7, 0, 11, 4}, other_table[] = {1, 10, 3, 9};

static int setup(void **state) {
  struct fixture *fixture = calloc(1, sizeof *fixture);
  struct kj_error error = {0};
  directory_create(&fixture->root);
  int code = checkpoint_open(&fixture->checkpoint, KAIJU_SOURCE_DIR "/models/kaiju-mini", &error);
  if (!code) fixture->config = checkpoint_config(fixture->checkpoint);
  if (!code) code = threads_create(&fixture->threads, 2, &error);
  if (!code)
    code = backend_cpu_create(&fixture->backend, "auto", fixture->threads, MAX_TOKENS,
                              plan_max_columns(fixture->config), &error);
  if (!code) code = head_open(&fixture->head, fixture->checkpoint, fixture->backend, MAX_TOKENS, &error);
  if (code) fail_msg("%s", error.message);
  for (uint32_t i = 0; i < LENGTH; i++) fixture->tokens[i] = (i * i * 31 + 7 * i) % fixture->config->vocabulary;
  fixture->expected = calloc((size_t)LENGTH * fixture->config->hidden, sizeof(float));
  assert_non_null(fixture->expected);
  struct stage *stage = open_stage(fixture);
  compute(fixture, stage, table, 0, LENGTH, fixture->expected);
  stage_close(stage);
  *state = fixture;
  return 0;
}

static int teardown(void **state) {
  struct fixture *fixture = *state;
  head_close(fixture->head);
  fixture->backend->operations->destroy(fixture->backend);
  threads_destroy(fixture->threads);
  checkpoint_close(fixture->checkpoint);
  directory_remove(&fixture->root);
  free(fixture->expected);
  free(fixture);
  return 0;
}

/* Computes the text on a stage of its own and keeps its full blocks; the stage and the store are closed again. */
static void keep_text(struct fixture *fixture) {
  struct stage *stage = open_stage(fixture);
  struct kv_store *store = open_store(fixture, stage);
  float *rows = calloc((size_t)LENGTH * fixture->config->hidden, sizeof *rows);
  struct block_operation operations[FULL];
  struct kj_error error = {0};
  uint32_t done = 0;
  compute(fixture, stage, table, 0, LENGTH, rows);
  for (uint32_t i = 0; i < FULL; i++) operations[i] = operation_on(fixture, BLOCK_STORE, i, table[i]);
  if (stage_blocks(stage, store, operations, FULL, &done, &error)) fail_msg("%s", error.message);
  assert_int_equal(done, FULL);
  /* The copies were made: what happens to the pool later is not theirs. */
  fixture->tokens[0]++;
  compute(fixture, stage, table, 0, 70, rows);
  fixture->tokens[0]--;
  free(rows);
  kv_store_close(store);
  stage_close(stage);
}

static void test_restored_blocks_give_the_same_bits(void **state) {
  struct fixture *fixture = *state;
  keep_text(fixture);
  struct stage *stage = open_stage(fixture);
  struct kv_store *store = open_store(fixture, stage);
  size_t hidden = fixture->config->hidden;
  float *rows = calloc(LENGTH * hidden, sizeof *rows);
  struct kj_error error = {0};
  /* As many blocks from the disk as may be, in other places of the pool, and the rest computed. */
  for (uint32_t restored = 1; restored <= FULL; restored++) {
    stage_reset(stage);
    for (uint32_t i = 0; i < restored; i++) {
      struct block_operation operation = operation_on(fixture, BLOCK_RESTORE, i, other_table[i]);
      if (stage_blocks(stage, store, &operation, 1, NULL, &error)) fail_msg("%s", error.message);
    }
    uint32_t first = restored * KV_BLOCK;
    memset(rows, 0, LENGTH * hidden * sizeof *rows);
    compute(fixture, stage, other_table, first, LENGTH, rows);
    assert_memory_equal(rows + first * hidden, fixture->expected + first * hidden,
                        (LENGTH - first) * hidden * sizeof *rows);
  }
  /* A restored block's own last token again: its earlier keys and values come from the disk. */
  uint32_t last = FULL * KV_BLOCK - 1;
  compute(fixture, stage, other_table, last, last + 1, rows);
  assert_memory_equal(rows + last * hidden, fixture->expected + last * hidden, hidden * sizeof *rows);
  free(rows);
  kv_store_close(store);
  stage_close(stage);
}

static void test_out_of_step_is_not_kept(void **state) {
  struct fixture *fixture = *state;
  struct stage *stage = open_stage(fixture);
  struct kv_store *store = open_store(fixture, stage);
  float *rows = calloc((size_t)LENGTH * fixture->config->hidden, sizeof *rows);
  struct kj_error error = {0};
  struct block_operation good[2], operation;
  uint32_t done;
  compute(fixture, stage, table, 0, 2 * KV_BLOCK - 1, rows);
  for (uint32_t i = 0; i < 2; i++) good[i] = operation_on(fixture, BLOCK_STORE, i, table[i]);
  assert_int_equal(stage_blocks(stage, store, good, 2, &done, &error), KJ_INVALID); /* the second is not full */
  assert_int_equal(done, 1);
  operation = good[0];
  operation.block = table[1];
  assert_int_equal(stage_blocks(stage, store, &operation, 1, &done, &error), KJ_INVALID);
  operation = good[0];
  operation.tokens[9]++;
  assert_int_equal(stage_blocks(stage, store, &operation, 1, &done, &error), KJ_INVALID);
  operation = good[0];
  operation.prefix_hash++;
  assert_int_equal(stage_blocks(stage, store, &operation, 1, &done, &error), KJ_INVALID);
  operation.block = BLOCKS;
  assert_int_equal(stage_blocks(stage, store, &operation, 1, &done, &error), KJ_INVALID);
  operation.action = BLOCK_RESTORE;
  assert_int_equal(stage_blocks(stage, store, &operation, 1, &done, &error), KJ_INVALID);
  kv_store_flush(store);
  struct block_key *keys;
  size_t count;
  assert_int_equal(kv_store_inventory(store, &keys, &count, NULL), 0);
  assert_int_equal(count, 1);
  assert_true(block_key_equal(&keys[0], &good[0].key));
  free(keys);
  free(rows);
  kv_store_close(store);
  stage_close(stage);
}

static void test_what_cannot_be_restored(void **state) {
  struct fixture *fixture = *state;
  keep_text(fixture);
  struct stage *stage = open_stage(fixture);
  struct kv_store *store = open_store(fixture, stage);
  size_t hidden = fixture->config->hidden;
  float *rows = calloc(LENGTH * hidden, sizeof *rows);
  struct kj_error error = {0};
  uint32_t done;
  compute(fixture, stage, other_table, 0, KV_BLOCK, rows);
  /* Of other tokens, after another text, dropped: pool block other_table[0] keeps what it holds each time. */
  struct block_operation operation = operation_on(fixture, BLOCK_RESTORE, 1, other_table[0]);
  operation.tokens[3]++;
  assert_int_equal(stage_blocks(stage, store, &operation, 1, &done, &error), KJ_INVALID);
  assert_int_equal(done, 0);
  operation = operation_on(fixture, BLOCK_RESTORE, 2, other_table[0]);
  operation.prefix_hash++;
  assert_int_equal(stage_blocks(stage, store, &operation, 1, &done, &error), KJ_INVALID);
  struct block_operation dropped[] = {operation_on(fixture, BLOCK_DROP, 0, 0),
                                      operation_on(fixture, BLOCK_RESTORE, 0, other_table[0])};
  assert_int_equal(stage_blocks(stage, store, dropped, 2, &done, &error), KJ_NOT_FOUND);
  assert_int_equal(done, 1);
  assert_int_equal(stage_blocks(stage, NULL, dropped, 2, &done, &error), KJ_NOT_FOUND);
  assert_int_equal(done, 1);
  compute(fixture, stage, other_table, KV_BLOCK, KV_BLOCK + 10, rows);
  assert_memory_equal(rows + KV_BLOCK * hidden, fixture->expected + KV_BLOCK * hidden, 10 * hidden * sizeof *rows);
  free(rows);
  kv_store_close(store);
  stage_close(stage);
}

/* Blocks of the text in the wrong order or with a gap are never computed with. */
static void test_restored_blocks_are_part_of_the_chain(void **state) {
  struct fixture *fixture = *state;
  keep_text(fixture);
  struct stage *stage = open_stage(fixture);
  struct kv_store *store = open_store(fixture, stage);
  float *rows = calloc((size_t)LENGTH * fixture->config->hidden, sizeof *rows);
  struct kj_error error = {0};
  struct block_operation operation = operation_on(fixture, BLOCK_RESTORE, 1, other_table[1]);
  assert_int_equal(stage_blocks(stage, store, &operation, 1, NULL, &error), 0);
  assert_int_equal(forward(fixture, stage, other_table, 2 * KV_BLOCK, 2 * KV_BLOCK + 5, rows, &error), KJ_INVALID);
  operation = operation_on(fixture, BLOCK_RESTORE, 2, other_table[0]); /* not the text's first */
  assert_int_equal(stage_blocks(stage, store, &operation, 1, NULL, &error), 0);
  assert_int_equal(forward(fixture, stage, other_table, 2 * KV_BLOCK, 2 * KV_BLOCK + 5, rows, &error), KJ_INVALID);
  operation = operation_on(fixture, BLOCK_RESTORE, 0, other_table[0]);
  assert_int_equal(stage_blocks(stage, store, &operation, 1, NULL, &error), 0);
  assert_int_equal(forward(fixture, stage, other_table, 2 * KV_BLOCK, 2 * KV_BLOCK + 5, rows, &error), 0);
  free(rows);
  kv_store_close(store);
  stage_close(stage);
}

/* Blocks of an older Kaiju are used by a newer one whose arithmetic has the same name. So where this fails because
 * results have changed, the name (backend_operations.arithmetic) must change with the number below. */
static void test_other_bits_need_another_name(void **state) {
  struct fixture *fixture = *state;
  struct stage_options options = {.checkpoint = fixture->checkpoint,
                                  .backend = fixture->backend,
                                  .layer_count = fixture->config->layers,
                                  .kv_blocks = BLOCKS,
                                  .max_batch_tokens = MAX_TOKENS};
  struct stage *stage;
  assert_int_equal(stage_open(&stage, &options, NULL), 0);
  struct kv_store_options store_options = {.root = fixture->root.path,
                                           .limit = (uint64_t)1 << 30,
                                           .layer_count = fixture->config->layers,
                                           .payload_bytes = stage_block_bytes(stage)};
  struct kv_store *store;
  assert_int_equal(kv_store_open(&store, &store_options, NULL), 0);
  float *rows = calloc((size_t)LENGTH * fixture->config->hidden, sizeof *rows);
  compute(fixture, stage, table, 0, 2 * KV_BLOCK, rows);
  struct block_operation operation = operation_on(fixture, BLOCK_STORE, 1, table[1]);
  const uint8_t *payload;
  assert_int_equal(stage_blocks(stage, store, &operation, 1, NULL, NULL), 0);
  kv_store_flush(store);
  assert_int_equal(kv_store_read(store, &operation, &payload, NULL), 0);
  uint8_t hash[16];
  char text[2 * sizeof hash + 1];
  crypto_generichash(hash, sizeof hash, payload, (size_t)store_options.payload_bytes, NULL, 0);
  sodium_bin2hex(text, sizeof text, hash, sizeof hash);
  assert_string_equal(fixture->backend->operations->arithmetic(fixture->backend), "cpu 1");
  assert_string_equal(text, "6f28051ea65cdd0499a32bf24d1e7a37");
  free(rows);
  kv_store_close(store);
  stage_close(stage);
}

static void test_stage_without_layers_has_nothing_to_do(void **state) {
  struct fixture *fixture = *state;
  struct stage_options options = {.checkpoint = fixture->checkpoint,
                                  .backend = fixture->backend,
                                  .kv_blocks = BLOCKS,
                                  .max_batch_tokens = MAX_TOKENS};
  struct stage *stage;
  uint32_t done = 0;
  assert_int_equal(stage_open(&stage, &options, NULL), 0);
  assert_true(stage_block_bytes(stage) == 0);
  struct block_operation operations[] = {operation_on(fixture, BLOCK_RESTORE, 0, 1),
                                         operation_on(fixture, BLOCK_STORE, 0, 1)};
  assert_int_equal(stage_blocks(stage, NULL, operations, 2, &done, NULL), 0);
  assert_int_equal(done, 2);
  stage_close(stage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_restored_blocks_give_the_same_bits, setup, teardown),
      cmocka_unit_test_setup_teardown(test_out_of_step_is_not_kept, setup, teardown),
      cmocka_unit_test_setup_teardown(test_what_cannot_be_restored, setup, teardown),
      cmocka_unit_test_setup_teardown(test_restored_blocks_are_part_of_the_chain, setup, teardown),
      cmocka_unit_test_setup_teardown(test_other_bits_need_another_name, setup, teardown),
      cmocka_unit_test_setup_teardown(test_stage_without_layers_has_nothing_to_do, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

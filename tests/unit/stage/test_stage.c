/* A stage computes a sequence's rows to the same bits whatever else its batch has, and refuses batches that break a
 * rule before it computes anything. */
#include "stage/stage.h"

#include <stdbool.h>
#include <stdlib.h>

#include "model/plan.h"
#include "stage/ledger.h"
#include "unit/unit.h"

enum { BLOCKS = 12, MAX_TOKENS = 96, LONGEST = 150 };

struct fixture {
  struct checkpoint *checkpoint;
  const struct config *config;
  struct threads *threads;
  struct backend *backend;
  struct head *head;
};

static int setup(void **state) {
  struct fixture *fixture = calloc(1, sizeof *fixture);
  struct kj_error error = {0};
  int code = checkpoint_open(&fixture->checkpoint, KAIJU_SOURCE_DIR "/models/kaiju-mini", &error);
  if (!code) fixture->config = checkpoint_config(fixture->checkpoint);
  if (!code) code = threads_create(&fixture->threads, 2, &error);
  if (!code)
    code = backend_cpu_create(&fixture->backend, "auto", fixture->threads, MAX_TOKENS,
                              plan_max_columns(fixture->config), &error);
  if (!code) code = head_open(&fixture->head, fixture->checkpoint, fixture->backend, MAX_TOKENS, &error);
  if (code) fprintf(stderr, "%s\n", error.message);
  *state = fixture;
  return code;
}

static int teardown(void **state) {
  struct fixture *fixture = *state;
  head_close(fixture->head);
  fixture->backend->operations->destroy(fixture->backend);
  threads_destroy(fixture->threads);
  checkpoint_close(fixture->checkpoint);
  free(fixture);
  return 0;
}

static struct stage *open_stage(struct fixture *fixture, uint32_t first, uint32_t count) {
  struct stage_options options = {fixture->checkpoint, fixture->backend, first, count, BLOCKS, MAX_TOKENS, NULL};
  struct stage *stage;
  struct kj_error error = {0};
  if (stage_open(&stage, &options, &error)) fail_msg("%s", error.message);
  return stage;
}

/* A sequence with its block table and the hidden states that the stage has given for it. */
struct text {
  uint32_t tokens[LONGEST], count, blocks[4], done;
  uint64_t hash;
  float *rows; /* [LONGEST, hidden] */
};

static struct text text_create(const struct fixture *fixture, uint32_t seed, uint32_t count, uint32_t first_block) {
  struct text text = {.count = count, .hash = token_hash_start()};
  for (uint32_t i = 0; i < count; i++) text.tokens[i] = (seed * 7919 + i * i * 31 + i) % fixture->config->vocabulary;
  for (uint32_t i = 0; i < 4; i++) text.blocks[i] = (first_block + 5 * i) % BLOCKS; /* 5 and 12: all different */
  text.rows = calloc((size_t)LONGEST * fixture->config->hidden, sizeof(float));
  assert_non_null(text.rows);
  return text;
}

static struct span next_span(const struct text *text, uint32_t tokens) {
  return (struct span){.first_position = text->done,
                       .tokens = tokens,
                       .outputs = 1,
                       .block_count = (text->done + tokens + KV_BLOCK - 1) / KV_BLOCK,
                       .blocks = text->blocks,
                       .token_ids = text->tokens + text->done,
                       .prefix_hash = text->hash};
}

/* Computes the next sizes[i] tokens of each text in one batch and keeps the rows; sizes of 0 take no part. */
static void compute(struct fixture *fixture, struct stage *stage, struct text *const *texts, const uint32_t *sizes,
                    uint32_t count) {
  size_t hidden = fixture->config->hidden;
  struct span spans[8];
  struct batch batch = {.spans = spans};
  float *rows = calloc(MAX_TOKENS * hidden, sizeof *rows);
  struct kj_error error = {0};
  for (uint32_t i = 0; i < count; i++) {
    if (sizes[i] == 0) continue;
    struct span span = next_span(texts[i], sizes[i]);
    assert_int_equal(head_embed(fixture->head, span.token_ids, span.tokens, rows + batch.tokens * hidden, &error), 0);
    spans[batch.span_count++] = span;
    batch.tokens += span.tokens;
    batch.outputs += span.outputs;
  }
  if (stage_forward(stage, &batch, rows, &error)) fail_msg("%s", error.message);
  size_t row = 0;
  for (uint32_t i = 0; i < count; i++) {
    struct text *text = texts[i];
    memcpy(text->rows + text->done * hidden, rows + row * hidden, sizes[i] * hidden * sizeof *rows);
    for (uint32_t j = 0; j < sizes[i]; j++) text->hash = token_hash_extend(text->hash, text->tokens[text->done++]);
    row += sizes[i];
  }
  free(rows);
}

static void compute_alone(struct fixture *fixture, struct stage *stage, struct text *text, uint32_t chunk) {
  stage_reset(stage);
  while (text->done < text->count) {
    uint32_t left = text->count - text->done, size = left < chunk ? left : chunk;
    compute(fixture, stage, &text, &size, 1);
  }
}

static void assert_same_rows(const struct fixture *fixture, const struct text *a, const struct text *b) {
  assert_int_equal(a->done, a->count);
  assert_int_equal(b->done, b->count);
  assert_memory_equal(a->rows, b->rows, (size_t)a->count * fixture->config->hidden * sizeof(float));
}

static void test_sequences_together_as_alone(void **state) {
  struct fixture *fixture = *state;
  struct stage *stage = open_stage(fixture, 0, fixture->config->layers);
  struct text alone[3] = {text_create(fixture, 1, 70, 0), text_create(fixture, 2, 9, 3), text_create(fixture, 3, 1, 7)};
  struct text together[3] = {text_create(fixture, 1, 70, 1), text_create(fixture, 2, 9, 4),
                             text_create(fixture, 3, 1, 8)};
  for (int i = 0; i < 3; i++) compute_alone(fixture, stage, &alone[i], 64);
  stage_reset(stage);
  struct text *all[] = {&together[1], &together[0], &together[2]};
  compute(fixture, stage, all, (uint32_t[]){9, 70, 1}, 3);
  for (int i = 0; i < 3; i++) {
    assert_same_rows(fixture, &alone[i], &together[i]);
    free(alone[i].rows);
    free(together[i].rows);
  }
  stage_close(stage);
}

/* Chunks of prefill and single tokens of several sequences, mixed in every batch in another way. */
static void test_sequences_interleaved_as_alone(void **state) {
  struct fixture *fixture = *state;
  struct stage *stage = open_stage(fixture, 3, 4);
  struct text alone[3] = {text_create(fixture, 4, 140, 0), text_create(fixture, 5, 33, 1),
                          text_create(fixture, 6, 66, 2)};
  struct text mixed[3] = {text_create(fixture, 4, 140, 3), text_create(fixture, 5, 33, 2),
                          text_create(fixture, 6, 66, 5)};
  for (int i = 0; i < 3; i++) compute_alone(fixture, stage, &alone[i], MAX_TOKENS);
  stage_reset(stage);
  struct text *all[] = {&mixed[0], &mixed[1], &mixed[2]};
  uint32_t turn = 0;
  for (bool more = true; more; turn++) {
    uint32_t sizes[3] = {0};
    more = false;
    for (uint32_t i = 0; i < 3; i++) {
      uint32_t left = mixed[i].count - mixed[i].done;
      uint32_t wanted = (turn + i) % 3 == 0 ? 0 : (turn * (i + 3)) % 23 + 1;
      sizes[i] = wanted < left ? wanted : left;
      more |= left > 0;
    }
    if (sizes[0] + sizes[1] + sizes[2] > 0) compute(fixture, stage, all, sizes, 3);
  }
  assert_true(turn > 8);
  for (int i = 0; i < 3; i++) {
    assert_same_rows(fixture, &alone[i], &mixed[i]);
    free(alone[i].rows);
    free(mixed[i].rows);
  }
  stage_close(stage);
}

static void assert_refused(struct fixture *fixture, struct stage *stage, const struct batch *batch, const char *what) {
  size_t count = (size_t)MAX_TOKENS * fixture->config->hidden;
  float *rows = calloc(count, sizeof *rows), *before = calloc(count, sizeof *rows);
  for (size_t i = 0; i < count; i++) rows[i] = before[i] = (float)i;
  struct kj_error error = {0};
  if (stage_forward(stage, batch, rows, &error) != KJ_INVALID) fail_msg("%s: not refused", what);
  assert_int_equal(error.code, KJ_INVALID);
  assert_true(strlen(error.message) > 10);
  assert_memory_equal(rows, before, count * sizeof *rows);
  free(rows);
  free(before);
}

static void assert_span_refused(struct fixture *fixture, struct stage *stage, struct span span, const char *what) {
  struct batch batch = {.span_count = 1, .tokens = span.tokens, .outputs = span.outputs, .spans = &span};
  assert_refused(fixture, stage, &batch, what);
}

static void test_batches_that_break_a_rule(void **state) {
  struct fixture *fixture = *state;
  struct stage *stage = open_stage(fixture, 0, 2);
  struct text text = text_create(fixture, 1, LONGEST, 0), same = text_create(fixture, 1, LONGEST, 0);
  struct text *pointer = &text;
  compute(fixture, stage, &pointer, (uint32_t[]){10}, 1);

  struct span span = next_span(&text, 5);
  struct batch batch = {.span_count = 1, .tokens = 6, .outputs = 1, .spans = &span};
  assert_refused(fixture, stage, &batch, "more tokens than in the spans");
  batch.tokens = 4;
  assert_refused(fixture, stage, &batch, "fewer tokens than in the spans");
  batch = (struct batch){.tokens = 0, .spans = &span};
  assert_refused(fixture, stage, &batch, "no span");
  batch = (struct batch){.span_count = 1, .tokens = 5, .outputs = 2, .spans = &span};
  assert_refused(fixture, stage, &batch, "more outputs than the spans want");
  span.outputs = 6;
  assert_span_refused(fixture, stage, span, "a span that wants more outputs than it has tokens");
  assert_span_refused(fixture, stage, next_span(&text, MAX_TOKENS + 1), "too many tokens");
  span = next_span(&text, 5);
  span.tokens = UINT32_MAX;
  assert_span_refused(fixture, stage, span, "far too many tokens");
  span = next_span(&text, 5);
  span.first_position = fixture->config->max_positions - 4;
  assert_span_refused(fixture, stage, span, "a position beyond the model's");
  span = next_span(&text, 5);
  span.block_count = 2;
  assert_span_refused(fixture, stage, span, "too long a block table");
  span = next_span(&text, 5);
  span.prefix_hash++;
  assert_span_refused(fixture, stage, span, "another prefix");
  span = next_span(&text, 5);
  span.first_position++;
  assert_span_refused(fixture, stage, span, "a skipped position");
  const uint32_t outside = BLOCKS;
  span = next_span(&text, 5);
  span.blocks = &outside;
  assert_span_refused(fixture, stage, span, "a block that is not there");

  /* As if none of that had been. */
  compute(fixture, stage, &pointer, (uint32_t[]){80}, 1);
  compute(fixture, stage, &pointer, (uint32_t[]){LONGEST - 90}, 1);
  compute_alone(fixture, stage, &same, 50);
  assert_same_rows(fixture, &text, &same);
  free(text.rows);
  free(same.rows);
  stage_close(stage);
}

static void test_stage_without_layers(void **state) {
  struct fixture *fixture = *state;
  struct stage *stage = open_stage(fixture, 0, 0);
  struct text text = text_create(fixture, 1, 20, 0);
  struct text *pointer = &text;
  assert_int_equal(stage_warm(stage, NULL, NULL, NULL), 0);
  compute(fixture, stage, &pointer, (uint32_t[]){20}, 1);
  float *embedded = calloc((size_t)20 * fixture->config->hidden, sizeof *embedded);
  assert_int_equal(head_embed(fixture->head, text.tokens, 20, embedded, NULL), 0);
  assert_memory_equal(embedded, text.rows, (size_t)20 * fixture->config->hidden * sizeof *embedded);
  stage_reset(stage);
  assert_span_refused(fixture, stage, next_span(&text, MAX_TOKENS + 1), "too many tokens");
  free(embedded);
  free(text.rows);
  stage_close(stage);
}

static void test_layers_that_are_not_there(void **state) {
  struct fixture *fixture = *state;
  uint32_t layers = fixture->config->layers;
  struct stage_options right = {fixture->checkpoint, fixture->backend, 0, 1, BLOCKS, MAX_TOKENS, NULL};
  struct stage_options wrong[] = {right, right, right, right, right};
  wrong[0].layer_count = layers + 1;
  wrong[1].first_layer = layers;
  wrong[2].first_layer = UINT32_MAX;
  wrong[3].kv_blocks = 0;
  wrong[4].max_batch_tokens = 0;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct stage *stage = (struct stage *)1;
    struct kj_error error = {0};
    assert_int_equal(stage_open(&stage, &wrong[i], &error), KJ_INVALID);
    assert_null(stage);
  }
}

struct progress {
  uint32_t calls, last, total, cancel_at;
};

static bool on_progress(void *context, uint32_t done, uint32_t total) {
  struct progress *progress = context;
  assert_true(done > progress->last && done <= total);
  progress->last = done;
  progress->total = total;
  return ++progress->calls != progress->cancel_at;
}

static void test_warm_up_leaves_no_trace(void **state) {
  struct fixture *fixture = *state;
  struct stage *stage = open_stage(fixture, 2, 10), *cold = open_stage(fixture, 2, 10);
  struct progress cancelled = {.cancel_at = 2}, progress = {0};
  struct kj_error error = {0};
  assert_int_equal(stage_warm(stage, on_progress, &cancelled, &error), KJ_CANCELLED);
  assert_int_equal(cancelled.calls, 2);
  assert_int_equal(stage_warm(stage, on_progress, &progress, &error), 0);
  assert_int_equal(progress.last, 10);
  assert_int_equal(progress.total, 10);
  assert_true(progress.calls > 1);
  struct text one = text_create(fixture, 1, 5, 0), other = text_create(fixture, 1, 5, 0);
  compute_alone(fixture, stage, &one, 5);
  compute_alone(fixture, cold, &other, 5);
  assert_same_rows(fixture, &one, &other);
  free(one.rows);
  free(other.rows);
  stage_close(stage);
  stage_close(cold);
}

static void test_reset_forgets_the_cache(void **state) {
  struct fixture *fixture = *state;
  struct stage *stage = open_stage(fixture, 0, 1);
  struct text text = text_create(fixture, 1, 20, 0);
  struct text *pointer = &text;
  compute(fixture, stage, &pointer, (uint32_t[]){10}, 1);
  stage_reset(stage);
  assert_span_refused(fixture, stage, next_span(&text, 1), "the KV cache is empty");
  free(text.rows);
  stage_close(stage);
}

static void test_wanted_rows_move_to_the_front(void **state) {
  (void)state;
  float rows[] = {0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51};
  struct span spans[] = {{.tokens = 2, .outputs = 1}, {.tokens = 1}, {.tokens = 3, .outputs = 2}};
  struct batch batch = {.span_count = 3, .tokens = 6, .outputs = 3, .spans = spans};
  stage_pack_outputs(&batch, 2, rows);
  assert_memory_equal(rows, ((float[]){10, 11, 40, 41, 50, 51}), 6 * sizeof *rows);
}

static void test_head_refuses_what_it_does_not_have(void **state) {
  struct fixture *fixture = *state;
  uint32_t tokens[MAX_TOKENS + 1] = {0};
  float *rows = calloc((MAX_TOKENS + 1) * (size_t)fixture->config->hidden, sizeof *rows);
  assert_int_equal(head_embed(fixture->head, tokens, MAX_TOKENS, rows, NULL), 0);
  assert_int_equal(head_embed(fixture->head, tokens, MAX_TOKENS + 1, rows, NULL), KJ_INVALID);
  tokens[3] = fixture->config->vocabulary;
  assert_int_equal(head_embed(fixture->head, tokens, 4, rows, NULL), KJ_INVALID);
  tokens[3] = fixture->config->vocabulary - 1;
  assert_int_equal(head_embed(fixture->head, tokens, 4, rows, NULL), 0);
  assert_int_equal(head_logits(fixture->head, rows, MAX_TOKENS + 1, NULL, NULL), KJ_INVALID);
  free(rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sequences_together_as_alone),
      cmocka_unit_test(test_sequences_interleaved_as_alone),
      cmocka_unit_test(test_batches_that_break_a_rule),
      cmocka_unit_test(test_stage_without_layers),
      cmocka_unit_test(test_layers_that_are_not_there),
      cmocka_unit_test(test_warm_up_leaves_no_trace),
      cmocka_unit_test(test_reset_forgets_the_cache),
      cmocka_unit_test(test_wanted_rows_move_to_the_front),
      cmocka_unit_test(test_head_refuses_what_it_does_not_have),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}

#include "stage/stage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "compute/rope.h"
#include "stage/layer.h"
#include "stage/ledger.h"

struct stage {
  struct stage_options options;
  const struct config *config;
  struct rope rope;
  float *inverse_frequency;
  struct layer_weights *layers; /* [layer_count] */
  uint32_t layers_open;
  uint32_t layers_moved; /* to huge pages, the last one perhaps in part */
  struct kv_pool *pool;
  struct layer_scratch scratch;
  struct tensor *hidden; /* [max_batch_tokens, hidden] */
  struct ledger *ledger;
};

static int open_layers(struct stage *stage, struct kj_error *error) {
  const struct stage_options *options = &stage->options;
  int code = 0;
  stage->layers = calloc(options->layer_count, sizeof *stage->layers);
  if (!stage->layers) return kj_fail_memory(error, "the layers' weights");
  for (; stage->layers_open < options->layer_count; stage->layers_open++) {
    struct layer_weights *weights = &stage->layers[stage->layers_open];
    uint32_t layer = options->first_layer + stage->layers_open;
    if ((code = checkpoint_layer(options->checkpoint, layer, weights, error))) return code;
    if ((code = layer_check(weights, stage->config, options->backend, error))) {
      layer_weights_free(weights);
      kj_fail_context(error, "layer %u", layer);
      return code;
    }
  }
  return 0;
}

static int open_rope(struct stage *stage, struct kj_error *error) {
  const struct config *config = stage->config;
  stage->inverse_frequency = calloc(config->head_dim / 2, sizeof *stage->inverse_frequency);
  if (!stage->inverse_frequency) return kj_fail_memory(error, "the rotary embedding");
  const struct rope_yarn yarn = {.factor = config->yarn.factor,
                                 .beta_fast = config->yarn.beta_fast,
                                 .beta_slow = config->yarn.beta_slow,
                                 .original_positions = config->yarn.original_positions};
  rope_frequencies(stage->inverse_frequency, config->head_dim, config->rope_theta, config->yarn.enabled ? &yarn : NULL);
  stage->rope = (struct rope){.pairs = config->head_dim / 2,
                              .attention_factor = config->yarn.enabled ? config->yarn.attention_factor : 1.0f,
                              .inverse_frequency = stage->inverse_frequency};
  return 0;
}

static struct attention_shape shape_of(const struct config *config) {
  return (struct attention_shape){.query_heads = config->query_heads,
                                  .kv_heads = config->kv_heads,
                                  .head_dim = config->head_dim,
                                  .scale = 1.0f / sqrtf((float)config->head_dim)};
}

static int open_memory(struct stage *stage, struct kj_error *error) {
  const struct stage_options *options = &stage->options;
  const struct config *config = stage->config;
  struct backend *backend = options->backend;
  int code;
  if ((code = open_rope(stage, error))) return code;
  if ((code = backend->operations->kv_create(backend, options->layer_count, options->kv_blocks, shape_of(config),
                                             &stage->pool, error)))
    return code;
  if ((code = layer_scratch_create(&stage->scratch, backend, config, options->first_layer, options->layer_count,
                                   options->max_batch_tokens, error)))
    return code;
  if ((code = backend->operations->tensor_create(backend, options->max_batch_tokens, config->hidden, &stage->hidden,
                                                 error)))
    return code;
  return ledger_create(&stage->ledger, options->kv_blocks, error);
}

int stage_open(struct stage **result, const struct stage_options *options, struct kj_error *error) {
  *result = NULL;
  const struct config *config = checkpoint_config(options->checkpoint);
  if ((uint64_t)options->first_layer + options->layer_count > config->layers)
    return kj_fail(error, KJ_INVALID, "%u layers from layer %u on were assigned, but the model has layers 0 to %u",
                   options->layer_count, options->first_layer, config->layers - 1);
  if (options->kv_blocks == 0 || options->max_batch_tokens == 0)
    return kj_fail(error, KJ_INVALID, "a stage needs at least one KV block and one token a batch");
  struct stage *stage = calloc(1, sizeof *stage);
  if (!stage) return kj_fail_memory(error, "a stage");
  stage->options = *options;
  stage->config = config;
  int code = 0;
  /* A lead may hold no layer at all; then there is nothing to allocate. */
  if (options->layer_count > 0 && ((code = open_layers(stage, error)) || (code = open_memory(stage, error)))) {
    stage_close(stage);
    return code;
  }
  *result = stage;
  return 0;
}

static void give_huge_pages_back(struct stage *stage) {
  struct kj_error error;
  for (uint32_t i = 0; i < stage->layers_moved; i++) {
    if (!layer_to_page_cache(&stage->layers[i], stage->config, stage->options.checkpoint, &error)) continue;
    log_warning("the huge pages of layer %u's weights cannot be given back: %s", stage->options.first_layer + i,
                error.message);
  }
}

void stage_close(struct stage *stage) {
  if (!stage) return;
  struct backend *backend = stage->options.backend;
  give_huge_pages_back(stage);
  for (uint32_t i = 0; i < stage->layers_open; i++) layer_weights_free(&stage->layers[i]);
  free(stage->layers);
  if (stage->pool) backend->operations->kv_destroy(backend, stage->pool);
  if (stage->hidden) backend->operations->tensor_destroy(backend, stage->hidden);
  layer_scratch_destroy(&stage->scratch, backend);
  ledger_destroy(stage->ledger);
  free(stage->inverse_frequency);
  free(stage);
}

void stage_reset(struct stage *stage) {
  if (stage->ledger) ledger_reset(stage->ledger);
}

static void run_layers(struct stage *stage, uint32_t first, uint32_t count, const struct batch *batch) {
  for (uint32_t i = first; i < first + count; i++)
    layer_forward(&stage->layers[i], stage->config, &stage->rope, stage->options.backend, &stage->scratch, stage->pool,
                  i, batch, stage->hidden);
}

int stage_warm(struct stage *stage, bool (*progress)(void *context, uint32_t done, uint32_t total), void *context,
               struct kj_error *error) {
  struct backend *backend = stage->options.backend;
  uint32_t total = stage->options.layer_count, block = 0, token = 0;
  struct span span = {.tokens = 1, .outputs = 1, .block_count = 1, .blocks = &block, .token_ids = &token};
  struct batch batch = {.span_count = 1, .tokens = 1, .outputs = 1, .spans = &span};
  float *row = calloc(stage->config->hidden, sizeof *row);
  if (!row) return kj_fail_memory(error, "a row of hidden states");
  for (uint32_t i = 0; i < stage->config->hidden; i++) row[i] = i % 2 ? 1.0f : -1.0f;
  int code = 0;
  for (uint32_t i = 0; i < total && !code; i++) {
    if (stage->options.huge_page_threads) stage->layers_moved = i + 1;
    code = layer_warm(&stage->layers[i], stage->config, backend, stage->options.huge_page_threads, error);
    if (code) break;
    backend->operations->upload(backend, stage->hidden, 0, 1, row);
    run_layers(stage, i, 1, &batch);
    backend->operations->finish(backend);
    if (progress && !progress(context, i + 1, total))
      code = kj_fail(error, KJ_CANCELLED, "warm-up was cancelled after %u of %u layers", i + 1, total);
  }
  free(row);
  return code;
}

static int check_batch(const struct stage *stage, const struct batch *batch, struct kj_error *error) {
  uint64_t tokens = 0, outputs = 0;
  for (uint32_t i = 0; i < batch->span_count; i++) {
    const struct span *span = &batch->spans[i];
    tokens += span->tokens;
    outputs += span->outputs;
    if (span->outputs > span->tokens)
      return kj_fail(error, KJ_INVALID, "span %u wants %u rows of %u", i, span->outputs, span->tokens);
    if ((uint64_t)span->first_position + span->tokens > stage->config->max_positions)
      return kj_fail(error, KJ_INVALID, "span %u reaches position %llu; the model has %u", i,
                     (unsigned long long)span->first_position + span->tokens - 1, stage->config->max_positions);
  }
  if (tokens != batch->tokens || tokens == 0 || tokens > stage->options.max_batch_tokens)
    return kj_fail(error, KJ_INVALID, "a batch of %u tokens with %llu in its spans; at most %u are possible",
                   batch->tokens, (unsigned long long)tokens, stage->options.max_batch_tokens);
  if (outputs != batch->outputs)
    return kj_fail(error, KJ_INVALID, "a batch that wants %u rows, with %llu in its spans", batch->outputs,
                   (unsigned long long)outputs);
  return 0;
}

int stage_forward(struct stage *stage, const struct batch *batch, float *hidden, struct kj_error *error) {
  struct backend *backend = stage->options.backend;
  int code = check_batch(stage, batch, error);
  if (code || stage->options.layer_count == 0) return code;
  code = ledger_admit(stage->ledger, batch, error);
  if (code) return code;
  backend->operations->upload(backend, stage->hidden, 0, batch->tokens, hidden);
  run_layers(stage, 0, stage->options.layer_count, batch);
  backend->operations->finish(backend);
  backend->operations->download(backend, stage->hidden, 0, batch->tokens, hidden);
  return 0;
}

uint64_t stage_block_bytes(const struct stage *stage) {
  return stage->options.layer_count * backend_kv_block_bytes(shape_of(stage->config));
}

static int keep_block(struct stage *stage, struct kv_store *store, const struct block_operation *operation,
                      struct kj_error *error) {
  struct backend *backend = stage->options.backend;
  int code = ledger_check_block(stage->ledger, operation->block, operation->prefix_hash, operation->tokens, error);
  uint8_t *payload = code || !store ? NULL : kv_store_prepare(store, operation);
  if (!payload) return code;
  backend->operations->kv_export(backend, stage->pool, operation->block, payload);
  kv_store_submit(store, payload);
  return 0;
}

static int restore_block(struct stage *stage, struct kv_store *store, const struct block_operation *operation,
                         struct kj_error *error) {
  struct backend *backend = stage->options.backend;
  const uint8_t *payload;
  if (!store) return kj_fail(error, KJ_NOT_FOUND, "a KV block is to be restored, but none is kept on disk here");
  if (operation->block >= stage->options.kv_blocks)
    return kj_fail(error, KJ_INVALID, "KV block %u of %u is to be restored", operation->block,
                   stage->options.kv_blocks);
  int code = kv_store_read(store, operation, &payload, error);
  if (code) return code;
  backend->operations->kv_import(backend, stage->pool, operation->block, payload);
  ledger_restore(stage->ledger, operation->block, operation->prefix_hash, operation->tokens);
  return 0;
}

int stage_blocks(struct stage *stage, struct kv_store *store, const struct block_operation *operations, uint32_t count,
                 uint32_t *done, struct kj_error *error) {
  uint32_t none, *finished = done ? done : &none;
  int code = 0;
  for (*finished = 0; *finished < count && stage->options.layer_count > 0; ++*finished) {
    const struct block_operation *operation = &operations[*finished];
    switch (operation->action) {
      case BLOCK_STORE:
        code = keep_block(stage, store, operation, error);
        break;
      case BLOCK_RESTORE:
        code = restore_block(stage, store, operation, error);
        break;
      case BLOCK_DROP:
        if (store) kv_store_drop(store, &operation->key);
        break;
    }
    if (code) return code;
  }
  *finished = count;
  return 0;
}

void stage_pack_outputs(const struct batch *batch, size_t hidden, float *rows) {
  size_t from = 0, to = 0;
  for (uint32_t i = 0; i < batch->span_count; i++) {
    const struct span *span = &batch->spans[i];
    from += span->tokens;
    memmove(rows + to * hidden, rows + (from - span->outputs) * hidden, span->outputs * hidden * sizeof *rows);
    to += span->outputs;
  }
}

#include "stage/layer.h"

#include <stdlib.h>

#include "stage/huge_weights.h"

static int create(struct backend *backend, size_t rows, size_t columns, struct tensor **tensor,
                  struct kj_error *error) {
  return backend->operations->tensor_create(backend, rows, columns, tensor, error);
}

int layer_scratch_create(struct layer_scratch *scratch, struct backend *backend, const struct config *config,
                         uint32_t first_layer, uint32_t layer_count, size_t max_tokens, struct kj_error *error) {
  *scratch = (struct layer_scratch){0};
  size_t query_size = (size_t)config->query_heads * config->head_dim;
  size_t kv_size = (size_t)config->kv_heads * config->head_dim;
  bool sparse = false, dense = false;
  for (uint32_t i = first_layer; i < first_layer + layer_count; i++) {
    sparse |= config->layer_is_sparse[i];
    dense |= !config->layer_is_sparse[i];
  }
  int code;
  if ((code = create(backend, max_tokens, config->hidden, &scratch->normed, error)) ||
      (code = create(backend, max_tokens, query_size, &scratch->query, error)) ||
      (code = create(backend, max_tokens, query_size, &scratch->attended, error)) ||
      (code = create(backend, max_tokens, kv_size, &scratch->key, error)) ||
      (code = create(backend, max_tokens, kv_size, &scratch->value, error)) ||
      (code = create(backend, max_tokens, config->hidden, &scratch->added, error)))
    goto done;
  if (dense && ((code = create(backend, max_tokens, config->intermediate, &scratch->gate, error)) ||
                (code = create(backend, max_tokens, config->intermediate, &scratch->up, error))))
    goto done;
  if (sparse && ((code = create(backend, max_tokens, config->experts, &scratch->router_logits, error)) ||
                 (code = backend->operations->routing_create(backend, max_tokens, config->experts,
                                                             config->experts_per_token, &scratch->routing, error))))
    goto done;
done:
  if (code) layer_scratch_destroy(scratch, backend);
  return code;
}

void layer_scratch_destroy(struct layer_scratch *scratch, struct backend *backend) {
  struct tensor *tensors[] = {scratch->normed, scratch->query, scratch->attended, scratch->key,          scratch->value,
                              scratch->added,  scratch->gate,  scratch->up,       scratch->router_logits};
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
    if (tensors[i]) backend->operations->tensor_destroy(backend, tensors[i]);
  if (scratch->routing) backend->operations->routing_destroy(backend, scratch->routing);
  *scratch = (struct layer_scratch){0};
}

/* Calls visit for every matrix of the layer until one returns non-zero. */
static int for_each_matrix(const struct layer_weights *weights, const struct config *config,
                           int (*visit)(void *context, const struct matrix *matrix), void *context) {
  const struct matrix *attention[] = {&weights->query, &weights->key, &weights->value, &weights->output};
  int code = 0;
  for (size_t i = 0; i < sizeof attention / sizeof *attention && !code; i++) code = visit(context, attention[i]);
  if (!code && weights->sparse) code = visit(context, &weights->router);
  uint32_t experts = weights->sparse ? config->experts : 1;
  for (uint32_t i = 0; i < experts && !code; i++) {
    const struct matrix *expert[] = {&weights->gate[i], &weights->up[i], &weights->down[i]};
    for (size_t j = 0; j < sizeof expert / sizeof *expert && !code; j++) code = visit(context, expert[j]);
  }
  return code;
}

struct check {
  const struct backend *backend;
  struct kj_error *error;
};

static int check_one(void *context, const struct matrix *matrix) {
  struct check *check = context;
  return check->backend->operations->check_matrix(check->backend, matrix, check->error);
}

int layer_check(const struct layer_weights *weights, const struct config *config, const struct backend *backend,
                struct kj_error *error) {
  struct check check = {backend, error};
  return for_each_matrix(weights, config, check_one, &check);
}

static int warm_one(void *context, const struct matrix *matrix) {
  struct backend *backend = context;
  backend->operations->warm_matrix(backend, matrix);
  return 0;
}

struct collection {
  const struct matrix **matrices;
  size_t count;
};

static int collect_one(void *context, const struct matrix *matrix) {
  struct collection *collection = context;
  collection->matrices[collection->count++] = matrix;
  return 0;
}

/* The layer's matrices; collection->matrices is to be freed. */
static int collect(const struct layer_weights *weights, const struct config *config, struct collection *collection,
                   struct kj_error *error) {
  enum { ATTENTION_AND_ROUTER = 5, OF_AN_EXPERT = 3 };
  size_t most = ATTENTION_AND_ROUTER + OF_AN_EXPERT * (weights->sparse ? (size_t)config->experts : 1);
  *collection = (struct collection){.matrices = calloc(most, sizeof *collection->matrices)};
  if (!collection->matrices) return kj_fail_memory(error, "the list of weights");
  return for_each_matrix(weights, config, collect_one, collection);
}

int layer_warm(const struct layer_weights *weights, const struct config *config, struct backend *backend,
               struct threads *huge_page_threads, struct kj_error *error) {
  for_each_matrix(weights, config, warm_one, backend);
  if (!huge_page_threads) return 0;
  struct collection collection;
  int code = collect(weights, config, &collection, error);
  if (!code) code = weights_to_huge_pages(collection.matrices, collection.count, huge_page_threads, error);
  free(collection.matrices);
  return code;
}

int layer_to_page_cache(const struct layer_weights *weights, const struct config *config, struct checkpoint *checkpoint,
                        struct kj_error *error) {
  struct collection collection;
  int code = collect(weights, config, &collection, error);
  if (!code) code = weights_to_page_cache(collection.matrices, collection.count, checkpoint, error);
  free(collection.matrices);
  return code;
}

static void attention_block(const struct layer_weights *weights, const struct config *config, const struct rope *rope,
                            struct backend *backend, struct layer_scratch *scratch, struct kv_pool *pool,
                            uint32_t index, const struct batch *batch, struct tensor *x) {
  const struct backend_operations *op = backend->operations;
  op->rms_norm(backend, scratch->normed, x, &weights->input_norm, batch->tokens, 1, config->rms_epsilon);
  struct tensor *outs[] = {scratch->query, scratch->key, scratch->value};
  const struct matrix *matrices[] = {&weights->query, &weights->key, &weights->value};
  op->matmul(backend, outs, scratch->normed, matrices, 3, batch->tokens);
  op->rms_norm(backend, scratch->query, scratch->query, &weights->query_norm, batch->tokens, config->query_heads,
               config->rms_epsilon);
  op->rms_norm(backend, scratch->key, scratch->key, &weights->key_norm, batch->tokens, config->kv_heads,
               config->rms_epsilon);
  op->rotate(backend, scratch->query, rope, config->query_heads, batch);
  op->rotate(backend, scratch->key, rope, config->kv_heads, batch);
  op->kv_write(backend, pool, index, scratch->key, scratch->value, batch);
  op->attention(backend, scratch->attended, scratch->query, pool, index, batch);
  const struct matrix *output = &weights->output;
  op->matmul(backend, &scratch->added, scratch->attended, &output, 1, batch->tokens);
  op->add(backend, x, scratch->added, batch->tokens);
}

static void ffn_block(const struct layer_weights *weights, const struct config *config, struct backend *backend,
                      struct layer_scratch *scratch, const struct batch *batch, struct tensor *x) {
  const struct backend_operations *op = backend->operations;
  op->rms_norm(backend, scratch->normed, x, &weights->post_attention_norm, batch->tokens, 1, config->rms_epsilon);
  if (weights->sparse) {
    const struct matrix *router = &weights->router;
    op->matmul(backend, &scratch->router_logits, scratch->normed, &router, 1, batch->tokens);
    op->route(backend, scratch->routing, scratch->router_logits, batch->tokens, config->renormalise_experts);
    op->expert_ffn(backend, scratch->added, scratch->normed, scratch->routing, weights->gate, weights->up,
                   weights->down, batch->tokens);
  } else {
    struct tensor *outs[] = {scratch->gate, scratch->up};
    const struct matrix *matrices[] = {weights->gate, weights->up};
    op->matmul(backend, outs, scratch->normed, matrices, 2, batch->tokens);
    op->silu_multiply(backend, scratch->gate, scratch->up, batch->tokens);
    const struct matrix *down = weights->down;
    op->matmul(backend, &scratch->added, scratch->gate, &down, 1, batch->tokens);
  }
  op->add(backend, x, scratch->added, batch->tokens);
}

void layer_forward(const struct layer_weights *weights, const struct config *config, const struct rope *rope,
                   struct backend *backend, struct layer_scratch *scratch, struct kv_pool *pool, uint32_t index,
                   const struct batch *batch, struct tensor *x) {
  attention_block(weights, config, rope, backend, scratch, pool, index, batch, x);
  ffn_block(weights, config, backend, scratch, batch, x);
}

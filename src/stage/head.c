#include <stdlib.h>

#include "model/plan.h"
#include "stage/huge_weights.h"
#include "stage/stage.h"

struct head {
  struct backend *backend;
  const struct config *config;
  struct head_weights weights;
  uint32_t max_rows;
  struct tensor *hidden; /* [max_rows, hidden] */
  struct tensor *logits; /* [PLAN_LOGIT_ROWS, vocabulary] */
};

int head_open(struct head **result, struct checkpoint *checkpoint, struct backend *backend, uint32_t max_batch_tokens,
              struct kj_error *error) {
  *result = NULL;
  struct head *head = calloc(1, sizeof *head);
  if (!head) return kj_fail_memory(error, "the model's head");
  head->backend = backend;
  head->config = checkpoint_config(checkpoint);
  head->max_rows = max_batch_tokens < PLAN_LOGIT_ROWS ? PLAN_LOGIT_ROWS : max_batch_tokens;
  int code = checkpoint_head(checkpoint, &head->weights, error);
  if (!code) code = backend->operations->check_matrix(backend, &head->weights.embedding, error);
  if (!code) code = backend->operations->check_matrix(backend, &head->weights.head, error);
  if (!code)
    code = backend->operations->tensor_create(backend, head->max_rows, head->config->hidden, &head->hidden, error);
  if (!code)
    code = backend->operations->tensor_create(backend, PLAN_LOGIT_ROWS, head->config->vocabulary, &head->logits, error);
  if (code)
    head_close(head);
  else
    *result = head;
  return code;
}

void head_close(struct head *head) {
  if (!head) return;
  if (head->hidden) head->backend->operations->tensor_destroy(head->backend, head->hidden);
  if (head->logits) head->backend->operations->tensor_destroy(head->backend, head->logits);
  free(head);
}

int head_warm(struct head *head, struct threads *huge_page_threads, struct kj_error *error) {
  const struct matrix *matrices[] = {&head->weights.embedding, &head->weights.head};
  const size_t count = head->weights.head.data != head->weights.embedding.data ? 2 : 1;
  for (size_t i = 0; i < count; i++) head->backend->operations->warm_matrix(head->backend, matrices[i]);
  return huge_page_threads ? weights_to_huge_pages(matrices, count, huge_page_threads, error) : 0;
}

int head_embed(struct head *head, const uint32_t *token_ids, size_t rows, float *hidden, struct kj_error *error) {
  const struct backend_operations *op = head->backend->operations;
  if (rows > head->max_rows)
    return kj_fail(error, KJ_INVALID, "%zu tokens to embed at once; at most %u are possible", rows, head->max_rows);
  for (size_t i = 0; i < rows; i++)
    if (token_ids[i] >= head->config->vocabulary)
      return kj_fail(error, KJ_INVALID, "token id %u is beyond the vocabulary of %u", token_ids[i],
                     head->config->vocabulary);
  op->embed(head->backend, head->hidden, &head->weights.embedding, token_ids, rows);
  op->finish(head->backend);
  op->download(head->backend, head->hidden, 0, rows, hidden);
  return 0;
}

int head_logits(struct head *head, const float *hidden, size_t rows, float *logits, struct kj_error *error) {
  const struct backend_operations *op = head->backend->operations;
  if (rows > head->max_rows)
    return kj_fail(error, KJ_INVALID, "logits of %zu rows at once; at most %u are possible", rows, head->max_rows);
  const struct matrix *matrix = &head->weights.head;
  for (size_t done = 0; done < rows; done += PLAN_LOGIT_ROWS) {
    size_t count = rows - done < PLAN_LOGIT_ROWS ? rows - done : PLAN_LOGIT_ROWS;
    op->upload(head->backend, head->hidden, 0, count, hidden + done * head->config->hidden);
    op->rms_norm(head->backend, head->hidden, head->hidden, &head->weights.norm, count, 1, head->config->rms_epsilon);
    op->matmul(head->backend, &head->logits, head->hidden, &matrix, 1, count);
    op->finish(head->backend);
    op->download(head->backend, head->logits, 0, count, logits + done * head->config->vocabulary);
  }
  return 0;
}

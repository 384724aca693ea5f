/* A stage: a contiguous range of a model's layers with its KV pool, computing micro-batches.
 *
 * Used in the same way by the lead (for its own layers, possibly none) and by a node. It knows no request: it is told
 * which KV blocks to read and write. One thread uses a stage at a time.
 */
#ifndef KAIJU_STAGE_STAGE_H
#define KAIJU_STAGE_STAGE_H

#include "base/error.h"
#include "base/threads.h"
#include "compute/backend.h"
#include "model/checkpoint.h"
#include "stage/kv_store.h"

struct stage;

struct stage_options {
  struct checkpoint *checkpoint;     /* borrowed */
  struct backend *backend;           /* borrowed */
  uint32_t first_layer, layer_count; /* layer_count may be 0 */
  uint32_t kv_blocks;
  uint32_t max_batch_tokens; /* bounds batch.tokens */
  /* Move the weights into huge pages when they are warm (base/huge_pages.h); NULL leaves them in the page cache.
   * Borrowed.
   */
  struct threads *huge_page_threads;
};

/* Maps the layers' weights and allocates the pool and activations; reads no weight. */
int stage_open(struct stage **stage, const struct stage_options *options, struct kj_error *error);
/* Gives back all that the stage took, the huge pages of its weights too. */
void stage_close(struct stage *stage);

/* Reads the weights in, layer by layer, and runs a token through each. `progress` may be NULL; it gets the layers done
 * so far and returns false to cancel (KJ_CANCELLED). */
int stage_warm(struct stage *stage, bool (*progress)(void *context, uint32_t done, uint32_t total), void *context,
               struct kj_error *error);

/* Forgets what the KV pool holds: the start of an epoch. */
void stage_reset(struct stage *stage);

/* Runs the batch through the stage's layers: hidden [batch->tokens, hidden] is overwritten with the result.
 * KJ_INVALID, with nothing computed, if the batch breaks a rule (block ids out of range, a position beyond the model's,
 * too many tokens) or if a span's prefix hash is not what the pool holds: KV that has gone out of step is never used.
 */
int stage_forward(struct stage *stage, const struct batch *batch, float *hidden, struct kj_error *error);

/* Bytes of a KV block of the stage's layers, as kv_export gives it. */
uint64_t stage_block_bytes(const struct stage *stage);

/* Keeps, restores and drops KV blocks, in order; *done (may be NULL) says how many were. A block to be kept must be
 * full and hold the operation's tokens (KJ_INVALID: out of step); whether it is written is the store's affair. A block
 * to be restored is read, verified and then part of the pool as if it had been computed; where that fails, the error
 * names the file and what the pool's block held is kept. Without a store nothing is kept and restoring is KJ_NOT_FOUND;
 * a stage without layers has nothing to do. */
int stage_blocks(struct stage *stage, struct kv_store *store, const struct block_operation *operations, uint32_t count,
                 uint32_t *done, struct kj_error *error);

/* Moves the rows that the lead wants to the front of rows [batch->tokens, hidden]: the last `outputs` of each span. */
void stage_pack_outputs(const struct batch *batch, size_t hidden, float *rows);

/* The lead's ends of the model. */
struct head;
int head_open(struct head **head, struct checkpoint *checkpoint, struct backend *backend, uint32_t max_batch_tokens,
              struct kj_error *error);
void head_close(struct head *head);
/* Reads the embedding's and head's pages in; huge_page_threads as for a stage. */
int head_warm(struct head *head, struct threads *huge_page_threads, struct kj_error *error);
/* hidden [rows, hidden] = embeddings of the ids (each < vocabulary: KJ_INVALID otherwise). */
int head_embed(struct head *head, const uint32_t *token_ids, size_t rows, float *hidden, struct kj_error *error);
/* logits [rows, vocabulary] = head · norm(hidden[rows, hidden]); rows ≤ max_batch_tokens. */
int head_logits(struct head *head, const float *hidden, size_t rows, float *logits, struct kj_error *error);

#endif

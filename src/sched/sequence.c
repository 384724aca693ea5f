#include "sched/sequence.h"

#include <stdlib.h>
#include <string.h>

#include "compute/batch.h"
#include "stage/ledger.h"

int sequence_create(struct sequence **result, uint64_t id, const struct request *request, uint32_t max_tokens,
                    struct kj_error *error) {
  *result = NULL;
  struct sequence *sequence = calloc(1, sizeof *sequence);
  if (!sequence) return kj_fail_memory(error, "a sequence");
  size_t bias_count = request->sampling.bias_count;
  sequence->id = id;
  sequence->prompt_count = sequence->token_count = (uint32_t)request->token_count;
  sequence->capacity = sequence->prompt_count + max_tokens;
  sequence->block_limit = (uint32_t)kv_blocks_for(sequence->capacity);
  sequence->launched_hash = token_hash_start();
  sequence->ignore_eos = request->ignore_eos;
  sequence->ignore_cache = request->ignore_cache || request->score_prompt;
  sequence->score_prompt = request->score_prompt;
  sequence->sampling = request->sampling;
  sequence->sampling.bias = NULL;
  sequence->on_event = request->on_event;
  sequence->context = request->context;
  sequence->sampling.allowed = NULL;
  sequence->tokens = calloc(sequence->capacity, sizeof *sequence->tokens);
  sequence->blocks = calloc(sequence->block_limit, sizeof *sequence->blocks);
  if (bias_count > 0) sequence->sampling.bias = calloc(bias_count, sizeof *sequence->sampling.bias);
  if (!sequence->tokens || !sequence->blocks || (bias_count > 0 && !sequence->sampling.bias)) {
    sequence_free(sequence);
    return kj_fail_memory(error, "a sequence");
  }
  memcpy(sequence->tokens, request->tokens, request->token_count * sizeof *sequence->tokens);
  if (bias_count > 0)
    memcpy(sequence->sampling.bias, request->sampling.bias, bias_count * sizeof *sequence->sampling.bias);
  sequence->constraint = request->constraint;
  *result = sequence;
  return 0;
}

void sequence_free(struct sequence *sequence) {
  if (!sequence) return;
  token_constraint_release(sequence->constraint);
  draft_free(sequence->draft);
  free(sequence->failure);
  free(sequence->tokens);
  free(sequence->blocks);
  free(sequence->sampling.bias);
  free(sequence);
}

void sequence_launch(struct sequence *sequence, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    sequence->launched_hash = token_hash_extend(sequence->launched_hash, sequence->tokens[sequence->launched++]);
}

void sequence_rewind(struct sequence *sequence) {
  sequence->launched = sequence->computed = sequence->kept = sequence->block_count = sequence->in_flight = 0;
  sequence->launched_hash = token_hash_start();
}

void sequence_fail(struct sequence *sequence, const struct kj_error *error) {
  if (!sequence->failure) sequence->failure = malloc(sizeof *error);
  if (sequence->failure)
    *sequence->failure = *error;
  else
    atomic_store(&sequence->cancelled, true); /* out of memory: it ends all the same */
}

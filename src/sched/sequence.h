/* A sequence: one request's tokens on their way through the pipeline, and what is known of it.
 *
 * Its tokens are the prompt and then what was sampled. A prefix of them is computed: their keys and values lie in the
 * KV caches of all stages. A longer prefix is launched: computed, or in micro-batches that are in flight. A draft's
 * tokens are launched without counting here until the model has confirmed them. Used by the engine's thread alone,
 * except `cancelled`.
 */
#ifndef KAIJU_SCHED_SEQUENCE_H
#define KAIJU_SCHED_SEQUENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sched/disk_cache.h"
#include "sched/draft.h"
#include "sched/engine.h"

enum sequence_state { SEQUENCE_WAITING, SEQUENCE_RUNNING };

struct sequence {
  uint64_t id;
  enum sequence_state state;
  uint32_t *tokens; /* [capacity] prompt, then output */
  uint32_t token_count, prompt_count, capacity;
  uint32_t launched, computed;
  uint64_t launched_hash; /* chain hash of the launched tokens (stage/ledger.h) */

  struct block_chain chain; /* for the blocks on disk */
  uint32_t *blocks; /* [block_limit] its KV blocks; the first `block_count` are taken, of which the first `kept` are in
                       the prefix cache */
  uint32_t block_count, block_limit, kept;

  uint32_t in_flight;               /* micro-batches with tokens of it */
  uint32_t planned;                 /* while a micro-batch is composed: tokens of its prompt that go into it */
  uint64_t turn;                    /* rises with every launch of a sequence: the lowest has waited longest */
  uint32_t cached;                  /* prompt tokens taken from the prefix cache or the disk, but for recoveries */
  bool replayed;                    /* it ran before, and its KV cache was lost with the epoch */
  struct draft *draft;              /* NULL without drafts */
  uint32_t drafted, draft_accepted; /* tokens, so far */

  struct kj_error *failure; /* why it ends as soon as nothing of it is in flight; owned; NULL: nothing is wrong */
  atomic_bool cancelled;    /* set by any thread */
  bool ignore_eos, ignore_cache, score_prompt;
  uint32_t scored;                    /* position of the last token of the prompt whose score the client has */
  double submitted_at, last_token_at; /* clock; 0: no token yet */
  double stalled_since;               /* clock; 0 while the pipeline is up */
  struct sampling sampling;
  struct token_constraint *constraint; /* or NULL; has accepted all sampled tokens, whatever was lost and replayed */
  void (*on_event)(void *context, const struct engine_event *event);
  void *context;
  struct sequence *next;      /* in the schedule */
  struct sequence *next_live; /* in the engine's list of all that are not finished, under its mutex */
};

/* A waiting sequence for the request; max_tokens must be cut to what fits already. */
int sequence_create(struct sequence **sequence, uint64_t id, const struct request *request, uint32_t max_tokens,
                    struct kj_error *error);
void sequence_free(struct sequence *sequence);

/* Tokens that are known and not launched yet: 1 while decoding, more in prefill, 0 when its next one is being waited
 * for. */
static inline uint32_t sequence_pending(const struct sequence *sequence) {
  return sequence->token_count - sequence->launched;
}

/* `count` tokens more are launched. */
void sequence_launch(struct sequence *sequence, uint32_t count);
/* It fails with a copy of the error as soon as nothing of it is in flight. */
void sequence_fail(struct sequence *sequence, const struct kj_error *error);
/* Nothing of it is computed any more. Its blocks must have been released. */
void sequence_rewind(struct sequence *sequence);

#endif

/* The engine of the lead: sequences in, tokens out, over all stages.
 *
 * The main thread creates the engine and runs it (engine_run); any thread submits, cancels and asks for status. Tokens
 * are delivered by the request's callback on the engine's thread: it must not block and must not call the engine,
 * except engine_cancel. Every accepted request ends with exactly one event that has a finish, whatever happens.
 */
#ifndef KAIJU_SCHED_ENGINE_H
#define KAIJU_SCHED_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpus.h"
#include "base/error.h"
#include "base/histogram.h"
#include "model/checkpoint.h"
#include "sched/sampler.h"
#include "sched/token_constraint.h"

struct engine;
struct engine_status;

enum {
  ENGINE_MAX_NODES = 63, /* besides the lead */
  /* Longer sequences are provided for only when asked: their KV cache would take most of the memory. */
  ENGINE_DEFAULT_CONTEXT = 32768,
  ENGINE_DEFAULT_PARALLEL = 4,
  ENGINE_DEFAULT_CHUNK = 512,
  ENGINE_DEFAULT_QUEUE = 256,
  ENGINE_DEFAULT_DRAFT = 16,
  ENGINE_MAX_DRAFT = 32,       /* below COST_LARGE_SPAN: a draft is not taken for prefill */
  ENGINE_NO_DRAFT = UINT16_MAX /* a value of `draft` */
};

struct engine_options {
  const char *model;        /* checkpoint directory */
  const char *const *nodes; /* addresses "host:port" of stages 1…node_count */
  size_t node_count;
  const uint32_t *split; /* or NULL: automatic */
  size_t split_count;
  uint32_t context;       /* tokens of a sequence at most; 0: the model's maximum, or ENGINE_DEFAULT_CONTEXT if less */
  uint32_t parallel;      /* sequences at once; 0: ENGINE_DEFAULT_PARALLEL */
  uint32_t kv_tokens;     /* of the KV pool, shared by running sequences and the prefix cache; 0: parallel · context */
  uint32_t queue;         /* requests that may wait for a place; 0: ENGINE_DEFAULT_QUEUE */
  uint32_t chunk;         /* tokens of a micro-batch at most; 0: ENGINE_DEFAULT_CHUNK */
  uint32_t micro_batches; /* that running sequences are dealt into; 0: one for each stage */
  uint32_t draft;         /* tokens of a draft at most; 0: ENGINE_DEFAULT_DRAFT; ENGINE_NO_DRAFT: none */
  const char *kv_disk;    /* directory of this machine for KV blocks that outlive the process, or NULL */
  uint64_t kv_disk_size;  /* bytes it may take; 0: STORE_DEFAULT_SIZE (stage/kv_store.h) */
  uint32_t threads;       /* 0: one per CPU */
  const struct cpu_list *cpus; /* of the threads (base/threads.h), or NULL; borrowed while the engine is created */
  bool huge_pages;             /* move the lead's weights out of the page cache into huge pages */
  const char *isa;             /* "auto", … (compute/backend.h) */
  uint64_t memory;             /* ceiling of this machine; 0: what is available */
  const char *provider;        /* link/link.h */
  const uint8_t *key;          /* or NULL */
  double connect_timeout;      /* seconds to form the cluster at start; 0: 30 */
  double recovery_timeout;     /* seconds a request waits for a lost node; 0: 60 */
  double deadline;             /* seconds of silence on a link; 0: 10 */
  double step_timeout;         /* seconds that a micro-batch may take to come back; 0: 120 */
  double bandwidth;            /* of this machine, bytes a second, for the automatic split; 0: like all others */
  /* Called on the engine's thread while layers are read in, after each few; may be NULL. */
  void (*on_progress)(void *progress_context, const struct engine_status *status);
  void *progress_context;
};

/* Opens the checkpoint and the lead's ends of the model and checks the split, so that what cannot work is refused
 * before anything is loaded. No network yet: the plan is made in engine_run, when the nodes have said what memory they
 * have. */
int engine_create(struct engine **engine, const struct engine_options *options, struct kj_error *error);
void engine_destroy(struct engine *engine); /* ends what was submitted and never run, as cancelled */

/* Forms the cluster, warms up, then serves until engine_stop; returns 0 after that. `on_ready` (may be NULL) is called
 * once, on this thread, when the first token has gone round. A failure before that is returned, and ends the nodes too;
 * later ones start a new epoch. */
int engine_run(struct engine *engine, void (*on_ready)(void *context), void *context, struct kj_error *error);
/* Safe from any thread, not from a signal handler. Sequences that are not finished end as FINISH_CANCELLED. */
void engine_stop(struct engine *engine);

enum finish {
  FINISH_NONE,   /* not the last event */
  FINISH_EOS,    /* an end token (delivered in `sampled` too, but it is no text) */
  FINISH_LENGTH, /* max_tokens or the context is full */
  FINISH_CANCELLED,
  FINISH_ERROR /* `error` says why */
};

struct engine_event {
  uint64_t request;
  bool has_token;
  bool has_score; /* without a token: `sampled` is the next token of the prompt, with its log-probability */
  struct sampled sampled;
  enum finish finish;
  uint32_t prompt_tokens, completion_tokens; /* so far; the end token counts */
  uint32_t prefilled; /* prompt tokens through the pipeline so far; events without a token report it during prefill */
  uint32_t cached_tokens;                  /* of the prompt, taken from the prefix cache */
  uint32_t drafted_tokens, draft_accepted; /* so far: proposed, and confirmed by the model */
  const struct kj_error *error;            /* FINISH_ERROR */
};

struct request {
  const uint32_t *tokens; /* the prompt, at least one; copied */
  size_t token_count;
  uint32_t max_tokens; /* 0: until the context is full */
  bool ignore_eos; /* with a constraint: an end token comes, and ends the answer, only where nothing else may follow */
  bool ignore_cache; /* compute the whole prompt; its blocks are kept for others all the same */
  /* The prompt's tokens but the first come as events of their own before the answer's first one. The whole prompt is
   * then computed, as with ignore_cache. */
  bool score_prompt;
  struct sampling sampling; /* copied, with its bias */
  /* Which tokens may come, or NULL: all. Its end tokens are the configuration's. When engine_submit succeeds it is the
   * engine's, which releases it behind the last event; otherwise it stays the caller's. Where it fails or allows no
   * token at all, the sequence ends with FINISH_ERROR, after the tokens before. */
  struct token_constraint *constraint;
  void (*on_event)(void *context, const struct engine_event *event);
  void *context;
};

/* Checks and queues. KJ_INVALID (a token id out of range, no tokens), KJ_UNSUPPORTED (prompt and context: the message
 * has both numbers; prompt + at least one token must fit, and max_tokens is cut to what fits), KJ_BUSY when the queue
 * is full, KJ_CANCELLED when stopping. */
int engine_submit(struct engine *engine, const struct request *request, uint64_t *id, struct kj_error *error);
/* The final event (FINISH_CANCELLED, unless it ended otherwise before) still comes. Unknown ids are ignored. */
void engine_cancel(struct engine *engine, uint64_t id);

/* Seconds after which a request that found the queue full may find a place: from how often requests end. */
uint32_t engine_retry_after(struct engine *engine);

const struct config *engine_config(const struct engine *engine);
uint32_t engine_context(const struct engine *engine);
/* Requests that can be running and waiting at most. */
uint32_t engine_capacity(const struct engine *engine);

enum engine_state { ENGINE_CONNECTING, ENGINE_LOADING, ENGINE_READY, ENGINE_RECOVERING, ENGINE_STOPPING };

struct engine_node_status {
  char name[128]; /* address; "lead" for stage 0 */
  char engine[64], host[64];
  uint32_t first_layer, layer_count;
  uint32_t layers_warm; /* during loading */
  bool connected;
  uint64_t peak_memory, planned_memory;
  /* Totals: in its layers (the lead: also embedding, head and sampling); idle with nothing to do; from a frame's being
   * handed to the link to the end of its transmission. */
  double compute_seconds, wait_seconds, transfer_seconds;
  double busy;     /* share of the last seconds spent computing, 0…1 */
  uint64_t tokens; /* rows computed */
  double round_trip;
  uint64_t bytes_sent, bytes_received; /* on the lead's link to it */
};

struct engine_status {
  enum engine_state state;
  char reason[1000]; /* when not ready: why */
  uint64_t epoch;
  uint32_t running, waiting, queue; /* sequences; how many may wait */
  uint32_t kv_blocks, kv_blocks_used,
      kv_blocks_cached; /* used: by running sequences; cached: by the prefix cache alone */
  uint32_t micro_batches, micro_batches_in_flight;
  uint64_t requests, finished, cancelled, failed, refused;  /* refused: the queue was full */
  uint64_t prompt_tokens, cached_tokens, completion_tokens; /* prompt tokens computed; taken from the prefix cache */
  uint64_t drafted_tokens, draft_accepted;
  uint64_t steps;                            /* micro-batches that came back */
  uint64_t steps_overlapped;                 /* of these, launched while another one was in flight */
  struct histogram first_token, inter_token; /* seconds, from submission and between tokens */
  struct histogram batch_tokens;             /* rows of a micro-batch */
  double uptime;
  size_t node_count; /* lead included */
  struct engine_node_status nodes[ENGINE_MAX_NODES + 1];
};
void engine_get_status(struct engine *engine, struct engine_status *status);

#endif

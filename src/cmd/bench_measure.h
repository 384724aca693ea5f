/* What `kaiju bench` measures through a running engine: how fast prompts go in and tokens come out.
 *
 * Prompts are random tokens, the same in every run of the program; none begins like another. Call from a thread of its
 * own while engine_run runs on another. A failure is that of the engine, or KJ_CANCELLED when it was stopped.
 */
#ifndef KAIJU_CMD_BENCH_MEASURE_H
#define KAIJU_CMD_BENCH_MEASURE_H

#include <stdint.h>

#include "base/error.h"
#include "sched/engine.h"

enum { BENCH_MAX_ROUNDS = 100 };

struct bench_spread {
  double median, least, most;
};

struct bench_prefill {
  uint32_t prompt_tokens;
  struct bench_spread rate; /* tokens a second, from submission to the first token */
};
/* `rounds` prompts, one after another. */
int bench_prefill(struct engine *engine, uint32_t prompt_tokens, uint32_t rounds, struct bench_prefill *result,
                  struct kj_error *error);

struct bench_decode {
  uint32_t streams, context, tokens; /* tokens that each stream decodes a round */
  double mean_context;               /* positions that a decoded token attended to */
  double prefill_seconds;            /* until all streams had their first token */
  struct bench_spread rate;          /* tokens a second of all streams together */
};
/* `streams` prompts of `context` tokens at once. Once all have been read, `rounds` times `tokens` tokens of each are
 * timed, one round after another in the same sequences: a long context is read once. */
int bench_decode(struct engine *engine, uint32_t streams, uint32_t context, uint32_t tokens, uint32_t rounds,
                 struct bench_decode *result, struct kj_error *error);
/* The longest sequence that bench_decode needs, at most: streams that are ready decode while others' prompts are read,
 * `chunk` tokens a step. */
uint64_t bench_decode_length(uint32_t streams, uint32_t context, uint32_t tokens, uint32_t rounds, uint32_t chunk);

#endif

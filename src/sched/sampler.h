/* From logits to a token: the tokens that are allowed, penalties, bias, temperature, top-k, top-p, min-p, and a draw.
 *
 * Deterministic: the random number is a function of (seed, position) alone, sums run in a fixed order, ties go to the
 * lower id. Order of the filters as in Transformers: penalties and bias on the logits, temperature, top-k, top-p,
 * min-p.
 */
#ifndef KAIJU_SCHED_SAMPLER_H
#define KAIJU_SCHED_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/config.h"

enum { SAMPLING_MAX_TOP_LOGPROBS = 20, SAMPLING_MAX_BIAS = 1024 };

struct logit_bias {
  uint32_t token;
  float bias;
};

struct sampling {
  float temperature;                         /* 0: the most probable token */
  float top_p, min_p;                        /* 1 and 0: off */
  uint32_t top_k;                            /* 0: off */
  float repetition_penalty;                  /* 1: off; over prompt and output, as Transformers */
  float presence_penalty, frequency_penalty; /* 0: off; over the output, as OpenAI */
  uint64_t seed;
  struct logit_bias *bias; /* [bias_count], owned by whoever owns the struct */
  size_t bias_count;
  /* Bit i % 64 of word i / 64: token i may be drawn, one at least; NULL: all of them. The engine's, for one draw. */
  const uint64_t *allowed;
  int top_logprobs; /* -1: no log-probabilities; 0…SAMPLING_MAX_TOP_LOGPROBS alternatives */
};

/* What a checkpoint's generation_config.json asks for, without log-probabilities. */
static inline struct sampling sampling_defaults(const struct generation_defaults *defaults) {
  return (struct sampling){
      .temperature = defaults->sample ? defaults->temperature : 0,
      .top_p = defaults->top_p,
      .min_p = defaults->min_p,
      .top_k = defaults->top_k,
      .repetition_penalty = defaults->repetition_penalty,
      .top_logprobs = -1,
  };
}

struct token_logprob {
  uint32_t token;
  float logprob;
};

struct sampled {
  uint32_t token;
  float logprob; /* of the token under the model's own distribution (no penalties, temperature 1) */
  uint32_t top_count;
  struct token_logprob top[SAMPLING_MAX_TOP_LOGPROBS];
};

struct sampler; /* scratch memory for one vocabulary */
int sampler_create(struct sampler **sampler, uint32_t vocabulary, struct kj_error *error);
void sampler_destroy(struct sampler *sampler);

/* logits [vocabulary] are overwritten. `tokens` are the sequence so far, of which the first `prompt_count` are the
 * prompt; the token drawn is for position token_count. */
void sampler_draw(struct sampler *sampler, const struct sampling *sampling, const uint32_t *tokens, size_t prompt_count,
                  size_t token_count, float *logits, struct sampled *result);

/* A token that is known already: its log-probability under the model's own distribution, and the alternatives that
 * `sampling` asks for. logits [vocabulary] are overwritten. */
void sampler_score(struct sampler *sampler, const struct sampling *sampling, uint32_t token, float *logits,
                   struct sampled *result);

#endif

#include "sched/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cpu/dispatch.h"

/* Infinite logits count as this: the sums and quotients of all that follows stay finite. */
static const float LARGEST_LOGIT = 1e30f;

struct sampler {
  uint32_t vocabulary;
  const struct cpu_kernels *kernels; /* equal to the bit whichever they are */
  float *weights;                    /* [vocabulary] probabilities */
  uint32_t *heap;                    /* [vocabulary] token ids, the most probable first once popped */
  float *raw;                        /* [vocabulary] logits as the model gave them */
  uint32_t *prompt_uses;             /* [vocabulary] zero between draws */
  uint32_t *output_uses;             /* [vocabulary] zero between draws */
};

int sampler_create(struct sampler **result, uint32_t vocabulary, struct kj_error *error) {
  *result = NULL;
  struct sampler *sampler = calloc(1, sizeof *sampler);
  if (!sampler) return kj_fail_memory(error, "the sampler");
  sampler->vocabulary = vocabulary;
  int code = cpu_kernels_choose(&sampler->kernels, "auto", error);
  if (code) {
    sampler_destroy(sampler);
    return code;
  }
  sampler->weights = calloc(vocabulary, sizeof *sampler->weights);
  sampler->heap = calloc(vocabulary, sizeof *sampler->heap);
  sampler->raw = calloc(vocabulary, sizeof *sampler->raw);
  sampler->prompt_uses = calloc(vocabulary, sizeof *sampler->prompt_uses);
  sampler->output_uses = calloc(vocabulary, sizeof *sampler->output_uses);
  if (!sampler->weights || !sampler->heap || !sampler->raw || !sampler->prompt_uses || !sampler->output_uses) {
    sampler_destroy(sampler);
    return kj_fail_memory(error, "the sampler");
  }
  *result = sampler;
  return 0;
}

void sampler_destroy(struct sampler *sampler) {
  if (!sampler) return;
  free(sampler->weights);
  free(sampler->heap);
  free(sampler->raw);
  free(sampler->prompt_uses);
  free(sampler->output_uses);
  free(sampler);
}

/* Does token a come before token b: more probable, or equally so with a lower id? */
static bool before(const float *logits, uint32_t a, uint32_t b) {
  return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

static void sift_down(uint32_t *heap, size_t count, size_t parent, const float *logits) {
  for (;;) {
    size_t best = 2 * parent + 1;
    if (best >= count) return;
    if (best + 1 < count && before(logits, heap[best + 1], heap[best])) best++;
    if (!before(logits, heap[best], heap[parent])) return;
    uint32_t swap = heap[parent];
    heap[parent] = heap[best];
    heap[best] = swap;
    parent = best;
  }
}

static void heap_build(uint32_t *heap, size_t count, const float *logits) {
  for (size_t i = 0; i < count; i++) heap[i] = (uint32_t)i;
  for (size_t i = count / 2; i-- > 0;) sift_down(heap, count, i, logits);
}

/* Takes the best token off a heap of `count`; it is left at heap[count - 1]. */
static uint32_t heap_pop(uint32_t *heap, size_t count, const float *logits) {
  uint32_t best = heap[0];
  heap[0] = heap[count - 1];
  heap[count - 1] = best;
  sift_down(heap, count - 1, 0, logits);
  return best;
}

static uint32_t most_probable(const float *logits, uint32_t vocabulary) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < vocabulary; i++)
    if (logits[i] > logits[best]) best = i;
  return best;
}

static bool is_allowed(const uint64_t *allowed, uint32_t token) { return allowed[token / 64] >> token % 64 & 1; }

static void forbid(const uint64_t *allowed, float *logits, uint32_t vocabulary) {
  for (uint32_t i = 0; i < vocabulary; i++)
    if (!is_allowed(allowed, i)) logits[i] = -INFINITY;
}

/* The most probable of those that are allowed, even if the model thinks all of them impossible. */
static uint32_t most_probable_allowed(const float *logits, uint32_t vocabulary, const uint64_t *allowed) {
  uint32_t best = most_probable(logits, vocabulary);
  if (!allowed || is_allowed(allowed, best)) return best;
  for (uint32_t i = 0; i < vocabulary; i++)
    if (is_allowed(allowed, i)) return i;
  return best;
}

/* The model's own distribution, before anything of the request's sampling changes the logits. */
static double record_alternatives(struct sampler *sampler, const struct sampling *sampling, const float *logits,
                                  struct sampled *result) {
  uint32_t best = most_probable(logits, sampler->vocabulary);
  memcpy(sampler->weights, logits, sampler->vocabulary * sizeof *logits);
  sampler->kernels->softmax(sampler->weights, sampler->vocabulary);
  /* log Σ exp(logit): the probability of the best token is exp(its logit) / Σ exp(logit). */
  double normaliser = (double)logits[best] - log((double)sampler->weights[best]);
  uint32_t count = (uint32_t)sampling->top_logprobs;
  if (count > SAMPLING_MAX_TOP_LOGPROBS) count = SAMPLING_MAX_TOP_LOGPROBS;
  if (count > sampler->vocabulary) count = sampler->vocabulary;
  if (count > 0) heap_build(sampler->heap, sampler->vocabulary, logits);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t token = heap_pop(sampler->heap, sampler->vocabulary - i, logits);
    result->top[i] = (struct token_logprob){token, (float)((double)logits[token] - normaliser)};
  }
  result->top_count = count;
  return normaliser;
}

static void apply_penalties(struct sampler *sampler, const struct sampling *sampling, const uint32_t *tokens,
                            size_t prompt_count, size_t token_count, float *logits) {
  bool repetition = sampling->repetition_penalty != 1.0f;
  if (!repetition && sampling->presence_penalty == 0 && sampling->frequency_penalty == 0) return;
  for (size_t i = 0; i < token_count; i++) {
    if (tokens[i] >= sampler->vocabulary) continue;
    (i < prompt_count ? sampler->prompt_uses : sampler->output_uses)[tokens[i]]++;
  }
  for (size_t i = 0; i < token_count; i++) {
    uint32_t token = tokens[i];
    if (token >= sampler->vocabulary) continue;
    uint32_t in_output = sampler->output_uses[token];
    if (in_output == 0 && sampler->prompt_uses[token] == 0) continue; /* done already */
    if (repetition)
      logits[token] = logits[token] > 0 ? logits[token] / sampling->repetition_penalty
                                        : logits[token] * sampling->repetition_penalty;
    if (in_output > 0) logits[token] -= sampling->presence_penalty + sampling->frequency_penalty * (float)in_output;
    sampler->prompt_uses[token] = sampler->output_uses[token] = 0;
  }
}

/* A uniform number in [0, 1) from seed and position: two rounds of splitmix64 (Steele, Lea, Flood 2014). */
static double uniform(uint64_t seed, uint64_t position) {
  uint64_t z = seed;
  for (int round = 0; round < 2; round++) {
    z += 0x9e3779b97f4a7c15u + position * 0xd1342543de82ef95u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
  }
  return (double)(z >> 11) * 0x1p-53;
}

/* Draws among the tokens that top-k, top-p and min-p leave; logits are divided by the temperature already, and not all
 * are -infinity. */
static uint32_t draw(struct sampler *sampler, const struct sampling *sampling, const float *logits, double random) {
  uint32_t vocabulary = sampler->vocabulary, *heap = sampler->heap;
  uint32_t limit = sampling->top_k > 0 && sampling->top_k < vocabulary ? sampling->top_k : vocabulary;
  heap_build(heap, vocabulary, logits);
  float *weights = sampler->weights;
  memcpy(weights, logits, vocabulary * sizeof *logits);
  sampler->kernels->softmax(weights, vocabulary);

  /* The i-th best token is at heap[vocabulary - 1 - i] once `popped` has passed i. */
  uint32_t popped = 0;
  double total = 0;
  if (limit == vocabulary)
    for (uint32_t i = 0; i < vocabulary; i++) total += (double)weights[i];
  else
    for (; popped < limit; popped++) total += (double)weights[heap_pop(heap, vocabulary - popped, logits)];

  uint32_t kept = limit;
  double kept_total = total, lowest = 0;
  if (sampling->top_p < 1 || sampling->min_p > 0) {
    kept_total = 0;
    for (kept = 0; kept < limit; kept++) {
      if (kept == popped) heap_pop(heap, vocabulary - popped++, logits);
      double weight = (double)weights[heap[vocabulary - 1 - kept]];
      if (kept == 0) lowest = (double)sampling->min_p * weight;
      if (kept > 0 && (kept_total >= (double)sampling->top_p * total || weight < lowest)) break;
      kept_total += weight;
    }
  }
  double target = random * kept_total, sum = 0;
  uint32_t token = 0;
  for (uint32_t i = 0; i < kept; i++) {
    if (i == popped) heap_pop(heap, vocabulary - popped++, logits);
    uint32_t candidate = heap[vocabulary - 1 - i];
    if (i > 0 && weights[candidate] == 0) break;
    token = candidate;
    sum += (double)weights[candidate];
    if (sum > target) break;
  }
  return token;
}

static void make_finite(float *logits, uint32_t vocabulary) {
  for (uint32_t i = 0; i < vocabulary; i++) logits[i] = isnan(logits[i]) ? -INFINITY : fminf(logits[i], LARGEST_LOGIT);
}

void sampler_score(struct sampler *sampler, const struct sampling *sampling, uint32_t token, float *logits,
                   struct sampled *result) {
  *result = (struct sampled){.token = token};
  make_finite(logits, sampler->vocabulary);
  double normaliser = record_alternatives(sampler, sampling, logits, result);
  result->logprob = (float)((double)logits[token] - normaliser);
}

void sampler_draw(struct sampler *sampler, const struct sampling *sampling, const uint32_t *tokens, size_t prompt_count,
                  size_t token_count, float *logits, struct sampled *result) {
  *result = (struct sampled){0};
  make_finite(logits, sampler->vocabulary);
  double normaliser = 0;
  /* The log-probability of the token drawn is known only after the draw: its logit must survive the changes below. */
  float *raw = NULL;
  if (sampling->top_logprobs >= 0) {
    normaliser = record_alternatives(sampler, sampling, logits, result);
    raw = sampler->raw;
    memcpy(raw, logits, sampler->vocabulary * sizeof *logits);
  }
  apply_penalties(sampler, sampling, tokens, prompt_count, token_count, logits);
  for (size_t i = 0; i < sampling->bias_count; i++)
    if (sampling->bias[i].token < sampler->vocabulary) logits[sampling->bias[i].token] += sampling->bias[i].bias;
  /* Last, so that neither a bias nor a penalty brings back what is forbidden. */
  if (sampling->allowed) forbid(sampling->allowed, logits, sampler->vocabulary);
  result->token = most_probable_allowed(logits, sampler->vocabulary, sampling->allowed);
  float highest = logits[result->token];
  if (sampling->temperature > 0 && highest > -INFINITY) {
    /* Relative to the highest, so that a low temperature makes none infinite but those that never come. */
    for (uint32_t i = 0; i < sampler->vocabulary; i++) logits[i] = (logits[i] - highest) / sampling->temperature;
    result->token = draw(sampler, sampling, logits, uniform(sampling->seed, token_count));
  }
  if (raw) result->logprob = (float)((double)raw[result->token] - normaliser);
}

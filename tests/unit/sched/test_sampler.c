/* The sampler against a plain reimplementation in double precision: which tokens may come, and how often. */
#include "sched/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "unit/unit.h"

enum { VOCABULARY = 40, HISTORY = 24 };

static const struct sampling plain = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .top_logprobs = -1};

static int setup(void **state) { return sampler_create((struct sampler **)state, VOCABULARY, NULL); }

static int teardown(void **state) {
  sampler_destroy(*state);
  return 0;
}

static uint64_t random_bits(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static double random_between(uint64_t *state, double low, double high) {
  return low + (high - low) * (double)(random_bits(state) >> 11) * 0x1p-53;
}

/* One case: logits, the sequence so far, and the request's wishes. */
struct sample_case {
  float logits[VOCABULARY];
  uint32_t tokens[HISTORY];
  size_t prompt_count, token_count;
  struct logit_bias bias[3];
  struct sampling sampling;
};

static struct sampled draw(struct sampler *sampler, const struct sample_case *sample, uint64_t seed) {
  float logits[VOCABULARY];
  struct sampled sampled;
  struct sampling sampling = sample->sampling;
  sampling.seed = seed;
  memcpy(logits, sample->logits, sizeof logits);
  sampler_draw(sampler, &sampling, sample->tokens, sample->prompt_count, sample->token_count, logits, &sampled);
  assert_true(sampled.token < VOCABULARY);
  return sampled;
}

/* The logits after penalties and bias. */
static void expected_logits(const struct sample_case *sample, double *logits) {
  const struct sampling *sampling = &sample->sampling;
  for (uint32_t token = 0; token < VOCABULARY; token++) {
    int in_prompt = 0, in_output = 0;
    for (size_t i = 0; i < sample->token_count; i++)
      if (sample->tokens[i] == token) i < sample->prompt_count ? in_prompt++ : in_output++;
    double logit = (double)sample->logits[token], penalty = (double)sampling->repetition_penalty;
    if (in_prompt + in_output > 0) logit = logit > 0 ? logit / penalty : logit * penalty;
    if (in_output > 0) logit -= (double)sampling->presence_penalty + (double)sampling->frequency_penalty * in_output;
    for (size_t i = 0; i < sampling->bias_count; i++)
      if (sampling->bias[i].token == token) logit += (double)sampling->bias[i].bias;
    logits[token] = logit;
  }
}

/* The distribution to draw from; false where a filter's border is too close to tell in single precision. */
static bool expected_distribution(const struct sample_case *sample, double *probabilities) {
  const struct sampling *sampling = &sample->sampling;
  double logits[VOCABULARY], weights[VOCABULARY], total = 0, sum = 0, kept_total = 0;
  uint32_t order[VOCABULARY];
  expected_logits(sample, logits);
  for (uint32_t i = 0; i < VOCABULARY; i++) {
    uint32_t place = i;
    for (; place > 0 && logits[order[place - 1]] < logits[i]; place--) order[place] = order[place - 1];
    order[place] = i;
    probabilities[i] = 0;
  }
  uint32_t limit = sampling->top_k > 0 && sampling->top_k < VOCABULARY ? sampling->top_k : VOCABULARY, kept = 0;
  if (limit < VOCABULARY && logits[order[limit - 1]] - logits[order[limit]] < 1e-4) return false;
  for (uint32_t i = 0; i < limit; i++) {
    weights[i] = exp((logits[order[i]] - logits[order[0]]) / (double)sampling->temperature);
    total += weights[i];
  }
  for (; kept < limit; kept++) {
    double reached = sum / total - (double)sampling->top_p, ratio = weights[kept] - (double)sampling->min_p;
    if (kept > 0 && (fabs(reached) < 1e-4 || fabs(ratio) < 1e-4)) return false;
    if (kept > 0 && (reached >= 0 || ratio < 0)) break;
    sum += weights[kept];
  }
  for (uint32_t i = 0; i < kept; i++) kept_total += weights[i];
  for (uint32_t i = 0; i < kept; i++) probabilities[order[i]] = weights[i] / kept_total;
  return true;
}

static struct sample_case random_case(uint64_t *state) {
  struct sample_case sample = {.sampling = plain};
  struct sampling *sampling = &sample.sampling;
  for (int i = 0; i < VOCABULARY; i++) sample.logits[i] = (float)random_between(state, -4, 4);
  sample.token_count = 1 + random_bits(state) % HISTORY;
  sample.prompt_count = 1 + random_bits(state) % sample.token_count;
  for (size_t i = 0; i < sample.token_count; i++) sample.tokens[i] = (uint32_t)(random_bits(state) % VOCABULARY);
  uint64_t choice = random_bits(state);
  sampling->temperature = (float)random_between(state, 0.3, 2);
  if (choice & 1) sampling->top_k = 1 + (uint32_t)(random_bits(state) % (VOCABULARY + 5));
  if (choice & 2) sampling->top_p = (float)random_between(state, 0.05, 1);
  if (choice & 4) sampling->min_p = (float)random_between(state, 0, 0.4);
  if (choice & 8) sampling->repetition_penalty = (float)random_between(state, 0.7, 2);
  if (choice & 16) sampling->presence_penalty = (float)random_between(state, -2, 2);
  if (choice & 32) sampling->frequency_penalty = (float)random_between(state, -1, 1);
  if (choice & 64) sampling->bias_count = 3;
  for (int i = 0; i < 3; i++)
    sample.bias[i] =
        (struct logit_bias){(uint32_t)(random_bits(state) % VOCABULARY), (float)random_between(state, -5, 5)};
  return sample;
}

/* Every draw is of a token that may come, and each comes as often as its probability says: within six standard
 * deviations, which chance exceeds once in 10⁸ times. */
static void test_draws_follow_the_distribution(void **state) {
  uint64_t random = 1;
  int compared = 0;
  for (int number = 0; number < 400; number++) {
    struct sample_case sample = random_case(&random);
    sample.sampling.bias = sample.bias;
    double probabilities[VOCABULARY];
    if (!expected_distribution(&sample, probabilities)) continue;
    compared++;
    enum { DRAWS = 1000 };
    uint32_t counts[VOCABULARY] = {0};
    for (uint64_t seed = 0; seed < DRAWS; seed++) counts[draw(*state, &sample, seed * 977 + (uint64_t)number).token]++;
    for (int i = 0; i < VOCABULARY; i++) {
      double mean = DRAWS * probabilities[i], deviation = sqrt(mean * (1 - probabilities[i]));
      if (probabilities[i] == 0 && counts[i] > 0) fail_msg("case %d: token %d must not come", number, i);
      if (fabs(counts[i] - mean) > 6 * deviation + 3)
        fail_msg("case %d: token %d came %u times, expected %.1f", number, i, counts[i], mean);
    }
  }
  assert_true(compared > 300);
}

/* The positions of one seed, as a request has them. */
static void test_positions_of_a_seed_follow_the_distribution(void **state) {
  uint64_t random = 2;
  enum { DRAWS = 20000, TOKENS = 8 };
  struct sample_case sample = random_case(&random);
  static uint32_t history[DRAWS + 1];
  uint32_t counts[TOKENS] = {0}, repeats = 0, last = TOKENS;
  for (int i = 0; i < VOCABULARY; i++) sample.logits[i] = i < TOKENS ? 0 : -INFINITY;
  for (uint32_t position = 1; position <= DRAWS; position++) {
    float logits[VOCABULARY];
    struct sampled sampled;
    memcpy(logits, sample.logits, sizeof logits);
    sampler_draw(*state, &(struct sampling){.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 42}, history,
                 1, position, logits, &sampled);
    assert_true(sampled.token < TOKENS);
    counts[sampled.token]++;
    repeats += sampled.token == last;
    last = sampled.token;
  }
  double mean = (double)DRAWS / TOKENS, bound = 6 * sqrt(mean * (1 - 1.0 / TOKENS));
  for (int i = 0; i < TOKENS; i++) assert_true(fabs(counts[i] - mean) < bound);
  assert_true(fabs(repeats - mean) < bound);
}

static void test_greedy_is_the_best_after_penalties_and_bias(void **state) {
  uint64_t random = 3;
  int compared = 0, moved = 0;
  for (int number = 0; number < 3000; number++) {
    struct sample_case sample = random_case(&random);
    sample.sampling.bias = sample.bias;
    sample.sampling.temperature = 0;
    double logits[VOCABULARY];
    expected_logits(&sample, logits);
    uint32_t best = 0, raw = 0;
    for (uint32_t i = 1; i < VOCABULARY; i++) {
      if (logits[i] > logits[best]) best = i;
      if (sample.logits[i] > sample.logits[raw]) raw = i;
    }
    bool close = false;
    for (uint32_t i = 0; i < VOCABULARY; i++) close |= i != best && logits[best] - logits[i] < 1e-4;
    if (close) continue;
    compared++;
    moved += best != raw;
    assert_int_equal(draw(*state, &sample, 5).token, best);
  }
  assert_true(compared > 2500 && moved > 500);
}

static void test_ties_go_to_the_lower_id(void **state) {
  struct sample_case sample = {.sampling = plain, .token_count = 1, .prompt_count = 1};
  sample.logits[7] = sample.logits[20] = sample.logits[31] = 2;
  sample.sampling.top_logprobs = 5;
  sample.sampling.temperature = 0;
  struct sampled sampled = draw(*state, &sample, 1);
  const uint32_t order[] = {7, 20, 31, 0, 1};
  assert_int_equal(sampled.token, 7);
  for (int i = 0; i < 5; i++) assert_int_equal(sampled.top[i].token, order[i]);
  sample.sampling.temperature = 1;
  sample.sampling.top_k = 2;
  for (uint64_t seed = 0; seed < 200; seed++) {
    uint32_t token = draw(*state, &sample, seed).token;
    assert_true(token == 7 || token == 20);
  }
}

/* What leaves one token only is greedy; a temperature that is all but 0 too. */
static void test_narrow_filters_are_greedy(void **state) {
  uint64_t random = 4;
  for (int number = 0; number < 200; number++) {
    struct sample_case sample = random_case(&random);
    struct sampling narrow[] = {plain, plain, plain, plain, plain};
    narrow[0].temperature = 0;
    narrow[1].top_k = 1;
    narrow[2].top_p = 1e-6f;
    narrow[3].min_p = 1;
    narrow[4].temperature = 1e-40f;
    sample.sampling = narrow[0];
    uint32_t greedy = draw(*state, &sample, 0).token;
    for (size_t i = 1; i < sizeof narrow / sizeof *narrow; i++) {
      sample.sampling = narrow[i];
      assert_int_equal(draw(*state, &sample, (uint64_t)number).token, greedy);
    }
  }
}

static void test_tokens_that_are_not_there_change_nothing(void **state) {
  uint64_t random = 5;
  struct sample_case sample = random_case(&random), odd;
  sample.sampling = plain;
  sample.sampling.repetition_penalty = 1.5f;
  sample.sampling.presence_penalty = 0.5f;
  sample.token_count = sample.prompt_count = 2;
  odd = sample;
  odd.token_count = 4;
  odd.tokens[2] = VOCABULARY;
  odd.tokens[3] = UINT32_MAX;
  odd.bias[0] = (struct logit_bias){VOCABULARY, 100};
  odd.sampling.bias = odd.bias;
  odd.sampling.bias_count = 1;
  sample.sampling.temperature = odd.sampling.temperature = 0;
  assert_int_equal(draw(*state, &odd, 1).token, draw(*state, &sample, 1).token);
}

static void test_logits_that_are_no_numbers(void **state) {
  struct sample_case sample = {.sampling = plain, .token_count = 1, .prompt_count = 1};
  for (int i = 0; i < VOCABULARY; i++) sample.logits[i] = i % 2 ? NAN : -INFINITY;
  sample.logits[8] = sample.logits[9] = 1;
  sample.sampling.top_logprobs = 3;
  for (uint64_t seed = 0; seed < 500; seed++) {
    struct sampled sampled = draw(*state, &sample, seed);
    assert_true(sampled.token == 8 || sampled.token == 9);
    assert_true(fabs((double)sampled.logprob - log(0.5)) < 1e-5);
    assert_int_equal(sampled.top[0].token, 8);
    assert_int_equal(sampled.top[1].token, 9);
    assert_true(sampled.top[2].logprob < -1e30f);
  }
  sample.logits[8] = sample.logits[9] = NAN;
  for (uint64_t seed = 0; seed < 20; seed++) draw(*state, &sample, seed);
  sample.sampling.temperature = 0;
  draw(*state, &sample, 0);

  for (int i = 0; i < VOCABULARY; i++) sample.logits[i] = (float)i;
  sample.logits[11] = INFINITY;
  for (uint64_t seed = 0; seed < 100; seed++) {
    sample.sampling.temperature = (float)(seed % 3);
    sample.sampling.repetition_penalty = seed % 2 ? 0.5f : 1.0f;
    sample.tokens[0] = 11;
    struct sampled sampled = draw(*state, &sample, seed);
    assert_int_equal(sampled.token, 11);
    assert_true(fabsf(sampled.logprob) < 1e-5f);
  }
}

static void test_logprobs_are_the_models_own(void **state) {
  uint64_t random = 6;
  for (int number = 0; number < 300; number++) {
    struct sample_case sample = random_case(&random);
    sample.sampling.bias = sample.bias;
    sample.sampling.top_logprobs = number % (SAMPLING_MAX_TOP_LOGPROBS + 1);
    struct sampled sampled = draw(*state, &sample, (uint64_t)number);
    double highest = -INFINITY, total = 0, sum = 0;
    for (int i = 0; i < VOCABULARY; i++) highest = fmax(highest, (double)sample.logits[i]);
    for (int i = 0; i < VOCABULARY; i++) total += exp((double)sample.logits[i] - highest);
    double normaliser = highest + log(total);
    assert_true(fabs((double)sampled.logprob - ((double)sample.logits[sampled.token] - normaliser)) < 2e-6);
    assert_int_equal(sampled.top_count, sample.sampling.top_logprobs);
    for (uint32_t i = 0; i < sampled.top_count; i++) {
      uint32_t better = 0, token = sampled.top[i].token;
      for (uint32_t j = 0; j < VOCABULARY; j++)
        better += sample.logits[j] > sample.logits[token] || (sample.logits[j] == sample.logits[token] && j < token);
      assert_int_equal(better, i);
      assert_true(fabs((double)sampled.top[i].logprob - ((double)sample.logits[token] - normaliser)) < 2e-6);
      sum += exp((double)sampled.top[i].logprob);
    }
    assert_true(sum <= 1 + 1e-6);
    sample.sampling.top_logprobs = -1;
    assert_int_equal(draw(*state, &sample, (uint64_t)number).token, sampled.token);
  }
}

/* With a vocabulary no larger than the number of alternatives they are all of it. */
static void test_logprobs_of_a_whole_vocabulary(void **state) {
  (void)state;
  struct sampler *sampler;
  assert_int_equal(sampler_create(&sampler, 5, NULL), 0);
  float logits[] = {1, -3, 0.5f, 9, 2};
  struct sampling sampling = plain;
  struct sampled sampled;
  uint32_t token = 0;
  double sum = 0;
  sampling.top_logprobs = SAMPLING_MAX_TOP_LOGPROBS;
  sampler_draw(sampler, &sampling, &token, 1, 1, logits, &sampled);
  assert_int_equal(sampled.top_count, 5);
  for (int i = 0; i < 5; i++) sum += exp((double)sampled.top[i].logprob);
  assert_true(fabs(sum - 1) < 1e-6);
  sampler_destroy(sampler);
}

static void test_draws_depend_on_seed_and_position_alone(void **state) {
  uint64_t random = 7;
  struct sampler *other;
  struct sample_case sample = random_case(&random);
  uint32_t first[300], changed = 0, moved = 0;
  assert_int_equal(sampler_create(&other, VOCABULARY, NULL), 0);
  sample.sampling = plain;
  for (uint64_t seed = 0; seed < 300; seed++) first[seed] = draw(*state, &sample, seed).token;
  for (uint64_t seed = 300; seed-- > 0;) {
    struct sample_case between = random_case(&random), later = sample;
    between.sampling.bias = between.bias;
    draw(*state, &between, seed);
    assert_int_equal(draw(*state, &sample, seed).token, first[seed]);
    assert_int_equal(draw(other, &sample, seed).token, first[seed]);
    changed += draw(other, &sample, seed + 1000).token != first[seed];
    later.token_count = sample.token_count % HISTORY + 1;
    moved += draw(other, &later, seed).token != first[seed];
  }
  assert_true(changed > 150 && moved > 150);
  sampler_destroy(other);
}

/* Whatever penalties and biases say, what is drawn is allowed, and its log-probability is the model's own. */
static void test_only_allowed_tokens_are_drawn(void **state) {
  uint64_t random = 11;
  uint32_t changed = 0;
  for (int round = 0; round < 400; round++) {
    struct sample_case sample = random_case(&random), alone;
    uint64_t allowed[(VOCABULARY + 63) / 64] = {0};
    for (uint32_t i = 0; i < VOCABULARY; i++)
      if (random_bits(&random) % 8 == 0 || i == VOCABULARY / 2) allowed[i / 64] |= (uint64_t)1 << i % 64;
    sample.sampling.bias = sample.bias;
    sample.sampling.top_logprobs = 1;
    for (size_t i = 0; i < sample.sampling.bias_count; i++) sample.bias[i].bias = 1000;
    alone = sample;
    alone.sampling = plain;
    alone.sampling.top_logprobs = 1;
    struct sampled free = draw(*state, &sample, 1);
    sample.sampling.allowed = allowed;
    struct sampled sampled = draw(*state, &sample, 1);
    assert_true(allowed[sampled.token / 64] >> sampled.token % 64 & 1);
    changed += sampled.token != free.token;
    struct logit_bias only = {sampled.token, 1e9f};
    alone.sampling.bias = &only;
    alone.sampling.bias_count = 1;
    struct sampled forced = draw(*state, &alone, 1);
    assert_int_equal(forced.token, sampled.token);
    assert_memory_equal(&forced.logprob, &sampled.logprob, sizeof forced.logprob);
    assert_int_equal(forced.top[0].token, sampled.top[0].token);
  }
  assert_true(changed > 100);
}

/* The model thinks everything impossible that is allowed. */
static void test_an_impossible_token_that_is_allowed(void **state) {
  (void)state;
  struct sampler *sampler;
  assert_int_equal(sampler_create(&sampler, 5, NULL), 0);
  float logits[] = {1, -INFINITY, 0.5f, NAN, 2};
  uint64_t allowed = 1 << 3 | 1 << 1;
  struct sampling sampling = plain;
  struct sampled sampled;
  uint32_t token = 0;
  sampling.allowed = &allowed;
  sampler_draw(sampler, &sampling, &token, 1, 1, logits, &sampled);
  assert_int_equal(sampled.token, 1);
  sampler_destroy(sampler);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_draws_follow_the_distribution),
      cmocka_unit_test(test_positions_of_a_seed_follow_the_distribution),
      cmocka_unit_test(test_greedy_is_the_best_after_penalties_and_bias),
      cmocka_unit_test(test_ties_go_to_the_lower_id),
      cmocka_unit_test(test_narrow_filters_are_greedy),
      cmocka_unit_test(test_tokens_that_are_not_there_change_nothing),
      cmocka_unit_test(test_logits_that_are_no_numbers),
      cmocka_unit_test(test_logprobs_are_the_models_own),
      cmocka_unit_test(test_logprobs_of_a_whole_vocabulary),
      cmocka_unit_test(test_draws_depend_on_seed_and_position_alone),
      cmocka_unit_test(test_only_allowed_tokens_are_drawn),
      cmocka_unit_test(test_an_impossible_token_that_is_allowed),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}

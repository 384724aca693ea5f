/* A double of src/sched/sampler.c that draws what a script says (scripted/script.h; its path is in KAIJU_SCRIPT) in
 * place of what the model finds probable.
 *
 * The product's sampler still draws, with the token to be said biased so far that it wins. So log-probabilities are
 * the model's own, and a token that a constraint of the request forbids is not said.
 */
#include "sched/sampler.h"

#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "scripted/model_sampler.h"
#include "scripted/script.h"

struct sampler {
  struct model_sampler *model;
  struct script *script;
};

int sampler_create(struct sampler **result, uint32_t vocabulary, struct kj_error *error) {
  *result = NULL;
  const char *path = getenv("KAIJU_SCRIPT");
  if (!path) return kj_fail(error, KJ_INVALID, "KAIJU_SCRIPT must name a script");
  struct sampler *sampler = calloc(1, sizeof *sampler);
  if (!sampler) return kj_fail_memory(error, "the sampler");
  int code = script_load(&sampler->script, path, error);
  if (!code) code = model_sampler_create(&sampler->model, vocabulary, error);
  if (code) {
    sampler_destroy(sampler);
    return code;
  }
  *result = sampler;
  return 0;
}

void sampler_destroy(struct sampler *sampler) {
  if (!sampler) return;
  model_sampler_destroy(sampler->model);
  script_free(sampler->script);
  free(sampler);
}

void sampler_draw(struct sampler *sampler, const struct sampling *sampling, const uint32_t *tokens, size_t prompt_count,
                  size_t token_count, float *logits, struct sampled *result) {
  struct script_reply reply;
  struct kj_error error;
  size_t said = token_count - prompt_count;
  if (script_reply(sampler->script, tokens, prompt_count, said == 0, &reply, &error)) {
    log_error("%s", error.message);
    reply.count = 0;
  }
  struct sampling obedient = *sampling;
  struct logit_bias bias = {.bias = 1e30f};
  if (reply.count > 0) {
    bias.token = reply.tokens[said < reply.count ? said : reply.count - 1];
    obedient.bias = &bias;
    obedient.bias_count = 1;
    obedient.temperature = 0;
    obedient.repetition_penalty = 1;
    obedient.presence_penalty = obedient.frequency_penalty = 0;
    nanosleep(&(struct timespec){reply.delay_ms / 1000, (long)(reply.delay_ms % 1000) * 1000000}, NULL);
  }
  model_sampler_draw(sampler->model, &obedient, tokens, prompt_count, token_count, logits, result);
}

void sampler_score(struct sampler *sampler, const struct sampling *sampling, uint32_t token, float *logits,
                   struct sampled *result) {
  model_sampler_score(sampler->model, sampling, token, logits, result);
}

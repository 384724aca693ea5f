/* The product's sampler (src/sched/sampler.h) under other names, so that the double can stand in its place and still
 * use it: tests/CMakeLists.txt compiles src/sched/sampler.c once more with these names.
 */
#ifndef KAIJU_TESTS_MODEL_SAMPLER_H
#define KAIJU_TESTS_MODEL_SAMPLER_H

#include "sched/sampler.h"

struct model_sampler;
int model_sampler_create(struct model_sampler **sampler, uint32_t vocabulary, struct kj_error *error);
void model_sampler_destroy(struct model_sampler *sampler);
void model_sampler_draw(struct model_sampler *sampler, const struct sampling *sampling, const uint32_t *tokens,
                        size_t prompt_count, size_t token_count, float *logits, struct sampled *result);
void model_sampler_score(struct model_sampler *sampler, const struct sampling *sampling, uint32_t token, float *logits,
                         struct sampled *result);

#endif

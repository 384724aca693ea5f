/* The config.json and generation_config.json that a synthetic checkpoint gets.
 *
 * Named shapes are the published configs of Qwen's models, quantized as mlx-community publishes them: 4 bits in groups
 * of 64, the routers at 8 bits through per-module overrides.
 *
 * Internal to model/synth.c.
 */
#ifndef KAIJU_MODEL_SYNTH_CONFIG_H
#define KAIJU_MODEL_SYNTH_CONFIG_H

#include "base/error.h"
#include "model/config.h"
#include "model/synth.h"

struct synth_config {
  char *config_json, *generation_json; /* malloc'd texts for the two files */
  struct config *config;               /* what they say, validated */
};

/* From the request's shape or config file, with its layers, bits and group applied. */
int synth_config_make(struct synth_config *result, const struct synth_request *request, struct kj_error *error);
void synth_config_free(struct synth_config *config);

#endif

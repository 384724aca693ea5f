/* Synthetic checkpoints in MLX's format: the exact shapes of a published model, with seeded random weights of sensible
 * scale, for benchmarks and tests; or sparse files (headers and holes) for planning a model of hundreds of GB.
 */
#ifndef KAIJU_MODEL_SYNTH_H
#define KAIJU_MODEL_SYNTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct synth_request {
  const char *shape;       /* "qwen3-coder-480b", "qwen3-coder-30b", "qwen3-235b", or NULL */
  const char *config_path; /* instead of a shape: a config.json */
  const char *directory;   /* is created; an existing config.json in it is an error */
  uint32_t layers;         /* 0: as the shape says */
  uint64_t seed;
  uint32_t bits, group; /* 0: as the shape or its config.json says */
  bool sparse;
  const char *tokenizer; /* a directory whose tokenizer files are copied, or NULL */
  void (*progress)(void *context, uint64_t done, uint64_t total); /* bytes; may be NULL */
  void *context;
};

int synth_write(const struct synth_request *request, struct kj_error *error);

#endif

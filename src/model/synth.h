/* Synthetic checkpoints in MLX's format: the exact shapes of a published model, with seeded random weights of sensible
 * scale, for benchmarks and tests; or sparse files (headers and holes) for planning a model of hundreds of GB.
 *
 * What is written: config.json, generation_config.json, model.safetensors.index.json and shards of up to 5 GiB, with
 * stacked experts and bf16 scales, biases, norms and plain weights. The same request gives the same files, byte for
 * byte; model/synth_layout.h says how the numbers are drawn. config.json is written last, so that a directory that has
 * one is complete. Memory is bounded whatever the model's size.
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
  uint32_t bits, group; /* 0: as the shape or its config.json says (which may be: not quantized) */
  uint64_t shard_bytes; /* 0: 5 GiB, as MLX has it */
  bool sparse;
  const char *tokenizer; /* a directory whose tokenizer files are copied, or NULL */
  void (*progress)(void *context, uint64_t done, uint64_t total); /* bytes; may be NULL */
  void *context;
};

/* KJ_INVALID for a request that makes no sense and where a file that it would write exists. After an error the files
 * and the directory that it made are removed again, and nothing else. */
int synth_write(const struct synth_request *request, struct kj_error *error);

#endif

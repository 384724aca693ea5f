/* Which part of a Qwen3 model a tensor belongs to, from its name alone. */
#ifndef KAIJU_MODEL_TENSOR_ROLE_H
#define KAIJU_MODEL_TENSOR_ROLE_H

#include <stdint.h>

enum tensor_part {
  TENSOR_LAYER,
  TENSOR_EMBEDDING,
  TENSOR_NORM,
  TENSOR_HEAD,
  TENSOR_UNUSED, /* can be recomputed from the config: rotary_emb.inv_freq */
  TENSOR_UNKNOWN /* would be ignored: the checkpoint is not what Kaiju implements */
};

struct tensor_role {
  enum tensor_part part;
  uint32_t layer; /* TENSOR_LAYER only; not compared with the config's number of layers */
};

struct tensor_role tensor_role(const char *name);

#endif

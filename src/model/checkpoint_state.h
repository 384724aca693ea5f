/* What a checkpoint is made of, for model/checkpoint.c, weights.c, sizes.c and identity.c alone. */
#ifndef KAIJU_MODEL_CHECKPOINT_STATE_H
#define KAIJU_MODEL_CHECKPOINT_STATE_H

#include "model/checkpoint.h"
#include "model/safetensors.h"
#include "model/tensor_role.h"

struct shard {
  char *name;               /* within the directory */
  struct safetensors *file; /* NULL until a tensor of it is asked for */
  size_t tensor_count;      /* as the index has it */
};

struct index_entry {
  const char *name; /* of a tensor */
  uint32_t shard;
  struct tensor_role role;
  bool used; /* a matrix was made of it; by which the ones that no matrix uses are found */
};

struct checkpoint {
  char *directory;
  struct config *config;
  struct shard *shards; /* sorted by name */
  size_t shard_count;
  struct index_entry *entries; /* sorted by name */
  size_t entry_count;
  char *names; /* of the entries, one after the other */
};

/* NULL where the checkpoint has no such tensor. */
struct index_entry *checkpoint_entry(const struct checkpoint *checkpoint, const char *name);
/* Opens a shard (reads its header) if it is not yet open; `why` is the tensor that asks for it. KJ_NOT_FOUND only where
 * the file is not there. */
int checkpoint_open_shard(struct checkpoint *checkpoint, uint32_t shard, const char *why, struct kj_error *error);

/* As checkpoint_layer and checkpoint_head, but without mapping: the matrices' pointers are NULL. Where a shard is not
 * on this machine, *estimated becomes true and its matrices are what config.json says, with numbers of 16 bits. */
int checkpoint_layer_shapes(struct checkpoint *checkpoint, uint32_t layer, struct layer_weights *weights,
                            bool *estimated, struct kj_error *error);
int checkpoint_head_shapes(struct checkpoint *checkpoint, struct head_weights *weights, bool *estimated,
                           struct kj_error *error);

#endif

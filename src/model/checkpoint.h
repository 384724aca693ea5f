/* A checkpoint directory: config.json, safetensors shards and their index, as weights by role.
 *
 * `checkpoint_open` reads config.json, the index (or the single model.safetensors) and nothing else. A node then asks
 * for the layers it holds: only the shards that have their tensors are opened and mapped, each header is validated
 * whole, and only the pages of those tensors are ever touched. All pointers stay valid until checkpoint_close.
 *
 * Both layouts of experts are read: MLX's stacked `mlp.switch_mlp.gate_proj` [experts, out, in] and one tensor an
 * expert (`mlp.experts.7.gate_proj`). A module that has `.scales` is quantized as config.json says, one that has none
 * is plain. A tensor that would be left over (a bias, a vision tower, a layer too many) is refused, never ignored, and
 * so is a shard whose header does not name the tensors that the index places there. Errors name the file and the
 * tensor; a shard that is not on this machine is KJ_NOT_FOUND. One thread at a time.
 */
#ifndef KAIJU_MODEL_CHECKPOINT_H
#define KAIJU_MODEL_CHECKPOINT_H

#include "base/error.h"
#include "compute/matrix.h"
#include "model/config.h"

struct checkpoint;

/* Weights of one transformer layer. gate/up/down: one matrix in a dense layer, `experts` of them in a sparse one. */
struct layer_weights {
  bool sparse;
  struct matrix input_norm, post_attention_norm, query_norm, key_norm; /* plain, [1, columns] */
  struct matrix query, key, value, output;
  struct matrix router; /* sparse layers only */
  struct matrix *gate, *up, *down;
};

/* Weights that the lead holds. With tied embeddings head is the embedding. */
struct head_weights {
  struct matrix embedding, norm, head;
};

int checkpoint_open(struct checkpoint **checkpoint, const char *directory, struct kj_error *error);
void checkpoint_close(struct checkpoint *checkpoint);

const struct config *checkpoint_config(const struct checkpoint *checkpoint);
const char *checkpoint_directory(const struct checkpoint *checkpoint);

/* Maps what is needed and fills *weights with matrices whose shapes agree with the config.
 * `layer_weights_free` releases the arrays of experts; the mapping stays. */
int checkpoint_layer(struct checkpoint *checkpoint, uint32_t layer, struct layer_weights *weights,
                     struct kj_error *error);
void layer_weights_free(struct layer_weights *weights);
/* Maps whole pages of one shard again, over the memory that weights there were moved to (base/huge_pages.h), which is
 * given back by that. They keep their addresses. After an error they stay where they are. */
int checkpoint_map_again(struct checkpoint *checkpoint, void *begin, size_t bytes, struct kj_error *error);
int checkpoint_head(struct checkpoint *checkpoint, struct head_weights *weights, struct kj_error *error);

/* Sizes for the planner, from headers alone (read, not mapped; no weight page is touched). A node needs only its own
 * shards, yet may have to plan: the sizes of what lies in the others follow from config.json, with `estimated` set.
 * They are exact where scales and plain tensors are 16 bits wide. */
struct checkpoint_sizes {
  uint32_t layers;
  uint64_t *layer_bytes;                            /* [layers] bytes of all tensors of a layer */
  uint64_t *expert_bytes;                           /* [layers] of these, the stacked or separate experts' */
  uint64_t embedding_bytes, norm_bytes, head_bytes; /* head_bytes is 0 with tied embeddings */
  uint64_t total_bytes;
  bool estimated;
};
int checkpoint_sizes(struct checkpoint *checkpoint, struct checkpoint_sizes *sizes, struct kj_error *error);
void checkpoint_sizes_free(struct checkpoint_sizes *sizes);

/* The shard files (names within the directory) that hold layers first…first+count-1, plus, if `head`, the lead's
 * tensors. Free with checkpoint_names_free. */
int checkpoint_shards(struct checkpoint *checkpoint, uint32_t first, uint32_t count, bool head, char ***names,
                      size_t *name_count, struct kj_error *error);
void checkpoint_names_free(char **names, size_t count);

/* Identity, to tell whether two machines hold the same checkpoint: the first 8 bytes of BLAKE2b-256 over the
 * computation's fields of config.json (whatever their order and spelling) and over the index; and per shard over its
 * header and file size. A machine may have only some shards: those that are not in the directory are left out, and
 * shards are compared by name where both sides have them. */
enum {
  CHECKPOINT_HASH = 8 /* bytes */
};
struct shard_identity {
  char *name;
  uint8_t hash[CHECKPOINT_HASH];
};
struct checkpoint_identity {
  uint8_t config[CHECKPOINT_HASH];
  struct shard_identity *shards; /* sorted by name; those of the given layers */
  size_t shard_count;
};
int checkpoint_identity(struct checkpoint *checkpoint, uint32_t first, uint32_t count, bool head,
                        struct checkpoint_identity *identity, struct kj_error *error);
void checkpoint_identity_free(struct checkpoint_identity *identity);

#endif

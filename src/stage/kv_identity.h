/* What a stage's keys and values depend on besides the tokens, as one short hash: KV blocks that outlive the process
 * (stage/kv_store.h) are used only by a stage with the same identity.
 *
 * It covers Kaiju's version, the engine's arithmetic, the range of layers, the shape of a KV block, the checkpoint's
 * configuration and the identities of the stage's shards (model/checkpoint.h), and, because these do not see a
 * checkpoint of the same shape with other numbers, a sample of the weights: the norms of each layer whole and the first
 * row of each of its matrices. The layers before the stage's own, on which its blocks depend as much, are in the
 * blocks' keys (sched/disk_index.h).
 */
#ifndef KAIJU_STAGE_KV_IDENTITY_H
#define KAIJU_STAGE_KV_IDENTITY_H

#include "compute/backend.h"
#include "model/checkpoint.h"
#include "stage/kv_file.h"

/* Reads a little of each layer's weights: cheap once they are warm. `head`: also samples the embedding, which the lead
 * holds. */
int kv_identity(uint8_t identity[KV_FILE_IDENTITY], struct checkpoint *checkpoint, const struct backend *backend,
                uint32_t first_layer, uint32_t layer_count, bool head, struct kj_error *error);

#endif

/* What nodes say to each other: the payloads of frames, and their encoding (little-endian, bounded; docs/protocol.md).
 *
 * Decoding trusts nothing: every count is checked against its limit and against the bytes that are there, every
 * string is NUL-terminated after a length, trailing bytes are an error. Decoded messages with pointers own their memory
 * until message_free_…; decoders never read past the payload and leave nothing behind on an error.
 *
 *   both → other    INTRODUCE  once, first: who I am
 *   lead → node     ASSIGN     take these layers; starts an epoch
 *   node → lead     PROGRESS   layers warmed so far
 *   node → lead     READY      layers warm, neighbours connected
 *   → downstream    WORK       a micro-batch with its hidden states; the last node sends RESULT to the lead instead
 *   node → lead     RESULT     hidden states of the rows that the lead wants
 *   node → lead     FAIL       the epoch cannot go on, or the assignment cannot be taken; with code and reason
 *   lead → node     STOP       the cluster could not be formed: end, with the reason
 *   → downstream    BLOCKS     KV blocks to keep on disk, to take from it, to forget; in order with WORK
 *   node → lead     INVENTORY  KV blocks that have come to lie on the node's disk
 */
#ifndef KAIJU_LINK_MESSAGE_H
#define KAIJU_LINK_MESSAGE_H

#include "base/buffer.h"
#include "base/error.h"
#include "compute/batch.h"
#include "link/block_key.h"

enum message_type {
  MESSAGE_INTRODUCE = 1,
  MESSAGE_ASSIGN,
  MESSAGE_PROGRESS,
  MESSAGE_READY,
  MESSAGE_WORK,
  MESSAGE_RESULT,
  MESSAGE_FAIL,
  MESSAGE_STOP,
  MESSAGE_BLOCKS,
  MESSAGE_INVENTORY
};

enum {
  MESSAGE_MAX_SHARDS = 4096,
  MESSAGE_MAX_SPANS = 4096,
  MESSAGE_MAX_BATCH_TOKENS = 65536,
  MESSAGE_MAX_HIDDEN = 65536,
  MESSAGE_MAX_BLOCKS = 1 << 20, /* block table entries of a micro-batch */
  MESSAGE_MAX_BLOCK_OPERATIONS = 256,
  MESSAGE_MAX_KEYS = 4096,           /* of an INVENTORY */
  MESSAGE_MAX_DISK_BLOCKS = 1 << 18, /* that a stage's disk can be said to hold */
  MESSAGE_IDENTITY = 16,
  MESSAGE_HASH = 8
};

enum message_role { ROLE_LEAD = 1, ROLE_NODE = 2, ROLE_UPSTREAM = 3 };

struct message_introduce {
  enum message_role role; /* UPSTREAM: the previous stage, for the session, epoch and stage below */
  uint64_t session;       /* a random number of the sender's process; UPSTREAM: the lead's */
  uint64_t epoch;
  uint32_t stage;   /* UPSTREAM: the sender's stage number */
  char version[32]; /* Kaiju's */
  char host[64];
  char engine[64];  /* backend description */
  uint64_t memory;  /* bytes this node may use */
  double bandwidth; /* bytes a second, measured; 0: unknown */
  uint32_t threads;
  uint8_t config_hash[MESSAGE_HASH]; /* of the checkpoint */
};

struct message_shard {
  char name[256];
  uint8_t hash[MESSAGE_HASH];
};

struct message_assign {
  uint64_t session, epoch;
  uint32_t stage, stage_count; /* lead is stage 0 */
  uint32_t first_layer, layer_count;
  uint32_t kv_blocks, max_batch_tokens;
  char next[128];       /* address of the next stage; "" for the last */
  uint32_t shard_count; /* identities of the shards that the lead has */
  struct message_shard *shards;
};

struct message_progress {
  uint32_t done, total; /* layers */
};

struct message_ready {
  uint64_t peak_memory; /* bytes resident at most so far */
  double seconds;       /* taken to warm up */
};

struct message_fail {
  uint32_t code; /* enum kj_code */
  char reason[1000];
};

/* WORK carries spans and hidden states [tokens, hidden]; RESULT only hidden states [outputs, hidden] of that number,
 * and how long each stage took. */
enum { MESSAGE_MAX_STAGES = 64 };
struct stage_timing {
  /* Seconds: in its layers; idle since it finished the micro-batch before; and, of the frames that it sent since its
   * last report, from being handed to the link to the end of their transmission. */
  float compute, wait, transfer;
};
struct message_work {
  uint64_t number; /* of the micro-batch within the epoch, rising by one */
  uint32_t hidden; /* size of a row */
  uint32_t timing_count;
  struct stage_timing timings[MESSAGE_MAX_STAGES]; /* of the stages so far */
  struct batch batch;                              /* pointers into memory owned by the message */
  float *rows; /* [batch.tokens, hidden], 4-byte aligned; once decoded, the message's own, to be computed in place */
  void *memory;
};
struct message_result {
  uint64_t number;
  uint32_t hidden, outputs;
  uint32_t timing_count;
  struct stage_timing timings[MESSAGE_MAX_STAGES];
  const float *rows; /* [outputs, hidden] owned by the message */
  void *memory;
};

/* What a stage is to do with a KV block on its disk (stage/kv_store.h). */
enum block_action {
  BLOCK_STORE = 1, /* keep a copy of pool block `block`, which holds these tokens */
  BLOCK_RESTORE,   /* fill pool block `block` from the copy */
  BLOCK_DROP       /* forget the copy */
};
struct block_operation {
  enum block_action action;
  struct block_key key; /* of the block; on the wire only in a DROP: otherwise it follows from the next ones */
  /* STORE and RESTORE: */
  struct block_key previous; /* of the block before it in the sequence */
  uint64_t prefix_hash;      /* of the sequence's tokens before the block (stage/ledger.h) */
  uint32_t block;
  uint32_t tokens[KV_BLOCK];
};
struct message_blocks {
  uint32_t count; /* 1…MESSAGE_MAX_BLOCK_OPERATIONS, done in order */
  struct block_operation *operations;
};

/* A part of what lies on the node's disk: all of it follows ASSIGN, in as many messages as it takes, at least one;
 * after READY, what was written since. A node that keeps nothing on disk sends none. */
struct message_inventory {
  uint32_t capacity; /* blocks that the disk may hold in all */
  uint32_t count;    /* 0…MESSAGE_MAX_KEYS */
  struct block_key *keys;
  uint8_t identity[MESSAGE_IDENTITY]; /* of the node's layers (stage/kv_identity.h) */
};

/* Largest payload of WORK for these limits; and of any message, for link_set_limit. */
size_t message_work_limit(uint32_t max_batch_tokens, uint32_t hidden, uint32_t kv_blocks);
size_t message_limit(uint32_t max_batch_tokens, uint32_t hidden, uint32_t kv_blocks);

/* Encoders append to `out`; the caller checks buffer_failed(out). WORK and RESULT encode all but the rows, which are
 * sent as a second part of the frame without a copy. */
void message_encode_introduce(struct buffer *out, const struct message_introduce *message);
void message_encode_assign(struct buffer *out, const struct message_assign *message);
void message_encode_progress(struct buffer *out, const struct message_progress *message);
void message_encode_ready(struct buffer *out, const struct message_ready *message);
void message_encode_fail(struct buffer *out, const struct message_fail *message); /* FAIL and STOP */
void message_encode_blocks(struct buffer *out, const struct message_blocks *message);
void message_encode_inventory(struct buffer *out, const struct message_inventory *message);
void message_encode_work(struct buffer *out, const struct message_work *message);
void message_encode_result(struct buffer *out, const struct message_result *message);

int message_decode_introduce(struct message_introduce *message, const uint8_t *bytes, size_t length,
                             struct kj_error *error);
int message_decode_assign(struct message_assign *message, const uint8_t *bytes, size_t length, struct kj_error *error);
void message_free_assign(struct message_assign *message);
int message_decode_progress(struct message_progress *message, const uint8_t *bytes, size_t length,
                            struct kj_error *error);
int message_decode_ready(struct message_ready *message, const uint8_t *bytes, size_t length, struct kj_error *error);
int message_decode_fail(struct message_fail *message, const uint8_t *bytes, size_t length, struct kj_error *error);
/* `kv_blocks` is the size of the receiver's pool. Fills in the keys. */
int message_decode_blocks(struct message_blocks *message, const uint8_t *bytes, size_t length, uint32_t kv_blocks,
                          struct kj_error *error);
void message_free_blocks(struct message_blocks *message);
int message_decode_inventory(struct message_inventory *message, const uint8_t *bytes, size_t length,
                             struct kj_error *error);
void message_free_inventory(struct message_inventory *message);
/* `hidden`, `kv_blocks` and `max_batch_tokens` are what the receiver expects: a message that says otherwise is invalid.
 */
int message_decode_work(struct message_work *message, const uint8_t *bytes, size_t length, uint32_t hidden,
                        uint32_t kv_blocks, uint32_t max_batch_tokens, struct kj_error *error);
void message_free_work(struct message_work *message);
int message_decode_result(struct message_result *message, const uint8_t *bytes, size_t length, uint32_t hidden,
                          uint32_t outputs, struct kj_error *error);
void message_free_result(struct message_result *message);

#endif

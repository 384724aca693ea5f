/* The file of a KV block on disk: format and verification, on bytes in memory.
 *
 *   offset size
 *   0      8    "KAIJUKV\n"
 *   8      4    u32 version of this format, 1
 *   12     4    u32 tokens of a block, KV_BLOCK
 *   16     4    u32 first layer
 *   20     4    u32 layer count
 *   24     8    u64 payload bytes
 *   32     16   identity of what computed the block (stage/kv_identity.h)
 *   48     16   key of the block before it (link/block_key.h)
 *   64     8    u64 token hash before the block (stage/ledger.h)
 *   72     256  u32 token ids [KV_BLOCK]
 *   328         payload: the block as kv_export gives it (compute/backend.h)
 *   …      32   BLAKE2b-256 of all bytes before
 *
 * Numbers are little-endian. Nothing in a file is believed before the checksum and every field of the header are what
 * the reader expects: a file that was torn, damaged or written by another model is an error, never a wrong answer.
 */
#ifndef KAIJU_STAGE_KV_FILE_H
#define KAIJU_STAGE_KV_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "link/block_key.h"

enum { KV_FILE_VERSION = 1, KV_FILE_HEADER = 328, KV_FILE_CHECKSUM = 32, KV_FILE_IDENTITY = 16 };

struct kv_file_header {
  uint32_t first_layer, layer_count;
  uint64_t payload_bytes;
  uint8_t identity[KV_FILE_IDENTITY];
  struct block_key previous;
  uint64_t prefix_hash;
  uint32_t tokens[KV_BLOCK];
};

/* Header, payload and checksum; 0 where that exceeds 64 bits. */
uint64_t kv_file_bytes(uint64_t payload_bytes);

void kv_file_encode_header(uint8_t bytes[KV_FILE_HEADER], const struct kv_file_header *header);
/* KJ_INVALID for what is no header of this version. */
int kv_file_decode_header(struct kv_file_header *header, const uint8_t *bytes, size_t length, struct kj_error *error);

/* Writes the checksum of the bytes before it into the last KV_FILE_CHECKSUM of the file. */
void kv_file_seal(uint8_t *file, size_t length);
/* 0 if the file is exactly a block with the expected header, undamaged; else KJ_INVALID saying what differs. */
int kv_file_check(const uint8_t *file, size_t length, const struct kv_file_header *expected, struct kj_error *error);

#endif

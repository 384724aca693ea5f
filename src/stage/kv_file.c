#include "stage/kv_file.h"

#include <sodium.h>
#include <string.h>

#include "base/checked.h"
#include "link/bytes.h"

static const char magic[8] = {'K', 'A', 'I', 'J', 'U', 'K', 'V', '\n'};

uint64_t kv_file_bytes(uint64_t payload_bytes) {
  uint64_t bytes;
  return checked_add(payload_bytes, KV_FILE_HEADER + KV_FILE_CHECKSUM, &bytes) ? bytes : 0;
}

void kv_file_encode_header(uint8_t bytes[KV_FILE_HEADER], const struct kv_file_header *header) {
  memcpy(bytes, magic, sizeof magic);
  bytes_put32(bytes + 8, KV_FILE_VERSION);
  bytes_put32(bytes + 12, KV_BLOCK);
  bytes_put32(bytes + 16, header->first_layer);
  bytes_put32(bytes + 20, header->layer_count);
  bytes_put64(bytes + 24, header->payload_bytes);
  memcpy(bytes + 32, header->identity, KV_FILE_IDENTITY);
  memcpy(bytes + 48, header->previous.bytes, BLOCK_KEY_BYTES);
  bytes_put64(bytes + 64, header->prefix_hash);
  for (size_t i = 0; i < KV_BLOCK; i++) bytes_put32(bytes + 72 + 4 * i, header->tokens[i]);
}

int kv_file_decode_header(struct kv_file_header *header, const uint8_t *bytes, size_t length, struct kj_error *error) {
  if (length < KV_FILE_HEADER) return kj_fail(error, KJ_INVALID, "it is cut short, at %zu bytes", length);
  if (memcmp(bytes, magic, sizeof magic) != 0) return kj_fail(error, KJ_INVALID, "it is no file of a KV block");
  if (bytes_get32(bytes + 8) != KV_FILE_VERSION)
    return kj_fail(error, KJ_INVALID, "its format has version %u, not %d", bytes_get32(bytes + 8), KV_FILE_VERSION);
  if (bytes_get32(bytes + 12) != KV_BLOCK)
    return kj_fail(error, KJ_INVALID, "its block has %u tokens, not %d", bytes_get32(bytes + 12), KV_BLOCK);
  header->first_layer = bytes_get32(bytes + 16);
  header->layer_count = bytes_get32(bytes + 20);
  header->payload_bytes = bytes_get64(bytes + 24);
  memcpy(header->identity, bytes + 32, KV_FILE_IDENTITY);
  memcpy(header->previous.bytes, bytes + 48, BLOCK_KEY_BYTES);
  header->prefix_hash = bytes_get64(bytes + 64);
  for (size_t i = 0; i < KV_BLOCK; i++) header->tokens[i] = bytes_get32(bytes + 72 + 4 * i);
  return 0;
}

void kv_file_seal(uint8_t *file, size_t length) {
  crypto_generichash(file + length - KV_FILE_CHECKSUM, KV_FILE_CHECKSUM, file, length - KV_FILE_CHECKSUM, NULL, 0);
}

static int differs(struct kj_error *error, const char *what) {
  return kj_fail(error, KJ_INVALID, "its %s is not the expected one", what);
}

int kv_file_check(const uint8_t *file, size_t length, const struct kv_file_header *expected, struct kj_error *error) {
  struct kv_file_header found;
  int code = kv_file_decode_header(&found, file, length, error);
  if (code) return code;
  if (found.first_layer != expected->first_layer || found.layer_count != expected->layer_count)
    return differs(error, "range of layers");
  if (memcmp(found.identity, expected->identity, KV_FILE_IDENTITY) != 0) return differs(error, "model");
  if (found.payload_bytes != expected->payload_bytes) return differs(error, "size of a block");
  if (length != kv_file_bytes(expected->payload_bytes))
    return kj_fail(error, KJ_INVALID, "it has %zu bytes instead of %llu", length,
                   (unsigned long long)kv_file_bytes(expected->payload_bytes));
  if (!block_key_equal(&found.previous, &expected->previous)) return differs(error, "preceding block");
  if (found.prefix_hash != expected->prefix_hash) return differs(error, "token hash");
  if (memcmp(found.tokens, expected->tokens, sizeof found.tokens) != 0) return differs(error, "text");
  uint8_t checksum[KV_FILE_CHECKSUM];
  crypto_generichash(checksum, sizeof checksum, file, length - KV_FILE_CHECKSUM, NULL, 0);
  if (memcmp(checksum, file + length - KV_FILE_CHECKSUM, sizeof checksum) != 0)
    return kj_fail(error, KJ_INVALID, "its checksum is wrong: it is damaged");
  return 0;
}

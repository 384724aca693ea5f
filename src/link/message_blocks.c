/* BLOCKS and INVENTORY: the messages about KV blocks on disk. */
#include <stdlib.h>
#include <string.h>

#include "link/message.h"
#include "link/reader.h"

static int invalid(struct kj_error *error, const char *message, const char *what, uint32_t value) {
  return kj_fail(error, KJ_INVALID, "%s message has an impossible %s: %u", message, what, value);
}

static void write_key(struct buffer *out, const struct block_key *key) {
  buffer_append(out, key->bytes, sizeof key->bytes);
}

static struct block_key read_key(struct reader *reader) {
  struct block_key key = block_key_start();
  const uint8_t *bytes = reader_take(reader, sizeof key.bytes);
  if (bytes) memcpy(key.bytes, bytes, sizeof key.bytes);
  return key;
}

void message_encode_blocks(struct buffer *out, const struct message_blocks *message) {
  writer_32(out, message->count);
  for (uint32_t i = 0; i < message->count; i++) {
    const struct block_operation *operation = &message->operations[i];
    writer_32(out, (uint32_t)operation->action);
    if (operation->action == BLOCK_DROP) {
      write_key(out, &operation->key);
      continue;
    }
    writer_32(out, operation->block);
    writer_64(out, operation->prefix_hash);
    write_key(out, &operation->previous);
    for (int k = 0; k < KV_BLOCK; k++) writer_32(out, operation->tokens[k]);
  }
}

static int read_operation(struct reader *reader, struct block_operation *operation, uint32_t kv_blocks,
                          struct kj_error *error) {
  uint32_t action = reader_32(reader);
  if (reader->failed) return reader_end(reader, "BLOCKS", error);
  if (action < BLOCK_STORE || action > BLOCK_DROP) return invalid(error, "a BLOCKS", "action", action);
  operation->action = (enum block_action)action;
  if (action == BLOCK_DROP) {
    operation->key = read_key(reader);
    return 0;
  }
  operation->block = reader_32(reader);
  operation->prefix_hash = reader_64(reader);
  operation->previous = read_key(reader);
  for (int i = 0; i < KV_BLOCK; i++) operation->tokens[i] = reader_32(reader);
  if (reader->failed) return reader_end(reader, "BLOCKS", error);
  if (operation->block >= kv_blocks) return invalid(error, "a BLOCKS", "KV block", operation->block);
  operation->key = block_key_extend(&operation->previous, operation->tokens);
  return 0;
}

int message_decode_blocks(struct message_blocks *message, const uint8_t *bytes, size_t length, uint32_t kv_blocks,
                          struct kj_error *error) {
  *message = (struct message_blocks){0};
  struct reader reader = {.bytes = bytes, .left = length};
  uint32_t count = reader_32(&reader);
  if (reader.failed) return reader_end(&reader, "BLOCKS", error);
  if (count == 0 || count > MESSAGE_MAX_BLOCK_OPERATIONS) return invalid(error, "a BLOCKS", "number of blocks", count);
  message->operations = calloc(count, sizeof *message->operations);
  if (!message->operations) return kj_fail_memory(error, "the operations on KV blocks");
  message->count = count;
  int code = 0;
  for (uint32_t i = 0; i < count && !code; i++)
    code = read_operation(&reader, &message->operations[i], kv_blocks, error);
  if (!code) code = reader_end(&reader, "BLOCKS", error);
  if (code) message_free_blocks(message);
  return code;
}

void message_free_blocks(struct message_blocks *message) {
  free(message->operations);
  *message = (struct message_blocks){0};
}

void message_encode_inventory(struct buffer *out, const struct message_inventory *message) {
  writer_32(out, message->capacity);
  writer_32(out, message->count);
  buffer_append(out, message->identity, sizeof message->identity);
  for (uint32_t i = 0; i < message->count; i++) write_key(out, &message->keys[i]);
}

int message_decode_inventory(struct message_inventory *message, const uint8_t *bytes, size_t length,
                             struct kj_error *error) {
  *message = (struct message_inventory){0};
  struct reader reader = {.bytes = bytes, .left = length};
  message->capacity = reader_32(&reader);
  uint32_t count = reader_32(&reader);
  const uint8_t *identity = reader_take(&reader, sizeof message->identity);
  if (reader.failed) return reader_end(&reader, "INVENTORY", error);
  memcpy(message->identity, identity, sizeof message->identity);
  if (message->capacity == 0 || message->capacity > MESSAGE_MAX_DISK_BLOCKS)
    return invalid(error, "an INVENTORY", "capacity", message->capacity);
  if (count > MESSAGE_MAX_KEYS || count > reader.left / BLOCK_KEY_BYTES)
    return invalid(error, "an INVENTORY", "number of keys", count);
  if (count) {
    message->keys = calloc(count, sizeof *message->keys);
    if (!message->keys) return kj_fail_memory(error, "the keys of KV blocks");
  }
  message->count = count;
  for (uint32_t i = 0; i < count; i++) message->keys[i] = read_key(&reader);
  int code = reader_end(&reader, "INVENTORY", error);
  if (code) message_free_inventory(message);
  return code;
}

void message_free_inventory(struct message_inventory *message) {
  free(message->keys);
  *message = (struct message_inventory){0};
}

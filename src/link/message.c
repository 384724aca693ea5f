#include "link/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "link/reader.h"

static int invalid(struct kj_error *error, const char *message, const char *field) {
  return kj_fail(error, KJ_INVALID, "a %s message has an impossible %s", message, field);
}

void message_encode_introduce(struct buffer *out, const struct message_introduce *message) {
  writer_32(out, (uint32_t)message->role);
  writer_64(out, message->session);
  writer_64(out, message->epoch);
  writer_32(out, message->stage);
  writer_text(out, message->version, sizeof message->version);
  writer_text(out, message->host, sizeof message->host);
  writer_text(out, message->engine, sizeof message->engine);
  writer_64(out, message->memory);
  writer_double(out, message->bandwidth);
  writer_32(out, message->threads);
  buffer_append(out, message->config_hash, MESSAGE_HASH);
}

int message_decode_introduce(struct message_introduce *message, const uint8_t *bytes, size_t length,
                             struct kj_error *error) {
  *message = (struct message_introduce){0};
  struct reader reader = {.bytes = bytes, .left = length};
  uint32_t role = reader_32(&reader);
  message->session = reader_64(&reader);
  message->epoch = reader_64(&reader);
  message->stage = reader_32(&reader);
  reader_text(&reader, message->version, sizeof message->version);
  reader_text(&reader, message->host, sizeof message->host);
  reader_text(&reader, message->engine, sizeof message->engine);
  message->memory = reader_64(&reader);
  message->bandwidth = reader_double(&reader);
  message->threads = reader_32(&reader);
  const uint8_t *hash = reader_take(&reader, MESSAGE_HASH);
  int code = reader_end(&reader, "INTRODUCE", error);
  if (code) return code;
  memcpy(message->config_hash, hash, MESSAGE_HASH);
  if (role < ROLE_LEAD || role > ROLE_UPSTREAM) return invalid(error, "INTRODUCE", "role");
  message->role = (enum message_role)role;
  if (message->stage >= MESSAGE_MAX_STAGES) return invalid(error, "INTRODUCE", "stage");
  if (!isfinite(message->bandwidth) || message->bandwidth < 0) return invalid(error, "INTRODUCE", "bandwidth");
  return 0;
}

void message_encode_assign(struct buffer *out, const struct message_assign *message) {
  writer_64(out, message->session);
  writer_64(out, message->epoch);
  writer_32(out, message->stage);
  writer_32(out, message->stage_count);
  writer_32(out, message->first_layer);
  writer_32(out, message->layer_count);
  writer_32(out, message->kv_blocks);
  writer_32(out, message->max_batch_tokens);
  writer_text(out, message->next, sizeof message->next);
  writer_32(out, message->shard_count);
  for (uint32_t i = 0; i < message->shard_count; i++) {
    writer_text(out, message->shards[i].name, sizeof message->shards[i].name);
    buffer_append(out, message->shards[i].hash, MESSAGE_HASH);
  }
}

static int check_assign(const struct message_assign *message, struct kj_error *error) {
  if (message->stage_count < 1 || message->stage_count > MESSAGE_MAX_STAGES)
    return invalid(error, "ASSIGN", "number of stages");
  if (message->stage >= message->stage_count) return invalid(error, "ASSIGN", "stage");
  if (message->first_layer > UINT32_MAX - message->layer_count) return invalid(error, "ASSIGN", "range of layers");
  if (message->kv_blocks > MESSAGE_MAX_BLOCKS) return invalid(error, "ASSIGN", "number of KV blocks");
  if (message->max_batch_tokens < 1 || message->max_batch_tokens > MESSAGE_MAX_BATCH_TOKENS)
    return invalid(error, "ASSIGN", "batch size");
  if (message->shard_count > MESSAGE_MAX_SHARDS) return invalid(error, "ASSIGN", "number of shards");
  return 0;
}

int message_decode_assign(struct message_assign *message, const uint8_t *bytes, size_t length, struct kj_error *error) {
  enum { SMALLEST_SHARD = 2 + MESSAGE_HASH };
  *message = (struct message_assign){0};
  struct reader reader = {.bytes = bytes, .left = length};
  message->session = reader_64(&reader);
  message->epoch = reader_64(&reader);
  message->stage = reader_32(&reader);
  message->stage_count = reader_32(&reader);
  message->first_layer = reader_32(&reader);
  message->layer_count = reader_32(&reader);
  message->kv_blocks = reader_32(&reader);
  message->max_batch_tokens = reader_32(&reader);
  reader_text(&reader, message->next, sizeof message->next);
  uint32_t shards = reader_32(&reader);
  message->shard_count = shards;
  int code = reader.failed ? reader_end(&reader, "ASSIGN", error) : check_assign(message, error);
  message->shard_count = 0;
  if (code) return code;
  if (shards > reader.left / SMALLEST_SHARD) return invalid(error, "ASSIGN", "number of shards");
  if (shards) {
    message->shards = calloc(shards, sizeof *message->shards);
    if (!message->shards) return kj_fail_memory(error, "the names of the shards");
  }
  message->shard_count = shards;
  for (uint32_t i = 0; i < shards; i++) {
    reader_text(&reader, message->shards[i].name, sizeof message->shards[i].name);
    const uint8_t *hash = reader_take(&reader, MESSAGE_HASH);
    if (hash) memcpy(message->shards[i].hash, hash, MESSAGE_HASH);
  }
  code = reader_end(&reader, "ASSIGN", error);
  if (code) message_free_assign(message);
  return code;
}

void message_free_assign(struct message_assign *message) {
  free(message->shards);
  message->shards = NULL;
  message->shard_count = 0;
}

void message_encode_progress(struct buffer *out, const struct message_progress *message) {
  writer_32(out, message->done);
  writer_32(out, message->total);
}

int message_decode_progress(struct message_progress *message, const uint8_t *bytes, size_t length,
                            struct kj_error *error) {
  struct reader reader = {.bytes = bytes, .left = length};
  message->done = reader_32(&reader);
  message->total = reader_32(&reader);
  int code = reader_end(&reader, "PROGRESS", error);
  if (code) return code;
  if (message->done > message->total) return invalid(error, "PROGRESS", "number of layers");
  return 0;
}

void message_encode_ready(struct buffer *out, const struct message_ready *message) {
  writer_64(out, message->peak_memory);
  writer_double(out, message->seconds);
}

int message_decode_ready(struct message_ready *message, const uint8_t *bytes, size_t length, struct kj_error *error) {
  struct reader reader = {.bytes = bytes, .left = length};
  message->peak_memory = reader_64(&reader);
  message->seconds = reader_double(&reader);
  int code = reader_end(&reader, "READY", error);
  if (code) return code;
  if (!isfinite(message->seconds) || message->seconds < 0) return invalid(error, "READY", "duration");
  return 0;
}

void message_encode_fail(struct buffer *out, const struct message_fail *message) {
  writer_32(out, message->code);
  writer_text(out, message->reason, sizeof message->reason);
}

int message_decode_fail(struct message_fail *message, const uint8_t *bytes, size_t length, struct kj_error *error) {
  struct reader reader = {.bytes = bytes, .left = length};
  message->code = reader_32(&reader);
  reader_text(&reader, message->reason, sizeof message->reason);
  int code = reader_end(&reader, "FAIL or STOP", error);
  if (code) return code;
  if (message->code == KJ_OK || message->code > KJ_INTERNAL) return invalid(error, "FAIL or STOP", "code");
  return 0;
}

/* WORK and RESULT: the messages that carry hidden states. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "link/bytes.h"
#include "link/link.h"
#include "link/message.h"
#include "link/reader.h"

enum {
  WORK_HEAD = 8 + 4 * 5, /* number, hidden, timing_count, span_count, tokens, outputs */
  TIMING = 12,
  SPAN = 4 * 4 + 8
};

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

size_t message_work_limit(uint32_t max_batch_tokens, uint32_t hidden, uint32_t kv_blocks) {
  uint64_t tokens = smaller(max_batch_tokens, MESSAGE_MAX_BATCH_TOKENS);
  uint64_t spans = smaller((uint32_t)tokens, MESSAGE_MAX_SPANS);
  uint64_t blocks = spans * smaller(kv_blocks, MESSAGE_MAX_BLOCKS);
  if (blocks > MESSAGE_MAX_BLOCKS) blocks = MESSAGE_MAX_BLOCKS;
  return WORK_HEAD + MESSAGE_MAX_STAGES * TIMING + spans * SPAN + blocks * 4 + tokens * 4 +
         tokens * smaller(hidden, MESSAGE_MAX_HIDDEN) * 4;
}

size_t message_limit(uint32_t max_batch_tokens, uint32_t hidden, uint32_t kv_blocks) {
  size_t work = message_work_limit(max_batch_tokens, hidden, kv_blocks);
  return work > LINK_SMALL_FRAME ? work : LINK_SMALL_FRAME;
}

static void encode_timings(struct buffer *out, const struct stage_timing *timings, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    writer_float(out, timings[i].compute);
    writer_float(out, timings[i].wait);
    writer_float(out, timings[i].transfer);
  }
}

void message_encode_work(struct buffer *out, const struct message_work *message) {
  const struct batch *batch = &message->batch;
  writer_64(out, message->number);
  writer_32(out, message->hidden);
  writer_32(out, message->timing_count);
  writer_32(out, batch->span_count);
  writer_32(out, batch->tokens);
  writer_32(out, batch->outputs);
  encode_timings(out, message->timings, message->timing_count);
  for (uint32_t i = 0; i < batch->span_count; i++) {
    const struct span *span = &batch->spans[i];
    writer_32(out, span->first_position);
    writer_32(out, span->tokens);
    writer_32(out, span->outputs);
    writer_32(out, span->block_count);
    writer_64(out, span->prefix_hash);
  }
  for (uint32_t i = 0; i < batch->span_count; i++)
    for (uint32_t k = 0; k < batch->spans[i].block_count; k++) writer_32(out, batch->spans[i].blocks[k]);
  for (uint32_t i = 0; i < batch->span_count; i++)
    for (uint32_t k = 0; k < batch->spans[i].tokens; k++) writer_32(out, batch->spans[i].token_ids[k]);
}

void message_encode_result(struct buffer *out, const struct message_result *message) {
  writer_64(out, message->number);
  writer_32(out, message->hidden);
  writer_32(out, message->outputs);
  writer_32(out, message->timing_count);
  encode_timings(out, message->timings, message->timing_count);
}

static int wrong(struct kj_error *error, const char *message, const char *what, uint64_t value) {
  return kj_fail(error, KJ_INVALID, "a %s message has an impossible %s: %llu", message, what,
                 (unsigned long long)value);
}

static int decode_timings(struct reader *reader, const char *message, struct stage_timing *timings, uint32_t count,
                          struct kj_error *error) {
  for (uint32_t i = 0; i < count; i++) {
    timings[i].compute = reader_float(reader);
    timings[i].wait = reader_float(reader);
    timings[i].transfer = reader_float(reader);
    const float seconds[] = {timings[i].compute, timings[i].wait, timings[i].transfer};
    for (int k = 0; k < 3; k++)
      if (!isfinite(seconds[k]) || seconds[k] < 0)
        return kj_fail(error, KJ_INVALID, "a %s message has an impossible duration", message);
  }
  return 0;
}

/* Copies numbers whose place in memory is not aligned. */
static void copy_32(uint32_t *out, const uint8_t *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) out[i] = bytes_get32(bytes + 4 * i);
}

static void copy_rows(float *out, const uint8_t *bytes, size_t count) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  if (count) memcpy(out, bytes, count * 4);
#else
  for (size_t i = 0; i < count; i++) {
    uint32_t bits = bytes_get32(bytes + 4 * i);
    memcpy(&out[i], &bits, 4);
  }
#endif
}

struct expected {
  uint32_t hidden, kv_blocks, max_batch_tokens;
};

static int read_work_head(struct reader *reader, struct message_work *message, const struct expected *expected,
                          struct kj_error *error) {
  struct batch *batch = &message->batch;
  message->number = reader_64(reader);
  message->hidden = reader_32(reader);
  message->timing_count = reader_32(reader);
  batch->span_count = reader_32(reader);
  batch->tokens = reader_32(reader);
  batch->outputs = reader_32(reader);
  if (reader->failed) return reader_end(reader, "WORK", error);
  if (message->hidden != expected->hidden || message->hidden == 0 || message->hidden > MESSAGE_MAX_HIDDEN)
    return kj_fail(error, KJ_INVALID, "a WORK message has rows of %u numbers instead of %u", message->hidden,
                   expected->hidden);
  if (message->timing_count > MESSAGE_MAX_STAGES)
    return wrong(error, "WORK", "number of stages", message->timing_count);
  if (batch->tokens == 0 || batch->tokens > expected->max_batch_tokens || batch->tokens > MESSAGE_MAX_BATCH_TOKENS)
    return wrong(error, "WORK", "number of tokens", batch->tokens);
  if (batch->span_count == 0 || batch->span_count > MESSAGE_MAX_SPANS || batch->span_count > batch->tokens)
    return wrong(error, "WORK", "number of spans", batch->span_count);
  if (batch->outputs > batch->tokens) return wrong(error, "WORK", "number of outputs", batch->outputs);
  return decode_timings(reader, "WORK", message->timings, message->timing_count, error);
}

/* Reads span `i` without its block table and tokens. */
static int read_span(struct reader *reader, struct span *span, const struct expected *expected,
                     struct kj_error *error) {
  span->first_position = reader_32(reader);
  span->tokens = reader_32(reader);
  span->outputs = reader_32(reader);
  span->block_count = reader_32(reader);
  span->prefix_hash = reader_64(reader);
  if (reader->failed) return reader_end(reader, "WORK", error);
  if (span->tokens == 0 || span->tokens > MESSAGE_MAX_BATCH_TOKENS)
    return wrong(error, "WORK", "number of tokens in a span", span->tokens);
  if (span->outputs > span->tokens) return wrong(error, "WORK", "number of outputs in a span", span->outputs);
  uint64_t end = (uint64_t)span->first_position + span->tokens;
  if (end > UINT32_MAX) return wrong(error, "WORK", "position", end);
  if (span->block_count != kv_blocks_for(end) || span->block_count > expected->kv_blocks)
    return wrong(error, "WORK", "number of KV blocks in a span", span->block_count);
  return 0;
}

/* Walks the spans for the sizes of what follows, which must be there to the byte. */
static int measure_work(struct reader reader, const struct batch *batch, const struct expected *expected,
                        uint64_t *block_total, struct kj_error *error) {
  uint64_t tokens = 0, outputs = 0, blocks = 0;
  for (uint32_t i = 0; i < batch->span_count; i++) {
    struct span span = {0};
    int code = read_span(&reader, &span, expected, error);
    if (code) return code;
    tokens += span.tokens;
    outputs += span.outputs;
    blocks += span.block_count;
  }
  if (tokens != batch->tokens) return wrong(error, "WORK", "sum of tokens", tokens);
  if (outputs != batch->outputs) return wrong(error, "WORK", "sum of outputs", outputs);
  if (blocks > MESSAGE_MAX_BLOCKS) return wrong(error, "WORK", "number of KV blocks", blocks);
  uint64_t rest = 0, rows = 0;
  if (!checked_multiply(tokens, (uint64_t)expected->hidden * 4, &rows) ||
      !checked_add(rows, (blocks + tokens) * 4, &rest) || rest != reader.left)
    return kj_fail(error, KJ_INVALID, "a WORK message is %zu bytes long after its spans, not %llu", reader.left,
                   (unsigned long long)rest);
  *block_total = blocks;
  return 0;
}

int message_decode_work(struct message_work *message, const uint8_t *bytes, size_t length, uint32_t hidden,
                        uint32_t kv_blocks, uint32_t max_batch_tokens, struct kj_error *error) {
  memset(message, 0, sizeof *message);
  const struct expected expected = {hidden, kv_blocks, max_batch_tokens};
  struct reader reader = {.bytes = bytes, .left = length};
  int code = read_work_head(&reader, message, &expected, error);
  if (code) return code;
  struct batch *batch = &message->batch;
  uint64_t blocks = 0;
  code = measure_work(reader, batch, &expected, &blocks, error);
  if (code) return code;

  size_t row_count = (size_t)batch->tokens * hidden;
  size_t spans_size = batch->span_count * sizeof(struct span); /* a multiple of the alignment of all that follows */
  uint8_t *memory = malloc(spans_size + (blocks + batch->tokens + row_count) * 4);
  if (!memory) return kj_fail_memory(error, "a micro-batch");
  struct span *spans = (struct span *)memory;
  uint32_t *block = (uint32_t *)(memory + spans_size);
  uint32_t *token = block + blocks;
  float *rows = (float *)(token + batch->tokens);
  for (uint32_t i = 0; i < batch->span_count; i++) read_span(&reader, &spans[i], &expected, NULL);
  copy_32(block, reader_take(&reader, blocks * 4), blocks);
  copy_32(token, reader_take(&reader, (size_t)batch->tokens * 4), batch->tokens);
  copy_rows(rows, reader_take(&reader, row_count * 4), row_count);
  for (uint64_t i = 0; i < blocks; i++) {
    if (block[i] < kv_blocks) continue;
    code = wrong(error, "WORK", "KV block", block[i]);
    free(memory);
    return code;
  }
  for (uint32_t i = 0; i < batch->span_count; i++) {
    spans[i].blocks = block;
    spans[i].token_ids = token;
    block += spans[i].block_count;
    token += spans[i].tokens;
  }
  batch->spans = spans;
  message->rows = rows;
  message->memory = memory;
  return 0;
}

void message_free_work(struct message_work *message) {
  free(message->memory);
  message->memory = NULL;
  message->rows = NULL;
  message->batch.spans = NULL;
}

int message_decode_result(struct message_result *message, const uint8_t *bytes, size_t length, uint32_t hidden,
                          uint32_t outputs, struct kj_error *error) {
  memset(message, 0, sizeof *message);
  struct reader reader = {.bytes = bytes, .left = length};
  message->number = reader_64(&reader);
  message->hidden = reader_32(&reader);
  message->outputs = reader_32(&reader);
  message->timing_count = reader_32(&reader);
  if (reader.failed) return reader_end(&reader, "RESULT", error);
  if (message->hidden != hidden || hidden == 0 || hidden > MESSAGE_MAX_HIDDEN)
    return kj_fail(error, KJ_INVALID, "a RESULT message has rows of %u numbers instead of %u", message->hidden, hidden);
  if (message->outputs != outputs || outputs > MESSAGE_MAX_BATCH_TOKENS)
    return kj_fail(error, KJ_INVALID, "a RESULT message has %u rows instead of %u", message->outputs, outputs);
  if (message->timing_count > MESSAGE_MAX_STAGES)
    return wrong(error, "RESULT", "number of stages", message->timing_count);
  int code = decode_timings(&reader, "RESULT", message->timings, message->timing_count, error);
  if (code) return code;
  size_t row_count = (size_t)outputs * hidden;
  const uint8_t *rows = reader_take(&reader, row_count * 4);
  code = reader_end(&reader, "RESULT", error);
  if (code) return code;
  float *memory = malloc(row_count ? row_count * 4 : 1);
  if (!memory) return kj_fail_memory(error, "the hidden states of a micro-batch");
  copy_rows(memory, rows, row_count);
  message->memory = memory;
  message->rows = memory;
  return 0;
}

void message_free_result(struct message_result *message) {
  free(message->memory);
  message->memory = NULL;
  message->rows = NULL;
}

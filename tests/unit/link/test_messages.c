/* Messages: what is encoded is decoded, every truncation and every number out of its bounds is refused, and a decoder
 * that refuses leaves nothing behind. */
#include "link/message.h"

#include <math.h>
#include <stdlib.h>

#include "link/link.h"
#include "unit/unit.h"

enum { HIDDEN = 5, KV_BLOCKS = 100, MAX_TOKENS = 600 };

/* One decoder with the receiver's expectations filled in, for tests of any message. */
typedef int decoder(const uint8_t *bytes, size_t length, struct kj_error *error);

static int decode_introduce(const uint8_t *bytes, size_t length, struct kj_error *error) {
  struct message_introduce message;
  return message_decode_introduce(&message, bytes, length, error);
}

static int decode_assign(const uint8_t *bytes, size_t length, struct kj_error *error) {
  struct message_assign message;
  int code = message_decode_assign(&message, bytes, length, error);
  if (code) assert_null(message.shards);
  message_free_assign(&message);
  return code;
}

static int decode_progress(const uint8_t *bytes, size_t length, struct kj_error *error) {
  struct message_progress message;
  return message_decode_progress(&message, bytes, length, error);
}

static int decode_ready(const uint8_t *bytes, size_t length, struct kj_error *error) {
  struct message_ready message;
  return message_decode_ready(&message, bytes, length, error);
}

static int decode_fail(const uint8_t *bytes, size_t length, struct kj_error *error) {
  struct message_fail message;
  return message_decode_fail(&message, bytes, length, error);
}

static int decode_blocks(const uint8_t *bytes, size_t length, struct kj_error *error) {
  struct message_blocks message;
  int code = message_decode_blocks(&message, bytes, length, KV_BLOCKS, error);
  if (code) assert_null(message.operations);
  message_free_blocks(&message);
  return code;
}

static int decode_inventory(const uint8_t *bytes, size_t length, struct kj_error *error) {
  struct message_inventory message;
  int code = message_decode_inventory(&message, bytes, length, error);
  if (code) assert_null(message.keys);
  message_free_inventory(&message);
  return code;
}

static int decode_work(const uint8_t *bytes, size_t length, struct kj_error *error) {
  struct message_work message;
  int code = message_decode_work(&message, bytes, length, HIDDEN, KV_BLOCKS, MAX_TOKENS, error);
  if (code) assert_null(message.memory);
  message_free_work(&message);
  return code;
}

static int decode_result(const uint8_t *bytes, size_t length, struct kj_error *error) {
  struct message_result message;
  int code = message_decode_result(&message, bytes, length, HIDDEN, 3, error);
  if (code) assert_null(message.memory);
  message_free_result(&message);
  return code;
}

/* The bytes are copied to an allocation of exactly their length, so that a sanitizer sees a read beyond. */
static int decode_exactly(decoder *decode, const char *bytes, size_t length, struct kj_error *error) {
  uint8_t *copy = malloc(length ? length : 1);
  assert_non_null(copy);
  memcpy(copy, bytes, length);
  int code = decode(copy, length, error);
  free(copy);
  return code;
}

static void refuse_truncations(decoder *decode, const struct buffer *encoded) {
  struct kj_error error = {0};
  assert_false(buffer_failed(encoded));
  assert_int_equal(decode_exactly(decode, encoded->data, encoded->length, &error), 0);
  for (size_t length = 0; length < encoded->length; length++) {
    assert_int_equal(decode_exactly(decode, encoded->data, length, &error), KJ_INVALID);
    assert_string_not_equal(error.message, "");
  }
  struct buffer longer = {0};
  buffer_append(&longer, encoded->data, encoded->length);
  buffer_append(&longer, "", 1);
  assert_int_equal(decode_exactly(decode, longer.data, longer.length, &error), KJ_INVALID);
  buffer_free(&longer);
}

/* Puts a little-endian number into the encoded message for the length of one decoding, which must fail. */
static void refuse_number(decoder *decode, struct buffer *encoded, size_t offset, size_t size, uint64_t value) {
  uint8_t before[8];
  struct kj_error error;
  assert_true(offset + size <= encoded->length);
  memcpy(before, encoded->data + offset, size);
  for (size_t i = 0; i < size; i++) encoded->data[offset + i] = (char)(value >> 8 * i);
  if (decode_exactly(decode, encoded->data, encoded->length, &error) != KJ_INVALID)
    fail_msg("%llu at %zu was accepted", (unsigned long long)value, offset);
  memcpy(encoded->data + offset, before, size);
}

static struct message_introduce sample_introduce(void) {
  return (struct message_introduce){.role = ROLE_UPSTREAM,
                                    .session = 0x1122334455667788u,
                                    .epoch = 9,
                                    .stage = 3,
                                    .version = "0.1.0",
                                    .host = "größe-1",
                                    .engine = "cpu avx2",
                                    .memory = 256ull << 30,
                                    .bandwidth = 1.5e11,
                                    .threads = 64,
                                    .config_hash = {1, 2, 3, 4, 5, 6, 7, 8}};
}

static void test_introduce(void **state) {
  (void)state;
  struct message_introduce sent = sample_introduce(), got;
  struct buffer encoded = {0};
  message_encode_introduce(&encoded, &sent);
  refuse_truncations(decode_introduce, &encoded);
  assert_int_equal(message_decode_introduce(&got, (uint8_t *)encoded.data, encoded.length, NULL), 0);
  assert_int_equal(got.role, sent.role);
  assert_true(got.session == sent.session && got.epoch == 9 && got.stage == 3 && got.memory == sent.memory);
  assert_string_equal(got.version, "0.1.0");
  assert_string_equal(got.host, "größe-1");
  assert_string_equal(got.engine, "cpu avx2");
  assert_true(got.bandwidth == 1.5e11 && got.threads == 64);
  assert_memory_equal(got.config_hash, sent.config_hash, MESSAGE_HASH);
  refuse_number(decode_introduce, &encoded, 0, 4, 0);
  refuse_number(decode_introduce, &encoded, 0, 4, 4);
  refuse_number(decode_introduce, &encoded, 20, 4, MESSAGE_MAX_STAGES);
  refuse_number(decode_introduce, &encoded, 24, 2, 32);     /* as long as the field: no room for the NUL */
  refuse_number(decode_introduce, &encoded, 24, 2, 0xffff); /* beyond the message */
  refuse_number(decode_introduce, &encoded, 26, 1, '\0');
  refuse_number(decode_introduce, &encoded, 26, 1, '\n');
  refuse_number(decode_introduce, &encoded, 26, 1, 0x7f);
  refuse_number(decode_introduce, &encoded, 26, 1, 0xff); /* no UTF-8 */
  refuse_number(decode_introduce, &encoded, 26, 2, 0xafc0);
  refuse_number(decode_introduce, &encoded, 26, 3, 0x80a0ed);
  refuse_number(decode_introduce, &encoded, 30, 1, 0xc3); /* a character that goes on after the text */
  size_t bandwidth = encoded.length - MESSAGE_HASH - 4 - 8;
  refuse_number(decode_introduce, &encoded, bandwidth, 8, 0x7ff0000000000000u); /* infinity */
  refuse_number(decode_introduce, &encoded, bandwidth, 8, 0x7ff8000000000000u); /* not a number */
  refuse_number(decode_introduce, &encoded, bandwidth, 8, 0xbff0000000000000u); /* -1 */
  buffer_free(&encoded);
}

static void test_texts_are_cut_and_cleaned_when_encoded(void **state) {
  (void)state;
  struct message_introduce sent = sample_introduce(), got;
  struct buffer encoded = {0};
  memset(sent.host, 'x', sizeof sent.host); /* no NUL */
  strcpy(sent.engine, "two\nlines\x1b[2J");
  message_encode_introduce(&encoded, &sent);
  assert_int_equal(message_decode_introduce(&got, (uint8_t *)encoded.data, encoded.length, NULL), 0);
  assert_int_equal(strlen(got.host), sizeof got.host - 1);
  assert_string_equal(got.engine, "two lines [2J");
  /* The last character does not fit whole; bytes that are no UTF-8. */
  memset(sent.host, 'x', sizeof sent.host);
  memcpy(sent.host + sizeof sent.host - 3, "\xe2\x82\xac", 3);
  strcpy(sent.engine, "a\xff\xc3[\xed\xa0\x80\xf4\x90\x80\x80\xc0\xafz\xc3");
  buffer_clear(&encoded);
  message_encode_introduce(&encoded, &sent);
  assert_int_equal(message_decode_introduce(&got, (uint8_t *)encoded.data, encoded.length, NULL), 0);
  assert_int_equal(strlen(got.host), sizeof got.host - 3);
  assert_string_equal(got.engine, "a??[?????????z?");
  buffer_free(&encoded);
}

static void encode_sample_assign(struct buffer *encoded, uint32_t shard_count) {
  struct message_shard shards[3] = {{"model-00001-of-00003.safetensors", {1}}, {"b", {2}}, {"", {3}}};
  struct message_assign sent = {.session = 1,
                                .epoch = 2,
                                .stage = 1,
                                .stage_count = 3,
                                .first_layer = 20,
                                .layer_count = 22,
                                .kv_blocks = 1000,
                                .max_batch_tokens = 512,
                                .next = "10.0.0.2:7000",
                                .shard_count = shard_count,
                                .shards = shards};
  message_encode_assign(encoded, &sent);
}

static void test_assign(void **state) {
  (void)state;
  struct message_assign got;
  struct buffer encoded = {0}, empty = {0};
  encode_sample_assign(&encoded, 3);
  refuse_truncations(decode_assign, &encoded);
  assert_int_equal(message_decode_assign(&got, (uint8_t *)encoded.data, encoded.length, NULL), 0);
  assert_true(got.session == 1 && got.epoch == 2 && got.stage == 1 && got.stage_count == 3);
  assert_true(got.first_layer == 20 && got.layer_count == 22 && got.kv_blocks == 1000 && got.max_batch_tokens == 512);
  assert_string_equal(got.next, "10.0.0.2:7000");
  assert_int_equal(got.shard_count, 3);
  assert_string_equal(got.shards[0].name, "model-00001-of-00003.safetensors");
  assert_int_equal(got.shards[1].hash[0], 2);
  assert_string_equal(got.shards[2].name, "");
  message_free_assign(&got);
  refuse_number(decode_assign, &encoded, 16, 4, 3); /* stage */
  refuse_number(decode_assign, &encoded, 20, 4, 0); /* stages */
  refuse_number(decode_assign, &encoded, 20, 4, 65);
  refuse_number(decode_assign, &encoded, 28, 4, UINT32_MAX); /* layers */
  refuse_number(decode_assign, &encoded, 32, 4, MESSAGE_MAX_BLOCKS + 1);
  refuse_number(decode_assign, &encoded, 36, 4, 0); /* batch */
  refuse_number(decode_assign, &encoded, 36, 4, MESSAGE_MAX_BATCH_TOKENS + 1);
  size_t count = 40 + 2 + strlen("10.0.0.2:7000");
  refuse_number(decode_assign, &encoded, count, 4, 2);
  refuse_number(decode_assign, &encoded, count, 4, 4);
  refuse_number(decode_assign, &encoded, count, 4, MESSAGE_MAX_SHARDS + 1);
  refuse_number(decode_assign, &encoded, count, 4, UINT32_MAX);
  encode_sample_assign(&empty, 0);
  refuse_truncations(decode_assign, &empty);
  buffer_free(&empty);
  buffer_free(&encoded);
}

/* Whoever has not raised a link's limit can be told everything but hidden states. */
static void test_largest_assignment_is_a_small_frame(void **state) {
  (void)state;
  struct message_shard *shards = calloc(MESSAGE_MAX_SHARDS, sizeof *shards);
  assert_non_null(shards);
  for (size_t i = 0; i < MESSAGE_MAX_SHARDS; i++) memset(shards[i].name, 'n', sizeof shards[i].name - 1);
  struct message_assign sent = {
      .stage_count = 1, .max_batch_tokens = 1, .shard_count = MESSAGE_MAX_SHARDS, .shards = shards};
  memset(sent.next, 'a', sizeof sent.next - 1);
  struct buffer encoded = {0};
  message_encode_assign(&encoded, &sent);
  assert_int_equal(decode_exactly(decode_assign, encoded.data, encoded.length, NULL), 0);
  assert_true(encoded.length <= LINK_SMALL_FRAME);
  buffer_free(&encoded);
  free(shards);
}

static void test_small_messages(void **state) {
  (void)state;
  struct buffer encoded = {0};
  struct message_progress progress;
  message_encode_progress(&encoded, &(struct message_progress){7, 20});
  refuse_truncations(decode_progress, &encoded);
  assert_int_equal(message_decode_progress(&progress, (uint8_t *)encoded.data, encoded.length, NULL), 0);
  assert_true(progress.done == 7 && progress.total == 20);
  refuse_number(decode_progress, &encoded, 0, 4, 21);

  struct message_ready ready;
  buffer_clear(&encoded);
  message_encode_ready(&encoded, &(struct message_ready){123456789012u, 4.25});
  refuse_truncations(decode_ready, &encoded);
  assert_int_equal(message_decode_ready(&ready, (uint8_t *)encoded.data, encoded.length, NULL), 0);
  assert_true(ready.peak_memory == 123456789012u && ready.seconds == 4.25);
  refuse_number(decode_ready, &encoded, 8, 8, 0x7ff0000000000000u);
  refuse_number(decode_ready, &encoded, 8, 8, 0x8000000000000001u);

  struct message_fail fail = {.code = KJ_MEMORY, .reason = "not enough"}, got;
  buffer_clear(&encoded);
  message_encode_fail(&encoded, &fail);
  refuse_truncations(decode_fail, &encoded);
  assert_int_equal(message_decode_fail(&got, (uint8_t *)encoded.data, encoded.length, NULL), 0);
  assert_int_equal(got.code, KJ_MEMORY);
  assert_string_equal(got.reason, "not enough");
  refuse_number(decode_fail, &encoded, 0, 4, 0);
  refuse_number(decode_fail, &encoded, 0, 4, KJ_INTERNAL + 1);
  memset(fail.reason, 'r', sizeof fail.reason);
  buffer_clear(&encoded);
  message_encode_fail(&encoded, &fail);
  assert_int_equal(message_decode_fail(&got, (uint8_t *)encoded.data, encoded.length, NULL), 0);
  assert_int_equal(strlen(got.reason), sizeof got.reason - 1);
  buffer_free(&encoded);
}

/* Two spans: a chunk of 3 tokens from position 126, so that it crosses into a third block, and one token of decode. */
static const uint32_t blocks_a[] = {5, 99, 0}, blocks_b[] = {7}, tokens_a[] = {151643, 1, 2}, tokens_b[] = {3};
static const struct span spans[] = {{126, 3, 1, 3, blocks_a, tokens_a, 0xabcdef0123456789u},
                                    {10, 1, 1, 1, blocks_b, tokens_b, 42}};

static void encode_sample_work(struct buffer *encoded) {
  struct message_work sent = {.number = 77, .hidden = HIDDEN, .timing_count = 2};
  sent.timings[0] = (struct stage_timing){0.5f, 0.25f, 0.125f};
  sent.timings[1] = (struct stage_timing){1.5f, 0, 2.5f};
  sent.batch = (struct batch){.span_count = 2, .tokens = 4, .outputs = 2, .spans = spans};
  message_encode_work(encoded, &sent);
  for (int i = 0; i < 4 * HIDDEN; i++) {
    float row = (float)i * 0.5f - 3;
    buffer_append(encoded, &row, sizeof row);
  }
}

static void test_work(void **state) {
  (void)state;
  struct buffer encoded = {0};
  struct message_work got;
  encode_sample_work(&encoded);
  refuse_truncations(decode_work, &encoded);
  assert_int_equal(message_decode_work(&got, (uint8_t *)encoded.data, encoded.length, HIDDEN, KV_BLOCKS, 4, NULL), 0);
  assert_true(got.number == 77 && got.hidden == HIDDEN && got.timing_count == 2);
  assert_true(got.timings[1].compute == 1.5f && got.timings[0].wait == 0.25f && got.timings[1].transfer == 2.5f);
  assert_true(got.batch.span_count == 2 && got.batch.tokens == 4 && got.batch.outputs == 2);
  for (size_t i = 0; i < 2; i++) {
    const struct span *span = &got.batch.spans[i];
    assert_true(span->first_position == spans[i].first_position && span->tokens == spans[i].tokens);
    assert_true(span->outputs == spans[i].outputs && span->prefix_hash == spans[i].prefix_hash);
    assert_int_equal(span->block_count, spans[i].block_count);
    assert_memory_equal(span->blocks, spans[i].blocks, 4 * span->block_count);
    assert_memory_equal(span->token_ids, spans[i].token_ids, 4 * span->tokens);
  }
  assert_int_equal((uintptr_t)got.rows % 4, 0);
  for (int i = 0; i < 4 * HIDDEN; i++) assert_true(got.rows[i] == (float)i * 0.5f - 3);
  message_free_work(&got);
  buffer_free(&encoded);
}

static void test_work_out_of_bounds(void **state) {
  (void)state;
  enum { HEAD = 28, FIRST = HEAD + 2 * 12, SECOND = FIRST + 24, BLOCKS = SECOND + 24 };
  struct buffer encoded = {0};
  encode_sample_work(&encoded);
  static const struct {
    size_t offset;
    uint64_t values[5];
  } numbers[] = {{8, {0, HIDDEN - 1, HIDDEN + 1, MESSAGE_MAX_HIDDEN + 1, UINT32_MAX}}, /* hidden */
                 {12, {1, 3, MESSAGE_MAX_STAGES + 1, INT32_MAX, UINT32_MAX}},          /* timings */
                 {16, {0, 1, 3, MESSAGE_MAX_SPANS + 1, UINT32_MAX}},                   /* spans */
                 {20, {0, 3, 5, MAX_TOKENS + 1, UINT32_MAX}},                          /* tokens */
                 {24, {0, 1, 3, 5, UINT32_MAX}},                                       /* outputs */
                 {FIRST, {125, 190, 0x7fffffff, UINT32_MAX - 2, UINT32_MAX}},          /* first position */
                 {FIRST + 4, {0, 2, 4, MESSAGE_MAX_BATCH_TOKENS + 1, UINT32_MAX}},     /* tokens of a span */
                 {FIRST + 8, {0, 2, 3, 4, UINT32_MAX}},                                /* outputs of a span */
                 {FIRST + 12, {0, 2, 4, KV_BLOCKS + 1, UINT32_MAX}},                   /* blocks of a span */
                 {SECOND + 12, {0, 2, 3, KV_BLOCKS + 1, UINT32_MAX}},
                 {BLOCKS, {KV_BLOCKS, KV_BLOCKS + 1, 1 << 20, INT32_MAX, UINT32_MAX}},
                 {BLOCKS + 12, {KV_BLOCKS, KV_BLOCKS + 1, 1 << 20, INT32_MAX, UINT32_MAX}},
                 {HEAD, {0x7f800000, 0x7fc00000, 0xbf800000, 0xff800000, 0x80000001}}, /* time of a stage */
                 {HEAD + 4, {0x7f800000, 0x7fc00000, 0xbf800000, 0xff800000, 0x80000001}},
                 {HEAD + 8, {0x7f800000, 0x7fc00000, 0xbf800000, 0xff800000, 0x80000001}}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    for (size_t k = 0; k < 5; k++) refuse_number(decode_work, &encoded, numbers[i].offset, 4, numbers[i].values[k]);
  /* What the receiver expects counts, not what the message says. */
  struct message_work got;
  const uint8_t *bytes = (const uint8_t *)encoded.data;
  assert_int_equal(message_decode_work(&got, bytes, encoded.length, HIDDEN, KV_BLOCKS, 3, NULL), KJ_INVALID);
  assert_int_equal(message_decode_work(&got, bytes, encoded.length, HIDDEN, 99, 4, NULL), KJ_INVALID);
  assert_int_equal(message_decode_work(&got, bytes, encoded.length, HIDDEN + 1, KV_BLOCKS, 4, NULL), KJ_INVALID);
  buffer_free(&encoded);
}

static void test_result(void **state) {
  (void)state;
  struct buffer encoded = {0};
  struct message_result sent = {.number = 5, .hidden = HIDDEN, .outputs = 3, .timing_count = 1}, got;
  sent.timings[0] = (struct stage_timing){2, 3, 4};
  message_encode_result(&encoded, &sent);
  for (int i = 0; i < 3 * HIDDEN; i++) {
    float row = (float)i;
    buffer_append(&encoded, &row, sizeof row);
  }
  refuse_truncations(decode_result, &encoded);
  assert_int_equal(message_decode_result(&got, (uint8_t *)encoded.data, encoded.length, HIDDEN, 3, NULL), 0);
  assert_true(got.number == 5 && got.timing_count == 1 && got.timings[0].wait == 3 && got.timings[0].transfer == 4);
  for (int i = 0; i < 3 * HIDDEN; i++) assert_true(got.rows[i] == (float)i);
  message_free_result(&got);
  static const uint32_t wrong[] = {0, 2, 4, 65, UINT32_MAX};
  for (size_t i = 0; i < 5; i++)
    for (size_t offset = 8; offset < 20; offset += 4) refuse_number(decode_result, &encoded, offset, 4, wrong[i]);
  refuse_number(decode_result, &encoded, 20, 4, 0x7f800000);
  /* No row is wanted of a prefill chunk that is not the last. */
  struct buffer none = {0};
  message_encode_result(&none, &(struct message_result){.hidden = HIDDEN});
  assert_int_equal(message_decode_result(&got, (uint8_t *)none.data, none.length, HIDDEN, 0, NULL), 0);
  message_free_result(&got);
  buffer_free(&none);
  buffer_free(&encoded);
}

static void test_work_limit_covers_the_largest(void **state) {
  (void)state;
  struct buffer encoded = {0};
  encode_sample_work(&encoded);
  assert_true(message_work_limit(4, HIDDEN, KV_BLOCKS) >= encoded.length);
  buffer_free(&encoded);
  /* 64 single tokens, each of a sequence that fills the whole pool, after the most stages. */
  enum { SPANS = 64, BLOCKS = 16 };
  uint32_t blocks[BLOCKS], token = 1;
  struct span many[SPANS];
  for (uint32_t i = 0; i < BLOCKS; i++) blocks[i] = i;
  for (uint32_t i = 0; i < SPANS; i++) many[i] = (struct span){BLOCKS * KV_BLOCK - 1, 1, 1, BLOCKS, blocks, &token, i};
  struct message_work work = {.hidden = HIDDEN, .timing_count = MESSAGE_MAX_STAGES};
  work.batch = (struct batch){.span_count = SPANS, .tokens = SPANS, .outputs = SPANS, .spans = many};
  message_encode_work(&encoded, &work);
  size_t rows = SPANS * HIDDEN * sizeof(float);
  assert_int_equal(message_work_limit(SPANS, HIDDEN, BLOCKS), encoded.length + rows);
  buffer_free(&encoded);
  /* Nonsense in the arguments gives a bounded number. */
  assert_true(message_work_limit(UINT32_MAX, UINT32_MAX, UINT32_MAX) < (size_t)1 << 35);
}

static struct block_operation sample_operation(enum block_action action, uint32_t block) {
  struct block_operation operation = {
      .action = action, .previous = {{1, 2, 3, 255}}, .prefix_hash = 0xfedcba9876543210u, .block = block};
  for (uint32_t i = 0; i < KV_BLOCK; i++) operation.tokens[i] = 151643 + i * block;
  operation.key = block_key_extend(&operation.previous, operation.tokens);
  return operation;
}

static void test_blocks(void **state) {
  (void)state;
  enum { OPERATION = 4 + 4 + 8 + BLOCK_KEY_BYTES + 4 * KV_BLOCK };
  struct block_operation sent[] = {sample_operation(BLOCK_RESTORE, 7), sample_operation(BLOCK_DROP, 1),
                                   sample_operation(BLOCK_STORE, KV_BLOCKS - 1)};
  struct message_blocks got;
  struct buffer encoded = {0};
  message_encode_blocks(&encoded, &(struct message_blocks){3, sent});
  refuse_truncations(decode_blocks, &encoded);
  assert_int_equal(message_decode_blocks(&got, (uint8_t *)encoded.data, encoded.length, KV_BLOCKS, NULL), 0);
  assert_int_equal(got.count, 3);
  for (size_t i = 0; i < 3; i++) {
    const struct block_operation *operation = &got.operations[i];
    assert_int_equal(operation->action, sent[i].action);
    assert_true(block_key_equal(&operation->key, &sent[i].key));
    if (i == 1) continue;
    assert_true(block_key_equal(&operation->previous, &sent[i].previous));
    assert_true(operation->prefix_hash == sent[i].prefix_hash && operation->block == sent[i].block);
    assert_memory_equal(operation->tokens, sent[i].tokens, sizeof sent[i].tokens);
  }
  message_free_blocks(&got);
  static const uint32_t counts[] = {0, 2, 4, MESSAGE_MAX_BLOCK_OPERATIONS + 1, UINT32_MAX};
  for (size_t i = 0; i < 5; i++) refuse_number(decode_blocks, &encoded, 0, 4, counts[i]);
  static const uint32_t actions[] = {0, BLOCK_DROP, BLOCK_DROP + 1, UINT32_MAX};
  for (size_t i = 0; i < 4; i++) refuse_number(decode_blocks, &encoded, 4, 4, actions[i]);
  refuse_number(decode_blocks, &encoded, 4 + OPERATION, 4, BLOCK_STORE);
  refuse_number(decode_blocks, &encoded, 8, 4, KV_BLOCKS);
  refuse_number(decode_blocks, &encoded, 8, 4, UINT32_MAX);
  assert_int_equal(message_decode_blocks(&got, (uint8_t *)encoded.data, encoded.length, KV_BLOCKS - 1, NULL),
                   KJ_INVALID); /* the receiver's pool counts */
  buffer_free(&encoded);
}

static void test_inventory(void **state) {
  (void)state;
  struct block_key keys[] = {{{1}}, {{2, 9}}, {{255, 255, 255}}};
  struct message_inventory got;
  struct buffer encoded = {0}, empty = {0};
  message_encode_inventory(&encoded, &(struct message_inventory){500, 3, keys, {7, 0, 9}});
  refuse_truncations(decode_inventory, &encoded);
  assert_int_equal(message_decode_inventory(&got, (uint8_t *)encoded.data, encoded.length, NULL), 0);
  assert_true(got.capacity == 500 && got.count == 3);
  assert_memory_equal(got.keys, keys, sizeof keys);
  assert_true(got.identity[0] == 7 && got.identity[2] == 9 && got.identity[15] == 0);
  message_free_inventory(&got);
  refuse_number(decode_inventory, &encoded, 0, 4, 0);
  refuse_number(decode_inventory, &encoded, 0, 4, MESSAGE_MAX_DISK_BLOCKS + 1);
  static const uint32_t counts[] = {0, 2, 4, MESSAGE_MAX_KEYS + 1, UINT32_MAX};
  for (size_t i = 0; i < 5; i++) refuse_number(decode_inventory, &encoded, 4, 4, counts[i]);
  message_encode_inventory(&empty, &(struct message_inventory){.capacity = MESSAGE_MAX_DISK_BLOCKS});
  refuse_truncations(decode_inventory, &empty);
  buffer_free(&empty);
  buffer_free(&encoded);
}

/* They go over links whose limit is the smallest there is. */
static void test_largest_orders_and_inventories_are_small_frames(void **state) {
  (void)state;
  struct block_operation *operations = calloc(MESSAGE_MAX_BLOCK_OPERATIONS, sizeof *operations);
  struct block_key *keys = calloc(MESSAGE_MAX_KEYS, sizeof *keys);
  struct buffer encoded = {0};
  assert_true(operations && keys);
  for (size_t i = 0; i < MESSAGE_MAX_BLOCK_OPERATIONS; i++) operations[i] = sample_operation(BLOCK_STORE, 3);
  message_encode_blocks(&encoded, &(struct message_blocks){MESSAGE_MAX_BLOCK_OPERATIONS, operations});
  assert_int_equal(decode_exactly(decode_blocks, encoded.data, encoded.length, NULL), 0);
  assert_true(encoded.length <= LINK_SMALL_FRAME);
  buffer_clear(&encoded);
  message_encode_inventory(&encoded, &(struct message_inventory){1, MESSAGE_MAX_KEYS, keys, {0}});
  assert_int_equal(decode_exactly(decode_inventory, encoded.data, encoded.length, NULL), 0);
  assert_true(encoded.length <= LINK_SMALL_FRAME);
  buffer_free(&encoded);
  free(operations);
  free(keys);
}

/* The key of a block, by another hand: it must never change, or files lose their names. */
static void test_block_keys_are_what_the_protocol_says(void **state) {
  (void)state;
  uint32_t tokens[KV_BLOCK];
  for (uint32_t i = 0; i < KV_BLOCK; i++) tokens[i] = 1000 * i + 7;
  struct block_key key = block_key_start();
  key = block_key_extend(&key, tokens);
  static const uint8_t first[] = {0x6d, 0x96, 0x79, 0x8b, 0x05, 0xd3, 0x9c, 0x38,
                                  0xa8, 0x4b, 0xd8, 0x94, 0x90, 0x27, 0xea, 0x14};
  assert_memory_equal(key.bytes, first, sizeof first);
  key = block_key_extend(&key, tokens);
  static const uint8_t second[] = {0x29, 0x31, 0x59, 0x86, 0x0a, 0xcc, 0xa3, 0x0c,
                                   0xb1, 0xac, 0x08, 0x79, 0x38, 0xe6, 0xb7, 0x69};
  assert_memory_equal(key.bytes, second, sizeof second);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_introduce),
      cmocka_unit_test(test_texts_are_cut_and_cleaned_when_encoded),
      cmocka_unit_test(test_assign),
      cmocka_unit_test(test_largest_assignment_is_a_small_frame),
      cmocka_unit_test(test_largest_assignment_is_a_small_frame),
      cmocka_unit_test(test_small_messages),
      cmocka_unit_test(test_blocks),
      cmocka_unit_test(test_inventory),
      cmocka_unit_test(test_largest_orders_and_inventories_are_small_frames),
      cmocka_unit_test(test_block_keys_are_what_the_protocol_says),
      cmocka_unit_test(test_work),
      cmocka_unit_test(test_work_out_of_bounds),
      cmocka_unit_test(test_result),
      cmocka_unit_test(test_work_limit_covers_the_largest),
  };
  return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}

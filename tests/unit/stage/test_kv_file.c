/* A KV block's file is used only if it is exactly what it should be, to the bit. */
#include "stage/kv_file.h"

#include <stdbool.h>
#include <stdlib.h>

#include "unit/unit.h"

enum { PAYLOAD = 5000, FILE_BYTES = KV_FILE_HEADER + PAYLOAD + KV_FILE_CHECKSUM };

static struct kv_file_header sample_header(void) {
  struct kv_file_header header = {.first_layer = 3,
                                  .layer_count = 4,
                                  .payload_bytes = PAYLOAD,
                                  .identity = {1, 2, 3},
                                  .previous = {{9, 8, 7}},
                                  .prefix_hash = 0x0123456789abcdefu};
  for (uint32_t i = 0; i < KV_BLOCK; i++) header.tokens[i] = 151000 + i * i;
  return header;
}

static void write_sample(uint8_t file[FILE_BYTES]) {
  struct kv_file_header header = sample_header();
  kv_file_encode_header(file, &header);
  for (uint32_t i = 0; i < PAYLOAD; i++) file[KV_FILE_HEADER + i] = (uint8_t)(i * 37);
  kv_file_seal(file, FILE_BYTES);
}

/* The bytes are copied to an allocation of exactly their length, so that a sanitizer sees a read beyond. */
static int check(const uint8_t *file, size_t length, const struct kv_file_header *expected) {
  struct kj_error error = {0};
  uint8_t *copy = malloc(length ? length : 1);
  assert_non_null(copy);
  memcpy(copy, file, length);
  int code = kv_file_check(copy, length, expected, &error);
  free(copy);
  assert_int_equal(code, error.code);
  assert_true(code == 0 || (code == KJ_INVALID && strlen(error.message) > 10));
  return code;
}

static void test_what_is_written_is_read(void **state) {
  (void)state;
  uint8_t file[FILE_BYTES];
  struct kv_file_header expected = sample_header(), found;
  write_sample(file);
  assert_int_equal(kv_file_bytes(PAYLOAD), FILE_BYTES);
  assert_int_equal(check(file, FILE_BYTES, &expected), 0);
  assert_int_equal(kv_file_decode_header(&found, file, KV_FILE_HEADER, NULL), 0);
  assert_true(found.first_layer == 3 && found.layer_count == 4 && found.payload_bytes == PAYLOAD);
  assert_true(found.prefix_hash == expected.prefix_hash && block_key_equal(&found.previous, &expected.previous));
  assert_memory_equal(found.identity, expected.identity, KV_FILE_IDENTITY);
  assert_memory_equal(found.tokens, expected.tokens, sizeof found.tokens);
}

static void test_every_flipped_bit_is_noticed(void **state) {
  (void)state;
  uint8_t file[FILE_BYTES];
  struct kv_file_header expected = sample_header();
  write_sample(file);
  for (size_t byte = 0; byte < FILE_BYTES; byte++) {
    bool everywhere = byte < KV_FILE_HEADER || byte >= KV_FILE_HEADER + PAYLOAD;
    for (int bit = everywhere ? 0 : (int)(byte % 8); bit < (everywhere ? 8 : (int)(byte % 8) + 1); bit++) {
      file[byte] ^= (uint8_t)(1 << bit);
      if (check(file, FILE_BYTES, &expected) == 0) fail_msg("bit %d of byte %zu", bit, byte);
      file[byte] ^= (uint8_t)(1 << bit);
    }
  }
  assert_int_equal(check(file, FILE_BYTES, &expected), 0);
}

static void test_every_truncation_is_noticed(void **state) {
  (void)state;
  uint8_t file[FILE_BYTES + 8] = {0};
  struct kv_file_header expected = sample_header();
  write_sample(file);
  for (size_t length = 0; length < FILE_BYTES; length++)
    if (check(file, length, &expected) == 0) fail_msg("%zu bytes of %d", length, (int)FILE_BYTES);
  assert_int_equal(check(file, FILE_BYTES + 1, &expected), KJ_INVALID);
  /* A tail that never reached the disk reads as zeros. */
  for (size_t kept = 0; kept < FILE_BYTES; kept += 512) {
    uint8_t torn[FILE_BYTES] = {0};
    memcpy(torn, file, kept);
    assert_int_equal(check(torn, FILE_BYTES, &expected), KJ_INVALID);
  }
}

/* Whole files of another block: sealed as they should be. */
static void test_another_block_is_refused(void **state) {
  (void)state;
  uint8_t file[FILE_BYTES];
  write_sample(file);
  struct kv_file_header expected;
  for (int field = 0; field < 7; field++) {
    expected = sample_header();
    switch (field) {
      case 0:
        expected.first_layer++;
        break;
      case 1:
        expected.layer_count--;
        break;
      case 2:
        expected.payload_bytes++;
        break;
      case 3:
        expected.identity[KV_FILE_IDENTITY - 1]++;
        break;
      case 4:
        expected.previous.bytes[BLOCK_KEY_BYTES - 1]++;
        break;
      case 5:
        expected.prefix_hash ^= (uint64_t)1 << 63;
        break;
      case 6:
        expected.tokens[KV_BLOCK - 1]++;
        break;
    }
    assert_int_equal(check(file, FILE_BYTES, &expected), KJ_INVALID);
  }
  /* Another version or size of a block, sealed. */
  expected = sample_header();
  file[8] = KV_FILE_VERSION + 1;
  kv_file_seal(file, FILE_BYTES);
  assert_int_equal(check(file, FILE_BYTES, &expected), KJ_INVALID);
  file[8] = KV_FILE_VERSION;
  file[12] = KV_BLOCK / 2;
  kv_file_seal(file, FILE_BYTES);
  assert_int_equal(check(file, FILE_BYTES, &expected), KJ_INVALID);
  file[12] = KV_BLOCK;
  kv_file_seal(file, FILE_BYTES);
  assert_int_equal(check(file, FILE_BYTES, &expected), 0);
}

static void test_sizes_beyond_64_bits(void **state) {
  (void)state;
  assert_true(kv_file_bytes(UINT64_MAX) == 0);
  assert_true(kv_file_bytes(UINT64_MAX - KV_FILE_HEADER - KV_FILE_CHECKSUM + 1) == 0);
  assert_true(kv_file_bytes(UINT64_MAX - KV_FILE_HEADER - KV_FILE_CHECKSUM) == UINT64_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_written_is_read),     cmocka_unit_test(test_every_flipped_bit_is_noticed),
      cmocka_unit_test(test_every_truncation_is_noticed), cmocka_unit_test(test_another_block_is_refused),
      cmocka_unit_test(test_sizes_beyond_64_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

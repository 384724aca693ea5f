// links: stage
/* The file of a KV block. The first byte chooses: a header alone, which must encode to the same bytes; the bytes as a
 * file; the bytes sealed with the right checksum, so that only the header decides. Nothing but the one right file may
 * be accepted. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "stage/kv_file.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAYLOAD = 40, FILE_BYTES = KV_FILE_HEADER + PAYLOAD + KV_FILE_CHECKSUM };

static void require(int condition) {
  if (!condition) abort();
}

static struct kv_file_header expected_header(void) {
  struct kv_file_header header = {.first_layer = 1,
                                  .layer_count = 2,
                                  .payload_bytes = PAYLOAD,
                                  .identity = "identity",
                                  .previous = {"previous"},
                                  .prefix_hash = 42};
  for (uint32_t i = 0; i < KV_BLOCK; i++) header.tokens[i] = i;
  return header;
}

static void read_header(const uint8_t *data, size_t size) {
  struct kv_file_header header;
  uint8_t encoded[KV_FILE_HEADER];
  if (kv_file_decode_header(&header, data, size, NULL)) return;
  kv_file_encode_header(encoded, &header);
  require(size >= KV_FILE_HEADER && memcmp(encoded, data, KV_FILE_HEADER) == 0);
}

static void read_file(const uint8_t *data, size_t size, int seal) {
  struct kv_file_header expected = expected_header();
  uint8_t right[KV_FILE_HEADER], *file = malloc(size ? size : 1);
  struct kj_error error = {0};
  require(file != NULL);
  if (size) memcpy(file, data, size);
  if (seal && size >= KV_FILE_CHECKSUM) kv_file_seal(file, size);
  if (kv_file_check(file, size, &expected, &error) == 0) {
    kv_file_encode_header(right, &expected);
    require(size == FILE_BYTES && memcmp(file, right, KV_FILE_HEADER) == 0);
  } else {
    require(error.code == KJ_INVALID && error.message[0]);
  }
  free(file);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  require(sodium_init() >= 0);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  if (data[0] % 3 == 0)
    read_header(data + 1, size - 1);
  else
    read_file(data + 1, size - 1, data[0] % 3 == 2);
  return 0;
}

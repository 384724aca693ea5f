// links: link
/* Everything that a node reads from another: handshake messages, segments and frames, and the payload of every message.
 * The first byte chooses the reader. Whatever a decoder accepts must encode to the very same bytes. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "link/frame.h"
#include "link/handshake.h"
#include "link/message.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HIDDEN = 3, KV_BLOCKS = 64, MAX_TOKENS = 300 };

static void require(int condition) {
  if (!condition) abort();
}

static void require_same(struct buffer *encoded, const uint8_t *data, size_t size) {
  require(!buffer_failed(encoded) && encoded->length == size && (size == 0 || memcmp(encoded->data, data, size) == 0));
  buffer_free(encoded);
}

static void read_handshake(const uint8_t *data, size_t size) {
  static const uint8_t key[LINK_KEY_BYTES] = {1};
  struct handshake handshake;
  struct kj_error error;
  enum handshake_refusal refusal;
  size_t hello = size < HANDSHAKE_BYTES ? size : HANDSHAKE_BYTES;
  handshake_start(&handshake, HANDSHAKE_ACCEPTOR, size % 2 ? key : NULL, LINK_PROTOCOL);
  int code = handshake_read_hello(&handshake, data, hello, &refusal, &error);
  require(code == 0 || (error.message[0] && (code == KJ_REFUSED) == (refusal != REFUSAL_NONE)));
  /* No input can contain the proof: it depends on a nonce drawn just now. */
  require(handshake_read_proof(&handshake, data + hello, size - hello, &refusal, &error) != 0);
}

/* The input is a list of segments: 0, a length of two bytes, that many bytes; or 1, a length of one byte, that many
 * bytes which are filled up to a segment of full size. */
static void read_segments(const uint8_t *data, size_t size) {
  enum { LIMIT = 1 << 20 };
  struct assembly assembly = {0};
  struct kj_error error;
  uint64_t number = 0;
  while (size >= 3) {
    size_t prefix = data[0] % 2 ? 2 : 3;
    size_t length = prefix == 2 ? data[1] : (size_t)data[1] | (size_t)data[2] << 8;
    if (length > size - prefix) length = size - prefix;
    size_t segment_length = prefix == 2 ? FRAME_SEGMENT : length;
    uint8_t *segment = calloc(1, segment_length ? segment_length : 1);
    require(segment != NULL);
    memcpy(segment, data + prefix, length);
    data += prefix + length;
    size -= prefix + length;
    bool complete = false;
    int code = assembly_add(&assembly, segment, segment_length, LIMIT, &complete, &error);
    free(segment);
    if (code) break;
    if (!complete) continue;
    bool control = assembly.header.type >= FRAME_CONTROL_TYPES;
    require(assembly.header.length <= (control ? (uint64_t)FRAME_CONTROL_PAYLOAD : (uint64_t)LIMIT));
    require(assembly.header.number == number && control == (assembly.payload == NULL));
    number += !control;
    free(assembly.payload);
    assembly.payload = NULL;
  }
  assembly_reset(&assembly);
}

static void read_introduce(const uint8_t *data, size_t size) {
  struct message_introduce message;
  struct buffer encoded = {0};
  if (message_decode_introduce(&message, data, size, NULL)) return;
  message_encode_introduce(&encoded, &message);
  require_same(&encoded, data, size);
}

static void read_assign(const uint8_t *data, size_t size) {
  struct message_assign message;
  struct buffer encoded = {0};
  if (message_decode_assign(&message, data, size, NULL)) return;
  message_encode_assign(&encoded, &message);
  message_free_assign(&message);
  require_same(&encoded, data, size);
}

static void read_small(const uint8_t *data, size_t size) {
  struct message_progress progress;
  struct message_ready ready;
  struct message_fail fail;
  struct buffer encoded = {0};
  if (message_decode_progress(&progress, data, size, NULL) == 0) {
    message_encode_progress(&encoded, &progress);
    require_same(&encoded, data, size);
  }
  if (message_decode_ready(&ready, data, size, NULL) == 0) {
    message_encode_ready(&encoded, &ready);
    require_same(&encoded, data, size);
  }
  if (message_decode_fail(&fail, data, size, NULL) == 0) {
    message_encode_fail(&encoded, &fail);
    require_same(&encoded, data, size);
  }
}

static void read_blocks(const uint8_t *data, size_t size) {
  struct message_blocks message;
  struct buffer encoded = {0};
  if (message_decode_blocks(&message, data, size, KV_BLOCKS, NULL)) return;
  require(size <= LINK_SMALL_FRAME);
  message_encode_blocks(&encoded, &message);
  message_free_blocks(&message);
  require_same(&encoded, data, size);
}

static void read_inventory(const uint8_t *data, size_t size) {
  struct message_inventory message;
  struct buffer encoded = {0};
  if (message_decode_inventory(&message, data, size, NULL)) return;
  message_encode_inventory(&encoded, &message);
  message_free_inventory(&message);
  require_same(&encoded, data, size);
}

static void read_work(const uint8_t *data, size_t size) {
  struct message_work message;
  struct buffer encoded = {0};
  if (message_decode_work(&message, data, size, HIDDEN, KV_BLOCKS, MAX_TOKENS, NULL)) return;
  require(size <= message_work_limit(MAX_TOKENS, HIDDEN, KV_BLOCKS));
  message_encode_work(&encoded, &message);
  buffer_append(&encoded, message.rows, (size_t)message.batch.tokens * HIDDEN * sizeof(float));
  message_free_work(&message);
  require_same(&encoded, data, size);
}

static void read_result(const uint8_t *data, size_t size) {
  struct message_result message;
  struct buffer encoded = {0};
  uint32_t outputs = size > 12 ? data[12] : 0; /* as many as the message claims, up to a bound */
  if (message_decode_result(&message, data, size, HIDDEN, outputs, NULL)) return;
  message_encode_result(&encoded, &message);
  buffer_append(&encoded, message.rows, (size_t)message.outputs * HIDDEN * sizeof(float));
  message_free_result(&message);
  require_same(&encoded, data, size);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  require(sodium_init() >= 0);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static void (*const readers[])(const uint8_t *data, size_t size) = {read_handshake, read_segments, read_introduce,
                                                                      read_assign,    read_small,    read_work,
                                                                      read_result,    read_blocks,   read_inventory};
  if (size == 0) return 0;
  readers[data[0] % (sizeof readers / sizeof *readers)](data + 1, size - 1);
  return 0;
}

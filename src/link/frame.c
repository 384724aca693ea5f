#include "link/frame.h"

#include <stdlib.h>
#include <string.h>

#include "link/bytes.h"
#include "link/link.h"

static const uint8_t magic[4] = {'K', 'J', 'F', 'R'};

void frame_write_header(const struct frame_header *header, uint8_t bytes[FRAME_HEADER]) {
  memcpy(bytes, magic, sizeof magic);
  bytes_put16(bytes + 4, LINK_PROTOCOL);
  bytes_put16(bytes + 6, header->type);
  bytes_put64(bytes + 8, header->epoch);
  bytes_put64(bytes + 16, header->number);
  bytes_put64(bytes + 24, header->length);
}

int frame_read_header(struct frame_header *header, const uint8_t *bytes, size_t length, struct kj_error *error) {
  if (length < FRAME_HEADER || memcmp(bytes, magic, sizeof magic) != 0)
    return kj_fail(error, KJ_INVALID, "sent something that is not a frame");
  if (bytes_get16(bytes + 4) != LINK_PROTOCOL)
    return kj_fail(error, KJ_INVALID, "sent a frame of protocol version %u instead of %d", bytes_get16(bytes + 4),
                   LINK_PROTOCOL);
  header->type = bytes_get16(bytes + 6);
  header->epoch = bytes_get64(bytes + 8);
  header->number = bytes_get64(bytes + 16);
  header->length = bytes_get64(bytes + 24);
  return 0;
}

static int control_length(uint16_t type, uint64_t *length, struct kj_error *error) {
  switch (type) {
    case FRAME_HEARTBEAT:
    case FRAME_ECHO:
      *length = FRAME_CONTROL_PAYLOAD;
      return 0;
    case FRAME_GOODBYE:
      *length = 0;
      return 0;
    default:
      return kj_fail(error, KJ_INVALID, "sent a control frame of the unknown type %u", type);
  }
}

/* Reads the header of a new frame and makes room for its payload. */
static int begin(struct assembly *assembly, const uint8_t *segment, size_t length, uint64_t limit,
                 struct kj_error *error) {
  struct frame_header header;
  int code = frame_read_header(&header, segment, length, error);
  if (code) return code;
  if (header.number != assembly->next_number)
    return kj_fail(error, KJ_INVALID, "sent frame %llu where frame %llu was due", (unsigned long long)header.number,
                   (unsigned long long)assembly->next_number);
  if (header.type >= FRAME_CONTROL_TYPES) {
    uint64_t expected = 0;
    code = control_length(header.type, &expected, error);
    if (code) return code;
    if (header.length != expected)
      return kj_fail(error, KJ_INVALID, "sent a control frame of %llu bytes", (unsigned long long)header.length);
  } else if (header.length > limit) {
    return kj_fail(error, KJ_INVALID, "sent a frame of %llu bytes where at most %llu are allowed",
                   (unsigned long long)header.length, (unsigned long long)limit);
  } else {
    assembly->payload = malloc(header.length ? header.length : 1);
    if (!assembly->payload) return kj_fail_memory(error, "a received frame");
  }
  assembly->header = header;
  assembly->received = 0;
  assembly->in_frame = true;
  return 0;
}

int assembly_add(struct assembly *assembly, const uint8_t *segment, size_t length, uint64_t limit, bool *complete,
                 struct kj_error *error) {
  *complete = false;
  if (!assembly->in_frame) {
    int code = begin(assembly, segment, length, limit, error);
    if (code) return code;
    segment += FRAME_HEADER;
    length -= FRAME_HEADER;
  }
  uint64_t remaining = assembly->header.length - assembly->received;
  uint64_t room = assembly->received == 0 ? FRAME_SEGMENT - FRAME_HEADER : FRAME_SEGMENT;
  if (length != (remaining < room ? remaining : room))
    return kj_fail(error, KJ_INVALID, "sent a segment of the wrong length");
  uint8_t *target = assembly->header.type >= FRAME_CONTROL_TYPES ? assembly->control : assembly->payload;
  if (length) memcpy(target + assembly->received, segment, length);
  assembly->received += length;
  if (assembly->received < assembly->header.length) return 0;
  assembly->in_frame = false;
  if (assembly->header.type < FRAME_CONTROL_TYPES) assembly->next_number++;
  *complete = true;
  return 0;
}

void assembly_reset(struct assembly *assembly) {
  free(assembly->payload);
  *assembly = (struct assembly){0};
}

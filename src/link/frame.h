/* Frames and the segments they travel in (docs/protocol.md). Pure: no input or output.
 *
 * A frame is a header of FRAME_HEADER bytes and a payload. It is cut into segments of FRAME_SEGMENT bytes, the last one
 * shorter; each segment is one message of the fabric. Segments of one frame follow each other without another frame in
 * between, so a segment needs no header of its own.
 */
#ifndef KAIJU_LINK_FRAME_H
#define KAIJU_LINK_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
  FRAME_HEADER = 32,
  FRAME_SEGMENT = 256 * 1024,
  FRAME_CONTROL_TYPES = 0xff00, /* types from here on belong to the link itself and are never given to its owner */
  FRAME_HEARTBEAT = 0xff00,     /* payload: 8 bytes that the peer sends back */
  FRAME_ECHO = 0xff01,          /* payload: the 8 bytes of the heartbeat that it answers */
  FRAME_GOODBYE = 0xff02, /* no payload; the sender sends nothing after it and waits for the end of the connection */
  FRAME_CONTROL_PAYLOAD = 8
};

struct frame_header {
  uint16_t type;
  uint64_t epoch;
  uint64_t number; /* counts the frames of a link and direction that are not control frames, from 0 */
  uint64_t length; /* of the payload */
};

void frame_write_header(const struct frame_header *header, uint8_t bytes[FRAME_HEADER]);
/* KJ_INVALID unless these are FRAME_HEADER bytes of this protocol version. */
int frame_read_header(struct frame_header *header, const uint8_t *bytes, size_t length, struct kj_error *error);

/* Puts segments together again. Zero-initialise; assembly_reset releases a payload that is still there. */
struct assembly {
  struct frame_header header;
  bool in_frame;        /* segments of `header`'s frame are still to come */
  uint64_t next_number; /* that the next frame must have */
  uint64_t received;    /* payload bytes so far */
  uint8_t *payload;     /* NULL for control frames */
  uint8_t control[FRAME_CONTROL_PAYLOAD];
};

/* Takes one segment. The payload is allocated when its header has arrived and its length is at most `limit`. `complete`
 * says that the frame is there: `header` and `payload` (whose ownership the caller takes, leaving NULL) or `control`
 * describe it. KJ_INVALID for a segment that breaks the protocol, KJ_MEMORY. */
int assembly_add(struct assembly *assembly, const uint8_t *segment, size_t length, uint64_t limit, bool *complete,
                 struct kj_error *error);
void assembly_reset(struct assembly *assembly);

#endif

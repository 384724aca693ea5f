/* Connections between nodes: authenticated, framed, watched.
 *
 * A hub is one process's endpoint on the fabric (libfabric, FI_EP_MSG, provider tcp or verbs; one code path) with one
 * thread that moves frames, sends heartbeats and enforces deadlines, so that a link stays alive while its owner
 * computes. The owner sends from any thread and collects events with link_next; `notify` is called (on the hub's
 * thread) whenever one becomes available. The thread sleeps in poll while nothing happens.
 *
 * A connection becomes a link only after both ends have shown that they speak the same protocol version and know the
 * same cluster key (docs/protocol.md); until then a few fixed-size messages are all that is read from it. Without a key
 * a hub listens on, and connects to, loopback addresses only. Links are named by ids that are never used again.
 */
#ifndef KAIJU_LINK_LINK_H
#define KAIJU_LINK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
  LINK_PROTOCOL = 2, /* version of frames and messages; peers must have the same */
  LINK_KEY_BYTES = 32,
  LINK_SMALL_FRAME = 2 * 1024 * 1024, /* payload limit until link_set_limit: every message but WORK and RESULT fits */
  LINK_WAITING_FRAMES = 160           /* see link_set_limit: more than a cluster has in flight */
};

struct link_hub;

struct link_options {
  /* "tcp", "verbs" or NULL: verbs where there is a device, else tcp, and the log says so; without a key always tcp,
   * because RDMA has no loopback addresses. All nodes of a cluster must use the same. */
  const char *provider;
  const uint8_t *key;            /* [LINK_KEY_BYTES] or NULL */
  double heartbeat;              /* seconds between signs of life; 0: 1, or a quarter of a deadline below 4 */
  double deadline;               /* seconds of silence after which a link is down; 0: 10 */
  void (*notify)(void *context); /* may be NULL */
  void *context;
};

int link_hub_open(struct link_hub **hub, const struct link_options *options, struct kj_error *error);
/* Flushes what is queued for at most a second, closes all links, ends the thread. */
void link_hub_close(struct link_hub *hub);
/* The provider in use: "tcp" or "verbs". */
const char *link_hub_provider(const struct link_hub *hub);

/* Accepts links at "host:port" (port 0: any); the bound address is written to `bound` as "host:port". */
int link_listen(struct link_hub *hub, const char *address, char *bound, size_t bound_size, struct kj_error *error);

/* Starts to connect; LINK_UP or LINK_DOWN with this id follows within the deadline. */
int link_connect(struct link_hub *hub, const char *address, uint64_t *link, struct kj_error *error);

/* Allows payloads of up to `bytes` on this link from now on, in both directions, and that LINK_WAITING_FRAMES of that
 * size wait to be sent, and as many to be taken: beyond that link_send fails, or the link ends. */
void link_set_limit(struct link_hub *hub, uint64_t link, size_t bytes);

/* A frame's payload is given in parts that are sent back to back; they are copied before link_send returns. Frames
 * of one link arrive whole and in order. KJ_NETWORK if the link is down or unknown, or too much waits already;
 * KJ_INVALID beyond the limit. */
struct link_part {
  const void *data;
  size_t length;
};
int link_send(struct link_hub *hub, uint64_t link, uint16_t type, uint64_t epoch, const struct link_part *parts,
              size_t part_count, struct kj_error *error);

/* Ends the link after what is queued has been sent (within a second). No event follows. */
void link_close(struct link_hub *hub, uint64_t link);

enum link_event_kind {
  LINK_UP,    /* connected or accepted, and authenticated */
  LINK_FRAME, /* a frame arrived */
  LINK_DOWN   /* could not connect, refused, lost or silent: `error` names the peer and the reason; the last event of a
                 link. A stranger that fails to authenticate against a listener is logged, and raises no event. */
};

struct link_event {
  enum link_event_kind kind;
  uint64_t link;
  bool accepted;  /* LINK_UP: the peer connected to us */
  char peer[128]; /* its address */
  uint16_t type;  /* LINK_FRAME */
  uint64_t epoch;
  uint64_t number;  /* of the frame on this link, from 0 */
  uint8_t *payload; /* LINK_FRAME: released by link_event_free */
  size_t length;
  struct kj_error error; /* LINK_DOWN */
};

/* Takes the oldest event; false if there is none. */
bool link_next(struct link_hub *hub, struct link_event *event);
void link_event_free(struct link_event *event);

/* Counters for /metrics. */
struct link_statistics {
  uint64_t bytes_sent, bytes_received, frames_sent, frames_received;
  double round_trip; /* seconds, of the last heartbeat and its echo; 0 before the first */
  double sending;    /* seconds in which frames were on their way out: from link_send to the end of the transmission */
};
bool link_statistics(struct link_hub *hub, uint64_t link, struct link_statistics *statistics);
/* `sending` since *reported, which it then is; 0 for a link that began anew. */
static inline double link_sending_since(const struct link_statistics *statistics, double *reported) {
  double seconds = statistics->sending - *reported;
  *reported = statistics->sending;
  return seconds > 0 ? seconds : 0;
}

/* A cluster key file holds 64 hexadecimal digits; it must not be readable by others. */
int link_key_load(const char *path, uint8_t key[LINK_KEY_BYTES], struct kj_error *error);
int link_key_create(const char *path, struct kj_error *error); /* refuses to overwrite */

#endif

/* Inside a hub: what its thread (hub.c, connection.c) and the callers of link.h share.
 *
 * Only the hub's thread calls the fabric and changes a connection's state. `mutex` guards what callers see: the list of
 * connections and the part of each that is marked so, the events, the spare segments.
 */
#ifndef KAIJU_LINK_HUB_H
#define KAIJU_LINK_HUB_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/address.h"
#include "link/fabric.h"
#include "link/frame.h"
#include "link/handshake.h"
#include "link/link.h"

enum {
  HUB_LEAST_BOUND = 64 << 20, /* bytes that may wait at a connection, whatever its limit */
  HUB_CONNECTIONS = 128,      /* at a time, those on their way up or down included */
  HUB_HALF_OPEN = 32,         /* accepted and not authenticated yet */
  HUB_SPARE_SEGMENTS = 64     /* kept for reuse */
};
#define HUB_SECOND 1000000000u /* the unit of time is the nanosecond */

enum {
  RECEIVES = 8, /* posted on a link */
  SENDS = 4,    /* in progress at most */
  HUB_TRANSFERS = HUB_CONNECTIONS * (RECEIVES + SENDS)
};

/* How long an accepted connection may take until it is authenticated, if the hub's deadline is not shorter. */
static const uint64_t hub_patience = 5ull * HUB_SECOND;

enum connection_state {
  STATE_NEW,        /* asked for */
  STATE_CONNECTING, /* the fabric is at it */
  STATE_GREETING,   /* HELLO sent, the peer's is awaited */
  STATE_PROVING,    /* PROOF sent, the peer's is awaited */
  STATE_UP,
  STATE_CLOSING,  /* what is queued is sent, then GOODBYE; ends when the peer has gone */
  STATE_REFUSING, /* REFUSE sent; ends when the peer has gone */
  STATE_DEAD
};

struct event_node {
  struct link_event event;
  struct event_node *next;
};

struct connection {
  struct link_hub *hub;
  struct connection *next;
  uint64_t id;
  bool accepted;
  char peer[ADDRESS_TEXT]; /* its name in messages */

  /* Under the hub's mutex. */
  bool up;
  bool close_requested;
  bool quiet; /* raises no more events */
  uint64_t limit;
  uint64_t bound;                      /* on the cost of frames that wait, in either direction */
  struct segment *queue, **queue_tail; /* frames that wait to be sent */
  uint64_t queued;                     /* cost of the frames in `queue` */
  uint64_t unread;                     /* cost of the frames among the hub's events */
  struct link_statistics statistics;
  uint64_t sending_since;                   /* when frames began to be on their way out; 0: none is */
  struct event_node *up_event, *down_event; /* allocated beforehand: these must not fail */

  /* The hub's thread only. */
  enum connection_state state;
  struct endpoint *endpoint;
  struct address addresses[ADDRESS_MAX];
  size_t address_count, address_next;
  struct handshake handshake;
  struct transfer receives[RECEIVES], sends[SENDS]; /* a send is in progress while it has a segment */
  struct segment *held;                             /* taken from `queue`, and the device had no room */
  bool in_frame;                                    /* the next segment belongs to the frame before it */
  uint64_t next_number;
  struct assembly assembly;
  uint64_t until;             /* when to give up in a state that is not UP */
  uint64_t heard, next_beat;  /* when the peer last said something; when to send a heartbeat */
  uint64_t beat, echo;        /* time in the heartbeat that was sent last; what to send back */
  bool beat_due, echo_due;    /* waiting to be sent */
  bool goodbye_due, answered; /* GOODBYE is still to be sent; REFUSING: the peer has had its say */
};

struct listen_request {
  const struct address *addresses;
  size_t count;
  struct address bound;
  bool done;
  int code;
  struct kj_error error;
};

struct link_hub {
  struct fabric *fabric;
  char provider[16];
  bool has_key;
  uint8_t key[LINK_KEY_BYTES];
  uint64_t heartbeat, deadline;
  void (*notify)(void *context);
  void *context;

  uint64_t next_sweep; /* for silent strangers; the hub's thread only, as is `listening` */
  bool listening;

  pthread_t thread;
  bool started;
  int wake; /* eventfd */

  pthread_mutex_t mutex;
  pthread_cond_t answered;       /* a listen_request is done */
  struct listen_request *listen; /* all below: under mutex */
  bool stopping;
  uint64_t next_id;
  struct connection *connections;
  size_t connection_count;
  struct event_node *events, **events_tail;
  bool raised; /* an event was added since `notify` was called */
  struct segment *spare;
  size_t spare_count;
};

/* What a frame counts for in the bound on what waits. */
static inline uint64_t hub_cost(uint64_t length) { return length + 4096; }

/* One segment, in no list; NULL: out of memory. Any thread, without the mutex. */
struct segment *hub_take_segment(struct link_hub *hub);
/* A list of them. */
void hub_give_segments(struct link_hub *hub, struct segment *segments);
/* Takes the node; drops it if the connection is quiet. */
void hub_raise(struct link_hub *hub, struct connection *connection, struct event_node *node);

/* NULL: out of memory. The caller puts it into the hub's list. */
struct connection *connection_create(struct link_hub *hub, bool accepted);
void connection_destroy(struct connection *connection); /* DEAD, or never begun; no longer in the hub's list */

/* The hub's thread, without the mutex. */
void connection_accept(struct connection *connection, struct fabric_request *request, uint64_t now);
void connection_connected(struct connection *connection, uint64_t now);
void connection_lost(struct connection *connection, int reason);
void connection_completed(struct connection *connection, struct transfer *transfer, uint64_t now);
/* Sends what can be sent, enforces deadlines; returns when it wants to be called again at the latest. */
uint64_t connection_advance(struct connection *connection, uint64_t now);

#endif

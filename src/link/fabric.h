/* The fabric: libfabric's objects behind a few verbs, for one thread.
 *
 * One code path serves the providers tcp and verbs (FI_EP_MSG): all memory that is sent from or received into is
 * registered and its descriptor passed, connections carry no private data, and nothing is busy-polled: the owner sleeps
 * in poll on what fabric_sleep gives it, then reads fabric_next_event and fabric_next_completion until both are empty.
 * Reading is also what drives the tcp provider.
 *
 * Receivers keep transfers posted; there are no credits. A sender that outruns them is held back by TCP's window or by
 * RNR retries (which the verbs provider repeats for ever).
 *
 * Ownership: the fabric owns listeners and devices; the caller owns endpoints, segments and transfers. A transfer and
 * its segment must stay untouched until its completion has been read, or the endpoint was closed.
 */
#ifndef KAIJU_LINK_FABRIC_H
#define KAIJU_LINK_FABRIC_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "link/address.h"
#include "link/frame.h"

enum {
  FABRIC_DEVICES = 16, /* network devices in use at a time */
  FABRIC_POLL = FABRIC_DEVICES + 1
};

struct fabric;
struct endpoint;
struct fid_mr;
struct fabric_device;

/* A buffer of FRAME_SEGMENT bytes. It is registered with a device when it is first used there. */
struct segment {
  uint8_t *bytes;
  struct segment *next; /* for the owner's lists */
  size_t length;        /* of what is to be sent */
  bool begins_frame;
  uint64_t key; /* of the registration */
  struct fid_mr *registration;
  struct fabric_device *device;
};

struct segment *segment_create(void); /* NULL: out of memory */
void segment_free(struct segment *segment);

/* An operation in progress. The caller fills the first part; the rest is the fabric's. */
struct transfer {
  void *owner; /* the caller's */
  struct segment *segment;
  size_t offset, length; /* of the bytes in the segment */

  bool sending;
  struct endpoint *endpoint;
  size_t received;
  int reason; /* 0 or errno: the transfer failed, and with it the connection */
  struct transfer *next;
};

/* `provider` is "tcp", "verbs" or NULL for verbs where there is a device, else tcp. KJ_NOT_FOUND if there is none. */
int fabric_open(struct fabric **fabric, const char *provider, struct kj_error *error);
void fabric_close(struct fabric *fabric); /* all endpoints must have been closed, all segments freed */
const char *fabric_provider(const struct fabric *fabric);

/* Listens; `bound` becomes the address with the port that was chosen. */
int fabric_listen(struct fabric *fabric, const struct address *address, struct address *bound, struct kj_error *error);

/* Ends connections to the listeners on which nothing has been said since the last call (provider tcp, see silent.h). */
void fabric_drop_silent(struct fabric *fabric);

/* Starts to connect. EVENT_CONNECTED or EVENT_LOST with `owner` follows. */
int endpoint_connect(struct endpoint **endpoint, struct fabric *fabric, const struct address *address, void *owner,
                     struct kj_error *error);
/* Posting receives before the connection is there is allowed, sending is not. */
int endpoint_receive(struct endpoint *endpoint, struct transfer *transfer, struct kj_error *error);
/* `busy` says that the device has no room now, and nothing happened. */
int endpoint_send(struct endpoint *endpoint, struct transfer *transfer, bool *busy, struct kj_error *error);
void endpoint_close(
    struct endpoint *endpoint); /* NULL is allowed; no event or completion of it is reported afterwards */

enum fabric_event_kind { EVENT_REQUEST, EVENT_CONNECTED, EVENT_LOST };
struct fabric_request; /* someone wants to connect */
struct fabric_event {
  enum fabric_event_kind kind;
  void *owner;                    /* CONNECTED, LOST: of the endpoint */
  int reason;                     /* LOST: errno, 0 if the peer shut the connection down */
  struct fabric_request *request; /* REQUEST: to be passed to request_accept or request_reject */
  struct address peer;            /* REQUEST */
};
bool fabric_next_event(struct fabric *fabric, struct fabric_event *event);

/* The endpoint exists afterwards, for receives to be posted; endpoint_accept lets the connection come up. Releases the
 * request; on an error the peer is rejected. */
int request_accept(struct endpoint **endpoint, struct fabric *fabric, struct fabric_request *request, void *owner,
                   struct kj_error *error);
int endpoint_accept(struct endpoint *endpoint, struct kj_error *error);
void request_reject(struct fabric_request *request);

/* The next transfer that has ended, with `received` or `reason` filled in; NULL if there is none. The devices take
 * turns. What an endpoint had to say before EVENT_LOST comes before what ends after that event has been read. */
struct transfer *fabric_next_completion(struct fabric *fabric);

/* Descriptors to poll for input; 0 if there is something to read already. */
size_t fabric_sleep(struct fabric *fabric, struct pollfd descriptors[FABRIC_POLL]);

#endif

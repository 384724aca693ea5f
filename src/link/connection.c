#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "link/bytes.h"
#include "link/hub.h"

static const uint64_t linger = HUB_SECOND;           /* for the last words of a connection */
static const uint64_t busy_retry = HUB_SECOND / 100; /* when the device has no room for a send */

static double seconds(uint64_t nanoseconds) { return (double)nanoseconds * 1e-9; }

struct connection *connection_create(struct link_hub *hub, bool accepted) {
  struct connection *connection = calloc(1, sizeof *connection);
  if (!connection) return NULL;
  connection->hub = hub;
  connection->accepted = accepted;
  connection->limit = LINK_SMALL_FRAME;
  connection->bound = HUB_LEAST_BOUND;
  connection->queue_tail = &connection->queue;
  connection->up_event = calloc(1, sizeof *connection->up_event);
  connection->down_event = calloc(1, sizeof *connection->down_event);
  if (connection->up_event && connection->down_event) return connection;
  connection_destroy(connection);
  return NULL;
}

/* Closes the endpoint and gives back every segment. */
static void release(struct connection *connection) {
  endpoint_close(connection->endpoint);
  connection->endpoint = NULL;
  struct segment *all = connection->held;
  connection->held = NULL;
  for (size_t i = 0; i < RECEIVES + SENDS; i++) {
    struct transfer *transfer = i < RECEIVES ? &connection->receives[i] : &connection->sends[i - RECEIVES];
    if (!transfer->segment) continue;
    transfer->segment->next = all;
    all = transfer->segment;
    transfer->segment = NULL;
  }
  hub_give_segments(connection->hub, all);
  assembly_reset(&connection->assembly);
  handshake_wipe(&connection->handshake);
}

void connection_destroy(struct connection *connection) {
  release(connection);
  hub_give_segments(connection->hub, connection->queue);
  free(connection->up_event);
  free(connection->down_event);
  free(connection);
}

static void die(struct connection *connection) {
  pthread_mutex_lock(&connection->hub->mutex);
  connection->up = false;
  connection->quiet = true;
  pthread_mutex_unlock(&connection->hub->mutex);
  release(connection);
  connection->state = STATE_DEAD;
}

/* Tells the owner, or for a stranger the log, that this link will not be, or is no more. */
static void report_down(struct connection *connection, struct kj_error *error) {
  struct link_hub *hub = connection->hub;
  kj_fail_context(error, "%s", connection->peer);
  pthread_mutex_lock(&hub->mutex);
  bool stranger = connection->accepted && !connection->up;
  bool quiet = connection->quiet;
  connection->up = false;
  struct event_node *node = stranger ? NULL : connection->down_event;
  if (node) connection->down_event = NULL;
  pthread_mutex_unlock(&hub->mutex);
  if (stranger && !quiet) log_warning("connection turned away: %s", error->message);
  if (node) {
    node->event.kind = LINK_DOWN;
    node->event.error = *error;
    hub_raise(hub, connection, node);
  }
  pthread_mutex_lock(&hub->mutex);
  connection->quiet = true;
  pthread_mutex_unlock(&hub->mutex);
}

static void fail(struct connection *connection, struct kj_error *error) {
  report_down(connection, error);
  die(connection);
}

static int post_receive(struct connection *connection, struct transfer *transfer, size_t length,
                        struct kj_error *error) {
  if (!transfer->segment) transfer->segment = hub_take_segment(connection->hub);
  if (!transfer->segment) return kj_fail_memory(error, "a receive buffer");
  transfer->owner = connection;
  transfer->offset = 0;
  transfer->length = length;
  return endpoint_receive(connection->endpoint, transfer, error);
}

/* The handshake's two messages are all that is received until the peer has proved itself. */
static int post_handshake_receives(struct connection *connection, struct kj_error *error) {
  int code = post_receive(connection, &connection->receives[0], HANDSHAKE_BYTES, error);
  return code ? code : post_receive(connection, &connection->receives[1], HANDSHAKE_BYTES, error);
}

static struct transfer *free_send(struct connection *connection) {
  for (size_t i = 0; i < SENDS; i++)
    if (!connection->sends[i].segment) return &connection->sends[i];
  return NULL;
}

static bool sending(const struct connection *connection) {
  for (size_t i = 0; i < SENDS; i++)
    if (connection->sends[i].segment) return true;
  return false;
}

static int send_handshake(struct connection *connection, const uint8_t message[HANDSHAKE_BYTES],
                          struct kj_error *error) {
  struct transfer *transfer = free_send(connection);
  struct segment *segment = transfer ? hub_take_segment(connection->hub) : NULL;
  if (!segment) return kj_fail_memory(error, "a handshake message");
  memcpy(segment->bytes, message, HANDSHAKE_BYTES);
  *transfer = (struct transfer){.owner = connection, .segment = segment, .length = HANDSHAKE_BYTES};
  bool busy = false;
  int code = endpoint_send(connection->endpoint, transfer, &busy, error);
  if (!code && busy) code = kj_fail(error, KJ_NETWORK, "the network device has no room for a message");
  if (code) {
    transfer->segment = NULL;
    hub_give_segments(connection->hub, segment);
  }
  return code;
}

/* Tries the next address of the peer. */
static void start_connecting(struct connection *connection) {
  struct kj_error error = {0};
  connection->state = STATE_CONNECTING;
  while (connection->address_next < connection->address_count) {
    const struct address *address = &connection->addresses[connection->address_next++];
    int code = endpoint_connect(&connection->endpoint, connection->hub->fabric, address, connection, &error);
    if (!code) code = post_handshake_receives(connection, &error);
    if (!code) return;
    endpoint_close(connection->endpoint);
    connection->endpoint = NULL;
  }
  kj_fail_context(&error, "cannot connect");
  fail(connection, &error);
}

void connection_accept(struct connection *connection, struct fabric_request *request, uint64_t now) {
  struct kj_error error;
  uint64_t patience = connection->hub->deadline;
  connection->until = now + (patience < hub_patience ? patience : hub_patience);
  connection->state = STATE_CONNECTING;
  int code = request_accept(&connection->endpoint, connection->hub->fabric, request, connection, &error);
  if (!code) code = post_handshake_receives(connection, &error);
  if (!code) code = endpoint_accept(connection->endpoint, &error);
  if (code) fail(connection, &error);
}

void connection_connected(struct connection *connection, uint64_t now) {
  struct link_hub *hub = connection->hub;
  if (connection->state != STATE_CONNECTING) return;
  uint8_t hello[HANDSHAKE_BYTES];
  struct kj_error error;
  handshake_start(&connection->handshake, connection->accepted ? HANDSHAKE_ACCEPTOR : HANDSHAKE_INITIATOR,
                  hub->has_key ? hub->key : NULL, LINK_PROTOCOL);
  handshake_write_hello(&connection->handshake, hello);
  connection->state = STATE_GREETING;
  connection->heard = now;
  if (send_handshake(connection, hello, &error)) fail(connection, &error);
}

void connection_lost(struct connection *connection, int reason) {
  struct kj_error error;
  bool closed = reason == 0 || reason == ECANCELED || reason == ECONNRESET || reason == EPIPE;
  switch (connection->state) {
    case STATE_CONNECTING:
      if (!connection->accepted && connection->address_next < connection->address_count) {
        release(connection);
        connection->state = STATE_NEW;
        return;
      }
      kj_fail(&error, KJ_NETWORK, "cannot connect: %s%s", reason ? strerror(reason) : "the connection was closed",
              reason == ECONNREFUSED ? "; is a Kaiju node listening there?" : "");
      fail(connection, &error);
      return;
    case STATE_GREETING:
    case STATE_PROVING:
      kj_fail(&error, KJ_NETWORK, "closed the connection during the handshake%s%s", closed ? "" : ": ",
              closed ? "" : strerror(reason));
      fail(connection, &error);
      return;
    case STATE_UP:
      kj_fail(&error, KJ_NETWORK, "the connection was lost: %s",
              closed ? "the process at the other end is gone" : strerror(reason));
      fail(connection, &error);
      return;
    case STATE_CLOSING:
    case STATE_REFUSING:
      die(connection);
      return;
    case STATE_NEW:
    case STATE_DEAD:
      return;
  }
}

/* The peer is told why, as far as there is something to tell, and given time to hear it. */
static void refuse(struct connection *connection, enum handshake_refusal refusal, struct kj_error *error,
                   uint64_t now) {
  report_down(connection, error);
  uint8_t message[HANDSHAKE_BYTES];
  handshake_write_refusal(refusal, message);
  if (refusal == REFUSAL_NONE || send_handshake(connection, message, NULL) != 0) {
    die(connection);
    return;
  }
  connection->state = STATE_REFUSING;
  connection->until = now + linger;
}

static void become_up(struct connection *connection, uint64_t now) {
  struct link_hub *hub = connection->hub;
  struct kj_error error;
  for (size_t i = 0; i < RECEIVES; i++) {
    if (post_receive(connection, &connection->receives[i], FRAME_SEGMENT, &error) == 0) continue;
    fail(connection, &error);
    return;
  }
  handshake_wipe(&connection->handshake);
  connection->state = STATE_UP;
  connection->next_beat = now; /* the first round trip is measured at once */
  pthread_mutex_lock(&hub->mutex);
  connection->up = true;
  struct event_node *node = connection->up_event;
  connection->up_event = NULL;
  pthread_mutex_unlock(&hub->mutex);
  node->event.kind = LINK_UP;
  hub_raise(hub, connection, node);
}

static void received_handshake(struct connection *connection, const struct transfer *transfer, uint64_t now) {
  struct kj_error error;
  enum handshake_refusal refusal = REFUSAL_NONE;
  const uint8_t *bytes = transfer->segment->bytes;
  int code = 0;
  if (connection->state == STATE_GREETING) {
    code = handshake_read_hello(&connection->handshake, bytes, transfer->received, &refusal, &error);
    if (!code) {
      uint8_t proof[HANDSHAKE_BYTES];
      handshake_write_proof(&connection->handshake, proof);
      code = send_handshake(connection, proof, &error);
      connection->state = STATE_PROVING;
    }
  } else {
    code = handshake_read_proof(&connection->handshake, bytes, transfer->received, &refusal, &error);
    if (!code) become_up(connection, now);
  }
  if (code) refuse(connection, refusal, &error, now);
}

/* Hands a frame to the owner. */
static int deliver(struct connection *connection, struct kj_error *error) {
  struct link_hub *hub = connection->hub;
  struct assembly *assembly = &connection->assembly;
  uint64_t cost = hub_cost(assembly->header.length);
  struct event_node *node = calloc(1, sizeof *node);
  if (!node) return kj_fail_memory(error, "a received frame");
  pthread_mutex_lock(&hub->mutex);
  bool fits = connection->unread + cost <= connection->bound;
  if (fits && !connection->quiet) connection->unread += cost;
  uint64_t unread = connection->unread;
  connection->statistics.frames_received++;
  pthread_mutex_unlock(&hub->mutex);
  if (!fits) {
    free(node);
    return kj_fail(error, KJ_NETWORK, "sends faster than its frames are taken: %llu bytes wait",
                   (unsigned long long)unread);
  }
  node->event.kind = LINK_FRAME;
  node->event.type = assembly->header.type;
  node->event.epoch = assembly->header.epoch;
  node->event.number = assembly->header.number;
  node->event.payload = assembly->payload;
  node->event.length = (size_t)assembly->header.length;
  assembly->payload = NULL;
  hub_raise(hub, connection, node);
  return 0;
}

static int received_frame(struct connection *connection, uint64_t now, struct kj_error *error) {
  struct assembly *assembly = &connection->assembly;
  switch (assembly->header.type) {
    case FRAME_HEARTBEAT:
      connection->echo = bytes_get64(assembly->control);
      connection->echo_due = true;
      return 0;
    case FRAME_ECHO:
      if (connection->beat && bytes_get64(assembly->control) == connection->beat) {
        pthread_mutex_lock(&connection->hub->mutex);
        connection->statistics.round_trip = seconds(now - connection->beat);
        pthread_mutex_unlock(&connection->hub->mutex);
      }
      return 0;
    case FRAME_GOODBYE:
      return kj_fail(error, KJ_NETWORK, "closed the link");
    default:
      return deliver(connection, error);
  }
}

static void received_segment(struct connection *connection, struct transfer *transfer, uint64_t now) {
  struct link_hub *hub = connection->hub;
  struct kj_error error;
  connection->heard = now;
  pthread_mutex_lock(&hub->mutex);
  connection->statistics.bytes_received += transfer->received;
  uint64_t limit = connection->limit;
  pthread_mutex_unlock(&hub->mutex);
  bool complete = false;
  int code =
      assembly_add(&connection->assembly, transfer->segment->bytes, transfer->received, limit, &complete, &error);
  if (!code && complete) code = received_frame(connection, now, &error);
  if (!code) code = post_receive(connection, transfer, FRAME_SEGMENT, &error);
  if (code) fail(connection, &error);
}

/* Accounts for the time in which frames were on their way out, once none is. */
static void note_sent(struct connection *connection, uint64_t now) {
  if (sending(connection) || connection->held) return;
  pthread_mutex_lock(&connection->hub->mutex);
  if (connection->sending_since && !connection->queue) {
    /* A frame may have been queued after `now` was read. */
    if (now > connection->sending_since) connection->statistics.sending += seconds(now - connection->sending_since);
    connection->sending_since = 0;
  }
  pthread_mutex_unlock(&connection->hub->mutex);
}

void connection_completed(struct connection *connection, struct transfer *transfer, uint64_t now) {
  if (transfer->sending) {
    struct segment *segment = transfer->segment;
    transfer->segment = NULL;
    segment->next = NULL;
    hub_give_segments(connection->hub, segment);
  }
  if (transfer->reason) {
    /* Why a connection does not come up is told by an event; its receives are merely cancelled before that. */
    if (connection->state != STATE_CONNECTING) connection_lost(connection, transfer->reason);
    return;
  }
  if (transfer->sending) {
    note_sent(connection, now);
    return;
  }
  /* The peer's first words can be read before the news that the connection is there. */
  if (connection->state == STATE_CONNECTING) connection_connected(connection, now);
  switch (connection->state) {
    case STATE_GREETING:
    case STATE_PROVING:
      received_handshake(connection, transfer, now);
      return;
    case STATE_UP:
    case STATE_CLOSING:
      received_segment(connection, transfer, now);
      return;
    case STATE_REFUSING:
      connection->answered = true;
      return;
    default:
      return;
  }
}

static struct segment *control_segment(struct connection *connection, uint16_t type, uint64_t value) {
  struct segment *segment = hub_take_segment(connection->hub);
  if (!segment) return NULL;
  struct frame_header header = {.type = type, .number = connection->next_number};
  header.length = type == FRAME_GOODBYE ? 0 : FRAME_CONTROL_PAYLOAD;
  frame_write_header(&header, segment->bytes);
  bytes_put64(segment->bytes + FRAME_HEADER, value);
  segment->length = FRAME_HEADER + (size_t)header.length;
  segment->begins_frame = false;
  return segment;
}

/* A heartbeat or an echo, if one is due; they go between the frames, before those that wait. */
static struct segment *next_sign_of_life(struct connection *connection, uint64_t now) {
  struct segment *segment = NULL;
  if (connection->echo_due) {
    segment = control_segment(connection, FRAME_ECHO, connection->echo);
    if (segment) connection->echo_due = false;
  } else if (connection->beat_due) {
    segment = control_segment(connection, FRAME_HEARTBEAT, now);
    if (segment) {
      connection->beat_due = false;
      connection->beat = now;
    }
  }
  return segment;
}

/* The next segment to send; NULL if there is none. */
static struct segment *next_segment(struct connection *connection, uint64_t now) {
  struct link_hub *hub = connection->hub;
  struct segment *segment = connection->held;
  if (segment) {
    connection->held = NULL;
    return segment;
  }
  if (connection->state == STATE_CLOSING && !connection->goodbye_due) return NULL; /* GOODBYE was the last */
  if (!connection->in_frame && (segment = next_sign_of_life(connection, now))) return segment;
  pthread_mutex_lock(&hub->mutex);
  segment = connection->queue;
  if (segment) {
    connection->queue = segment->next;
    if (!connection->queue) connection->queue_tail = &connection->queue;
    connection->in_frame = connection->queue && !connection->queue->begins_frame;
    if (segment->begins_frame) {
      struct frame_header header;
      frame_read_header(&header, segment->bytes, segment->length, NULL);
      header.number = connection->next_number++;
      frame_write_header(&header, segment->bytes);
      connection->queued -= hub_cost(header.length);
      connection->statistics.frames_sent++;
    }
  }
  pthread_mutex_unlock(&hub->mutex);
  if (!segment && connection->goodbye_due) {
    segment = control_segment(connection, FRAME_GOODBYE, 0);
    if (segment) connection->goodbye_due = false;
  }
  if (segment) segment->next = NULL;
  return segment;
}

/* Sends what there is as far as the device takes it; true if it had no room. */
static bool pump(struct connection *connection, uint64_t now) {
  struct link_hub *hub = connection->hub;
  for (struct transfer *transfer; (transfer = free_send(connection));) {
    struct segment *segment = next_segment(connection, now);
    if (!segment) return false;
    *transfer = (struct transfer){.owner = connection, .segment = segment, .length = segment->length};
    bool busy = false;
    struct kj_error error;
    if (endpoint_send(connection->endpoint, transfer, &busy, &error)) {
      fail(connection, &error);
      return false;
    }
    if (busy) {
      transfer->segment = NULL;
      connection->held = segment;
      return true;
    }
    pthread_mutex_lock(&hub->mutex);
    connection->statistics.bytes_sent += segment->length;
    pthread_mutex_unlock(&hub->mutex);
  }
  return false;
}

static void obey_close(struct connection *connection, uint64_t now) {
  if (connection->state == STATE_UP) {
    connection->state = STATE_CLOSING;
    connection->until = now + linger;
    connection->beat_due = false;
    connection->goodbye_due = true;
  } else if (connection->state < STATE_UP) {
    die(connection);
  }
}

/* Nobody answered in time. */
static void give_up(struct connection *connection) {
  struct kj_error error;
  double patience = seconds(connection->hub->deadline);
  switch (connection->state) {
    case STATE_CONNECTING:
      kj_fail(&error, KJ_TIMEOUT, "cannot connect: no answer within %g s", patience);
      fail(connection, &error);
      return;
    case STATE_GREETING:
    case STATE_PROVING:
      kj_fail(&error, KJ_TIMEOUT, "did not complete the handshake in time; is it a Kaiju node?");
      fail(connection, &error);
      return;
    default:
      die(connection);
  }
}

static uint64_t earlier(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t advance_up(struct connection *connection, uint64_t now) {
  struct link_hub *hub = connection->hub;
  if (now - connection->heard >= hub->deadline) {
    struct kj_error error;
    kj_fail(&error, KJ_TIMEOUT, "no sign of life for %g s: the machine, its network or the process is stuck",
            seconds(hub->deadline));
    fail(connection, &error);
    return UINT64_MAX;
  }
  if (now >= connection->next_beat) {
    connection->beat_due = true;
    connection->next_beat = now + hub->heartbeat;
  }
  uint64_t next = earlier(connection->next_beat, connection->heard + hub->deadline);
  return pump(connection, now) ? earlier(next, now + busy_retry) : next;
}

uint64_t connection_advance(struct connection *connection, uint64_t now) {
  pthread_mutex_lock(&connection->hub->mutex);
  bool close_requested = connection->close_requested;
  pthread_mutex_unlock(&connection->hub->mutex);
  if (close_requested) obey_close(connection, now);
  if (connection->state == STATE_NEW) start_connecting(connection);
  if (connection->state == STATE_UP) return advance_up(connection, now);
  if (connection->state == STATE_DEAD) return UINT64_MAX;
  if (connection->state == STATE_REFUSING && connection->answered && !sending(connection)) {
    die(connection);
    return UINT64_MAX;
  }
  if (now >= connection->until) {
    give_up(connection);
    return UINT64_MAX;
  }
  if (connection->state == STATE_CLOSING && pump(connection, now)) return earlier(connection->until, now + busy_retry);
  return connection->until;
}

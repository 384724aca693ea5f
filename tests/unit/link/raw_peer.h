/* A peer made by hand from the fabric, which says whatever a test wants it to say. */
#ifndef KAIJU_TESTS_LINK_RAW_PEER_H
#define KAIJU_TESTS_LINK_RAW_PEER_H

#include <sodium.h>

#include "base/clock.h"
#include "link/bytes.h"
#include "link/fabric.h"
#include "link/handshake.h"
#include "unit/unit.h"

enum { RAW_RECEIVES = 4 };

struct raw_peer {
  struct fabric *fabric;
  struct endpoint *endpoint;
  struct transfer receives[RAW_RECEIVES], sending;
  bool connected, lost, sent;
  struct transfer *arrived[RAW_RECEIVES]; /* in order */
  size_t arrived_count;
  struct handshake handshake;
};

static inline void raw_open(struct raw_peer *peer) {
  struct kj_error error;
  *peer = (struct raw_peer){0};
  if (fabric_open(&peer->fabric, "tcp", &error)) fail_msg("%s", error.message);
}

static inline void raw_post(struct raw_peer *peer) {
  for (size_t i = 0; i < RAW_RECEIVES; i++) {
    if (!peer->receives[i].segment) peer->receives[i].segment = segment_create();
    peer->receives[i].length = FRAME_SEGMENT;
    assert_int_equal(endpoint_receive(peer->endpoint, &peer->receives[i], NULL), 0);
  }
}

static inline void raw_hang_up(struct raw_peer *peer) {
  endpoint_close(peer->endpoint);
  peer->endpoint = NULL;
  for (size_t i = 0; i < RAW_RECEIVES; i++) segment_free(peer->receives[i].segment);
  segment_free(peer->sending.segment);
  struct fabric *fabric = peer->fabric;
  *peer = (struct raw_peer){.fabric = fabric};
}

static inline void raw_close(struct raw_peer *peer) {
  raw_hang_up(peer);
  fabric_close(peer->fabric);
}

/* Takes in what has happened; sleeps if nothing has. */
static inline void raw_step(struct raw_peer *peer) {
  bool something = false;
  for (struct fabric_event event; fabric_next_event(peer->fabric, &event); something = true) {
    if (event.kind == EVENT_CONNECTED) peer->connected = true;
    if (event.kind == EVENT_LOST) peer->lost = true;
    if (event.kind == EVENT_REQUEST) {
      assert_int_equal(request_accept(&peer->endpoint, peer->fabric, event.request, peer, NULL), 0);
      raw_post(peer);
      assert_int_equal(endpoint_accept(peer->endpoint, NULL), 0);
    }
  }
  for (struct transfer *transfer; (transfer = fabric_next_completion(peer->fabric)); something = true) {
    if (transfer->reason)
      peer->lost = true;
    else if (transfer->sending)
      peer->sent = true;
    else
      peer->arrived[peer->arrived_count++] = transfer;
  }
  struct pollfd descriptors[FABRIC_POLL];
  size_t count = something ? 0 : fabric_sleep(peer->fabric, descriptors);
  if (count) poll(descriptors, count, 100);
}

static inline void raw_start(struct raw_peer *peer, const char *address) {
  struct address addresses[ADDRESS_MAX];
  size_t count;
  struct kj_error error;
  assert_int_equal(address_resolve(address, addresses, &count, NULL), 0);
  if (endpoint_connect(&peer->endpoint, peer->fabric, &addresses[0], peer, &error)) fail_msg("%s", error.message);
  raw_post(peer);
}

static inline void raw_await_connection(struct raw_peer *peer) {
  double give_up = clock_seconds() + 60;
  while (!peer->connected && !peer->lost && clock_seconds() < give_up) raw_step(peer);
}

static inline void raw_connect(struct raw_peer *peer, const char *address) {
  raw_start(peer, address);
  raw_await_connection(peer);
  assert_true(peer->connected);
}

static inline void raw_listen(struct raw_peer *peer, char bound[ADDRESS_TEXT]) {
  struct address addresses[ADDRESS_MAX], address;
  size_t count;
  assert_int_equal(address_resolve("127.0.0.1:0", addresses, &count, NULL), 0);
  assert_int_equal(fabric_listen(peer->fabric, &addresses[0], &address, NULL), 0);
  address_format(&address, bound);
}

static inline void raw_send(struct raw_peer *peer, const void *bytes, size_t length) {
  bool busy = false;
  if (!peer->sending.segment) peer->sending.segment = segment_create();
  memcpy(peer->sending.segment->bytes, bytes, length);
  peer->sending.length = length;
  peer->sent = false;
  if (endpoint_send(peer->endpoint, &peer->sending, &busy, NULL) != 0) {
    peer->lost = true;
    return;
  }
  assert_false(busy);
  while (!peer->sent && !peer->lost) raw_step(peer);
}

/* The next message that arrived; NULL if the connection ends first. */
static inline struct transfer *raw_receive(struct raw_peer *peer) {
  double give_up = clock_seconds() + 60;
  while (!peer->arrived_count && !peer->lost && clock_seconds() < give_up) raw_step(peer);
  if (!peer->arrived_count) {
    assert_true(peer->lost);
    return NULL;
  }
  struct transfer *first = peer->arrived[0];
  memmove(peer->arrived, peer->arrived + 1, --peer->arrived_count * sizeof *peer->arrived);
  return first;
}

static inline void raw_repost(struct raw_peer *peer, struct transfer *transfer) {
  (void)endpoint_receive(peer->endpoint, transfer, NULL);
}

static inline void raw_greet(struct raw_peer *peer, enum handshake_role role, const uint8_t *key, uint32_t version) {
  uint8_t message[HANDSHAKE_BYTES];
  handshake_start(&peer->handshake, role, key, version);
  handshake_write_hello(&peer->handshake, message);
  raw_send(peer, message, sizeof message);
}

/* Goes through the handshake as a node with the right version would. */
static inline void raw_authenticate(struct raw_peer *peer, const uint8_t *key) {
  uint8_t message[HANDSHAKE_BYTES];
  enum handshake_refusal refusal;
  raw_greet(peer, HANDSHAKE_INITIATOR, key, LINK_PROTOCOL);
  struct transfer *hello = raw_receive(peer);
  assert_non_null(hello);
  assert_int_equal(handshake_read_hello(&peer->handshake, hello->segment->bytes, hello->received, &refusal, NULL), 0);
  handshake_write_proof(&peer->handshake, message);
  raw_send(peer, message, sizeof message);
  struct transfer *proof = raw_receive(peer);
  assert_non_null(proof);
  assert_int_equal(handshake_read_proof(&peer->handshake, proof->segment->bytes, proof->received, &refusal, NULL), 0);
}

#endif

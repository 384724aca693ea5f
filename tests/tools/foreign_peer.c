/* A peer that speaks another protocol version, for the end-to-end tests.
 *
 *   foreign_peer listen VERSION           prints the address it listens at, greets who connects, says how that went
 *   foreign_peer connect VERSION ADDRESS  greets the one who listens there
 *
 * It greets as docs/protocol.md lays down, and reads what the other end answers until that hangs up.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "link/bytes.h"
#include "link/fabric.h"
#include "link/handshake.h"

enum { RECEIVES = 4, PATIENCE_SECONDS = 60 };

struct peer {
  struct fabric *fabric;
  struct endpoint *endpoint;
  struct transfer receives[RECEIVES], greeting;
  struct handshake handshake;
  bool connected, lost;
};

static int fail(const struct kj_error *error) {
  fprintf(stderr, "foreign_peer: %s\n", error->message);
  return 1;
}

static int post_receives(struct peer *peer, struct kj_error *error) {
  int code = 0;
  for (size_t i = 0; i < RECEIVES && !code; i++) {
    peer->receives[i].segment = segment_create();
    if (!peer->receives[i].segment) return kj_fail_memory(error, "a segment");
    peer->receives[i].length = FRAME_SEGMENT;
    code = endpoint_receive(peer->endpoint, &peer->receives[i], error);
  }
  return code;
}

static int greet(struct peer *peer, struct kj_error *error) {
  bool busy;
  peer->greeting.segment = segment_create();
  if (!peer->greeting.segment) return kj_fail_memory(error, "a segment");
  handshake_write_hello(&peer->handshake, peer->greeting.segment->bytes);
  peer->greeting.length = HANDSHAKE_BYTES;
  return endpoint_send(peer->endpoint, &peer->greeting, &busy, error);
}

static void describe(const uint8_t *message, size_t length) {
  if (length != HANDSHAKE_BYTES)
    printf("message of %zu bytes\n", length);
  else if (memcmp(message, "KAIJUNO\n", 8) == 0)
    printf("refused with reason %u\n", bytes_get32(message + 8));
  else
    printf("%.7s version %u\n", (const char *)message, bytes_get32(message + 8));
  fflush(stdout);
}

static int handle_events(struct peer *peer, bool *something, struct kj_error *error) {
  int code = 0;
  for (struct fabric_event event; !code && fabric_next_event(peer->fabric, &event); *something = true) {
    if (event.kind == EVENT_LOST) peer->lost = true;
    if (event.kind == EVENT_CONNECTED) {
      peer->connected = true;
      code = greet(peer, error);
    }
    if (event.kind == EVENT_REQUEST) {
      code = request_accept(&peer->endpoint, peer->fabric, event.request, peer, error);
      if (!code) code = post_receives(peer, error);
      if (!code) code = endpoint_accept(peer->endpoint, error);
    }
  }
  return code;
}

static int talk(struct peer *peer, struct kj_error *error) {
  double give_up = clock_seconds() + PATIENCE_SECONDS;
  while (!peer->lost) {
    if (clock_seconds() > give_up) return kj_fail(error, KJ_TIMEOUT, "nothing happened for %d s", PATIENCE_SECONDS);
    bool something = false;
    int code = handle_events(peer, &something, error);
    if (code) return code;
    for (struct transfer *transfer; (transfer = fabric_next_completion(peer->fabric)); something = true) {
      if (transfer->reason)
        peer->lost = true;
      else if (!transfer->sending)
        describe(transfer->segment->bytes, transfer->received);
    }
    struct pollfd descriptors[FABRIC_POLL];
    size_t count = something ? 0 : fabric_sleep(peer->fabric, descriptors);
    if (count) poll(descriptors, count, 100);
  }
  return 0;
}

static int begin(struct peer *peer, const char *target, struct kj_error *error) {
  struct address addresses[ADDRESS_MAX], bound;
  size_t count;
  char text[ADDRESS_TEXT];
  int code = address_resolve(target ? target : "127.0.0.1:0", addresses, &count, error);
  if (code) return code;
  if (target) {
    code = endpoint_connect(&peer->endpoint, peer->fabric, &addresses[0], peer, error);
    return code ? code : post_receives(peer, error);
  }
  if ((code = fabric_listen(peer->fabric, &addresses[0], &bound, error))) return code;
  address_format(&bound, text);
  printf("foreign peer listens at %s\n", text);
  fflush(stdout);
  return 0;
}

int main(int argc, char **argv) {
  bool connects = argc == 4 && strcmp(argv[1], "connect") == 0;
  if (!connects && !(argc == 3 && strcmp(argv[1], "listen") == 0)) {
    fprintf(stderr, "usage: foreign_peer listen VERSION | foreign_peer connect VERSION ADDRESS\n");
    return 2;
  }
  struct peer peer = {0};
  struct kj_error error;
  if (sodium_init() < 0) return 1;
  handshake_start(&peer.handshake, connects ? HANDSHAKE_INITIATOR : HANDSHAKE_ACCEPTOR, NULL,
                  (uint32_t)strtoul(argv[2], NULL, 10));
  int code = fabric_open(&peer.fabric, "tcp", &error);
  if (!code) code = begin(&peer, connects ? argv[3] : NULL, &error);
  if (!code) code = talk(&peer, &error);
  endpoint_close(peer.endpoint);
  for (size_t i = 0; i < RECEIVES; i++) segment_free(peer.receives[i].segment);
  segment_free(peer.greeting.segment);
  if (peer.fabric) fabric_close(peer.fabric);
  return code ? fail(&error) : 0;
}

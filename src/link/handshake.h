/* The handshake: what both ends of a new connection send before anything else is read (docs/protocol.md).
 *
 * Each end sends two messages of HANDSHAKE_BYTES: HELLO (protocol version, a fresh nonce, which key it has), and when
 * it has the other's HELLO, PROOF that it knows the key, or REFUSE with the reason. The layout of these messages never
 * changes, so that two versions of Kaiju can tell each other why they do not fit. Nothing here does input or output.
 */
#ifndef KAIJU_LINK_HANDSHAKE_H
#define KAIJU_LINK_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "link/link.h"

enum { HANDSHAKE_BYTES = 64, HANDSHAKE_NONCE = 32, HANDSHAKE_KEY_ID = 8 };

/* Part of what is proved, so that a proof cannot be sent back to the end that made it. */
enum handshake_role { HANDSHAKE_INITIATOR = 1, HANDSHAKE_ACCEPTOR = 2 };

enum handshake_refusal {
  REFUSAL_NONE = 0,    /* nothing to tell: the peer does not speak this protocol */
  REFUSAL_VERSION = 1, /* protocol versions differ */
  REFUSAL_KEY = 2,     /* cluster keys differ, or one end has none */
  REFUSAL_PROOF = 3    /* the key's name is the same, but the proof is wrong */
};

struct handshake {
  enum handshake_role role;
  uint32_t version, peer_version;
  bool has_key;
  uint8_t key[LINK_KEY_BYTES];
  uint8_t key_id[HANDSHAKE_KEY_ID], peer_key_id[HANDSHAKE_KEY_ID]; /* zero without a key */
  uint8_t nonce[HANDSHAKE_NONCE], peer_nonce[HANDSHAKE_NONCE];
};

/* `key` is [LINK_KEY_BYTES], copied, or NULL. Draws the nonce. sodium_init must have been called. */
void handshake_start(struct handshake *handshake, enum handshake_role role, const uint8_t *key, uint32_t version);
void handshake_wipe(struct handshake *handshake);

void handshake_write_hello(const struct handshake *handshake, uint8_t message[HANDSHAKE_BYTES]);
void handshake_write_proof(const struct handshake *handshake, uint8_t message[HANDSHAKE_BYTES]);
void handshake_write_refusal(enum handshake_refusal refusal, uint8_t message[HANDSHAKE_BYTES]);

/* Reads the peer's HELLO. KJ_REFUSED where version or key differ (the message names both values), KJ_NETWORK where it
 * is no HELLO; `refusal` is what to answer. */
int handshake_read_hello(struct handshake *handshake, const uint8_t *message, size_t length,
                         enum handshake_refusal *refusal, struct kj_error *error);

/* Reads the peer's PROOF or REFUSE, after its HELLO. 0 only if the peer knows the key. */
int handshake_read_proof(const struct handshake *handshake, const uint8_t *message, size_t length,
                         enum handshake_refusal *refusal, struct kj_error *error);

#endif

#include "link/handshake.h"

#include <sodium.h>
#include <string.h>

#include "link/bytes.h"

enum {
  MAGIC = 8,
  HELLO_VERSION = 8,
  HELLO_NONCE = 16,
  HELLO_KEY_ID = 48,
  PROOF_CODE = 8,
  PROOF_MAC = 16,
  PROOF_MAC_BYTES = 32,
  KEY_ID_TEXT = HANDSHAKE_KEY_ID * 2 + 1
};

static const char hello_magic[MAGIC + 1] = "KAIJUHI\n";
static const char proof_magic[MAGIC + 1] = "KAIJUOK\n";
static const char refuse_magic[MAGIC + 1] = "KAIJUNO\n";
static const char proof_label[] = "kaiju link proof";
static const char key_id_label[] = "kaiju key id";

void handshake_start(struct handshake *handshake, enum handshake_role role, const uint8_t *key, uint32_t version) {
  *handshake = (struct handshake){.role = role, .version = version, .has_key = key != NULL};
  if (key) {
    memcpy(handshake->key, key, LINK_KEY_BYTES);
    uint8_t hash[crypto_generichash_BYTES];
    crypto_generichash(hash, sizeof hash, (const uint8_t *)key_id_label, sizeof key_id_label - 1, key, LINK_KEY_BYTES);
    memcpy(handshake->key_id, hash, HANDSHAKE_KEY_ID);
  }
  randombytes_buf(handshake->nonce, sizeof handshake->nonce);
}

void handshake_wipe(struct handshake *handshake) { sodium_memzero(handshake, sizeof *handshake); }

/* What `prover` has to send. The numbers and nonces stand in the order initiator, acceptor. */
static void compute_proof(const struct handshake *handshake, enum handshake_role prover, uint8_t mac[PROOF_MAC_BYTES]) {
  bool initiator = handshake->role == HANDSHAKE_INITIATOR;
  uint8_t numbers[12];
  bytes_put32(numbers, (uint32_t)prover);
  bytes_put32(numbers + 4, initiator ? handshake->version : handshake->peer_version);
  bytes_put32(numbers + 8, initiator ? handshake->peer_version : handshake->version);
  crypto_generichash_state state;
  crypto_generichash_init(&state, handshake->has_key ? handshake->key : NULL, handshake->has_key ? LINK_KEY_BYTES : 0,
                          PROOF_MAC_BYTES);
  crypto_generichash_update(&state, (const uint8_t *)proof_label, sizeof proof_label - 1);
  crypto_generichash_update(&state, numbers, sizeof numbers);
  crypto_generichash_update(&state, initiator ? handshake->nonce : handshake->peer_nonce, HANDSHAKE_NONCE);
  crypto_generichash_update(&state, initiator ? handshake->peer_nonce : handshake->nonce, HANDSHAKE_NONCE);
  crypto_generichash_final(&state, mac, PROOF_MAC_BYTES);
  sodium_memzero(&state, sizeof state);
}

void handshake_write_hello(const struct handshake *handshake, uint8_t message[HANDSHAKE_BYTES]) {
  memset(message, 0, HANDSHAKE_BYTES);
  memcpy(message, hello_magic, MAGIC);
  bytes_put32(message + HELLO_VERSION, handshake->version);
  memcpy(message + HELLO_NONCE, handshake->nonce, HANDSHAKE_NONCE);
  memcpy(message + HELLO_KEY_ID, handshake->key_id, HANDSHAKE_KEY_ID);
}

void handshake_write_proof(const struct handshake *handshake, uint8_t message[HANDSHAKE_BYTES]) {
  memset(message, 0, HANDSHAKE_BYTES);
  memcpy(message, proof_magic, MAGIC);
  compute_proof(handshake, handshake->role, message + PROOF_MAC);
}

void handshake_write_refusal(enum handshake_refusal refusal, uint8_t message[HANDSHAKE_BYTES]) {
  memset(message, 0, HANDSHAKE_BYTES);
  memcpy(message, refuse_magic, MAGIC);
  bytes_put32(message + PROOF_CODE, (uint32_t)refusal);
}

static void describe_key(const uint8_t id[HANDSHAKE_KEY_ID], char text[KEY_ID_TEXT]) {
  if (sodium_is_zero(id, HANDSHAKE_KEY_ID))
    strcpy(text, "none");
  else
    sodium_bin2hex(text, KEY_ID_TEXT, id, HANDSHAKE_KEY_ID);
}

int handshake_read_hello(struct handshake *handshake, const uint8_t *message, size_t length,
                         enum handshake_refusal *refusal, struct kj_error *error) {
  *refusal = REFUSAL_NONE;
  if (length != HANDSHAKE_BYTES || memcmp(message, hello_magic, MAGIC) != 0)
    return kj_fail(error, KJ_NETWORK, "does not speak Kaiju's protocol");
  handshake->peer_version = bytes_get32(message + HELLO_VERSION);
  memcpy(handshake->peer_nonce, message + HELLO_NONCE, HANDSHAKE_NONCE);
  memcpy(handshake->peer_key_id, message + HELLO_KEY_ID, HANDSHAKE_KEY_ID);
  if (handshake->peer_version != handshake->version) {
    *refusal = REFUSAL_VERSION;
    return kj_fail(error, KJ_REFUSED,
                   "protocol versions differ: this end speaks version %u, the peer version %u; run the same Kaiju on "
                   "every node",
                   handshake->version, handshake->peer_version);
  }
  if (memcmp(handshake->peer_key_id, handshake->key_id, HANDSHAKE_KEY_ID) != 0) {
    char ours[KEY_ID_TEXT], theirs[KEY_ID_TEXT];
    describe_key(handshake->key_id, ours);
    describe_key(handshake->peer_key_id, theirs);
    *refusal = REFUSAL_KEY;
    return kj_fail(error, KJ_REFUSED,
                   "cluster keys differ: this end has key %s, the peer has key %s; give every node the same --key-file",
                   ours, theirs);
  }
  if (sodium_memcmp(handshake->peer_nonce, handshake->nonce, HANDSHAKE_NONCE) == 0) {
    *refusal = REFUSAL_PROOF;
    return kj_fail(error, KJ_REFUSED, "sent our own greeting back");
  }
  return 0;
}

static int refused_by_peer(uint32_t reason, struct kj_error *error) {
  switch (reason) {
    case REFUSAL_VERSION:
      return kj_fail(error, KJ_REFUSED, "refused this end: protocol versions differ; run the same Kaiju on every node");
    case REFUSAL_KEY:
      return kj_fail(error, KJ_REFUSED, "refused this end: cluster keys differ; give every node the same --key-file");
    case REFUSAL_PROOF:
      return kj_fail(error, KJ_REFUSED, "refused this end: it did not prove that it knows the cluster key");
    default:
      return kj_fail(error, KJ_REFUSED, "refused this end, with the unknown reason %u", reason);
  }
}

int handshake_read_proof(const struct handshake *handshake, const uint8_t *message, size_t length,
                         enum handshake_refusal *refusal, struct kj_error *error) {
  *refusal = REFUSAL_NONE;
  if (length == HANDSHAKE_BYTES && memcmp(message, refuse_magic, MAGIC) == 0)
    return refused_by_peer(bytes_get32(message + PROOF_CODE), error);
  if (length != HANDSHAKE_BYTES || memcmp(message, proof_magic, MAGIC) != 0)
    return kj_fail(error, KJ_NETWORK, "does not speak Kaiju's protocol");
  enum handshake_role peer = handshake->role == HANDSHAKE_INITIATOR ? HANDSHAKE_ACCEPTOR : HANDSHAKE_INITIATOR;
  uint8_t expected[PROOF_MAC_BYTES];
  compute_proof(handshake, peer, expected);
  int different = sodium_memcmp(expected, message + PROOF_MAC, PROOF_MAC_BYTES);
  sodium_memzero(expected, sizeof expected);
  if (different) {
    *refusal = REFUSAL_PROOF;
    return kj_fail(error, KJ_REFUSED, "did not prove that it knows the cluster key");
  }
  return 0;
}

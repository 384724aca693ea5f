/* The handshake without a network: mutual proof, and everything that must be refused (C8). */
#include "link/handshake.h"

#include <sodium.h>

#include "unit/unit.h"

static const uint8_t key_a[LINK_KEY_BYTES] = {1, 2, 3};
static const uint8_t key_b[LINK_KEY_BYTES] = {1, 2, 4};

struct ends {
  struct handshake initiator, acceptor;
};

static void start(struct ends *ends, const uint8_t *initiator_key, const uint8_t *acceptor_key) {
  handshake_start(&ends->initiator, HANDSHAKE_INITIATOR, initiator_key, 1);
  handshake_start(&ends->acceptor, HANDSHAKE_ACCEPTOR, acceptor_key, 1);
}

static int greet(struct handshake *from, struct handshake *to, struct kj_error *error) {
  uint8_t message[HANDSHAKE_BYTES];
  enum handshake_refusal refusal;
  handshake_write_hello(from, message);
  int code = handshake_read_hello(to, message, sizeof message, &refusal, error);
  assert_true((code == 0) == (refusal == REFUSAL_NONE));
  return code;
}

static int prove(struct handshake *from, struct handshake *to, struct kj_error *error) {
  uint8_t message[HANDSHAKE_BYTES];
  enum handshake_refusal refusal;
  handshake_write_proof(from, message);
  return handshake_read_proof(to, message, sizeof message, &refusal, error);
}

static void test_same_key_passes(void **state) {
  (void)state;
  const uint8_t *keys[] = {key_a, NULL};
  for (size_t i = 0; i < 2; i++) {
    struct ends ends;
    start(&ends, keys[i], keys[i]);
    assert_int_equal(greet(&ends.initiator, &ends.acceptor, NULL), 0);
    assert_int_equal(greet(&ends.acceptor, &ends.initiator, NULL), 0);
    assert_int_equal(prove(&ends.initiator, &ends.acceptor, NULL), 0);
    assert_int_equal(prove(&ends.acceptor, &ends.initiator, NULL), 0);
  }
}

static void test_C8_other_key_is_named(void **state) {
  (void)state;
  struct ends ends;
  struct kj_error error;
  char a[17], b[17];
  start(&ends, key_a, key_b);
  sodium_bin2hex(a, sizeof a, ends.initiator.key_id, HANDSHAKE_KEY_ID);
  sodium_bin2hex(b, sizeof b, ends.acceptor.key_id, HANDSHAKE_KEY_ID);
  assert_string_not_equal(a, b);
  assert_int_equal(greet(&ends.initiator, &ends.acceptor, &error), KJ_REFUSED);
  assert_non_null(strstr(error.message, a));
  assert_non_null(strstr(error.message, b));
  start(&ends, key_a, NULL);
  assert_int_equal(greet(&ends.initiator, &ends.acceptor, &error), KJ_REFUSED);
  assert_non_null(strstr(error.message, "this end has key none"));
  assert_non_null(strstr(error.message, a));
  assert_int_equal(greet(&ends.acceptor, &ends.initiator, &error), KJ_REFUSED);
}

static void test_C8_other_version_is_named(void **state) {
  (void)state;
  struct ends ends;
  struct kj_error error;
  start(&ends, key_a, key_b);
  ends.acceptor.version = 77;
  assert_int_equal(greet(&ends.initiator, &ends.acceptor, &error), KJ_REFUSED);
  assert_non_null(strstr(error.message, "this end speaks version 77, the peer version 1"));
}

static void test_pretended_key_name_does_not_prove(void **state) {
  (void)state;
  struct ends ends;
  struct kj_error error;
  start(&ends, key_a, key_b);
  memcpy(ends.initiator.key_id, ends.acceptor.key_id, HANDSHAKE_KEY_ID);
  assert_int_equal(greet(&ends.initiator, &ends.acceptor, NULL), 0);
  assert_int_equal(greet(&ends.acceptor, &ends.initiator, NULL), 0);
  assert_int_equal(prove(&ends.initiator, &ends.acceptor, &error), KJ_REFUSED);
}

/* An end that knows no key gets a proof from the very end that it attacks. */
static void test_reflection_fails(void **state) {
  (void)state;
  struct ends ends;
  uint8_t hello[HANDSHAKE_BYTES], proof[HANDSHAKE_BYTES];
  enum handshake_refusal refusal;
  start(&ends, key_a, key_a);
  /* The whole greeting is sent back. */
  handshake_write_hello(&ends.acceptor, hello);
  assert_int_equal(handshake_read_hello(&ends.acceptor, hello, sizeof hello, &refusal, NULL), KJ_REFUSED);
  assert_int_equal(refusal, REFUSAL_PROOF);
  /* Another nonce, and the proof is sent back. */
  hello[20] ^= 1;
  assert_int_equal(handshake_read_hello(&ends.acceptor, hello, sizeof hello, &refusal, NULL), 0);
  handshake_write_proof(&ends.acceptor, proof);
  assert_int_equal(handshake_read_proof(&ends.acceptor, proof, sizeof proof, &refusal, NULL), KJ_REFUSED);
  assert_int_equal(refusal, REFUSAL_PROOF);
  /* A second connection to the same end in the same role proves nothing for the first. */
  struct handshake second;
  handshake_start(&second, HANDSHAKE_ACCEPTOR, key_a, 1);
  handshake_write_hello(&ends.acceptor, hello);
  assert_int_equal(handshake_read_hello(&second, hello, sizeof hello, &refusal, NULL), 0);
  handshake_write_hello(&second, hello);
  assert_int_equal(handshake_read_hello(&ends.acceptor, hello, sizeof hello, &refusal, NULL), 0);
  handshake_write_proof(&second, proof);
  assert_int_equal(handshake_read_proof(&ends.acceptor, proof, sizeof proof, &refusal, NULL), KJ_REFUSED);
}

static void test_every_bit_of_a_proof_counts(void **state) {
  (void)state;
  struct ends ends;
  uint8_t proof[HANDSHAKE_BYTES];
  enum handshake_refusal refusal;
  start(&ends, key_a, key_a);
  assert_int_equal(greet(&ends.initiator, &ends.acceptor, NULL), 0);
  assert_int_equal(greet(&ends.acceptor, &ends.initiator, NULL), 0);
  handshake_write_proof(&ends.initiator, proof);
  for (size_t bit = 16 * 8; bit < 48 * 8; bit++) {
    proof[bit / 8] ^= (uint8_t)(1 << bit % 8);
    assert_int_equal(handshake_read_proof(&ends.acceptor, proof, sizeof proof, &refusal, NULL), KJ_REFUSED);
    proof[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  assert_int_equal(handshake_read_proof(&ends.acceptor, proof, sizeof proof, &refusal, NULL), 0);
  /* It is good for these nonces only. */
  ends.acceptor.nonce[0] ^= 1;
  assert_int_equal(handshake_read_proof(&ends.acceptor, proof, sizeof proof, &refusal, NULL), KJ_REFUSED);
  ends.acceptor.nonce[0] ^= 1;
  ends.acceptor.version = ends.acceptor.peer_version = 2;
  assert_int_equal(handshake_read_proof(&ends.acceptor, proof, sizeof proof, &refusal, NULL), KJ_REFUSED);
}

static void test_strangers_are_told_nothing(void **state) {
  (void)state;
  struct ends ends;
  uint8_t message[HANDSHAKE_BYTES];
  enum handshake_refusal refusal = REFUSAL_KEY;
  start(&ends, key_a, key_a);
  handshake_write_hello(&ends.initiator, message);
  for (size_t length = 0; length < HANDSHAKE_BYTES; length++)
    assert_int_equal(handshake_read_hello(&ends.acceptor, message, length, &refusal, NULL), KJ_NETWORK);
  message[0] = 'G';
  assert_int_equal(handshake_read_hello(&ends.acceptor, message, sizeof message, &refusal, NULL), KJ_NETWORK);
  assert_int_equal(refusal, REFUSAL_NONE);
  refusal = REFUSAL_KEY;
  assert_int_equal(handshake_read_proof(&ends.acceptor, message, sizeof message, &refusal, NULL), KJ_NETWORK);
  assert_int_equal(refusal, REFUSAL_NONE);
}

static void test_refusals_are_understood(void **state) {
  (void)state;
  static const char *const words[] = {NULL, "versions", "keys", "prove", "unknown reason 4"};
  struct ends ends;
  start(&ends, key_a, key_a);
  for (int i = 1; i < 5; i++) {
    uint8_t message[HANDSHAKE_BYTES];
    enum handshake_refusal refusal;
    struct kj_error error;
    handshake_write_refusal((enum handshake_refusal)i, message);
    assert_int_equal(handshake_read_proof(&ends.acceptor, message, sizeof message, &refusal, &error), KJ_REFUSED);
    assert_int_equal(refusal, REFUSAL_NONE);
    assert_non_null(strstr(error.message, words[i]));
  }
}

/* Fixed for ever: another version of Kaiju must find these values where they are. */
static void test_layout_is_fixed(void **state) {
  (void)state;
  struct handshake handshake;
  uint8_t message[HANDSHAKE_BYTES], zero[HANDSHAKE_BYTES] = {0};
  handshake_start(&handshake, HANDSHAKE_INITIATOR, key_a, 0x01020304);
  handshake_write_hello(&handshake, message);
  assert_memory_equal(message, "KAIJUHI\n\4\3\2\1\0\0\0\0", 16);
  assert_memory_equal(message + 16, handshake.nonce, 32);
  assert_memory_equal(message + 48, "\x23\x2b\x43\x4c\xe4\x0c\x02\x0c", 8);
  assert_memory_equal(message + 56, zero, 8);
  handshake_write_refusal(REFUSAL_KEY, message);
  assert_memory_equal(message, "KAIJUNO\n\2\0\0\0\0\0\0\0", 16);
  assert_memory_equal(message + 16, zero, 48);

  /* Computed with Python's hashlib.blake2b. */
  static const uint8_t proof[32] = {0x6f, 0x3f, 0x35, 0xa8, 0x91, 0xe4, 0x52, 0x11, 0x54, 0xb2, 0x2d,
                                    0x17, 0x9f, 0xf6, 0x46, 0x55, 0xe2, 0xcc, 0xb2, 0x62, 0xae, 0xb0,
                                    0x99, 0xea, 0xa4, 0xb6, 0x1f, 0x9b, 0xdf, 0xee, 0x7e, 0xad};
  memset(handshake.nonce, 0x11, 32);
  memset(handshake.peer_nonce, 0x22, 32);
  handshake.version = handshake.peer_version = 1;
  handshake_write_proof(&handshake, message);
  assert_memory_equal(message, "KAIJUOK\n\0\0\0\0\0\0\0\0", 16);
  assert_memory_equal(message + 16, proof, 32);
  assert_memory_equal(message + 48, zero, 16);
}

static int start_sodium(void **state) {
  (void)state;
  return sodium_init() < 0 ? -1 : 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_key_passes),
      cmocka_unit_test(test_C8_other_key_is_named),
      cmocka_unit_test(test_C8_other_version_is_named),
      cmocka_unit_test(test_pretended_key_name_does_not_prove),
      cmocka_unit_test(test_reflection_fails),
      cmocka_unit_test(test_every_bit_of_a_proof_counts),
      cmocka_unit_test(test_strangers_are_told_nothing),
      cmocka_unit_test(test_refusals_are_understood),
      cmocka_unit_test(test_layout_is_fixed),
  };
  return cmocka_run_group_tests_name("handshake", tests, start_sodium, NULL);
}

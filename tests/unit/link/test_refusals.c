/* Peers that must be refused, addresses that must not be used, and what the person is told (C8, C15). */
#include <math.h>

#include "unit/link/raw_peer.h"
#include "unit/link/watched.h"

static const uint8_t key_a[LINK_KEY_BYTES] = {1, 2, 3};
static const uint8_t key_b[LINK_KEY_BYTES] = {1, 2, 4};

/* What is logged meanwhile goes to a file, and is given back as text. */
struct capture {
  int before, file;
  char text[65536];
};

static void capture_begin(struct capture *capture) {
  char name[] = "/tmp/kaiju-log-XXXXXX";
  capture->file = mkstemp(name);
  assert_true(capture->file >= 0);
  unlink(name);
  capture->before = dup(STDERR_FILENO);
  dup2(capture->file, STDERR_FILENO);
}

static const char *capture_text(struct capture *capture) {
  ssize_t length = pread(capture->file, capture->text, sizeof capture->text - 1, 0);
  capture->text[length > 0 ? length : 0] = '\0';
  return capture->text;
}

/* The log line may come a moment after the peer's news. */
static void capture_await(struct capture *capture, const char *text) {
  for (int i = 0; i < 60000 && !strstr(capture_text(capture), text); i++) poll(NULL, 0, 1);
}

static void capture_end(struct capture *capture) {
  dup2(capture->before, STDERR_FILENO);
  close(capture->before);
  close(capture->file);
}

static void test_C8_different_keys(void **state) {
  (void)state;
  static const struct { const uint8_t *near, *far; } keys[] = {{key_a, key_b}, {NULL, key_b}, {key_a, NULL}};
  for (size_t i = 0; i < 3; i++) {
    struct handshake names[2];
    char near_name[17] = "none", far_name[17] = "none", address[128];
    handshake_start(&names[0], HANDSHAKE_INITIATOR, keys[i].near, 1);
    handshake_start(&names[1], HANDSHAKE_INITIATOR, keys[i].far, 1);
    if (keys[i].near) sodium_bin2hex(near_name, sizeof near_name, names[0].key_id, HANDSHAKE_KEY_ID);
    if (keys[i].far) sodium_bin2hex(far_name, sizeof far_name, names[1].key_id, HANDSHAKE_KEY_ID);
    struct watched near, far;
    struct capture capture;
    watched_open(&near, (struct link_options){.key = keys[i].near});
    watched_open(&far, (struct link_options){.key = keys[i].far});
    watched_listen(&far, address);
    capture_begin(&capture);
    watched_connect(&near, address);
    struct link_event event = watched_next(&near);
    capture_await(&capture, near_name);
    capture_end(&capture);
    assert_int_equal(event.kind, LINK_DOWN);
    assert_int_equal(event.error.code, KJ_REFUSED);
    assert_non_null(strstr(event.error.message, address));
    assert_non_null(strstr(event.error.message, near_name));
    assert_non_null(strstr(event.error.message, far_name));
    assert_non_null(strstr(capture.text, near_name));
    assert_non_null(strstr(capture.text, far_name));
    assert_non_null(strstr(capture.text, "127.0.0.1:"));
    assert_false(link_next(far.hub, &event));
    watched_close(&near);
    watched_close(&far);
  }
}

static void test_C8_peer_of_another_version_connects(void **state) {
  (void)state;
  struct watched hub;
  struct raw_peer peer;
  struct capture capture;
  char address[128];
  watched_open(&hub, (struct link_options){.key = key_a});
  watched_listen(&hub, address);
  raw_open(&peer);
  raw_connect(&peer, address);
  capture_begin(&capture);
  raw_greet(&peer, HANDSHAKE_INITIATOR, key_a, 4242);
  struct transfer *hello = raw_receive(&peer);
  struct transfer *refusal = raw_receive(&peer);
  capture_await(&capture, "4242");
  capture_end(&capture);
  assert_non_null(hello);
  assert_non_null(refusal);
  enum handshake_refusal code;
  struct kj_error error;
  assert_int_equal(handshake_read_hello(&peer.handshake, hello->segment->bytes, hello->received, &code, &error),
                   KJ_REFUSED);
  assert_non_null(strstr(error.message, "4242"));
  assert_int_equal(handshake_read_proof(&peer.handshake, refusal->segment->bytes, refusal->received, &code, &error),
                   KJ_REFUSED);
  assert_non_null(strstr(error.message, "versions"));
  assert_non_null(strstr(capture.text, "this end speaks version 2, the peer version 4242"));
  assert_non_null(strstr(capture.text, "127.0.0.1:"));
  struct link_event event;
  assert_false(link_next(hub.hub, &event));
  raw_close(&peer);
  watched_close(&hub);
}

static void test_C8_listener_of_another_version(void **state) {
  (void)state;
  struct watched hub;
  struct raw_peer peer;
  char address[128];
  watched_open(&hub, (struct link_options){.key = key_a});
  raw_open(&peer);
  raw_listen(&peer, address);
  watched_connect(&hub, address);
  raw_await_connection(&peer);
  raw_greet(&peer, HANDSHAKE_ACCEPTOR, key_a, 9);
  struct link_event event = watched_expect(&hub, LINK_DOWN);
  assert_int_equal(event.error.code, KJ_REFUSED);
  assert_non_null(strstr(event.error.message, address));
  assert_non_null(strstr(event.error.message, "version 2, the peer version 9"));
  raw_close(&peer);
  watched_close(&hub);
}

static void test_listener_that_refuses_is_quoted(void **state) {
  (void)state;
  struct watched hub;
  struct raw_peer peer;
  char address[128];
  uint8_t message[HANDSHAKE_BYTES];
  watched_open(&hub, (struct link_options){.key = key_a});
  raw_open(&peer);
  raw_listen(&peer, address);
  watched_connect(&hub, address);
  raw_await_connection(&peer);
  raw_greet(&peer, HANDSHAKE_ACCEPTOR, key_a, LINK_PROTOCOL);
  handshake_write_refusal(REFUSAL_PROOF, message);
  raw_send(&peer, message, sizeof message);
  struct link_event event = watched_expect(&hub, LINK_DOWN);
  assert_int_equal(event.error.code, KJ_REFUSED);
  assert_non_null(strstr(event.error.message, address));
  assert_non_null(strstr(event.error.message, "did not prove"));
  raw_close(&peer);
  watched_close(&hub);
}

static void test_peer_without_the_key_fails_the_proof(void **state) {
  (void)state;
  struct watched hub;
  struct raw_peer peer;
  char address[128];
  enum handshake_refusal code;
  uint8_t message[HANDSHAKE_BYTES];
  watched_open(&hub, (struct link_options){.key = key_a});
  watched_listen(&hub, address);
  raw_open(&peer);
  raw_connect(&peer, address);
  handshake_start(&peer.handshake, HANDSHAKE_INITIATOR, key_b, LINK_PROTOCOL);
  struct transfer *hello = raw_receive(&peer);
  memcpy(peer.handshake.key_id, hello->segment->bytes + 48,
         HANDSHAKE_KEY_ID); /* the name of a key that it does not know */
  assert_int_equal(handshake_read_hello(&peer.handshake, hello->segment->bytes, hello->received, &code, NULL), 0);
  handshake_write_hello(&peer.handshake, message);
  raw_send(&peer, message, sizeof message);
  handshake_write_proof(&peer.handshake, message);
  raw_send(&peer, message, sizeof message);
  struct transfer *proof = raw_receive(&peer);
  struct transfer *refusal = raw_receive(&peer);
  assert_non_null(proof);
  assert_non_null(refusal);
  struct kj_error error;
  assert_int_equal(handshake_read_proof(&peer.handshake, refusal->segment->bytes, refusal->received, &code, &error),
                   KJ_REFUSED);
  assert_non_null(strstr(error.message, "prove"));
  struct link_event event;
  assert_false(link_next(hub.hub, &event));
  raw_close(&peer);
  watched_close(&hub);
}

static void test_C8_nobody_listens(void **state) {
  (void)state;
  struct watched hub;
  struct raw_peer peer;
  char address[128];
  raw_open(&peer);
  raw_listen(&peer, address);
  raw_close(&peer);
  watched_open(&hub, (struct link_options){.deadline = 50});
  uint64_t link = watched_connect(&hub, address);
  struct link_event event = watched_expect(&hub, LINK_DOWN);
  assert_int_equal(event.link, link);
  assert_int_equal(event.error.code, KJ_NETWORK);
  assert_non_null(strstr(event.error.message, address));
  assert_non_null(strstr(event.error.message, "Connection refused"));
  watched_close(&hub);
}

static void test_silent_listener(void **state) {
  (void)state;
  struct watched hub;
  struct raw_peer peer;
  char address[128];
  watched_open(&hub, (struct link_options){.heartbeat = 0.1, .deadline = 0.3});
  raw_open(&peer);
  raw_listen(&peer, address);
  watched_connect(&hub, address);
  raw_await_connection(&peer);
  struct link_event event = watched_expect(&hub, LINK_DOWN);
  assert_int_equal(event.error.code, KJ_TIMEOUT);
  assert_non_null(strstr(event.error.message, address));
  raw_close(&peer);
  watched_close(&hub);
}

static void test_without_key_loopback_only(void **state) {
  (void)state;
  static const char *const addresses[] = {"0.0.0.0:0", "192.0.2.1:7000", "[::]:0", "[2001:db8::1]:7000"};
  struct watched hub;
  watched_open(&hub, (struct link_options){0});
  for (size_t i = 0; i < 4; i++) {
    struct kj_error error;
    char bound[128];
    uint64_t link;
    assert_int_equal(link_listen(hub.hub, addresses[i], bound, sizeof bound, &error), KJ_INVALID);
    assert_non_null(strstr(error.message, addresses[i]));
    assert_non_null(strstr(error.message, "kaiju keygen"));
    assert_int_equal(link_connect(hub.hub, addresses[i], &link, &error), KJ_INVALID);
    assert_non_null(strstr(error.message, "kaiju keygen"));
  }
  watched_close(&hub);
}

static void test_addresses(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "",          "127.0.0.1",    ":7000",   "127.0.0.1:",   "127.0.0.1:65536",       "127.0.0.1:x",
      "::1:7000x", "fe80::1:7000", "[]:7000", "127.0.0.1:-1", "127.0.0.1:123456789012"};
  struct watched hub;
  struct kj_error error;
  uint64_t link;
  char bound[128], v4[128];
  watched_open(&hub, (struct link_options){.key = key_a});
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_int_equal(link_connect(hub.hub, wrong[i], &link, &error), KJ_INVALID);
    assert_int_equal(link_listen(hub.hub, wrong[i], bound, sizeof bound, &error), KJ_INVALID);
  }
  assert_int_equal(link_connect(hub.hub, "no.such.host.invalid:7000", &link, &error), KJ_NOT_FOUND);
  assert_non_null(strstr(error.message, "no.such.host.invalid"));
  /* In use already. */
  assert_int_equal(link_listen(hub.hub, "localhost:0", v4, sizeof v4, &error), 0);
  assert_null(strstr(v4, ":0"));
  assert_int_equal(link_listen(hub.hub, v4, bound, sizeof bound, &error), KJ_NETWORK);
  assert_non_null(strstr(error.message, v4));
  watched_close(&hub);
}

static void test_IPv6(void **state) {
  (void)state;
  struct watched hub;
  struct kj_error error;
  char bound[128];
  watched_open(&hub, (struct link_options){0});
  int code = link_listen(hub.hub, "[::1]:0", bound, sizeof bound, &error);
  if (access("/proc/net/if_inet6", F_OK) != 0) {
    assert_int_not_equal(code, 0); /* a kernel without IPv6 */
  } else {
    assert_int_equal(code, 0);
    assert_memory_equal(bound, "[::1]:", 6);
    watched_connect(&hub, bound);
    assert_int_equal(watched_expect(&hub, LINK_UP).kind, LINK_UP);
    assert_int_equal(watched_expect(&hub, LINK_UP).kind, LINK_UP);
  }
  watched_close(&hub);
}

static void test_C15_provider(void **state) {
  (void)state;
  struct link_hub *hub;
  struct kj_error error;
  struct capture capture;
  assert_int_equal(link_hub_open(&hub, &(struct link_options){.provider = "smoke"}, &error), KJ_INVALID);
  assert_non_null(strstr(error.message, "smoke"));
  capture_begin(&capture);
  int asked = link_hub_open(&hub, &(struct link_options){.provider = "verbs", .key = key_a}, &error);
  if (!asked) link_hub_close(hub);
  int chosen = link_hub_open(&hub, &(struct link_options){.key = key_a}, NULL);
  char provider[16] = "";
  if (!chosen) {
    snprintf(provider, sizeof provider, "%s", link_hub_provider(hub));
    link_hub_close(hub);
  }
  capture_text(&capture);
  capture_end(&capture);
  assert_int_equal(chosen, 0);
  if (asked) { /* this machine has no RDMA device */
    assert_int_equal(asked, KJ_NOT_FOUND);
    assert_non_null(strstr(error.message, "verbs"));
    assert_non_null(strstr(capture.text, "provider tcp"));
    assert_string_equal(provider, "tcp");
  } else {
    assert_string_equal(provider, "verbs");
  }
}

static void test_options(void **state) {
  (void)state;
  static const struct link_options wrong[] = {{.heartbeat = -1},
                                              {.deadline = -1},
                                              {.heartbeat = 5, .deadline = 5},
                                              {.deadline = (double)NAN},
                                              {.deadline = (double)INFINITY}};
  struct link_hub *hub;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(link_hub_open(&hub, &wrong[i], NULL), KJ_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_C8_different_keys),
      cmocka_unit_test(test_C8_peer_of_another_version_connects),
      cmocka_unit_test(test_C8_listener_of_another_version),
      cmocka_unit_test(test_listener_that_refuses_is_quoted),
      cmocka_unit_test(test_peer_without_the_key_fails_the_proof),
      cmocka_unit_test(test_C8_nobody_listens),
      cmocka_unit_test(test_silent_listener),
      cmocka_unit_test(test_without_key_loopback_only),
      cmocka_unit_test(test_addresses),
      cmocka_unit_test(test_IPv6),
      cmocka_unit_test(test_C15_provider),
      cmocka_unit_test(test_options),
  };
  if (sodium_init() < 0) return 1;
  return cmocka_run_group_tests_name("link refusals", tests, NULL, NULL);
}

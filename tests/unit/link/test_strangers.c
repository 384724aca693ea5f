/* A listener survives whatever connects to it, and reads a bounded amount from it; an authenticated peer that breaks
 * the protocol loses its link, and only that. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "unit/link/raw_peer.h"
#include "unit/link/watched.h"

static const uint8_t key[LINK_KEY_BYTES] = {9, 8, 7};

struct attacked {
  struct watched hub;
  struct raw_peer peer;
  char address[128];
};

static void begin(struct attacked *attacked, struct link_options options) {
  options.key = key;
  watched_open(&attacked->hub, options);
  watched_listen(&attacked->hub, attacked->address);
  raw_open(&attacked->peer);
}

/* The listener still serves those who know the key, and has told its owner nothing about the others. */
static void end(struct attacked *attacked) {
  struct link_event event;
  assert_false(link_next(attacked->hub.hub, &event));
  struct watched friend;
  watched_open(&friend, (struct link_options){.key = key});
  uint64_t link = watched_connect(&friend, attacked->address);
  watched_expect(&friend, LINK_UP);
  watched_expect(&attacked->hub, LINK_UP);
  send_bytes(&friend, link, 5, "hello", 5);
  event = watched_expect(&attacked->hub, LINK_FRAME);
  assert_int_equal(event.length, 5);
  link_event_free(&event);
  watched_close(&friend);
  raw_close(&attacked->peer);
  watched_close(&attacked->hub);
}

static int open_socket(const char *address) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
  int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(file, (struct sockaddr *)&to, sizeof to), 0);
  return file;
}

/* Whoever knows not even the fabric's protocol: a browser, a port scanner. */
static void test_random_bytes_on_the_socket(void **state) {
  (void)state;
  struct attacked attacked;
  begin(&attacked, (struct link_options){0});
  size_t before = count_descriptors();
  for (size_t i = 0; i < 200; i++) {
    uint8_t bytes[1024];
    int file = open_socket(attacked.address);
    randombytes_buf(bytes, sizeof bytes);
    if (i % 4 == 1) memcpy(bytes, "GET / HTTP/1.1\r\n\r\n", 18);
    size_t length = i % 4 == 2 ? i % 16 : sizeof bytes;
    ssize_t sent = send(file, bytes, length, MSG_NOSIGNAL);
    assert_true(sent == (ssize_t)length || sent < 0);
    close(file);
  }
  /* The last of them may still be on their way. */
  for (int i = 0; i < 60000 && count_descriptors() > before; i++) poll(NULL, 0, 1);
  assert_int_equal(count_descriptors(), before);
  end(&attacked);
}

/* Connections on which nothing is said do not pile up; a link that is idle is not taken for one. */
static void test_silence_on_the_socket(void **state) {
  (void)state;
  enum { SOCKETS = 100 };
  int sockets[SOCKETS];
  struct attacked attacked;
  struct watched friend;
  begin(&attacked, (struct link_options){.heartbeat = 0.1, .deadline = 2});
  watched_open(&friend, (struct link_options){.key = key, .heartbeat = 0.1});
  uint64_t link = watched_connect(&friend, attacked.address);
  watched_expect(&friend, LINK_UP);
  watched_expect(&attacked.hub, LINK_UP);
  size_t before = count_descriptors();
  for (size_t i = 0; i < SOCKETS; i++) sockets[i] = open_socket(attacked.address);
  for (size_t i = 0; i < SOCKETS; i++) {
    struct pollfd descriptor = {.fd = sockets[i], .events = POLLIN};
    char byte;
    assert_int_equal(poll(&descriptor, 1, WATCHED_PATIENCE), 1);
    assert_true(recv(sockets[i], &byte, 1, 0) <= 0);
    close(sockets[i]);
  }
  for (int i = 0; i < 60000 && count_descriptors() > before; i++) poll(NULL, 0, 1);
  assert_true(count_descriptors() <= before + 1); /* the hub may be looking at its descriptors just now */
  send_bytes(&friend, link, 5, "still here", 10);
  struct link_event event = watched_expect(&attacked.hub, LINK_FRAME);
  link_event_free(&event);
  watched_close(&friend);
  watched_expect(&attacked.hub, LINK_DOWN);
  end(&attacked);
}

/* A hub that is closed leaves no descriptors behind, whoever was connected to it. */
static void test_close_with_silent_strangers(void **state) {
  (void)state;
  struct watched hub;
  char address[128];
  size_t before = 0;
  for (int round = 0; round < 2; round++) {
    int sockets[5];
    if (round == 1) before = count_descriptors();
    watched_open(&hub, (struct link_options){.key = key});
    watched_listen(&hub, address);
    size_t open = count_descriptors();
    for (size_t i = 0; i < 5; i++) sockets[i] = open_socket(address);
    for (int i = 0; i < 60000 && count_descriptors() < open + 10; i++) poll(NULL, 0, 1);
    assert_int_equal(count_descriptors(), open + 10);
    watched_close(&hub);
    for (size_t i = 0; i < 5; i++) close(sockets[i]);
  }
  assert_int_equal(count_descriptors(), before); /* the first round opened what the library keeps */
}

static void test_garbage_instead_of_greeting(void **state) {
  (void)state;
  static const size_t lengths[] = {0, 1, 63, 64, 65, 4096, 100000, FRAME_SEGMENT};
  static uint8_t bytes[FRAME_SEGMENT];
  struct attacked attacked;
  begin(&attacked, (struct link_options){0});
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    randombytes_buf(bytes, lengths[i]);
    raw_connect(&attacked.peer, attacked.address);
    raw_send(&attacked.peer, bytes, lengths[i]);
    assert_non_null(raw_receive(&attacked.peer)); /* its HELLO */
    assert_null(raw_receive(&attacked.peer));
    raw_hang_up(&attacked.peer);
  }
  end(&attacked);
}

static void test_frame_instead_of_proof(void **state) {
  (void)state;
  struct attacked attacked;
  uint8_t frame[FRAME_HEADER];
  begin(&attacked, (struct link_options){0});
  raw_connect(&attacked.peer, attacked.address);
  raw_greet(&attacked.peer, HANDSHAKE_INITIATOR, key, LINK_PROTOCOL);
  frame_write_header(&(struct frame_header){.type = 1}, frame);
  raw_send(&attacked.peer, frame, sizeof frame);
  while (raw_receive(&attacked.peer)) continue; /* HELLO, PROOF, the end */
  raw_hang_up(&attacked.peer);
  end(&attacked);
}

/* Greets as if it knew the key, and is gone before, or in the middle of, the handshake. */
static void test_leaves_during_handshake(void **state) {
  (void)state;
  struct attacked attacked;
  begin(&attacked, (struct link_options){0});
  for (size_t i = 0; i < 30; i++) {
    raw_start(&attacked.peer, attacked.address);
    if (i % 3 > 0) raw_await_connection(&attacked.peer);
    if (i % 3 > 1) raw_greet(&attacked.peer, HANDSHAKE_INITIATOR, key, LINK_PROTOCOL);
    raw_hang_up(&attacked.peer);
  }
  end(&attacked);
}

/* More of them than may be half open, who say nothing: turned away or dropped, and then there is room again. */
static void test_silent_strangers(void **state) {
  (void)state;
  enum { STRANGERS = 50 };
  static struct raw_peer strangers[STRANGERS];
  struct attacked attacked;
  begin(&attacked, (struct link_options){.heartbeat = 0.2, .deadline = 2});
  for (size_t i = 0; i < STRANGERS; i++) {
    raw_open(&strangers[i]);
    raw_start(&strangers[i], attacked.address);
  }
  size_t left = STRANGERS;
  double give_up = clock_seconds() + 60;
  while (left > 0 && clock_seconds() < give_up) {
    left = 0;
    for (size_t i = 0; i < STRANGERS; i++) {
      struct fabric_event event;
      while (fabric_next_event(strangers[i].fabric, &event)) strangers[i].lost |= event.kind == EVENT_LOST;
      while (fabric_next_completion(strangers[i].fabric)) continue;
      left += !strangers[i].lost;
    }
    poll(NULL, 0, 5);
  }
  assert_int_equal(left, 0);
  for (size_t i = 0; i < STRANGERS; i++) raw_close(&strangers[i]);
  end(&attacked);
}

struct wrong_frame {
  uint8_t bytes[FRAME_HEADER + 64];
  size_t length;
  const char *words;
};

static struct wrong_frame wrong_frame(struct frame_header header, size_t payload, const char *words) {
  struct wrong_frame frame = {.length = FRAME_HEADER + payload, .words = words};
  frame_write_header(&header, frame.bytes);
  return frame;
}

static void test_frames_that_break_the_protocol(void **state) {
  (void)state;
  struct wrong_frame frames[] = {
      wrong_frame((struct frame_header){.type = 1, .number = 1}, 0, "frame 1 where frame 0 was due"),
      wrong_frame((struct frame_header){.type = 1, .number = UINT64_MAX}, 0, "frame 0 was due"),
      wrong_frame((struct frame_header){.type = 1, .length = LINK_SMALL_FRAME + 1}, 64, "at most 2097152 are allowed"),
      wrong_frame((struct frame_header){.type = 1, .length = UINT64_MAX}, 64, "at most 2097152 are allowed"),
      wrong_frame((struct frame_header){.type = 1, .length = 64}, 63, "segment of the wrong length"),
      wrong_frame((struct frame_header){.type = 1, .length = 63}, 64, "segment of the wrong length"),
      wrong_frame((struct frame_header){.type = FRAME_HEARTBEAT, .length = 9}, 9, "control frame of 9 bytes"),
      wrong_frame((struct frame_header){.type = 0xffff}, 0, "unknown type 65535"),
      wrong_frame((struct frame_header){.type = 1}, 0, "not a frame"),
      wrong_frame((struct frame_header){.type = 1}, 0, "version 255 instead of "),
      wrong_frame((struct frame_header){.type = 1}, 0, "not a frame"),
  };
  frames[8].bytes[0] ^= 1;
  bytes_put16(frames[9].bytes + 4, 255);
  frames[10].length = FRAME_HEADER - 1;
  struct attacked attacked;
  begin(&attacked, (struct link_options){0});
  for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
    raw_connect(&attacked.peer, attacked.address);
    raw_authenticate(&attacked.peer, key);
    struct link_event up = watched_expect(&attacked.hub, LINK_UP);
    raw_send(&attacked.peer, frames[i].bytes, frames[i].length);
    struct link_event down = watched_expect(&attacked.hub, LINK_DOWN);
    assert_int_equal(down.link, up.link);
    assert_int_equal(down.error.code, KJ_INVALID);
    assert_non_null(strstr(down.error.message, up.peer));
    if (!strstr(down.error.message, frames[i].words)) fail_msg("%s, not %s", down.error.message, frames[i].words);
    raw_hang_up(&attacked.peer);
  }
  end(&attacked);
}

/* What it hears next from a listener that it has authenticated against is a heartbeat. */
static void test_heartbeats_are_answered(void **state) {
  (void)state;
  struct attacked attacked;
  uint8_t beat[FRAME_HEADER + 8];
  begin(&attacked, (struct link_options){0});
  raw_connect(&attacked.peer, attacked.address);
  raw_authenticate(&attacked.peer, key);
  watched_expect(&attacked.hub, LINK_UP);
  frame_write_header(&(struct frame_header){.type = FRAME_HEARTBEAT, .length = 8}, beat);
  memcpy(beat + FRAME_HEADER, "abcdefgh", 8);
  raw_send(&attacked.peer, beat, sizeof beat);
  bool heartbeat = false, echo = false;
  while (!heartbeat || !echo) {
    struct transfer *transfer = raw_receive(&attacked.peer);
    struct frame_header header;
    assert_non_null(transfer);
    assert_int_equal(frame_read_header(&header, transfer->segment->bytes, transfer->received, NULL), 0);
    assert_int_equal(header.number, 0);
    assert_int_equal(header.length, 8);
    if (header.type == FRAME_HEARTBEAT) heartbeat = true;
    if (header.type == FRAME_ECHO) {
      echo = true;
      assert_memory_equal(transfer->segment->bytes + FRAME_HEADER, "abcdefgh", 8);
    }
    raw_repost(&attacked.peer, transfer);
  }
  raw_hang_up(&attacked.peer);
  watched_expect(&attacked.hub, LINK_DOWN);
  end(&attacked);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_bytes_on_the_socket),
      cmocka_unit_test(test_silence_on_the_socket),
      cmocka_unit_test(test_close_with_silent_strangers),
      cmocka_unit_test(test_garbage_instead_of_greeting),
      cmocka_unit_test(test_frame_instead_of_proof),
      cmocka_unit_test(test_leaves_during_handshake),
      cmocka_unit_test(test_silent_strangers),
      cmocka_unit_test(test_frames_that_break_the_protocol),
      cmocka_unit_test(test_heartbeats_are_answered),
  };
  if (sodium_init() < 0) return 1;
  return cmocka_run_group_tests_name("link strangers", tests, NULL, NULL);
}

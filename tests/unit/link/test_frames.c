/* Frames arrive whole and in order, in both directions, over many links; limits hold; a close sends what is queued. */
#include "base/clock.h"
#include "unit/link/watched.h"

static const size_t sizes[] = {0,      1,     31,      262111,  262112,           262113, 524256,
                               524257, 65536, 1000000, 6291456, 20 * 1000 * 1000, 3,      0};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Bytes that tell position and frame. */
static uint8_t pattern(size_t frame, size_t position) {
  return (uint8_t)((position * 2654435761u >> 13) + frame * 37 + position);
}

static uint8_t *make_payload(size_t frame, size_t length) {
  uint8_t *bytes = malloc(length + 1);
  assert_non_null(bytes);
  for (size_t i = 0; i < length; i++) bytes[i] = pattern(frame, i);
  return bytes;
}

static void check_frame(struct link_event *event, size_t frame, size_t length) {
  assert_int_equal(event->number, frame);
  assert_int_equal(event->type, 100 + frame);
  assert_int_equal(event->epoch, 7);
  assert_int_equal(event->length, length);
  size_t wrong = 0;
  for (size_t i = 0; i < length; i++) wrong += event->payload[i] != pattern(frame, i);
  assert_int_equal(wrong, 0);
  link_event_free(event);
}

static void test_sizes_both_directions(void **state) {
  (void)state;
  struct pair pair;
  pair_open(&pair, (struct link_options){0});
  link_set_limit(pair.near.hub, pair.near_link, 32u << 20);
  link_set_limit(pair.far.hub, pair.far_link, 32u << 20);
  size_t total = 0;
  for (size_t i = 0; i < SIZES; i++) {
    total += sizes[i];
    uint8_t *bytes = make_payload(i, sizes[i]);
    send_bytes(&pair.near, pair.near_link, (uint16_t)(100 + i), bytes, sizes[i]);
    send_bytes(&pair.far, pair.far_link, (uint16_t)(100 + i), bytes, sizes[i]);
    free(bytes); /* link_send has copied it */
  }
  for (size_t i = 0; i < SIZES; i++) {
    struct link_event event = watched_expect(&pair.far, LINK_FRAME);
    assert_int_equal(event.link, pair.far_link);
    check_frame(&event, i, sizes[i]);
    event = watched_expect(&pair.near, LINK_FRAME);
    assert_int_equal(event.link, pair.near_link);
    check_frame(&event, i, sizes[i]);
  }
  struct link_statistics near, far;
  assert_true(link_statistics(pair.near.hub, pair.near_link, &near));
  assert_true(link_statistics(pair.far.hub, pair.far_link, &far));
  assert_int_equal(near.frames_sent, SIZES);
  assert_int_equal(far.frames_received, SIZES);
  assert_true(near.bytes_sent > total);
  assert_true(far.bytes_received > total);
  pair_close(&pair);
}

static void test_parts_are_joined(void **state) {
  (void)state;
  struct pair pair;
  struct kj_error error;
  pair_open(&pair, (struct link_options){0});
  link_set_limit(pair.near.hub, pair.near_link, 1u << 20);
  link_set_limit(pair.far.hub, pair.far_link, 1u << 20);
  uint8_t *bytes = make_payload(0, 600000);
  struct link_part parts[] = {{bytes, 5}, {NULL, 0}, {bytes + 5, 299995}, {bytes + 300000, 300000}};
  assert_int_equal(link_send(pair.near.hub, pair.near_link, 100, 7, parts, 4, &error), 0);
  struct link_event event = watched_expect(&pair.far, LINK_FRAME);
  check_frame(&event, 0, 600000);
  assert_int_equal(link_send(pair.near.hub, pair.near_link, 101, 7, NULL, 0, &error), 0);
  event = watched_expect(&pair.far, LINK_FRAME);
  check_frame(&event, 1, 0);
  free(bytes);
  pair_close(&pair);
}

static void test_many_links(void **state) {
  (void)state;
  enum { LINKS = 40, FRAMES = 25 };
  struct watched near, far;
  char address[128];
  uint64_t links[LINKS], numbers[LINKS + 1] = {0};
  watched_open(&near, (struct link_options){0});
  watched_open(&far, (struct link_options){0});
  watched_listen(&far, address);
  for (size_t i = 0; i < LINKS; i++) {
    links[i] = watched_connect(&near, address);
    for (size_t k = 0; k < i; k++) assert_true(links[k] != links[i]);
    assert_int_equal(watched_expect(&near, LINK_UP).link, links[i]);
    assert_true(watched_expect(&far, LINK_UP).accepted);
  }
  for (size_t frame = 0; frame < FRAMES; frame++)
    for (size_t i = 0; i < LINKS; i++) {
      uint8_t *bytes = make_payload(frame, frame * 1000);
      send_bytes(&near, links[i], (uint16_t)(100 + frame), bytes, frame * 1000);
      free(bytes);
    }
  for (size_t i = 0; i < LINKS * FRAMES; i++) {
    struct link_event event = watched_expect(&far, LINK_FRAME);
    assert_in_range(event.link, 1, LINKS);
    size_t frame = numbers[event.link]++;
    check_frame(&event, frame, frame * 1000);
  }
  watched_close(&near);
  for (size_t i = 0; i < LINKS; i++) watched_expect(&far, LINK_DOWN);
  watched_close(&far);
}

/* Whoever computes slowly lets what is in flight wait: that is no reason to end the link. */
static void test_many_large_frames_wait(void **state) {
  (void)state;
  enum { LENGTH = 1 << 20, FRAMES = 140 };
  struct pair pair;
  pair_open(&pair, (struct link_options){0});
  link_set_limit(pair.near.hub, pair.near_link, LENGTH);
  link_set_limit(pair.far.hub, pair.far_link, LENGTH);
  uint8_t *bytes = make_payload(0, LENGTH);
  for (size_t i = 0; i < FRAMES; i++) send_bytes(&pair.near, pair.near_link, 100, bytes, LENGTH);
  free(bytes);
  send_bytes(&pair.far, pair.far_link, 1, "x", 1);
  struct link_event event = watched_expect(&pair.near, LINK_FRAME);
  link_event_free(&event);
  for (;;) { /* all have arrived before the first is taken */
    struct link_statistics statistics;
    assert_true(link_statistics(pair.far.hub, pair.far_link, &statistics));
    if (statistics.frames_received == FRAMES) break;
    sched_yield();
  }
  for (size_t i = 0; i < FRAMES; i++) {
    event = watched_expect(&pair.far, LINK_FRAME);
    assert_int_equal(event.number, i);
    assert_int_equal(event.length, LENGTH);
    link_event_free(&event);
  }
  pair_close(&pair);
}

static void test_sender_refuses_beyond_limit(void **state) {
  (void)state;
  struct pair pair;
  struct kj_error error;
  pair_open(&pair, (struct link_options){0});
  static const uint8_t bytes[LINK_SMALL_FRAME + 1];
  struct link_part part = {bytes, sizeof bytes};
  assert_int_equal(link_send(pair.near.hub, pair.near_link, 1, 0, &part, 1, &error), KJ_INVALID);
  assert_non_null(strstr(error.message, "2097153"));
  assert_int_equal(link_send(pair.near.hub, 99, 1, 0, &part, 1, &error), KJ_NETWORK);
  part.length = 1;
  assert_int_equal(link_send(pair.near.hub, pair.near_link, 0xff00, 0, &part, 1, &error), KJ_INVALID);
  struct link_part huge[] = {{bytes, SIZE_MAX}, {bytes, SIZE_MAX}};
  assert_int_equal(link_send(pair.near.hub, pair.near_link, 1, 0, huge, 2, &error), KJ_INVALID);
  pair_close(&pair);
}

static void test_receiver_drops_link_beyond_limit(void **state) {
  (void)state;
  struct pair pair;
  pair_open(&pair, (struct link_options){0});
  link_set_limit(pair.near.hub, pair.near_link, 3000000);
  uint8_t *bytes = make_payload(0, 3000000);
  send_bytes(&pair.near, pair.near_link, 100, bytes, 3000000);
  free(bytes);
  struct link_event event = watched_expect(&pair.far, LINK_DOWN);
  assert_int_equal(event.link, pair.far_link);
  assert_int_equal(event.error.code, KJ_INVALID);
  assert_non_null(strstr(event.error.message, "3000000"));
  assert_non_null(strstr(event.error.message, "2097152"));
  assert_non_null(strstr(event.error.message, event.peer));
  assert_int_equal(watched_expect(&pair.near, LINK_DOWN).link, pair.near_link);
  struct link_statistics statistics;
  assert_int_equal(link_send(pair.near.hub, pair.near_link, 1, 0, NULL, 0, NULL), KJ_NETWORK);
  (void)link_statistics(pair.far.hub, pair.far_link, &statistics);
  pair_close(&pair);
}

static void test_queue_is_bounded(void **state) {
  (void)state;
  /* Nobody takes the frames at the far end: either side says so before memory runs full. */
  struct pair pair;
  pair_open(&pair, (struct link_options){0});
  static const uint8_t bytes[LINK_SMALL_FRAME];
  struct link_part part = {bytes, sizeof bytes};
  struct kj_error error;
  int code = 0;
  size_t sent = 0;
  while (!code && sent < 1000000) {
    code = link_send(pair.near.hub, pair.near_link, 1, 0, &part, 1, &error);
    sent++;
  }
  assert_int_equal(code, KJ_NETWORK);
  assert_true(sent < 10000);
  pair_close(&pair);
}

static void test_close_flushes(void **state) {
  (void)state;
  struct pair pair;
  pair_open(&pair, (struct link_options){0});
  link_set_limit(pair.near.hub, pair.near_link, 1u << 20);
  link_set_limit(pair.far.hub, pair.far_link, 1u << 20);
  for (size_t i = 0; i < 20; i++) {
    uint8_t *bytes = make_payload(i, 600000);
    send_bytes(&pair.near, pair.near_link, (uint16_t)(100 + i), bytes, 600000);
    free(bytes);
  }
  link_close(pair.near.hub, pair.near_link);
  assert_int_equal(link_send(pair.near.hub, pair.near_link, 1, 0, NULL, 0, NULL), KJ_NETWORK);
  for (size_t i = 0; i < 20; i++) {
    struct link_event event = watched_expect(&pair.far, LINK_FRAME);
    check_frame(&event, i, 600000);
  }
  struct link_event event = watched_expect(&pair.far, LINK_DOWN);
  assert_non_null(strstr(event.error.message, "closed the link"));
  assert_false(link_next(pair.near.hub, &event));
  pair_close(&pair);
}

static void test_hub_close_flushes(void **state) {
  (void)state;
  struct pair pair;
  pair_open(&pair, (struct link_options){0});
  for (size_t i = 0; i < 30; i++) {
    uint8_t *bytes = make_payload(i, 60000);
    send_bytes(&pair.near, pair.near_link, (uint16_t)(100 + i), bytes, 60000);
    free(bytes);
  }
  watched_close(&pair.near);
  for (size_t i = 0; i < 30; i++) {
    struct link_event event = watched_expect(&pair.far, LINK_FRAME);
    check_frame(&event, i, 60000);
  }
  watched_expect(&pair.far, LINK_DOWN);
  watched_close(&pair.far);
}

static void test_close_drops_events(void **state) {
  (void)state;
  struct pair pair;
  pair_open(&pair, (struct link_options){0});
  send_bytes(&pair.far, pair.far_link, 100, "x", 1);
  /* Wait until it has arrived without taking it. */
  struct link_statistics statistics = {0};
  while (!statistics.frames_received) assert_true(link_statistics(pair.near.hub, pair.near_link, &statistics));
  link_close(pair.near.hub, pair.near_link);
  watched_expect(&pair.far, LINK_DOWN);
  struct link_event event;
  assert_false(link_next(pair.near.hub, &event));
  pair_close(&pair);
}

static void test_round_trip_is_measured(void **state) {
  (void)state;
  struct pair pair;
  pair_open(&pair, (struct link_options){.heartbeat = 0.02});
  struct link_statistics near = {0}, far = {0};
  while (near.round_trip == 0 || far.round_trip == 0) {
    assert_true(link_statistics(pair.near.hub, pair.near_link, &near));
    assert_true(link_statistics(pair.far.hub, pair.far_link, &far));
  }
  assert_true(near.round_trip > 0 && far.round_trip > 0);
  assert_int_equal(near.frames_sent, 0);
  pair_close(&pair);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes_both_directions),
      cmocka_unit_test(test_parts_are_joined),
      cmocka_unit_test(test_many_links),
      cmocka_unit_test(test_many_large_frames_wait),
      cmocka_unit_test(test_sender_refuses_beyond_limit),
      cmocka_unit_test(test_receiver_drops_link_beyond_limit),
      cmocka_unit_test(test_queue_is_bounded),
      cmocka_unit_test(test_close_flushes),
      cmocka_unit_test(test_hub_close_flushes),
      cmocka_unit_test(test_close_drops_events),
      cmocka_unit_test(test_round_trip_is_measured),
  };
  return cmocka_run_group_tests_name("link frames", tests, NULL, NULL);
}

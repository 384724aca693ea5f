/* Peers that die, stop or come back: the link goes down soon and says so, nothing leaks, and waiting costs no CPU.
 * The peers are processes: this program, started again with a role. */
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "unit/link/watched.h"

/* Connects, says hello and stays until it is killed. */
static int be_caller(const char *address) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* at the latest, when the test ends */
  struct link_hub *hub;
  struct kj_error error;
  uint64_t link;
  struct watched watched = {.wake = eventfd(0, EFD_CLOEXEC)};
  struct link_options options = {.heartbeat = 0.1, .deadline = 60, .notify = watched_notify, .context = &watched};
  if (link_hub_open(&hub, &options, &error) || link_connect(hub, address, &link, &error)) return 1;
  watched.hub = hub;
  struct link_event event = watched_next(&watched);
  struct link_part part = {"hello", 5};
  if (event.kind != LINK_UP || link_send(hub, link, 1, 0, &part, 1, &error)) return 1;
  for (;;) {
    event = watched_next(&watched);
    if (event.kind == LINK_DOWN) return 1;
    link_event_free(&event);
  }
}

/* The link of a caller that has been started and has said hello. */
static uint64_t take_caller(struct watched *hub, const char *address, pid_t *pid) {
  *pid = spawn_peer("caller", address);
  uint64_t link = watched_expect(hub, LINK_UP).link;
  struct link_event event = watched_expect(hub, LINK_FRAME);
  assert_int_equal(event.link, link);
  assert_memory_equal(event.payload, "hello", 5);
  link_event_free(&event);
  return link;
}

static void test_C4_killed_peer(void **state) {
  (void)state;
  struct watched hub;
  char address[128];
  pid_t pid;
  watched_open(&hub, (struct link_options){.deadline = 1000}); /* it is not the deadline that notices */
  watched_listen(&hub, address);
  uint64_t link = take_caller(&hub, address, &pid);
  end_peer(pid);
  struct link_event event = watched_expect(&hub, LINK_DOWN);
  assert_int_equal(event.link, link);
  assert_int_equal(event.error.code, KJ_NETWORK);
  assert_non_null(strstr(event.error.message, event.peer));
  assert_non_null(strstr(event.error.message, "lost"));
  watched_close(&hub);
}

static void test_C7_silent_peer(void **state) {
  (void)state;
  struct watched hub;
  char address[128];
  pid_t pid;
  watched_open(&hub, (struct link_options){.heartbeat = 0.1, .deadline = 1});
  watched_listen(&hub, address);
  uint64_t link = take_caller(&hub, address, &pid);
  kill(pid, SIGSTOP);
  struct link_event event = watched_expect(&hub, LINK_DOWN);
  assert_int_equal(event.link, link);
  assert_int_equal(event.error.code, KJ_TIMEOUT);
  assert_non_null(strstr(event.error.message, event.peer));
  assert_non_null(strstr(event.error.message, "no sign of life for 1 s"));
  end_peer(pid);
  watched_close(&hub);
}

/* Heartbeats keep a link up for longer than the deadline, however idle its owners are. */
static void test_idle_link_stays_up(void **state) {
  (void)state;
  struct pair pair;
  pair_open(&pair, (struct link_options){.heartbeat = 0.05, .deadline = 2});
  struct pollfd descriptor = {.fd = pair.near.wake, .events = POLLIN};
  assert_int_equal(poll(&descriptor, 1, 4000), 0);
  struct link_event event;
  assert_false(link_next(pair.near.hub, &event));
  send_bytes(&pair.near, pair.near_link, 1, "x", 1);
  event = watched_expect(&pair.far, LINK_FRAME);
  link_event_free(&event);
  pair_close(&pair);
}

static void test_C5_generations_leave_nothing_behind(void **state) {
  (void)state;
  enum { GENERATIONS = 25 };
  struct watched hub;
  char address[128];
  pid_t pid;
  size_t before = 0;
  uint64_t last = 0;
  watched_open(&hub, (struct link_options){0});
  watched_listen(&hub, address);
  for (size_t i = 0; i < GENERATIONS; i++) {
    uint64_t link = take_caller(&hub, address, &pid);
    assert_true(link > last);
    last = link;
    if (i == 0) before = count_descriptors();
    assert_true(count_descriptors() <= before + 1); /* the hub may be looking at its descriptors just now */
    end_peer(pid);
    assert_int_equal(watched_expect(&hub, LINK_DOWN).link, link);
  }
  watched_close(&hub);
}

/* The next generation may come before the end of the last one is noticed. */
static void test_new_generation_while_the_old_one_is_stopped(void **state) {
  (void)state;
  struct watched hub;
  char address[128];
  pid_t old, new;
  watched_open(&hub, (struct link_options){0});
  watched_listen(&hub, address);
  uint64_t first = take_caller(&hub, address, &old);
  kill(old, SIGSTOP);
  uint64_t second = take_caller(&hub, address, &new);
  assert_true(second != first);
  link_close(hub.hub, first);
  send_bytes(&hub, second, 1, "x", 1);
  end_peer(old);
  end_peer(new);
  assert_int_equal(watched_expect(&hub, LINK_DOWN).link, second);
  watched_close(&hub);
}

static void test_sending_to_a_dead_peer_does_not_kill(void **state) {
  (void)state;
  struct watched hub;
  char address[128];
  pid_t pid;
  static const uint8_t bytes[60000];
  signal(SIGPIPE, SIG_DFL);
  watched_open(&hub, (struct link_options){0});
  watched_listen(&hub, address);
  uint64_t link = take_caller(&hub, address, &pid);
  kill(pid, SIGKILL);
  struct link_part part = {bytes, sizeof bytes};
  while (link_send(hub.hub, link, 1, 0, &part, 1, NULL) == 0) continue;
  end_peer(pid);
  watched_expect(&hub, LINK_DOWN);
  watched_close(&hub);
}

/* A link that is busy in one direction is not taken for dead, and its heartbeats come through. */
static void test_busy_link_stays_up(void **state) {
  (void)state;
  struct pair pair;
  static uint8_t bytes[8u << 20];
  pair_open(&pair, (struct link_options){.heartbeat = 0.05, .deadline = 2});
  link_set_limit(pair.near.hub, pair.near_link, sizeof bytes);
  link_set_limit(pair.far.hub, pair.far_link, sizeof bytes);
  double end = clock_seconds() + 4;
  for (size_t i = 0; clock_seconds() < end; i++) {
    send_bytes(&pair.near, pair.near_link, 1, bytes, sizeof bytes);
    if (i < 2) continue; /* two frames are always on their way */
    struct link_event event = watched_expect(&pair.far, LINK_FRAME);
    assert_int_equal(event.length, sizeof bytes);
    link_event_free(&event);
  }
  struct link_statistics statistics;
  assert_true(link_statistics(pair.near.hub, pair.near_link, &statistics));
  assert_true(statistics.round_trip > 0);
  struct link_event event;
  assert_false(link_next(pair.near.hub, &event));
  pair_close(&pair);
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void test_C5_idle_costs_no_cpu(void **state) {
  (void)state;
  struct pair pair;
  pair_open(&pair, (struct link_options){0});
  double cpu = cpu_seconds();
  struct pollfd descriptor = {.fd = pair.near.wake, .events = POLLIN};
  poll(&descriptor, 1, 3000);
  /* Of 3 s, for two hubs: less than the 2 % that a whole process may use. */
  double used = cpu_seconds() - cpu;
  print_message("idle: %.1f ms of CPU in 3 s\n", used * 1e3);
  assert_true(used < 0.06);
  pair_close(&pair);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_C4_killed_peer),
      cmocka_unit_test(test_C7_silent_peer),
      cmocka_unit_test(test_idle_link_stays_up),
      cmocka_unit_test(test_C5_generations_leave_nothing_behind),
      cmocka_unit_test(test_new_generation_while_the_old_one_is_stopped),
      cmocka_unit_test(test_sending_to_a_dead_peer_does_not_kill),
      cmocka_unit_test(test_busy_link_stays_up),
      cmocka_unit_test(test_C5_idle_costs_no_cpu),
  };
  if (argc == 3 && strcmp(argv[1], "caller") == 0) return be_caller(argv[2]);
  return cmocka_run_group_tests_name("link liveness", tests, NULL, NULL);
}

/* Hubs for tests: one that can be waited on, and peers in processes of their own. */
#ifndef KAIJU_TESTS_LINK_WATCHED_H
#define KAIJU_TESTS_LINK_WATCHED_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link/link.h"
#include "unit/unit.h"

extern char **environ;

enum { WATCHED_PATIENCE = 60000 }; /* milliseconds, after which a test that waits in vain fails */

struct watched {
  struct link_hub *hub;
  int wake;
};

static inline void watched_notify(void *context) {
  struct watched *watched = context;
  uint64_t one = 1;
  assert_int_equal(write(watched->wake, &one, sizeof one), sizeof one);
}

static inline void watched_open(struct watched *watched, struct link_options options) {
  struct kj_error error = {0};
  watched->wake = eventfd(0, EFD_CLOEXEC);
  options.notify = watched_notify;
  options.context = watched;
  if (link_hub_open(&watched->hub, &options, &error)) fail_msg("%s", error.message);
}

static inline void watched_close(struct watched *watched) {
  link_hub_close(watched->hub);
  close(watched->wake);
}

static inline struct link_event watched_next(struct watched *watched) {
  struct link_event event;
  while (!link_next(watched->hub, &event)) {
    struct pollfd descriptor = {.fd = watched->wake, .events = POLLIN};
    if (poll(&descriptor, 1, WATCHED_PATIENCE) != 1) fail_msg("no event");
    uint64_t count;
    assert_int_equal(read(watched->wake, &count, sizeof count), sizeof count);
  }
  return event;
}

/* The next event, which must be of this kind. */
static inline struct link_event watched_expect(struct watched *watched, enum link_event_kind kind) {
  struct link_event event = watched_next(watched);
  if (event.kind != kind)
    fail_msg("event %d instead of %d: %s", event.kind, kind, event.kind == LINK_DOWN ? event.error.message : "");
  return event;
}

static inline void watched_listen(struct watched *watched, char bound[128]) {
  struct kj_error error = {0};
  if (link_listen(watched->hub, "127.0.0.1:0", bound, 128, &error)) fail_msg("%s", error.message);
}

static inline uint64_t watched_connect(struct watched *watched, const char *address) {
  struct kj_error error = {0};
  uint64_t link = 0;
  if (link_connect(watched->hub, address, &link, &error)) fail_msg("%s", error.message);
  return link;
}

/* Two hubs with one link. */
struct pair {
  struct watched near, far;
  uint64_t near_link, far_link;
  char address[128];
};

static inline void pair_open(struct pair *pair, struct link_options options) {
  watched_open(&pair->near, options);
  watched_open(&pair->far, options);
  watched_listen(&pair->far, pair->address);
  pair->near_link = watched_connect(&pair->near, pair->address);
  struct link_event event = watched_expect(&pair->near, LINK_UP);
  assert_int_equal(event.link, pair->near_link);
  assert_false(event.accepted);
  assert_string_equal(event.peer, pair->address);
  event = watched_expect(&pair->far, LINK_UP);
  assert_true(event.accepted);
  pair->far_link = event.link;
}

static inline void pair_close(struct pair *pair) {
  watched_close(&pair->near);
  watched_close(&pair->far);
}

static inline void send_bytes(struct watched *from, uint64_t link, uint16_t type, const void *bytes, size_t length) {
  struct kj_error error = {0};
  struct link_part part = {bytes, length};
  if (link_send(from->hub, link, type, 7, &part, 1, &error)) fail_msg("%s", error.message);
}

/* Starts this test program again with the arguments `role` and `argument`, for its main to become a peer. */
static inline pid_t spawn_peer(const char *role, const char *argument) {
  char *arguments[] = {(char *)"/proc/self/exe", (char *)role, (char *)argument, NULL};
  pid_t pid = 0;
  assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
  return pid;
}

static inline void end_peer(pid_t pid) {
  kill(pid, SIGKILL);
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
}

static inline size_t count_descriptors(void) {
  size_t count = 0;
  for (int fd = 0; fd < 4096; fd++) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

#endif

/* Sockets of the server: loopback or not, and the file of a unix socket. */
#include "http/listener.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit/unit.h"

struct place {
  char directory[32], path[64];
};

static int make_place(void **state) {
  struct place *place = calloc(1, sizeof *place);
  if (!place) return -1;
  strcpy(place->directory, "/tmp/kaiju-socket-XXXXXX");
  *state = place;
  if (!mkdtemp(place->directory)) return -1;
  snprintf(place->path, sizeof place->path, "%s/kaiju.sock", place->directory);
  return 0;
}

static int remove_place(void **state) {
  struct place *place = *state;
  unlink(place->path);
  int result = rmdir(place->directory);
  free(place);
  return result;
}

static void only_the_owner_may_connect(void **state) {
  const struct place *place = *state;
  struct listener_path where;
  struct kj_error error;
  struct stat status;
  int descriptor;
  mode_t before = umask(0);
  assert_int_equal(listener_unix(&descriptor, place->path, &where, &error), 0);
  umask(before);
  assert_int_equal(lstat(place->path, &status), 0);
  assert_true(S_ISSOCK(status.st_mode));
  assert_int_equal(status.st_mode & 07777, 0600);
  listener_remove(&where);
  assert_int_equal(lstat(place->path, &status), -1);
  listener_remove(&where);
  close(descriptor);
}

static void a_socket_that_was_left_behind_is_replaced(void **state) {
  const struct place *place = *state;
  struct listener_path left, where;
  struct kj_error error;
  int descriptor;
  assert_int_equal(listener_unix(&descriptor, place->path, &left, &error), 0);
  close(descriptor);
  assert_int_equal(listener_unix(&descriptor, place->path, &where, &error), 0);
  assert_int_equal(access(place->path, F_OK), 0);
  close(descriptor);
  free(left.path);
  listener_remove(&where);
}

static void a_socket_in_use_is_left_alone(void **state) {
  const struct place *place = *state;
  struct listener_path first, second;
  struct kj_error error;
  int descriptor, another;
  assert_int_equal(listener_unix(&descriptor, place->path, &first, &error), 0);
  assert_int_equal(listen(descriptor, 1), 0);
  assert_int_equal(listener_unix(&another, place->path, &second, &error), KJ_NETWORK);
  assert_int_equal(another, -1);
  assert_non_null(strstr(error.message, "another process listens on"));
  /* Somebody has taken the path away and given it to another: the first one has nothing to remove. */
  unlink(place->path);
  assert_int_equal(listener_unix(&another, place->path, &second, &error), 0);
  listener_remove(&first);
  assert_int_equal(access(place->path, F_OK), 0);
  listener_remove(&second);
  assert_int_equal(access(place->path, F_OK), -1);
  close(descriptor);
  close(another);
}

static void what_is_no_socket_is_left_alone(void **state) {
  const struct place *place = *state;
  struct listener_path where;
  struct kj_error error;
  int descriptor, file = open(place->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  assert_true(file >= 0);
  close(file);
  assert_int_equal(listener_unix(&descriptor, place->path, &where, &error), KJ_INVALID);
  assert_non_null(strstr(error.message, "is no socket"));
  assert_int_equal(access(place->path, F_OK), 0);
}

static void paths_that_no_socket_can_have(void **state) {
  struct listener_path where;
  struct kj_error error;
  int descriptor;
  char path[200];
  (void)state;
  memset(path, 'x', sizeof path);
  path[sizeof path - 1] = '\0';
  assert_int_equal(listener_unix(&descriptor, path, &where, &error), KJ_INVALID);
  assert_non_null(strstr(error.message, "107"));
  assert_int_equal(listener_unix(&descriptor, "", &where, &error), KJ_INVALID);
  assert_int_not_equal(listener_unix(&descriptor, "/nonexistent/kaiju.sock", &where, &error), 0);
  assert_non_null(strstr(error.message, "/nonexistent/kaiju.sock"));
  listener_remove(&where);
}

static void knows_loopback_addresses(void **state) {
  static const struct {
    const char *host;
    bool loopback;
  } cases[] = {{"127.0.0.1", true}, {"127.1.2.3", true}, {"localhost", true}, {"0.0.0.0", false}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int descriptor;
    uint16_t port;
    bool loopback;
    struct kj_error error = {0};
    if (listener_tcp(&descriptor, cases[i].host, 0, &port, &loopback, &error)) fail_msg("%s", error.message);
    assert_true(port > 0);
    assert_int_equal(loopback, cases[i].loopback);
    close(descriptor);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(only_the_owner_may_connect, make_place, remove_place),
      cmocka_unit_test_setup_teardown(a_socket_that_was_left_behind_is_replaced, make_place, remove_place),
      cmocka_unit_test_setup_teardown(a_socket_in_use_is_left_alone, make_place, remove_place),
      cmocka_unit_test_setup_teardown(what_is_no_socket_is_left_alone, make_place, remove_place),
      cmocka_unit_test(paths_that_no_socket_can_have),
      cmocka_unit_test(knows_loopback_addresses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

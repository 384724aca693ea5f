#include "http/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "link/address.h"

/* A bound socket, or -1 with errno. */
static int bind_tcp(const struct addrinfo *address) {
  int on = 1;
  int descriptor = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(descriptor, address->ai_addr, address->ai_addrlen) == 0) return descriptor;
  int reason = errno;
  close(descriptor);
  errno = reason;
  return -1;
}

int listener_tcp(int *descriptor, const char *host, uint16_t port, uint16_t *bound_port, bool *loopback,
                 struct kj_error *error) {
  char service[8];
  *descriptor = -1;
  snprintf(service, sizeof service, "%u", port);
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *addresses = NULL;
  int code = getaddrinfo(host, service, &hints, &addresses);
  if (code != 0) return kj_fail(error, KJ_NOT_FOUND, "http: cannot resolve '%s': %s", host, gai_strerror(code));
  for (const struct addrinfo *address = addresses; address && *descriptor < 0; address = address->ai_next)
    *descriptor = bind_tcp(address);
  int reason = errno;
  freeaddrinfo(addresses);
  if (*descriptor < 0)
    return kj_fail(error, KJ_NETWORK, "http: cannot listen on %s port %u: %s", host, port, strerror(reason));
  struct address bound = {.length = sizeof bound.socket};
  if (getsockname(*descriptor, (struct sockaddr *)&bound.socket, &bound.length) != 0) {
    close(*descriptor);
    *descriptor = -1;
    return kj_fail(error, KJ_NETWORK, "http: the address that %s was bound to: %s", host, strerror(errno));
  }
  *bound_port = (uint16_t)address_port(&bound);
  *loopback = address_is_loopback(&bound);
  return 0;
}

/* Removes a socket on which nobody listens. */
static int remove_stale(const char *path, const struct sockaddr_un *address, struct kj_error *error) {
  struct stat status;
  if (lstat(path, &status) != 0)
    return errno == ENOENT ? 0 : kj_fail(error, KJ_IO, "http: cannot look at %s: %s", path, strerror(errno));
  if (!S_ISSOCK(status.st_mode))
    return kj_fail(error, KJ_INVALID, "http: %s exists and is no socket: choose another path", path);
  int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (probe < 0) return kj_fail(error, KJ_NETWORK, "http: cannot make a socket: %s", strerror(errno));
  bool stale = connect(probe, (const struct sockaddr *)address, sizeof *address) != 0 && errno == ECONNREFUSED;
  close(probe);
  if (!stale) return kj_fail(error, KJ_NETWORK, "http: another process listens on %s", path);
  if (unlink(path) == 0 || errno == ENOENT) return 0;
  return kj_fail(error, KJ_IO, "http: cannot remove the socket %s that was left behind: %s", path, strerror(errno));
}

int listener_unix(int *descriptor, const char *path, struct listener_path *where, struct kj_error *error) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct stat status;
  *descriptor = -1;
  *where = (struct listener_path){0};
  if (strlen(path) == 0 || strlen(path) >= sizeof address.sun_path)
    return kj_fail(error, KJ_INVALID, "http: the path of a socket has 1 to %zu bytes, \"%.200s\" has %zu",
                   sizeof address.sun_path - 1, path, strlen(path));
  memcpy(address.sun_path, path, strlen(path));
  int code = remove_stale(path, &address, error);
  if (code) return code;
  int opened = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (opened < 0) return kj_fail(error, KJ_NETWORK, "http: cannot make a socket: %s", strerror(errno));
  /* Linux gives the file the mode that its socket has when it is bound: nobody else can connect in between. */
  if (fchmod(opened, S_IRUSR | S_IWUSR) != 0 || bind(opened, (struct sockaddr *)&address, sizeof address) != 0 ||
      lstat(path, &status) != 0) {
    code = kj_fail(error, KJ_NETWORK, "http: cannot listen on %s: %s", path, strerror(errno));
    close(opened);
    return code;
  }
  *where = (struct listener_path){strdup(path), status.st_dev, status.st_ino};
  if (!where->path) {
    unlink(path);
    close(opened);
    return kj_fail_memory(error, "the HTTP server");
  }
  *descriptor = opened;
  return 0;
}

void listener_remove(struct listener_path *where) {
  struct stat status;
  if (where->path && lstat(where->path, &status) == 0 && status.st_dev == where->device &&
      status.st_ino == where->inode)
    unlink(where->path);
  free(where->path);
  *where = (struct listener_path){0};
}

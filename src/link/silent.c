#include "link/silent.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static bool was_there(const struct silent *silent, int descriptor, const struct address *peer) {
  for (size_t i = 0; i < silent->count; i++)
    if (silent->sockets[i].descriptor == descriptor && address_equal(&silent->sockets[i].peer, peer)) return true;
  return false;
}

/* Is this a connection that the listener accepted? Then `peer` is who is at its other end. */
static bool is_accepted(int descriptor, const struct address *listener, struct address *peer) {
  struct address own = {.length = sizeof own.socket};
  *peer = (struct address){.length = sizeof peer->socket};
  return getsockname(descriptor, (struct sockaddr *)&own.socket, &own.length) == 0 &&
         (own.socket.ss_family == AF_INET || own.socket.ss_family == AF_INET6) &&
         address_port(&own) == address_port(listener) &&
         getpeername(descriptor, (struct sockaddr *)&peer->socket, &peer->length) == 0;
}

size_t silent_shut_down(struct silent *silent, const struct address *listener, bool at_once,
                        bool (*known)(void *context, const struct address *peer), void *context) {
  DIR *directory = opendir("/proc/self/fd");
  if (!directory) return 0;
  struct silent now = {0};
  size_t ended = 0;
  for (struct dirent *entry; (entry = readdir(directory));) {
    char *rest = NULL;
    long descriptor = strtol(entry->d_name, &rest, 10);
    struct address peer;
    if (*rest || !is_accepted((int)descriptor, listener, &peer) || known(context, &peer)) continue;
    if (at_once || was_there(silent, (int)descriptor, &peer)) {
      shutdown((int)descriptor, SHUT_RDWR);
      ended++;
    } else if (now.count < SILENT_MAX) {
      now.sockets[now.count++] = (struct silent_socket){(int)descriptor, peer};
    }
  }
  closedir(directory);
  *silent = now;
  return ended;
}

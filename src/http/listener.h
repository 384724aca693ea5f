/* The sockets on which the server listens: bound, not yet listening, non-blocking, closed on exec. */
#ifndef KAIJU_HTTP_LISTENER_H
#define KAIJU_HTTP_LISTENER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* The first of the host's addresses that can be bound. *loopback: it is reachable from this machine only. */
int listener_tcp(int *descriptor, const char *host, uint16_t port, uint16_t *bound_port, bool *loopback,
                 struct kj_error *error);

/* A unix socket of mode 0600. */
struct listener_path {
  char *path;
  dev_t device; /* of the socket's file, so that another one in its place is left alone */
  ino_t inode;
};
/* A socket that a process has left behind is replaced; one on which somebody listens, and what is no socket, is an
 * error. */
int listener_unix(int *descriptor, const char *path, struct listener_path *where, struct kj_error *error);
/* Removes the file, if it is still there, and forgets it. While the descriptor is open: afterwards another file may
 * have its inode. */
void listener_remove(struct listener_path *where);

#endif

/* TCP connections to a listener on which nothing was ever said.
 *
 * The tcp provider keeps such a connection for as long as the other end likes, so that a port scanner could use up this
 * process's descriptors, and offers no way to see or end it. This module finds them among the process's descriptors:
 * they are sockets of the listener's port that belong to no endpoint. Only the thread that drives the provider may call
 * it: nobody else closes those sockets, so a descriptor cannot change its meaning meanwhile.
 */
#ifndef KAIJU_LINK_SILENT_H
#define KAIJU_LINK_SILENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/address.h"

enum { SILENT_MAX = 256 }; /* remembered from one call to the next; more are dealt with in later calls */

struct silent {
  size_t count;
  struct silent_socket {
    int descriptor;
    struct address peer;
  } sockets[SILENT_MAX];
};

/* Shuts the connections down that were there at the call before already, or with `at_once` all of them; the provider
 * then drops them. `known` says whether a peer belongs to an endpoint. Returns how many. */
size_t silent_shut_down(struct silent *silent, const struct address *listener, bool at_once,
                        bool (*known)(void *context, const struct address *peer), void *context);

#endif

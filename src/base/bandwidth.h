/* How fast this machine reads memory: the ceiling of decoding, where every weight is read once a token. */
#ifndef KAIJU_BASE_BANDWIDTH_H
#define KAIJU_BASE_BANDWIDTH_H

#include <stddef.h>

#include "base/threads.h"

/* Bytes per second at which the pool's threads together read a buffer of `bytes` bytes, front to back: the best of a
 * few runs. Several times the last level cache measures memory, less measures the cache that holds it. The buffer is
 * filled first, so that no page fault is timed. 0 where `bytes` cannot be allocated. */
double bandwidth_measure(struct threads *threads, size_t bytes);

#endif

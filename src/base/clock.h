/* Monotonic time, for durations and deadlines. Never goes back; unrelated to the time of day. */
#ifndef KAIJU_BASE_CLOCK_H
#define KAIJU_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since an arbitrary moment. */
static inline uint64_t clock_nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Seconds since an arbitrary moment. */
static inline double clock_seconds(void) { return (double)clock_nanoseconds() * 1e-9; }

#endif

/* How long the thread pool takes to hand work over and to get it back: microseconds a threads_run.
 *
 *   build/bench/threads [COUNT]...
 *
 * "empty" is the time of a run whose tasks do nothing, "together" that of one whose tasks wait until all have begun, so
 * that every thread must have come. Between two runs the caller computes alone for the time in the head of the column;
 * medians.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/threads.h"

enum { RUNS = 2001 };

static const double pauses[] = {0, 10e-6, 100e-6, 1e-3};
enum { PAUSES = sizeof pauses / sizeof *pauses };

struct meeting {
  atomic_size_t arrived;
  size_t expected;
};

static void nothing(void *context, size_t task) {
  (void)context;
  (void)task;
}

static void meet(void *context, size_t task) {
  struct meeting *meeting = context;
  (void)task;
  atomic_fetch_add(&meeting->arrived, 1);
  while (atomic_load(&meeting->arrived) < meeting->expected) continue;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_seconds(struct threads *pool, bool together, double pause) {
  static double seconds[RUNS];
  for (int i = 0; i < RUNS; i++) {
    struct meeting meeting = {.expected = threads_count(pool)};
    double begin = clock_seconds();
    while (clock_seconds() < begin + pause) continue;
    begin = clock_seconds();
    threads_run(pool, meeting.expected, together ? meet : nothing, &meeting);
    seconds[i] = clock_seconds() - begin;
  }
  qsort(seconds, RUNS, sizeof *seconds, compare);
  return seconds[RUNS / 2];
}

static int measure(size_t count) {
  struct threads *pool;
  struct kj_error error;
  if (threads_create(&pool, count, &error)) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  int most = count <= cpus_available();
  for (int together = 0; together <= most; together++) {
    printf("%7zu  %-8s", count, together ? "together" : "empty");
    for (int i = 0; i < PAUSES; i++) printf("  %8.2f", median_seconds(pool, together, pauses[i]) * 1e6);
    printf("\n");
  }
  threads_destroy(pool);
  return 0;
}

int main(int argc, char **argv) {
  printf("threads  µs a run");
  for (int i = 0; i < PAUSES; i++) printf("%s%5.0f µs", i ? "  " : " ", pauses[i] * 1e6);
  printf("\n");
  if (argc == 1) return measure(1) || measure(2);
  for (int i = 1; i < argc; i++) {
    char *end;
    size_t count = strtoul(argv[i], &end, 10);
    if (*end || count == 0) {
      fprintf(stderr, "usage: threads [COUNT]...\n");
      return 2;
    }
    if (measure(count)) return 1;
  }
  return 0;
}

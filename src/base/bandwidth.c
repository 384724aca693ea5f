#include "base/bandwidth.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"

enum {
  ROUNDS = 5,
  LINE = 8, /* words of a cache line */
  /* Words between a read and its prefetch: without one, some machines show two thirds of what kernels reach. */
  AHEAD = 256,
  /* A round reads at least this much, so that starting the threads does not show. */
  ROUND_BYTES = 256 << 20
};

struct reading {
  uint64_t *words;
  size_t words_each; /* of a thread, whole cache lines */
  size_t passes;
  /* Kept so that the compiler must read; written after the loop, one cache line a thread. */
  uint64_t (*sums)[LINE];
};

static void fill(void *context, size_t task) {
  struct reading *reading = context;
  memset(reading->words + task * reading->words_each, (int)task + 1, reading->words_each * sizeof *reading->words);
}

static void read_slice(void *context, size_t task) {
  struct reading *reading = context;
  const uint64_t *words = reading->words + task * reading->words_each;
  uint64_t sums[LINE] = {0};
  for (size_t pass = 0; pass < reading->passes; pass++) {
    for (size_t i = 0; i < reading->words_each; i += LINE) {
      __builtin_prefetch(words + i + AHEAD);
      for (size_t lane = 0; lane < LINE; lane++) sums[lane] += words[i + lane];
    }
    /* Without it the passes could be folded into one. */
    __asm__ volatile("" ::: "memory");
  }
  memcpy(reading->sums[task], sums, sizeof sums);
}

double bandwidth_measure(struct threads *threads, size_t bytes) {
  const size_t count = threads_count(threads);
  struct reading reading = {.words_each = bytes / (LINE * sizeof(uint64_t)) / count * LINE};
  if (reading.words_each == 0) reading.words_each = LINE;
  const size_t read = reading.words_each * count * sizeof(uint64_t);
  const size_t sums = count * sizeof *reading.sums;
  if (read > SIZE_MAX - sums) return 0;
  void *memory = mmap(NULL, read + sums, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  /* Small pages would measure the page table walks as well; a refusal costs accuracy only. */
  (void)madvise(memory, read + sums, MADV_HUGEPAGE);
  reading.words = memory;
  reading.sums = (uint64_t(*)[LINE])((char *)memory + read);
  reading.passes = read < ROUND_BYTES ? ROUND_BYTES / read : 1;

  threads_run(threads, count, fill, &reading);
  double best = 0;
  for (int round = 0; round < ROUNDS; round++) {
    const double start = clock_seconds();
    threads_run(threads, count, read_slice, &reading);
    const double rate = (double)read * (double)reading.passes / (clock_seconds() - start);
    if (rate > best) best = rate;
  }
  munmap(memory, read + sums);
  return best;
}

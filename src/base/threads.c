#include "base/threads.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

enum {
  MAX_THREADS = 1024,
  CACHE_LINE = 128,   /* two of 64 bytes: some CPUs fetch them in pairs */
  PAUSES_A_LOOK = 16, /* pauses between two looks at the clock; one takes 5 to 60 ns, a look 20 to 50 */
};

/* What a worker that has found no work waits for, and the caller at the end, are futexes: 32-bit words that the kernel
 * compares before it lets a thread sleep, so that nothing is missed in between. */
struct threads {
  /* The tasks of the current run in the upper half, how many of them are given out in the lower: one addition takes a
   * task, and what was there before says whether it exists. Late additions go beyond the end without harm. */
  alignas(CACHE_LINE) atomic_uint_fast64_t work;
  alignas(CACHE_LINE) atomic_uint unfinished; /* tasks; a futex for the caller */
  atomic_bool caller_sleeps;
  alignas(CACHE_LINE) atomic_uint sleepers; /* workers that sleep or are about to */
  atomic_uint wakings;                      /* a futex for workers */
  atomic_bool stop;

  /* Written between runs only, read by those who have taken a task. */
  alignas(CACHE_LINE) threads_body *body;
  void *context;

  size_t count;
  uint64_t spin;          /* nanoseconds */
  struct worker *workers; /* [count - 1] */
  size_t started;
  bool pinned;
  unsigned caller_cpu;
  bool caller_pinned; /* and then: */
  pthread_t caller;
  cpu_set_t caller_set; /* what it had before */
};

struct worker {
  struct threads *pool;
  pthread_t thread;
};

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb"); /* yield does nothing on most cores */
#endif
}

static void futex_wait(atomic_uint *word, unsigned value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void futex_wake(atomic_uint *word, int threads) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

static inline bool has_task(uint_fast64_t work) { return (uint32_t)work < (uint32_t)(work >> 32); }

static bool work_is_there(struct threads *pool) {
  return has_task(atomic_load(&pool->work)) || atomic_load(&pool->stop);
}

static bool all_is_finished(struct threads *pool) { return atomic_load(&pool->unfinished) == 0; }

/* False when the pool's time for it is over before `condition` holds. */
static bool spin_until(struct threads *pool, bool (*condition)(struct threads *pool)) {
  if (condition(pool)) return true;
  for (uint64_t end = 0; pool->spin > 0;) {
    for (int i = 0; i < PAUSES_A_LOOK; i++) {
      relax();
      if (condition(pool)) return true;
    }
    uint64_t now = clock_nanoseconds();
    if (end == 0) end = now + pool->spin;
    if (now >= end) return false;
  }
  return false;
}

/* Runs tasks as long as there are any. */
static void take_tasks(struct threads *pool) {
  while (has_task(atomic_load_explicit(&pool->work, memory_order_relaxed))) {
    uint_fast64_t work = atomic_fetch_add(&pool->work, 1);
    if (!has_task(work)) return;
    pool->body(pool->context, (uint32_t)work);
    if (atomic_fetch_sub(&pool->unfinished, 1) == 1 && atomic_load(&pool->caller_sleeps))
      futex_wake(&pool->unfinished, 1);
  }
}

static void *work(void *argument) {
  struct threads *pool = ((struct worker *)argument)->pool;
  while (!atomic_load(&pool->stop)) {
    take_tasks(pool);
    if (spin_until(pool, work_is_there)) continue;
    /* The caller publishes, then looks for sleepers; here it is the other way round: one of the two sees the other. */
    unsigned wakings = atomic_load(&pool->wakings);
    atomic_fetch_add(&pool->sleepers, 1);
    if (!work_is_there(pool)) futex_wait(&pool->wakings, wakings);
    atomic_fetch_sub(&pool->sleepers, 1);
  }
  return NULL;
}

static void wake_workers(struct threads *pool, size_t most) {
  if (atomic_load(&pool->sleepers) == 0) return;
  atomic_fetch_add(&pool->wakings, 1);
  futex_wake(&pool->wakings, most < INT_MAX ? (int)most : INT_MAX);
}

static void wait_for_workers(struct threads *pool) {
  if (spin_until(pool, all_is_finished)) return;
  atomic_store(&pool->caller_sleeps, true);
  unsigned unfinished;
  while ((unfinished = atomic_load(&pool->unfinished)) > 0) futex_wait(&pool->unfinished, unfinished);
  atomic_store(&pool->caller_sleeps, false);
}

static void pin_caller(struct threads *pool) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(pool->caller_cpu, &set);
  pool->caller = pthread_self();
  pool->caller_pinned = pthread_getaffinity_np(pool->caller, sizeof pool->caller_set, &pool->caller_set) == 0 &&
                        pthread_setaffinity_np(pool->caller, sizeof set, &set) == 0;
}

void threads_run(struct threads *pool, size_t tasks, threads_body *body, void *context) {
  if (pool->pinned && !pool->caller_pinned) pin_caller(pool);
  if (pool->started == 0 || tasks <= 1) {
    for (size_t task = 0; task < tasks; task++) body(context, task);
    return;
  }
  pool->body = body;
  pool->context = context;
  atomic_store(&pool->unfinished, (unsigned)tasks);
  atomic_store(&pool->work, (uint_fast64_t)tasks << 32);
  wake_workers(pool, tasks - 1);
  take_tasks(pool);
  wait_for_workers(pool);
}

static int start_worker(struct threads *pool, const struct cpu_list *cpus) {
  struct worker *worker = &pool->workers[pool->started];
  pthread_attr_t attributes;
  *worker = (struct worker){.pool = pool};
  int failed = pthread_attr_init(&attributes);
  if (failed) return failed;
  if (cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus->cpus[pool->started + 1], &set);
    failed = pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
  }
  if (!failed) failed = pthread_create(&worker->thread, &attributes, work, worker);
  pthread_attr_destroy(&attributes);
  return failed;
}

int threads_create_on(struct threads **result, size_t count, const struct cpu_list *cpus, struct kj_error *error) {
  *result = NULL;
  size_t available = cpus ? cpus->count : cpus_available();
  if (count == 0) count = available;
  if (count > MAX_THREADS)
    return kj_fail(error, KJ_INVALID, "%zu threads were asked for; at most %d are possible", count, MAX_THREADS);
  if (cpus && count > cpus->count)
    return kj_fail(error, KJ_INVALID, "%zu threads cannot have a CPU each of a list of %zu; list more or take fewer",
                   count, cpus->count);
  struct threads *pool = aligned_alloc(alignof(struct threads), sizeof *pool);
  if (!pool) return kj_fail_memory(error, "the thread pool");
  memset(pool, 0, sizeof *pool);
  pool->count = count;
  pool->spin = count > available ? 0 : THREADS_SPIN_NANOSECONDS;
  pool->pinned = cpus != NULL;
  if (cpus) pool->caller_cpu = cpus->cpus[0];
  pool->workers = calloc(count, sizeof *pool->workers);
  if (!pool->workers) {
    threads_destroy(pool);
    return kj_fail_memory(error, "the thread pool");
  }
  for (; pool->started + 1 < count; pool->started++) {
    int failed = start_worker(pool, cpus);
    if (failed) {
      kj_fail(error, KJ_MEMORY, "cannot start thread %zu of %zu (%s); try a smaller --threads", pool->started + 2,
              count, strerror(failed));
      threads_destroy(pool);
      return KJ_MEMORY;
    }
  }
  *result = pool;
  return 0;
}

int threads_create(struct threads **pool, size_t count, struct kj_error *error) {
  return threads_create_on(pool, count, NULL, error);
}

void threads_destroy(struct threads *pool) {
  if (!pool) return;
  atomic_store(&pool->stop, true);
  wake_workers(pool, INT_MAX);
  for (size_t i = 0; i < pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
  if (pool->caller_pinned && pthread_equal(pool->caller, pthread_self()))
    pthread_setaffinity_np(pool->caller, sizeof pool->caller_set, &pool->caller_set);
  free(pool->workers);
  free(pool);
}

size_t threads_count(const struct threads *pool) { return pool->count; }

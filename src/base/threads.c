#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { SPINS = 2000 };

struct threads {
  size_t count;
  pthread_t *workers; /* count - 1 of them */
  size_t started;

  pthread_mutex_t mutex;
  pthread_cond_t work;
  bool stop;                /* under mutex */
  atomic_uint_fast64_t job; /* number of the current job; workers wait for it to change */

  threads_body *body;
  void *context;
  size_t tasks;
  atomic_size_t next;     /* next task to hand out */
  atomic_size_t finished; /* workers that are done with the current job */
};

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void take_tasks(struct threads *pool) {
  for (;;) {
    size_t task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
    if (task >= pool->tasks) return;
    pool->body(pool->context, task);
  }
}

/* Waits until the job number differs from `seen`; false when the pool is being destroyed. */
static bool wait_for_job(struct threads *pool, uint_fast64_t seen) {
  for (int spin = 0; spin < SPINS; spin++) {
    if (atomic_load_explicit(&pool->job, memory_order_acquire) != seen) return true;
    relax();
  }
  pthread_mutex_lock(&pool->mutex);
  while (atomic_load_explicit(&pool->job, memory_order_acquire) == seen && !pool->stop)
    pthread_cond_wait(&pool->work, &pool->mutex);
  bool go_on = !pool->stop;
  pthread_mutex_unlock(&pool->mutex);
  return go_on;
}

static void *worker(void *argument) {
  struct threads *pool = argument;
  uint_fast64_t seen = 0;
  while (wait_for_job(pool, seen)) {
    seen++;
    take_tasks(pool);
    atomic_fetch_add_explicit(&pool->finished, 1, memory_order_release);
  }
  return NULL;
}

void threads_run(struct threads *pool, size_t tasks, threads_body *body, void *context) {
  if (pool->started == 0 || tasks <= 1) {
    for (size_t task = 0; task < tasks; task++) body(context, task);
    return;
  }
  pool->body = body;
  pool->context = context;
  pool->tasks = tasks;
  atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
  atomic_store_explicit(&pool->finished, 0, memory_order_relaxed);
  pthread_mutex_lock(&pool->mutex);
  atomic_fetch_add_explicit(&pool->job, 1, memory_order_release);
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->mutex);
  take_tasks(pool);
  for (int spin = 0; atomic_load_explicit(&pool->finished, memory_order_acquire) != pool->started; spin++) {
    if (spin < SPINS)
      relax();
    else
      sched_yield();
  }
}

static size_t available_cpus(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return (size_t)CPU_COUNT(&set);
  return 1;
}

int threads_create(struct threads **result, size_t count, struct kj_error *error) {
  *result = NULL;
  if (count == 0) count = available_cpus();
  if (count > 1024) return kj_fail(error, KJ_INVALID, "%zu threads were asked for; at most 1024 are possible", count);
  struct threads *pool = calloc(1, sizeof *pool);
  if (!pool) return kj_fail_memory(error, "the thread pool");
  pool->count = count;
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->work, NULL);
  pool->workers = calloc(count, sizeof *pool->workers);
  if (!pool->workers) {
    threads_destroy(pool);
    return kj_fail_memory(error, "the thread pool");
  }
  for (; pool->started + 1 < count; pool->started++) {
    if (pthread_create(&pool->workers[pool->started], NULL, worker, pool) != 0) {
      threads_destroy(pool);
      return kj_fail(error, KJ_MEMORY, "cannot start %zu threads; try a smaller --threads", count);
    }
  }
  *result = pool;
  return 0;
}

void threads_destroy(struct threads *pool) {
  if (!pool) return;
  pthread_mutex_lock(&pool->mutex);
  pool->stop = true;
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->mutex);
  for (size_t i = 0; i < pool->started; i++) pthread_join(pool->workers[i], NULL);
  pthread_cond_destroy(&pool->work);
  pthread_mutex_destroy(&pool->mutex);
  free(pool->workers);
  free(pool);
}

size_t threads_count(const struct threads *pool) { return pool->count; }

/* A fixed pool of worker threads for data-parallel loops.
 *
 * `threads_run` calls body(context, task) once for every task in 0…tasks-1, spread over the pool and the calling
 * thread, and returns when all are done. Which thread runs a task is not defined, and a worker that comes late may find
 * nothing left to do, so a body must write only what its own task owns: results then cannot depend on the number of
 * threads. One caller at a time.
 *
 * Who waits spins for THREADS_SPIN_NANOSECONDS and then sleeps, so that work that follows soon is taken up at once and
 * an idle pool costs no CPU. With more threads than CPUs it sleeps at once: spinning would only keep the others away.
 */
#ifndef KAIJU_BASE_THREADS_H
#define KAIJU_BASE_THREADS_H

#include <stddef.h>

#include "base/cpus.h"
#include "base/error.h"

struct threads;

typedef void threads_body(void *context, size_t task);

/* Between the operations of a token a few microseconds pass, between the tokens of a stream several hundred; to wake a
 * thread takes some 50 (docs/performance.md). */
enum { THREADS_SPIN_NANOSECONDS = 100000 };

/* A pool of `count` threads in all, the caller's included; 0 means one per available CPU. */
int threads_create(struct threads **pool, size_t count, struct kj_error *error);
/* The same with thread i kept to the i-th CPU of the list; count 0 means one per CPU of the list, more are KJ_INVALID.
 * The calling thread is kept to the first from its first threads_run until threads_destroy, and so are threads that it
 * starts in between: threads inherit their CPUs. NULL: as threads_create. */
int threads_create_on(struct threads **pool, size_t count, const struct cpu_list *cpus, struct kj_error *error);
void threads_destroy(struct threads *pool); /* NULL is allowed */
size_t threads_count(const struct threads *pool);
/* tasks < 2^31. */
void threads_run(struct threads *pool, size_t tasks, threads_body *body, void *context);

#endif

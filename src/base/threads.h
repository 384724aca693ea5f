/* A fixed pool of worker threads for data-parallel loops.
 *
 * `threads_run` calls body(context, task) once for every task in 0…tasks-1, spread over the pool and the calling
 * thread, and returns when all are done. Which thread runs a task is not defined, so a body must write only what its
 * own task owns: results then cannot depend on the number of threads. One caller at a time. Waiting workers spin for
 * a few microseconds, then sleep: an idle pool costs no CPU.
 */
#ifndef KAIJU_BASE_THREADS_H
#define KAIJU_BASE_THREADS_H

#include <stddef.h>

#include "base/error.h"

struct threads;

typedef void threads_body(void *context, size_t task);

/* A pool of `count` threads in all, the caller's included; 0 means one per available CPU. */
int threads_create(struct threads **pool, size_t count, struct kj_error *error);
void threads_destroy(struct threads *pool); /* NULL is allowed */
size_t threads_count(const struct threads *pool);
void threads_run(struct threads *pool, size_t tasks, threads_body *body, void *context);

#endif

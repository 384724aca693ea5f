#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "unit/unit.h"

enum { TASKS = 1000, PATIENCE = 10000 /* milliseconds until a state that must come counts as missing */ };

static void pause_milliseconds(long count) { nanosleep(&(struct timespec){.tv_nsec = count * 1000000}, NULL); }

/* 'R' for running, 'S' for sleeping, as /proc has it; 0 if the thread is gone. */
static char state_of(pid_t thread) {
  char path[64], state = 0;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 0;
  fclose(file);
  return state;
}

static bool comes_to_sleep(pid_t thread) {
  for (int i = 0; i < PATIENCE; i++) {
    if (state_of(thread) == 'S') return true;
    pause_milliseconds(1);
  }
  return false;
}

static pid_t own_id(void) { return (pid_t)syscall(SYS_gettid); }

static void count_task(void *context, size_t task) { ((unsigned char *)context)[task]++; }

static void check_rounds(struct threads *pool, int rounds) {
  for (int round = 0; round < rounds; round++) {
    unsigned char runs[TASKS] = {0};
    size_t tasks = (size_t)(round * 7 % TASKS);
    threads_run(pool, tasks, count_task, runs);
    for (size_t task = 0; task < TASKS; task++) assert_int_equal(runs[task], task < tasks);
  }
}

static void every_task_runs_once(void **state) {
  (void)state;
  const size_t counts[] = {1, 2, 3, 8};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    struct threads *pool;
    assert_int_equal(threads_create(&pool, counts[i], NULL), 0);
    assert_int_equal(threads_count(pool), counts[i]);
    check_rounds(pool, 200);
    threads_destroy(pool);
  }
}

static void many_more_threads_than_cpus_run_every_task_once(void **state) {
  (void)state;
  struct threads *pool;
  assert_int_equal(threads_create(&pool, cpus_available() * 8 + 1, NULL), 0);
  check_rounds(pool, 200);
  threads_destroy(pool);
}

/* A meeting of all threads of a pool: each runs one task, since nobody leaves before all have come. */
struct meeting {
  atomic_size_t arrived;
  size_t expected;
  pid_t threads[16];
  cpu_set_t sets[16];
  int cpus[16];
};

static void meet(void *context, size_t task) {
  struct meeting *meeting = context;
  meeting->threads[task] = own_id();
  sched_getaffinity(0, sizeof meeting->sets[task], &meeting->sets[task]);
  meeting->cpus[task] = sched_getcpu();
  atomic_fetch_add(&meeting->arrived, 1);
  while (atomic_load(&meeting->arrived) < meeting->expected) sched_yield();
}

static void idle_workers_sleep_and_wake_again(void **state) {
  (void)state;
  struct threads *pool;
  assert_int_equal(threads_create(&pool, 3, NULL), 0);
  for (int round = 0; round < 20; round++) {
    struct meeting meeting = {.expected = 3};
    threads_run(pool, 3, meet, &meeting);
    for (size_t i = 0; i < 3; i++)
      if (meeting.threads[i] != own_id()) assert_true(comes_to_sleep(meeting.threads[i]));
  }
  threads_destroy(pool);
}

static void work_that_comes_while_workers_fall_asleep_is_done(void **state) {
  (void)state;
  struct threads *pool;
  assert_int_equal(threads_create(&pool, 2, NULL), 0);
  for (int round = 0; round < 400; round++) {
    struct meeting meeting = {.expected = 2};
    threads_run(pool, 2, meet, &meeting);
    assert_int_not_equal(meeting.threads[0], meeting.threads[1]);
    /* About as long as a worker waits before it sleeps. */
    nanosleep(&(struct timespec){.tv_nsec = THREADS_SPIN_NANOSECONDS / 200 * round}, NULL);
  }
  threads_destroy(pool);
}

struct long_task {
  pid_t caller;
  atomic_bool begun, caller_slept;
};

/* The caller leaves once the worker has begun, and the worker once the caller sleeps. */
static void outlast_caller(void *context, size_t task) {
  struct long_task *job = context;
  (void)task;
  if (own_id() == job->caller) {
    while (!atomic_load(&job->begun)) sched_yield();
  } else {
    atomic_store(&job->begun, true);
    atomic_store(&job->caller_slept, comes_to_sleep(job->caller));
  }
}

static void the_caller_sleeps_while_a_worker_takes_long(void **state) {
  (void)state;
  struct threads *pool;
  assert_int_equal(threads_create(&pool, 2, NULL), 0);
  for (int round = 0; round < 5; round++) {
    struct long_task job = {.caller = own_id()};
    threads_run(pool, 2, outlast_caller, &job);
    assert_true(job.caller_slept);
  }
  threads_destroy(pool);
}

static struct cpu_list usable_cpus(void) {
  struct cpu_list list = {0};
  cpu_set_t set;
  assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE && list.count < 16; cpu++)
    if (CPU_ISSET(cpu, &set)) list.cpus[list.count++] = cpu;
  return list;
}

static void pinned_threads_stay_on_their_cpus(void **state) {
  (void)state;
  struct cpu_list list = usable_cpus();
  struct threads *pool;
  cpu_set_t before, after;
  sched_getaffinity(0, sizeof before, &before);
  assert_int_equal(threads_create_on(&pool, 0, &list, NULL), 0);
  assert_int_equal(threads_count(pool), list.count);
  struct meeting meeting = {.expected = list.count};
  threads_run(pool, list.count, meet, &meeting);
  bool used[CPU_SETSIZE] = {false};
  for (size_t i = 0; i < list.count; i++) {
    assert_int_equal(CPU_COUNT(&meeting.sets[i]), 1);
    assert_true(CPU_ISSET(meeting.cpus[i], &meeting.sets[i]));
    assert_false(used[meeting.cpus[i]]);
    used[meeting.cpus[i]] = true;
    if (meeting.threads[i] == own_id()) assert_int_equal(meeting.cpus[i], list.cpus[0]);
  }
  threads_destroy(pool);
  sched_getaffinity(0, sizeof after, &after);
  assert_true(CPU_EQUAL(&before, &after));
}

static void more_threads_than_listed_cpus_are_refused(void **state) {
  (void)state;
  struct cpu_list list = {.cpus = {0}, .count = 1};
  struct threads *pool;
  struct kj_error error;
  assert_int_equal(threads_create_on(&pool, 2, &list, &error), KJ_INVALID);
  assert_non_null(strstr(error.message, "2 threads"));
  assert_null(pool);
}

static void an_absurd_count_is_refused(void **state) {
  (void)state;
  struct threads *pool;
  struct kj_error error;
  assert_int_equal(threads_create(&pool, 100000, &error), KJ_INVALID);
  assert_non_null(strstr(error.message, "100000"));
  assert_null(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_task_runs_once),
      cmocka_unit_test(many_more_threads_than_cpus_run_every_task_once),
      cmocka_unit_test(idle_workers_sleep_and_wake_again),
      cmocka_unit_test(work_that_comes_while_workers_fall_asleep_is_done),
      cmocka_unit_test(the_caller_sleeps_while_a_worker_takes_long),
      cmocka_unit_test(pinned_threads_stay_on_their_cpus),
      cmocka_unit_test(more_threads_than_listed_cpus_are_refused),
      cmocka_unit_test(an_absurd_count_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

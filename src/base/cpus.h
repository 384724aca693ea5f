/* Lists of CPUs, as taskset and numactl write them: "0-3,8,10-14:2" is 0 1 2 3 8 10 12 14. */
#ifndef KAIJU_BASE_CPUS_H
#define KAIJU_BASE_CPUS_H

#include <sched.h>
#include <stddef.h>

#include "base/error.h"

struct cpu_list {
  unsigned cpus[CPU_SETSIZE]; /* in the order of the text */
  size_t count;
};

/* KJ_INVALID for what is no list, for a CPU that is in it twice, and for numbers beyond the system's limit. */
int cpus_parse(const char *text, struct cpu_list *list, struct kj_error *error);
/* Keeps this thread, and those that it starts from now on, to the CPUs of the list. KJ_INVALID, with nothing changed,
 * if this process may not use one of them; the message has those that it may use. */
int cpus_restrict(const struct cpu_list *list, struct kj_error *error);
/* CPUs that this thread may use, at least 1. */
size_t cpus_available(void);

#endif

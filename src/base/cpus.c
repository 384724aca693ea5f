#include "base/cpus.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The decimal number at *text, which then points behind it; -1 if there is none or it is no CPU's. */
static int take_cpu(const char **text) {
  int value = -1;
  for (; **text >= '0' && **text <= '9'; ++*text) {
    value = (value < 0 ? 0 : value * 10) + (**text - '0');
    if (value >= CPU_SETSIZE) return -1;
  }
  return value;
}

/* "4", "0-3" or "0-6:2". */
static bool take_range(const char **text, int *first, int *last, int *step) {
  *first = *last = take_cpu(text);
  *step = 1;
  if (*first >= 0 && **text == '-') {
    ++*text;
    *last = take_cpu(text);
    if (*last >= 0 && **text == ':') {
      ++*text;
      *step = take_cpu(text);
    }
  }
  return *first >= 0 && *last >= *first && *step > 0;
}

int cpus_parse(const char *text, struct cpu_list *list, struct kj_error *error) {
  cpu_set_t seen;
  const char *rest = text;
  CPU_ZERO(&seen);
  list->count = 0;
  do {
    int first, last, step;
    if (!take_range(&rest, &first, &last, &step) || (*rest && *rest != ','))
      return kj_fail(error, KJ_INVALID, "\"%.80s\" is no list of CPUs below %d, such as 0-3,8,10-14:2", text,
                     CPU_SETSIZE);
    for (int cpu = first; cpu <= last; cpu += step) {
      if (CPU_ISSET(cpu, &seen)) return kj_fail(error, KJ_INVALID, "\"%.80s\" has CPU %d twice", text, cpu);
      CPU_SET(cpu, &seen);
      list->cpus[list->count++] = (unsigned)cpu;
    }
  } while (*rest++);
  return 0;
}

/* The set as a list, cut where it does not fit. */
static void write_set(const cpu_set_t *set, char *text, size_t size) {
  size_t length = 0;
  text[0] = '\0';
  for (int cpu = 0; cpu < CPU_SETSIZE && length < size; cpu++) {
    if (!CPU_ISSET(cpu, set)) continue;
    int last = cpu;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set)) last++;
    length +=
        (size_t)snprintf(text + length, size - length, last > cpu ? "%s%d-%d" : "%s%d", length ? "," : "", cpu, last);
    cpu = last;
  }
}

int cpus_restrict(const struct cpu_list *list, struct kj_error *error) {
  cpu_set_t usable, wanted;
  CPU_ZERO(&wanted);
  if (sched_getaffinity(0, sizeof usable, &usable) != 0)
    return kj_fail(error, KJ_INTERNAL, "the kernel does not tell which CPUs this process may use");
  for (size_t i = 0; i < list->count; i++) {
    unsigned cpu = list->cpus[i];
    char text[200];
    write_set(&usable, text, sizeof text);
    if (!CPU_ISSET(cpu, &usable))
      return kj_fail(error, KJ_INVALID, "CPU %u is not there for this process; it may use %s", cpu, text);
    CPU_SET(cpu, &wanted);
  }
  if (sched_setaffinity(0, sizeof wanted, &wanted) != 0)
    return kj_fail(error, KJ_INTERNAL, "the kernel does not keep this process to the CPUs that were asked for");
  return 0;
}

size_t cpus_available(void) {
  cpu_set_t set;
  int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  return count > 0 ? (size_t)count : 1;
}

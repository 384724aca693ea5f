#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The number after `label` in a file of lines "Label:   123 kB", in bytes; 0 if it is not there. */
static uint64_t labelled_kilobytes(const char *path, const char *label) {
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  char line[256];
  uint64_t kilobytes = 0;
  size_t length = strlen(label);
  while (fgets(line, sizeof line, file))
    if (strncmp(line, label, length) == 0 && sscanf(line + length, " %" SCNu64, &kilobytes) == 1) break;
  fclose(file);
  return kilobytes * 1024;
}

/* A file that holds one number; UINT64_MAX where there is none or it says "max". */
static uint64_t number_in(const char *path) {
  FILE *file = fopen(path, "re");
  if (!file) return UINT64_MAX;
  uint64_t number;
  if (fscanf(file, "%" SCNu64, &number) != 1) number = UINT64_MAX;
  fclose(file);
  return number;
}

uint64_t memory_available(void) {
  uint64_t available = labelled_kilobytes("/proc/meminfo", "MemAvailable:");
  uint64_t limit = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
  if (limit == UINT64_MAX || used == UINT64_MAX) return available;
  uint64_t left = limit > used ? limit - used : 0;
  return left < available ? left : available;
}

uint64_t memory_peak(void) { return labelled_kilobytes("/proc/self/status", "VmHWM:"); }

#include "base/memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The number after `label` at the beginning of a line; 0 if it is not there. */
static uint64_t labelled_number(const char *path, const char *label) {
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  char line[256];
  uint64_t number = 0;
  size_t length = strlen(label);
  while (fgets(line, sizeof line, file))
    if (strncmp(line, label, length) == 0 && sscanf(line + length, " %" SCNu64, &number) == 1) break;
  fclose(file);
  return number;
}

/* The number that is all of DIRECTORY/NAME; UINT64_MAX where there is none or it says "max". */
static uint64_t number_in(const char *directory, const char *name) {
  char path[PATH_MAX + 32];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(path, "re");
  if (!file) return UINT64_MAX;
  uint64_t number;
  if (fscanf(file, "%" SCNu64, &number) != 1) number = UINT64_MAX;
  fclose(file);
  return number;
}

/* What the control group (version 2) in `directory` still allows. Its page cache makes way for a new process. */
static uint64_t left_in_group(const char *directory) {
  uint64_t limit = number_in(directory, "memory.max"), used = number_in(directory, "memory.current");
  if (limit == UINT64_MAX || used == UINT64_MAX) return UINT64_MAX;
  char path[PATH_MAX + 32];
  snprintf(path, sizeof path, "%s/memory.stat", directory);
  uint64_t cache = labelled_number(path, "active_file ") + labelled_number(path, "inactive_file ");
  used = used > cache ? used - cache : 0;
  return limit > used ? limit - used : 0;
}

/* The least that this process's control group and the groups around it still allow. */
static uint64_t left_in_groups(void) {
  static const char root[] = "/sys/fs/cgroup";
  char line[PATH_MAX], directory[PATH_MAX + sizeof root];
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (!file) return UINT64_MAX;
  uint64_t least = UINT64_MAX;
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, "0::/", 4) != 0) continue;
    line[strcspn(line, "\n")] = '\0';
    snprintf(directory, sizeof directory, "%s%s", root, line + 3);
    for (;;) {
      uint64_t left = left_in_group(directory);
      if (left < least) least = left;
      char *slash = strrchr(directory, '/');
      if (!slash || (size_t)(slash - directory) < sizeof root - 1) break;
      *slash = '\0';
    }
  }
  fclose(file);
  return least;
}

uint64_t memory_available(void) {
  uint64_t available = labelled_number("/proc/meminfo", "MemAvailable:") * 1024, left = left_in_groups();
  return left < available ? left : available;
}

uint64_t memory_peak(void) { return labelled_number("/proc/self/status", "VmHWM:") * 1024; }

/* Linux 4.0 and later: proc_pid_clear_refs(5). */
bool memory_reset_peak(void) {
  FILE *file = fopen("/proc/self/clear_refs", "we");
  if (!file) return false;
  bool written = fputs("5", file) >= 0;
  return fclose(file) == 0 && written;
}

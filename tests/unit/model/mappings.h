/* What this process has mapped, from /proc/self/smaps. */
#ifndef KAIJU_TESTS_MAPPINGS_H
#define KAIJU_TESTS_MAPPINGS_H

#include <stdio.h>

#include "unit/unit.h"

struct mappings {
  unsigned count;         /* mappings of files whose path contains the text */
  unsigned long resident; /* KiB of them that are in this process */
  unsigned writable;      /* how many of them may be written */
};

static inline struct mappings mappings_of(const char *path_part) {
  struct mappings found = {0};
  char line[1000];
  int inside = 0;
  FILE *file = fopen("/proc/self/smaps", "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    unsigned long begin = 0, end = 0, resident = 0;
    char rights[8];
    if (sscanf(line, "%lx-%lx %7s", &begin, &end, rights) == 3) {
      inside = strstr(line, path_part) != NULL;
      if (inside) found.count++, found.writable += rights[1] == 'w';
    } else if (inside && sscanf(line, "Rss: %lu kB", &resident) == 1) {
      found.resident += resident;
    }
  }
  fclose(file);
  return found;
}

#endif

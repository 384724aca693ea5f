#include "cmd/shipped.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

int shipped_model(char *path, size_t size, struct kj_error *error) {
  char program[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length < 0) return kj_fail_errno(error, "read", "/proc/self/exe");
  program[length] = '\0';
  const char *directory = dirname(program);
  static const char *const places[] = {"../share/kaiju/models/kaiju-mini", "../models/kaiju-mini"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (snprintf(path, size, "%s/%s", directory, places[i]) < (int)size && access(path, R_OK) == 0) return 0;
  }
  return kj_fail(error, KJ_NOT_FOUND, "the shipped model is neither in %s/%s nor in %s/%s; name a MODEL directory",
                 directory, places[0], directory, places[1]);
}

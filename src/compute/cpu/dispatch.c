#include "compute/cpu/dispatch.h"

#include <stdio.h>
#include <string.h>

/* Every table there is, slowest first. A function returns NULL where the table cannot run. */
static const struct cpu_kernels *(*const sources[])(void) = {
    cpu_kernels_reference, cpu_kernels_avx2, cpu_kernels_avxvnni,
    cpu_kernels_avx512,    cpu_kernels_neon, cpu_kernels_neon_i8mm,
};

size_t cpu_kernels_available(const struct cpu_kernels *tables[CPU_KERNELS_MAX]) {
  _Static_assert(sizeof sources / sizeof sources[0] <= CPU_KERNELS_MAX, "every table needs a place");
  size_t count = 0;
  for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
    const struct cpu_kernels *table = sources[i]();
    if (table) tables[count++] = table;
  }
  return count;
}

int cpu_kernels_choose(const struct cpu_kernels **kernels, const char *isa, struct kj_error *error) {
  const struct cpu_kernels *tables[CPU_KERNELS_MAX];
  size_t count = cpu_kernels_available(tables);
  *kernels = NULL;
  if (strcmp(isa, "auto") == 0) {
    *kernels = tables[count - 1];
    return 0;
  }
  char names[200] = "auto";
  for (size_t i = 0; i < count; i++) {
    if (strcmp(isa, tables[i]->name) == 0) {
      *kernels = tables[i];
      return 0;
    }
    size_t length = strlen(names);
    snprintf(names + length, sizeof names - length, ", %s", tables[i]->name);
  }
  return kj_fail(error, KJ_UNSUPPORTED, "this program on this CPU has no \"%s\" kernels; it has %s", isa, names);
}

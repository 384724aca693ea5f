/* The kernel tables that this program was built with and this CPU can run. */
#ifndef KAIJU_COMPUTE_CPU_DISPATCH_H
#define KAIJU_COMPUTE_CPU_DISPATCH_H

#include <stddef.h>

#include "base/error.h"
#include "compute/cpu/kernels.h"

enum { CPU_KERNELS_MAX = 8 };

/* Fills `tables`, slowest (the reference) first; returns how many there are, at least 1. */
size_t cpu_kernels_available(const struct cpu_kernels *tables[CPU_KERNELS_MAX]);

/* The table of that name, or for "auto" the fastest. KJ_UNSUPPORTED if it is not available here, with those that are.
 */
int cpu_kernels_choose(const struct cpu_kernels **kernels, const char *isa, struct kj_error *error);

#endif

/* Armv8.2 Advanced SIMD with dot products of signed bytes. */
#include "compute/cpu/lanes_neon.h"

#define LANES_NAME "neon"
#include "compute/cpu/lanes.h"

const struct cpu_kernels *cpu_kernels_neon(void) { return cpu_has_neon_dotprod() ? &table : NULL; }

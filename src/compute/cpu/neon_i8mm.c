/* Armv8.6 Advanced SIMD: dot products of unsigned and signed bytes, and products of 2 × 8 and 8 × 2 matrices of them.
 */
#include "compute/cpu/lanes_neon.h"

#define LANES_NAME "neon-i8mm"
#include "compute/cpu/lanes.h"

const struct cpu_kernels *cpu_kernels_neon_i8mm(void) { return cpu_has_neon_i8mm() ? &table : NULL; }

#include "compute/cpu/features.h"

#include <stddef.h>

#include "compute/cpu/kernels.h"

#if defined(__x86_64__)

#include <cpuid.h>

static bool has_f16c(void) {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
}

/* The compiler's own check reads XGETBV, so that AVX registers that the system does not save count as absent. */
bool cpu_has_avx2(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

bool cpu_has_avxvnni(void) {
  enum { SUBLEAF = 1, BIT = 1 << 4 }; /* of leaf 7; in EAX */
  unsigned eax, ebx, ecx, edx;
  if (!cpu_has_avx2() || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || eax < SUBLEAF) return false;
  return __get_cpuid_count(7, SUBLEAF, &eax, &ebx, &ecx, &edx) && (eax & BIT) != 0;
}

bool cpu_has_avx512(void) {
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}

#else

bool cpu_has_avx2(void) { return false; }
bool cpu_has_avxvnni(void) { return false; }
bool cpu_has_avx512(void) { return false; }
const struct cpu_kernels *cpu_kernels_avx2(void) { return NULL; }
const struct cpu_kernels *cpu_kernels_avxvnni(void) { return NULL; }
const struct cpu_kernels *cpu_kernels_avx512(void) { return NULL; }

#endif

#if defined(__aarch64__)

#include <sys/auxv.h>

#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1UL << 20)
#endif
#ifndef HWCAP2_I8MM
#define HWCAP2_I8MM (1UL << 13)
#endif

bool cpu_has_neon_dotprod(void) { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
bool cpu_has_neon_i8mm(void) { return cpu_has_neon_dotprod() && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }

#else

bool cpu_has_neon_dotprod(void) { return false; }
bool cpu_has_neon_i8mm(void) { return false; }
const struct cpu_kernels *cpu_kernels_neon(void) { return NULL; }
const struct cpu_kernels *cpu_kernels_neon_i8mm(void) { return NULL; }

#endif

/* What the CPU at hand can run, found out at run time, the operating system's part (saved registers) included. */
#ifndef KAIJU_COMPUTE_CPU_FEATURES_H
#define KAIJU_COMPUTE_CPU_FEATURES_H

#include <stdbool.h>

bool cpu_has_avx2(void);         /* with FMA and F16C */
bool cpu_has_avxvnni(void);      /* with what AVX2 needs */
bool cpu_has_avx512(void);       /* F, BW, VL, DQ and VNNI, with what AVX2 needs */
bool cpu_has_neon_dotprod(void); /* SDOT on top of Armv8's Advanced SIMD */
bool cpu_has_neon_i8mm(void);    /* USDOT and USMMLA, with SDOT */

#endif

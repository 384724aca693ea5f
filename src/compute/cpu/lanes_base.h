/* What the files that define operations for lanes.h begin with. */
#ifndef KAIJU_COMPUTE_CPU_LANES_BASE_H
#define KAIJU_COMPUTE_CPU_LANES_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compute/cpu/features.h"
#include "compute/cpu/kernels.h"
#include "compute/number.h"

/* For functions whose constant parameters choose the code. */
#define LANES_SPECIALISE static inline __attribute__((always_inline))

enum {
  BLOCK_BYTES = 64, /* of weights, that are unpacked together: those of 16 lanes, 4 bytes each */
  /* Bytes between a weight and its prefetch. One row after the other with some KiB of lead is what comes closest to the
   * memory's bandwidth; several rows side by side are slower. */
  PREFETCH_AHEAD = 4096
};

#endif

/* The arithmetic of the CPU engine: what an instruction set implements, and the specification they all equal.
 *
 * reference.c is plain scalar C and *is* the specification; avx2.c, avx512.c and neon.c equal it to the bit, on every
 * machine, because all of the following is fixed and every float operation is one IEEE operation (fma where written):
 *
 * Quantized activations. A row x is cut into groups of ACTIVATION_GROUP columns. Per group: scale = max|x| / 127,
 *   q = rint(x · (127 / max|x|)) to even, as int8 (0 and scale 0 where max|x| is 0). For a weight group g (a multiple
 * of ACTIVATION_GROUP columns), sum[g] = scale · Σq of its activation groups, added in rising order.
 *
 * Affine matrix × quantized activation. A row of packed weights is cut into chunks of 32 bytes (64 weights at 4 bits,
 *   32 at 8 bits). Lane j of chunk c covers bytes 4j … 4j+3: 8 or 4 exact integer products, summed exactly. Virtual
 * lane (c % 2) · 8 + j of 16 accumulates fma((float)isum, weight_scale · activation_scale, lane), c rising, with the
 * scales of the groups that the lane's columns lie in. Sixteen more lanes accumulate fma(bias[g], sum[g], lane g % 16),
 * g rising. result = tree(lanes) + tree(bias lanes), where tree adds lane l+8 to l, then l+4, l+2, l+1.
 *
 * Plain matrix × activation: 16 lanes, lane i % 16 accumulates fma(w[i], x[i], lane), i rising; result = tree(lanes).
 *
 * Everything else (norm, exp, softmax, rotation, attention): see the comment at each member.
 */
#ifndef KAIJU_COMPUTE_CPU_KERNELS_H
#define KAIJU_COMPUTE_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/batch.h"
#include "compute/matrix.h"

enum { ACTIVATION_GROUP = 32 };

/* To be completed by the author of reference.c. */

#endif

/* The kernels of kernels.h on vectors of the specification's sixteen lanes, written once for all instruction sets.
 *
 * avx2.c, avxvnni.c, avx512.c, neon.c and neon_i8mm.c each define the vector type and its operations for their
 * registers and then include this header, once; it ends with the static `table`. Every function is static: these files
 * are compiled for instructions that the CPU may lack, and a shared function could be taken from them by the linker.
 *
 * The including file defines, each float operation being exactly the IEEE operation of its name in every lane:
 *   LANES_NAME                      the table's name
 *   COLUMNS_AT_ONCE (macro)         activations that share a plain weight, 4 or 8: as many as registers allow
 *   ATTENTION_QUERIES (macro)       queries that meet a KV block together, 4 or 8
 *   PRODUCT_TILE (macro)            vectors of sums that attention holds in registers, a multiple of that
 *   floats                          sixteen f32
 *   zero, broadcast, add, subtract, multiply, divide, negate, round_even (to integers, ties to even)
 *   fused(a, b, c)                  a · b + c, rounded once
 *   maximum(a, b)                   b > a ? b : a, so that a NaN in b is passed over
 *   choose_less(a, b, yes, no)      a < b ? yes : no
 *   scale_by_power(x, n)            x · 2^n for whole n of at most ±128 whose result is normal or overflows
 *   tree(x)                         the sum of the lanes in the specification's order
 *   load, store                     sixteen f32, unaligned
 *   load_first(x, count, rest), store_first(x, v, count)   the first count < 16; other lanes are `rest`
 *   load_f16, load_bf16, store_f16  conversion of sixteen numbers, unaligned
 *   largest_magnitude(a, b)         the largest bits of |x| as an integer
 *   round_to_bytes(out, x, y)       thirty-two int8, rounded to even, |x| and |y| ≤ 127
 *   split_pairs(even, odd, pairs)   deals thirty-two bytes out to two arrays of sixteen
 *   spreading, spreading_of(groups), load_spread(type, scales, count, spreading)
 *                                   the scales of SUPER_COLUMNS columns, of which `groups` = 4, 8 or 16 share one, each
 *                                   in the lanes of its activation groups; reads `count` and takes the rest as 0
 *   transpose(x)                    of a square of 16 × 16 numbers of four bytes, in place
 *   integers, to_floats             sixteen int32, and what makes floats of them
 *   super_integers(sums, data, bytes, quants, bits, count)
 *                                   sums[c] = the integer sums of the activation groups in SUPER_COLUMNS columns, each
 *                                   in its lane, for count ≤ 4 activations c, where their quants[c] begin; count and
 *                                   bits are constants; at a row's end `bytes` of weights are fewer columns'
 *   FIRST_NUMBERS, TREES (macros, each optional)   load_number_first or trees is defined there, as the parts below
 *                                   say what it does
 *   PANEL_VECTORS, PANEL_COLUMNS (macros)   sixteens of rows, and activations, that lanes_panel.h has in registers;
 *                                   PANEL_COLUMNS is 4 or 8
 *   PANEL_WORTHWHILE (macro)        activations from which on it is faster than row after row
 *   packed, load_packed, store_packed, load_packed_first(x, bytes)   64 bytes, or fewer (a multiple of 4) and zeros
 *   struct weights, unpack(packed, bits)   at 4 bits low, high: a block's even and odd columns, a byte each
 *   struct panel_sums, no_panel_sums(), add_panel_products(sums, packed, four, bits), panel_integers(sums, bits)
 *                                   the sum over an activation group of each lane's 4 bytes with the same 4 quants
 *   PANEL_PRODUCTS (macro, optional)   unpack_block and panel_products are defined there, with an order of their own of
 *                                   the bytes within a panel's units; of the last three only struct panel_sums and
 *                                   panel_integers are needed then
 */
#ifndef KAIJU_COMPUTE_CPU_LANES_H
#define KAIJU_COMPUTE_CPU_LANES_H

#include "compute/cpu/lanes_base.h"
#include "compute/cpu/lanes_vector.h"
/* Both build on the one above. */
#include "compute/cpu/lanes_attention.h"
#include "compute/cpu/lanes_matmul.h"
/* This one on the last. */
#include "compute/cpu/lanes_panel.h"

static const struct cpu_kernels table = {
    .name = LANES_NAME,
    .panel_rows = PANEL_ROWS,
    .panel_activations = PANEL_WORTHWHILE,
    .quantize = quantize,
    .matmul_affine = matmul_affine,
    .matmul_plain = matmul_plain,
    .rms_norm = rms_norm,
    .rotate = rotate,
    .softmax = softmax,
    .silu_multiply = silu_multiply,
    .accumulate = accumulate,
    .to_f16 = to_f16,
    .attention_block = attention_block,
};

#endif

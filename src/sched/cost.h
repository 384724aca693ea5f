/* What micro-batches cost, learned from those that came back.
 *
 * Two straight lines are fitted by least squares with exponential forgetting: seconds of a small micro-batch (decode)
 * over its rows, and seconds per row of a large one (prefill) over the mean context of its rows, because attention
 * grows with the context. Until enough has been seen, guesses stand in that make no decision look better than it is.
 * The answers steer how work is cut, never what it computes.
 */
#ifndef KAIJU_SCHED_COST_H
#define KAIJU_SCHED_COST_H

#include <stdint.h>

#include "compute/batch.h"

enum { COST_LARGE_BATCH = 48 /* rows from which on a micro-batch counts as prefill */ };

struct cost_line {
  double weight, x, y, xx, xy; /* decayed sums */
};

struct cost_model {
  struct cost_line decode;  /* seconds over rows */
  struct cost_line prefill; /* seconds per row over mean context */
};

/* A micro-batch took so many seconds in its slowest stage. */
void cost_observe(struct cost_model *model, const struct batch *batch, double seconds);

/* A row more in a decoding micro-batch of `rows` costs this share of the whole: a drafted token pays when its chance of
 * being accepted is higher. 0…1; 1 until enough is known. */
double cost_row_share(const struct cost_model *model, uint32_t rows);

/* Tokens of a prefill chunk from `position` on that take as long as `most` tokens at position 0, at least one KV block
 * if `most` allows, a multiple of 32 unless it is `most`. */
uint32_t cost_chunk(const struct cost_model *model, uint32_t position, uint32_t most);

#endif

/* What micro-batches cost, learned from those that came back.
 *
 * Two straight lines are fitted by least squares with exponential forgetting: seconds of a micro-batch of short spans
 * (decode, with its drafts) over its rows, and seconds per row of one with a long span (prefill) over the mean context
 * of its rows, because attention grows with the context. Slopes are not below 0. They are taken from the cautious end
 * of what noise leaves possible, and until enough has been seen, with a spread of rows or contexts, guesses stand in
 * that make no decision look better than it is. The answers steer how work is cut, never what it computes. A model of
 * zeros has seen nothing.
 */
#ifndef KAIJU_SCHED_COST_H
#define KAIJU_SCHED_COST_H

#include <stdint.h>

#include "compute/batch.h"

enum {
  COST_LARGE_SPAN = 48 /* rows of one sequence from which on a micro-batch counts as prefill; drafts are shorter */
};

struct cost_line {
  double weight, x, y, xx, xy, yy; /* decayed sums */
};

struct cost_model {
  struct cost_line decode;  /* seconds over rows */
  struct cost_line prefill; /* seconds per row over mean context */
};

/* A micro-batch took so many seconds in its slowest stage. What is no duration (not above 0, not finite) is ignored;
 * what took several times as long as expected counts as that at most, for a moment's interruption is no new cost. */
void cost_observe(struct cost_model *model, const struct batch *batch, double seconds);

/* What one row more costs in a decoding micro-batch of `rows`, as a share of the average cost of its rows. With seconds
 * (n) = step + rate · n that is rate · n / (step + rate · n), 0…1: the chance of acceptance from which on a drafted
 * token raises the tokens per second, (n + chance) / (seconds(n) + rate) > n / seconds(n). 1 until enough is known. */
double cost_row_share(const struct cost_model *model, uint32_t rows);

/* Tokens of a prefill chunk from `position` on that take as long as `most` tokens at position 0: the n for which
 * n · (w + k · (position + n / 2)) = most · (w + k · most / 2), a row taking w + k · its context. At least one KV block
 * if `most` allows, a multiple of 32 unless it is `most`. */
uint32_t cost_chunk(const struct cost_model *model, uint32_t position, uint32_t most);

#endif

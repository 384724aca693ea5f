#include "base/histogram.h"

/* Written out: bounds are printed as they stand here, without the dust of repeated multiplication. */
static const double bounds[HISTOGRAM_BUCKETS] = {1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                 0.5,  1,      2.5,  5,    10,     25,   50,   100,   250,  500, 1000};

double histogram_bound(unsigned bucket) { return bounds[bucket]; }

void histogram_observe(struct histogram *histogram, double value) {
  unsigned bucket = 0;
  while (bucket < HISTOGRAM_BUCKETS && value > bounds[bucket]) bucket++;
  histogram->counts[bucket]++;
  histogram->sum += value;
}

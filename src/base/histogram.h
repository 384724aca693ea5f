/* A histogram of seconds or counts with fixed buckets, cheap to copy and to print as Prometheus text.
 *
 * Buckets end at 1, 2.5 and 5 times a power of ten, from 0.0001 to 1000; one more takes what is above.
 */
#ifndef KAIJU_BASE_HISTOGRAM_H
#define KAIJU_BASE_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BUCKETS = 22 /* with an upper bound */ };

struct histogram {
  uint64_t counts[HISTOGRAM_BUCKETS + 1]; /* the last: above every bound */
  double sum;
};

/* Upper bound of a bucket below HISTOGRAM_BUCKETS: 0.0001, 0.00025, 0.0005 … 1000. */
double histogram_bound(unsigned bucket);
void histogram_observe(struct histogram *histogram, double value);

#endif

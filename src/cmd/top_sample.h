/* What `kaiju top` reads from /metrics at one moment, and what two moments say together.
 *
 * Numbers are those of docs/api.md. A metric that the server does not have is 0, one that is negative or no number too,
 * so that a view of them needs no further checks.
 */
#ifndef KAIJU_CMD_TOP_SAMPLE_H
#define KAIJU_CMD_TOP_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { TOP_MAX_NODES = 64, TOP_MAX_BUCKETS = 48 };

struct top_histogram {
  size_t count; /* of buckets, by ascending bound; the last may be infinite */
  double bounds[TOP_MAX_BUCKETS];
  double counts[TOP_MAX_BUCKETS]; /* cumulative */
};

struct top_node {
  char name[128], host[64];
  double connected, first_layer, layers, layers_warm;
  double planned_memory, peak_memory;                     /* bytes */
  double compute_seconds, wait_seconds, transfer_seconds; /* totals, as tokens */
  double busy, tokens, round_trip;
};

struct top_sample {
  char model[256], version[32], state[32];
  double epoch, uptime;
  double running, waiting, waiting_limit;
  double finished, cancelled, failed, refused;
  double prompt_tokens, cached_tokens, completion_tokens, drafted_tokens, accepted_tokens;
  double kv_blocks, kv_used, kv_cached;
  double micro_batches, in_flight, steps, overlapped;
  double batch_tokens_sum, batch_tokens_count;
  struct top_histogram first_token, inter_token;
  size_t node_count;
  struct top_node nodes[TOP_MAX_NODES]; /* by stage */
};

/* KJ_INVALID if the text breaks the format, or is not of a Kaiju server. */
int top_sample_parse(struct top_sample *sample, const char *text, size_t length, struct kj_error *error);

/* May `before` be compared with `now`: an earlier moment of the same process, with the same nodes? */
bool top_sample_follows(const struct top_sample *now, const struct top_sample *before);

/* The value below which the share `quantile` of what was observed between two moments lies, interpolated in its
 * bucket; `before` NULL: since the start. NaN if nothing was observed. */
double top_quantile(const struct top_histogram *now, const struct top_histogram *before, double quantile);

#endif

/* Counters and histograms of the server, written as Prometheus text together with the engine's status. Only the loop's
 * thread touches them. docs/api.md lists the names.
 */
#ifndef KAIJU_HTTP_METRICS_H
#define KAIJU_HTTP_METRICS_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/histogram.h"
#include "sched/engine.h"

enum { METRICS_STATUSES = 16 };

struct metrics {
  struct {
    int status;
    uint64_t count;
  } responses[METRICS_STATUSES];
  struct histogram first_token; /* seconds from the request's last byte to its first token */
  struct histogram inter_token; /* seconds between tokens of a request */
  uint64_t clients_left;        /* requests whose client left before the end */
};

void metrics_count_response(struct metrics *metrics, int status);
void metrics_write(const struct metrics *metrics, const struct engine_status *status, size_t connections,
                   struct buffer *out);

/* "ready", "loading"… */
const char *engine_state_name(enum engine_state state);

#endif

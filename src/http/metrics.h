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
  /* Seconds from a request's last byte to its first token's reaching the loop: what the engine's own histogram of the
   * first token has, and parsing, template and tokenizer before it. */
  struct histogram first_token;
  uint64_t clients_left; /* requests whose client left before the end */
};

void metrics_count_response(struct metrics *metrics, int status);
void metrics_write(const struct metrics *metrics, const struct engine_status *status, const char *model_name,
                   size_t connections, struct buffer *out);

/* "ready", "loading"… */
const char *engine_state_name(enum engine_state state);

#endif

/* The progress of loading, for a person: bars that are redrawn on a terminal, log lines elsewhere. On standard error.
 */
#ifndef KAIJU_CMD_PROGRESS_H
#define KAIJU_CMD_PROGRESS_H

#include <stdint.h>

#include "sched/engine.h"

/* What has been shown so far; zero-initialise. */
struct progress {
  uint64_t layers;
  double at; /* clock */
};

/* Layers done of one node. */
void progress_layers(struct progress *progress, uint32_t done, uint32_t total);
/* The same for the whole cluster, a bar a node side by side. Fits engine_options.on_progress; the context is a
 * struct progress. */
void progress_cluster(void *progress, const struct engine_status *status);

#endif

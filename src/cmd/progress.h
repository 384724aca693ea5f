/* The progress of loading, for a person: a bar that is redrawn on a terminal, log lines elsewhere. On standard error.
 */
#ifndef KAIJU_CMD_PROGRESS_H
#define KAIJU_CMD_PROGRESS_H

#include <stdint.h>

#include "sched/engine.h"

/* Layers done of one node; `label` says whose. Ends the line when all are done. */
void progress_layers(const char *label, uint32_t done, uint32_t total);
/* The same for the whole cluster: one bar a node, side by side. Fits engine_options.on_progress. */
void progress_cluster(void *context, const struct engine_status *status);

#endif

/* The engine's status as one JSON object, /cluster: what a view of the pipeline draws. docs/api.md lists its fields. */
#ifndef KAIJU_HTTP_CLUSTER_STATUS_H
#define KAIJU_HTTP_CLUSTER_STATUS_H

#include <jansson.h>

#include "http/model_names.h"
#include "sched/engine.h"

/* NULL only without memory. */
json_t *cluster_status_json(const struct engine_status *status, const struct model_names *names, uint32_t context);

#endif

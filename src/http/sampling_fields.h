/* The fields of a request that steer sampling: temperature, top_p, top_k, min_p, penalties, seed and logit_bias.
 * docs/api.md has their ranges.
 */
#ifndef KAIJU_HTTP_SAMPLING_FIELDS_H
#define KAIJU_HTTP_SAMPLING_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "http/fields.h"
#include "sched/sampler.h"

/* `sampling` holds the defaults and gets a bias of its own. True: it has a seed. */
bool sampling_fields_parse(struct fields *fields, struct sampling *sampling, uint32_t vocabulary);

#endif

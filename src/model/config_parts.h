/* The parts of config_parse, for model/config*.c alone. Each reads its keys from the object at `place`. */
#ifndef KAIJU_MODEL_CONFIG_PARTS_H
#define KAIJU_MODEL_CONFIG_PARTS_H

#include "model/config.h"
#include "model/json_read.h"

/* rope_theta, rope_scaling, rope_parameters; may raise config->max_positions. */
int config_read_rope(struct config *config, const struct json_place *place, struct kj_error *error);
/* quantization, quantization_config. */
int config_read_quantization(struct config *config, const struct json_place *place, struct kj_error *error);
/* eos_token_id, into config->generation; leaves it as it is where the key is missing. */
int config_read_eos(struct config *config, const struct json_place *place, struct kj_error *error);
/* All of generation_config.json. */
int config_read_generation(struct config *config, const struct json_place *place, struct kj_error *error);

#endif

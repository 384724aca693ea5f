#include "model/config_parts.h"

static int read_one_eos(struct config *config, const struct json_place *place, const json_t *value,
                        struct kj_error *error) {
  struct generation_defaults *generation = &config->generation;
  if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= config->vocabulary)
    return json_read_fail(place, "eos_token_id", "a token id below vocab_size or a list of them", value, error);
  if (generation->eos_count == CONFIG_MAX_EOS)
    return kj_fail(error, KJ_UNSUPPORTED, "%s: eos_token_id has more than %d tokens", place->name, CONFIG_MAX_EOS);
  generation->eos[generation->eos_count++] = (uint32_t)json_integer_value(value);
  return 0;
}

int config_read_eos(struct config *config, const struct json_place *place, struct kj_error *error) {
  const json_t *field = json_read_field(place, "eos_token_id");
  if (!field) return 0;
  config->generation.eos_count = 0;
  if (!json_is_array(field)) return read_one_eos(config, place, field, error);
  int result = 0;
  for (size_t i = 0; !result && i < json_array_size(field); i++)
    result = read_one_eos(config, place, json_array_get(field, i), error);
  return result;
}

int config_read_generation(struct config *config, const struct json_place *place, struct kj_error *error) {
  struct generation_defaults *generation = &config->generation;
  double temperature = generation->temperature, top_p = generation->top_p, min_p = generation->min_p;
  double penalty = generation->repetition_penalty;
  int result = json_read_truth(place, "do_sample", &generation->sample, error);
  if (!result) result = json_read_real(place, "temperature", 0, 100, &temperature, error);
  if (!result) result = json_read_real(place, "top_p", 0, 1, &top_p, error);
  if (!result) result = json_read_real(place, "min_p", 0, 1, &min_p, error);
  if (!result) result = json_read_real(place, "repetition_penalty", 1e-3, 1e3, &penalty, error);
  if (!result) result = json_read_whole(place, "top_k", 0, INT32_MAX, &generation->top_k, error);
  if (!result) result = config_read_eos(config, place, error);
  generation->temperature = (float)temperature;
  generation->top_p = (float)top_p;
  generation->min_p = (float)min_p;
  generation->repetition_penalty = (float)penalty;
  return result;
}

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compute/rope.h"
#include "model/config_parts.h"

/* Keys that Transformers knows for type yarn. One that is not here would change the angles in a way unknown to us. */
static const char *const yarn_keys[] = {"rope_type",        "type",
                                        "rope_theta",       "partial_rotary_factor",
                                        "factor",           "original_max_position_embeddings",
                                        "attention_factor", "beta_fast",
                                        "beta_slow",        "mscale",
                                        "mscale_all_dim",   "truncate"};

static int check_keys(const struct json_place *scaling, struct kj_error *error) {
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach((json_t *)scaling->object, key, value) {
    bool known = false;
    for (size_t i = 0; i < sizeof yarn_keys / sizeof *yarn_keys; i++) known = known || !strcmp(key, yarn_keys[i]);
    if (!known) return kj_fail(error, KJ_UNSUPPORTED, "%s: %.100s is not supported with type yarn", scaling->name, key);
  }
  return 0;
}

static int read_attention_factor(struct yarn *yarn, const struct json_place *scaling, struct kj_error *error) {
  double given = 0, mscale = 0, mscale_all = 0;
  int result = json_read_real(scaling, "attention_factor", 1e-6, 1e6, &given, error);
  if (!result) result = json_read_real(scaling, "mscale", 0, 1e6, &mscale, error);
  if (!result) result = json_read_real(scaling, "mscale_all_dim", 0, 1e6, &mscale_all, error);
  if (result) return result;
  /* One of the two alone counts for nothing, as in Transformers. */
  if (!given && mscale != 0 && mscale_all != 0)
    given = rope_yarn_magnitude(yarn->factor, mscale) / rope_yarn_magnitude(yarn->factor, mscale_all);
  yarn->attention_factor = (float)(given != 0 ? given : rope_yarn_magnitude(yarn->factor, 1));
  return 0;
}

static int read_yarn(struct config *config, const struct json_place *place, const struct json_place *scaling,
                     struct kj_error *error) {
  struct yarn *yarn = &config->yarn;
  double factor = 1, fast = 32, slow = 1;
  bool truncate = true;
  yarn->original_positions = config->max_positions;
  int result = check_keys(scaling, error);
  if (!result) result = json_read_required(scaling, "factor", error);
  if (!result) result = json_read_real(scaling, "factor", 1, 1e6, &factor, error);
  if (!result) result = json_read_real(scaling, "beta_fast", 1e-3, 1e6, &fast, error);
  if (!result) result = json_read_real(scaling, "beta_slow", 1e-3, 1e6, &slow, error);
  if (!result) result = json_read_truth(scaling, "truncate", &truncate, error);
  if (!result)
    result = json_read_whole(place, "original_max_position_embeddings", 1, CONFIG_MAX_POSITIONS,
                             &yarn->original_positions, error);
  if (!result)
    result = json_read_whole(scaling, "original_max_position_embeddings", 1, CONFIG_MAX_POSITIONS,
                             &yarn->original_positions, error);
  if (result) return result;
  if (!truncate) return kj_fail(error, KJ_UNSUPPORTED, "%s: truncate false is not supported", scaling->name);
  if (fast < slow) return kj_fail(error, KJ_INVALID, "%s: beta_fast is less than beta_slow", scaling->name);
  yarn->factor = (float)factor;
  yarn->beta_fast = (float)fast;
  yarn->beta_slow = (float)slow;
  yarn->enabled = true;
  double stretched = floor((double)yarn->original_positions * factor);
  if (stretched > CONFIG_MAX_POSITIONS)
    return kj_fail(error, KJ_INVALID, "%s: factor %g makes more than %d positions", scaling->name, factor,
                   CONFIG_MAX_POSITIONS);
  if (stretched > config->max_positions) config->max_positions = (uint32_t)stretched;
  return read_attention_factor(yarn, scaling, error);
}

/* The type, of which old files spell the key "type" and newer ones "rope_type" (some have both). */
static int read_type(const struct json_place *scaling, const char **type, struct kj_error *error) {
  const char *old = NULL, *new = NULL;
  int result = json_read_text(scaling, "type", &old, error);
  if (!result) result = json_read_text(scaling, "rope_type", &new, error);
  if (result) return result;
  if (old && new &&strcmp(old, new) != 0)
    return kj_fail(error, KJ_INVALID, "%s: type is %.40s but rope_type is %.40s", scaling->name, old, new);
  *type = new ? new : old ? old : "default";
  return 0;
}

static int check_partial_rotary(const struct json_place *place, struct kj_error *error) {
  double part = 1;
  int result = json_read_real(place, "partial_rotary_factor", 0, 1, &part, error);
  if (!result && part != 1)
    result = kj_fail(error, KJ_UNSUPPORTED, "%s: partial_rotary_factor %g is not supported", place->name, part);
  return result;
}

/* rope_theta lies beside or within the objects, as the age of the file has it; where it is given twice it must agree.
 */
static int read_theta(struct config *config, const struct json_place *places[3], struct kj_error *error) {
  const struct json_place *source = NULL;
  for (size_t i = 0; i < 3; i++) {
    double theta = 0;
    if (!places[i]->object) continue;
    int result = json_read_real(places[i], "rope_theta", 1.5, 1e15, &theta, error);
    if (result) return result;
    if (theta == 0) continue;
    if (source && theta != config->rope_theta)
      return kj_fail(error, KJ_INVALID, "%s: rope_theta is %g, but %g in %s", source->name, config->rope_theta, theta,
                     places[i]->name);
    source = places[i];
    config->rope_theta = theta;
  }
  return source ? 0 : kj_fail(error, KJ_INVALID, "%s: has no rope_theta", places[0]->name);
}

/* An object at `key`, or NULL in part->object; `name` is room for what to call it. */
static int find_object(const struct json_place *place, const char *key, char *name, size_t name_size,
                       struct json_place *part, struct kj_error *error) {
  snprintf(name, name_size, "%s: %s", place->name, key);
  *part = (struct json_place){.object = json_read_field(place, key), .name = name};
  if (part->object && !json_is_object(part->object))
    return json_read_fail(place, key, "an object or null", part->object, error);
  return 0;
}

int config_read_rope(struct config *config, const struct json_place *place, struct kj_error *error) {
  char scaling_name[600], parameters_name[600];
  struct json_place scaling, parameters;
  const char *type = "default";
  int result = find_object(place, "rope_scaling", scaling_name, sizeof scaling_name, &scaling, error);
  if (!result)
    result = find_object(place, "rope_parameters", parameters_name, sizeof parameters_name, &parameters, error);
  if (!result) result = read_theta(config, (const struct json_place *[]){place, &scaling, &parameters}, error);
  if (!result) result = check_partial_rotary(place, error);
  if (!result && parameters.object) result = check_partial_rotary(&parameters, error);
  if (result) return result;
  /* The older key wins where it says something, as in Transformers and mlx-lm. */
  const struct json_place *chosen = scaling.object && json_object_size(scaling.object) ? &scaling : &parameters;
  if (!chosen->object) return 0;
  result = check_partial_rotary(chosen, error);
  if (!result) result = read_type(chosen, &type, error);
  if (result) return result;
  if (!strcmp(type, "yarn")) return read_yarn(config, place, chosen, error);
  if (strcmp(type, "default") != 0)
    return kj_fail(error, KJ_UNSUPPORTED, "%s: type %.40s is not supported; yarn is", chosen->name, type);
  return check_keys(chosen, error);
}

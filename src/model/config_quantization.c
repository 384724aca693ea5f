#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/config_parts.h"

/* bits, group_size and mode of the default or of an override. */
static int read_parameters(const struct json_place *place, struct quantization *quantization, struct kj_error *error) {
  const char *mode = "affine";
  uint32_t bits = 0, group = 0;
  int result = json_read_text(place, "mode", &mode, error);
  if (result) return result;
  if (strcmp(mode, "affine") != 0)
    return kj_fail(error, KJ_UNSUPPORTED, "%s: mode %.40s is not supported; affine is", place->name, mode);
  result = json_read_required(place, "bits", error);
  if (!result) result = json_read_required(place, "group_size", error);
  if (!result) result = json_read_whole(place, "bits", 1, 64, &bits, error);
  if (!result) result = json_read_whole(place, "group_size", 1, 1u << 20, &group, error);
  if (result) return result;
  if (bits != 4 && bits != 8)
    return kj_fail(error, KJ_UNSUPPORTED, "%s: bits %u is not supported; 4 and 8 are", place->name, bits);
  if (group != 32 && group != 64 && group != 128)
    return kj_fail(error, KJ_UNSUPPORTED, "%s: group_size %u is not supported; 32, 64 and 128 are", place->name, group);
  *quantization = (struct quantization){.bits = bits, .group = group};
  return 0;
}

static bool is_parameter(const char *key) {
  return !strcmp(key, "bits") || !strcmp(key, "group_size") || !strcmp(key, "mode");
}

static int read_override(const struct json_place *place, const char *module, json_t *value,
                         struct quantization *quantization, struct kj_error *error) {
  if (json_is_boolean(value)) {
    if (json_is_false(value)) *quantization = (struct quantization){0};
    return 0;
  }
  if (!json_is_object(value)) return kj_fail(error, KJ_UNSUPPORTED, "%s: %.200s is not supported", place->name, module);
  const char *key = NULL;
  json_t *field = NULL;
  json_object_foreach(value, key, field) {
    if (!is_parameter(key))
      return kj_fail(error, KJ_UNSUPPORTED, "%s: %.200s: %.100s is not supported", place->name, module, key);
  }
  char name[900];
  snprintf(name, sizeof name, "%.600s: %.200s", place->name, module);
  struct json_place inner = {.object = value, .name = name};
  return read_parameters(&inner, quantization, error);
}

static int by_module(const void *left, const void *right) {
  return strcmp(((const struct quantization_override *)left)->module,
                ((const struct quantization_override *)right)->module);
}

static int read_overrides(struct config *config, const struct json_place *place, struct kj_error *error) {
  const char *key = NULL;
  json_t *value = NULL;
  config->overrides = calloc(json_object_size(place->object) + 1, sizeof *config->overrides);
  if (!config->overrides) return kj_fail_memory(error, "the quantization of modules");
  json_object_foreach((json_t *)place->object, key, value) {
    if (is_parameter(key)) continue;
    struct quantization quantization = config->quantization;
    int result = read_override(place, key, value, &quantization, error);
    if (result) return result;
    /* One that repeats the default says nothing: two files that mean the same become equal. */
    if (quantization.bits == config->quantization.bits && quantization.group == config->quantization.group) continue;
    struct quantization_override *override = &config->overrides[config->override_count];
    *override = (struct quantization_override){.module = strdup(key), .quantization = quantization};
    if (!override->module) return kj_fail_memory(error, "the name of a quantized module");
    config->override_count++;
  }
  qsort(config->overrides, config->override_count, sizeof *config->overrides, by_module);
  return 0;
}

int config_read_quantization(struct config *config, const struct json_place *place, struct kj_error *error) {
  const char *key = "quantization", *method = NULL;
  const json_t *object = json_read_field(place, key);
  if (!object) object = json_read_field(place, key = "quantization_config");
  if (!object) return 0;
  if (!json_is_object(object)) return json_read_fail(place, key, "an object or null", object, error);
  char name[700];
  snprintf(name, sizeof name, "%.600s: %s", place->name, key);
  struct json_place inner = {.object = object, .name = name};
  int result = json_read_text(&inner, "quant_method", &method, error);
  if (!result && method)
    result = kj_fail(error, KJ_UNSUPPORTED, "%s: quant_method %.40s is not supported; MLX's affine quantization is",
                     name, method);
  if (!result) result = read_parameters(&inner, &config->quantization, error);
  if (!result) result = read_overrides(config, &inner, error);
  return result;
}

struct quantization config_quantization(const struct config *config, const char *module) {
  struct quantization_override key = {.module = (char *)module};
  const struct quantization_override *found =
      config->override_count ? bsearch(&key, config->overrides, config->override_count, sizeof key, by_module) : NULL;
  return found ? found->quantization : config->quantization;
}

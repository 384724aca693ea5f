#include "http/sampling_fields.h"

#include <stdlib.h>
#include <string.h>

static void number(struct fields *fields, const char *name, double minimum, double maximum, float *value) {
  double wide = *value;
  field_number(fields, name, minimum, maximum, &wide);
  *value = (float)wide;
}

/* A token id in decimal, without signs, spaces or leading zeros. */
static bool parse_token(const char *text, uint32_t vocabulary, uint32_t *token) {
  uint64_t value = 0;
  size_t length = strlen(text);
  if (length == 0 || length > 10 || (text[0] == '0' && length > 1)) return false;
  for (size_t i = 0; i < length; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    value = value * 10 + (uint64_t)(text[i] - '0');
  }
  *token = (uint32_t)value;
  return value < vocabulary;
}

static void parse_bias(struct fields *fields, struct sampling *sampling, uint32_t vocabulary) {
  json_t *bias = field_value(fields, "logit_bias", JSON_OBJECT, "an object of token id to bias");
  if (!bias || json_object_size(bias) == 0) return;
  if (json_object_size(bias) > SAMPLING_MAX_BIAS) {
    fields->failed = true;
    api_fail(fields->error, 400, "invalid_value", "logit_bias", "'logit_bias' has %zu tokens: at most %d are taken",
             json_object_size(bias), SAMPLING_MAX_BIAS);
    return;
  }
  sampling->bias = calloc(json_object_size(bias), sizeof *sampling->bias);
  if (!sampling->bias) {
    field_fail_memory(fields);
    return;
  }
  struct fields entries = {.object = bias, .path = "logit_bias", .error = fields->error};
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach(bias, key, value) {
    struct logit_bias *entry = &sampling->bias[sampling->bias_count];
    if (!parse_token(key, vocabulary, &entry->token)) {
      fields->failed = true;
      api_fail(fields->error, 400, "invalid_value", "logit_bias",
               "'logit_bias' has the key '%.40s': it must be a token id below %u", key, vocabulary);
      return;
    }
    if (json_is_null(value)) continue;
    number(&entries, key, -100, 100, &entry->bias);
    if (entries.failed) {
      fields->failed = true;
      return;
    }
    sampling->bias_count++;
  }
}

bool sampling_fields_parse(struct fields *fields, struct sampling *sampling, uint32_t vocabulary) {
  number(fields, "temperature", 0, 10, &sampling->temperature);
  /* Dividing logits by less would leave the range of float: it means the most probable token. */
  if (sampling->temperature < 1e-5f) sampling->temperature = 0;
  number(fields, "top_p", 0, 1, &sampling->top_p);
  /* The smallest nucleus is the most probable token. */
  if (sampling->top_p < 1e-6f) sampling->top_p = 1e-6f;
  number(fields, "min_p", 0, 1, &sampling->min_p);
  number(fields, "repetition_penalty", 0.01, 100, &sampling->repetition_penalty);
  number(fields, "presence_penalty", -2, 2, &sampling->presence_penalty);
  number(fields, "frequency_penalty", -2, 2, &sampling->frequency_penalty);
  int64_t top_k = sampling->top_k;
  field_integer(fields, "top_k", -1, INT32_MAX, &top_k);
  sampling->top_k = top_k < 0 ? 0 : (uint32_t)top_k;
  int64_t seed = 0;
  field_integer(fields, "seed", INT64_MIN, INT64_MAX, &seed);
  sampling->seed = (uint64_t)seed;
  parse_bias(fields, sampling, vocabulary);
  return field_any(fields, "seed") != NULL;
}

#include "http/request.h"

#include <stdlib.h>
#include <string.h>

#include "http/fields.h"
#include "http/json.h"
#include "http/messages.h"

void completion_request_drop_prompt(struct completion_request *request) {
  json_decref(request->messages);
  json_decref(request->tools);
  json_decref(request->template_variables);
  free(request->prompt);
  free(request->tokens);
  request->messages = request->tools = request->template_variables = NULL;
  request->prompt = NULL;
  request->tokens = NULL;
}

void completion_request_free(struct completion_request *request) {
  if (!request) return;
  completion_request_drop_prompt(request);
  for (size_t i = 0; i < request->stop_count; i++) free(request->stops[i]);
  free(request->sampling.bias);
  free(request->model);
  tool_schemas_free(request->tool_schemas);
  free(request);
}

static void fail(struct fields *fields, const char *code, const char *param, const char *message) {
  if (fields->failed) return;
  fields->failed = true;
  api_fail(fields->error, 400, code, param, "%s", message);
}

static void fail_memory(struct fields *fields) {
  fields->failed = true;
  api_fail_memory(fields->error);
}

static void set_defaults(struct completion_request *request, const struct generation_defaults *defaults) {
  request->sampling = sampling_defaults(defaults);
  if (request->endpoint == ENDPOINT_COMPLETIONS) request->max_tokens = REQUEST_DEFAULT_COMPLETION_TOKENS;
}

static void number(struct fields *fields, const char *name, double minimum, double maximum, float *value) {
  double wide = *value;
  field_number(fields, name, minimum, maximum, &wide);
  *value = (float)wide;
}

static void parse_sampling(struct fields *fields, struct completion_request *request) {
  struct sampling *sampling = &request->sampling;
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
  request->has_seed = field_any(fields, "seed") != NULL;
  field_integer(fields, "seed", INT64_MIN, INT64_MAX, &seed);
  sampling->seed = (uint64_t)seed;
}

static void parse_length(struct fields *fields, struct completion_request *request) {
  int64_t tokens = request->max_tokens;
  field_integer(fields, "max_tokens", 1, UINT32_MAX, &tokens);
  if (request->endpoint == ENDPOINT_CHAT) field_integer(fields, "max_completion_tokens", 1, UINT32_MAX, &tokens);
  request->max_tokens = (uint32_t)tokens;
  field_boolean(fields, "ignore_eos", &request->ignore_eos);
  bool cache_prompt = true;
  field_boolean(fields, "cache_prompt", &cache_prompt);
  request->ignore_cache = !cache_prompt;
  int64_t choices = 1;
  field_integer(fields, "n", INT64_MIN, INT64_MAX, &choices);
  if (choices != 1) fail(fields, "unsupported", "n", "'n' must be 1: one choice a request");
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
    fail_memory(fields);
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

static void parse_logprobs(struct fields *fields, struct completion_request *request) {
  int64_t top = 0;
  if (request->endpoint == ENDPOINT_COMPLETIONS) {
    if (!field_any(fields, "logprobs")) return;
    field_integer(fields, "logprobs", 0, SAMPLING_MAX_TOP_LOGPROBS, &top);
    request->sampling.top_logprobs = (int)top;
    return;
  }
  bool wanted = false;
  field_boolean(fields, "logprobs", &wanted);
  field_integer(fields, "top_logprobs", 0, SAMPLING_MAX_TOP_LOGPROBS, &top);
  if (top > 0 && !wanted) fail(fields, "invalid_value", "top_logprobs", "'top_logprobs' needs 'logprobs': true");
  if (wanted) request->sampling.top_logprobs = (int)top;
}

static void add_stop(struct fields *fields, struct completion_request *request, const json_t *stop) {
  if (fields->failed) return;
  if (!json_is_string(stop)) {
    fail(fields, "invalid_type", "stop", "'stop' must be a string or an array of strings");
  } else if (json_string_length(stop) == 0 || json_string_length(stop) > REQUEST_MAX_STOP_BYTES) {
    fail(fields, "invalid_value", "stop", "a string in 'stop' must have between 1 and 1024 bytes");
  } else if (request->stop_count == REQUEST_MAX_STOPS) {
    fail(fields, "invalid_value", "stop", "'stop' takes at most 16 strings");
  } else {
    char *copy = strdup(json_string_value(stop));
    if (copy)
      request->stops[request->stop_count++] = copy;
    else
      fail_memory(fields);
  }
}

static void parse_stop(struct fields *fields, struct completion_request *request) {
  const json_t *stop = field_any(fields, "stop");
  if (!stop) return;
  if (!json_is_array(stop)) {
    add_stop(fields, request, stop);
    return;
  }
  for (size_t i = 0; i < json_array_size(stop) && !fields->failed; i++)
    add_stop(fields, request, json_array_get(stop, i));
}

static void parse_stream(struct fields *fields, struct completion_request *request) {
  field_boolean(fields, "stream", &request->stream);
  const json_t *options = field_value(fields, "stream_options", JSON_OBJECT, "an object");
  if (!options) return;
  struct fields nested = {.object = options, .path = "stream_options", .error = fields->error};
  field_boolean(&nested, "include_usage", &request->include_usage);
  fields->failed |= nested.failed;
}

/* Fields that would change the answer in a way that is not implemented. */
static void refuse_unsupported(struct fields *fields) {
  const json_t *format = field_value(fields, "response_format", JSON_OBJECT, "an object");
  const char *type = json_string_value(json_object_get(format, "type"));
  if (format && (!type || strcmp(type, "text") != 0))
    fail(fields, "unsupported", "response_format", "'response_format' of a type other than 'text' is not supported");
  const json_t *choice = field_any(fields, "tool_choice");
  const char *mode = json_string_value(choice);
  if (choice && !(mode && (strcmp(mode, "auto") == 0 || strcmp(mode, "none") == 0)))
    fail(fields, "unsupported", "tool_choice",
         "'tool_choice' must be 'auto' or 'none': that the model calls a tool cannot be enforced");
  if (field_any(fields, "functions") || field_any(fields, "function_call"))
    fail(fields, "unsupported", "functions", "'functions' and 'function_call' are not supported: use 'tools'");
}

static void parse_chat(struct fields *fields, struct completion_request *request) {
  refuse_unsupported(fields);
  const json_t *tools = field_value(fields, "tools", JSON_ARRAY, "an array");
  const char *choice = json_string_value(field_any(fields, "tool_choice"));
  const json_t *variables = field_value(fields, "chat_template_kwargs", JSON_OBJECT, "an object");
  bool parallel_calls = true;
  field_boolean(fields, "parallel_tool_calls", &parallel_calls);
  request->only_one_call = !parallel_calls;
  if (fields->failed) return;
  request->messages = messages_check(json_object_get(fields->object, "messages"), fields->error);
  if (!request->messages || tools_check(tools, fields->error)) {
    fields->failed = true;
    return;
  }
  if (json_array_size(tools) > 0 && !(choice && strcmp(choice, "none") == 0))
    request->tools = json_incref((json_t *)tools);
  request->template_variables = json_incref((json_t *)variables);
}

static void parse_tokens(struct fields *fields, struct completion_request *request, const json_t *ids,
                         uint32_t vocabulary) {
  size_t count = json_array_size(ids);
  request->tokens = calloc(count, sizeof *request->tokens);
  if (!request->tokens) {
    fail_memory(fields);
    return;
  }
  for (size_t i = 0; i < count; i++) {
    const json_t *id = json_array_get(ids, i);
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= vocabulary) {
      fields->failed = true;
      api_fail(fields->error, 400, "invalid_value", "prompt", "'prompt[%zu]' must be a token id below %u", i,
               vocabulary);
      return;
    }
    request->tokens[i] = (uint32_t)json_integer_value(id);
  }
  request->token_count = count;
}

static void parse_prompt(struct fields *fields, struct completion_request *request, uint32_t vocabulary) {
  const json_t *prompt = field_any(fields, "prompt");
  if (!prompt) {
    fail(fields, "missing_field", "prompt", "'prompt' is required: a string or an array of token ids");
    return;
  }
  bool list =
      json_is_array(prompt) && (json_is_string(json_array_get(prompt, 0)) || json_is_array(json_array_get(prompt, 0)));
  if (list && json_array_size(prompt) > 1) {
    fail(fields, "unsupported", "prompt", "'prompt' holds several prompts: send one prompt a request");
    return;
  }
  if (list) prompt = json_array_get(prompt, 0);
  if (json_is_string(prompt) && json_string_length(prompt) > 0) {
    request->prompt_length = json_string_length(prompt);
    request->prompt = strdup(json_string_value(prompt));
    if (!request->prompt) fail_memory(fields);
  } else if (json_is_array(prompt) && json_array_size(prompt) > 0) {
    parse_tokens(fields, request, prompt, vocabulary);
  } else if (json_is_string(prompt) || json_is_array(prompt)) {
    fail(fields, "invalid_value", "prompt", "'prompt' is empty: it needs at least one token");
  } else {
    fail(fields, "invalid_type", "prompt", "'prompt' must be a string or an array of token ids");
  }
}

static void parse_completions(struct fields *fields, struct completion_request *request, uint32_t vocabulary) {
  bool echo = false;
  int64_t best_of = 1;
  const char *suffix = "";
  field_boolean(fields, "echo", &echo);
  field_integer(fields, "best_of", INT64_MIN, INT64_MAX, &best_of);
  field_string(fields, "suffix", &suffix);
  if (echo) fail(fields, "unsupported", "echo", "'echo' is not supported");
  if (best_of != 1) fail(fields, "unsupported", "best_of", "'best_of' must be 1");
  if (suffix[0]) fail(fields, "unsupported", "suffix", "'suffix' is not supported");
  if (!fields->failed) parse_prompt(fields, request, vocabulary);
}

int completion_request_parse(struct completion_request **result, enum completion_endpoint endpoint, const char *body,
                             size_t length, const struct config *config, struct api_error *error) {
  *result = NULL;
  json_t *object = json_decode(body, length, error);
  if (!object) return -1;
  struct fields fields = {.object = object, .path = "", .error = error};
  struct completion_request *request = calloc(1, sizeof *request);
  if (!request) {
    fail_memory(&fields);
    goto done;
  }
  request->endpoint = endpoint;
  set_defaults(request, &config->generation);
  const char *model = NULL;
  field_string(&fields, "model", &model);
  if (model && !(request->model = strdup(model))) fail_memory(&fields);
  parse_stream(&fields, request);
  parse_sampling(&fields, request);
  parse_length(&fields, request);
  parse_bias(&fields, &request->sampling, config->vocabulary);
  parse_logprobs(&fields, request);
  parse_stop(&fields, request);
  if (endpoint == ENDPOINT_CHAT)
    parse_chat(&fields, request);
  else
    parse_completions(&fields, request, config->vocabulary);
done:
  json_decref(object);
  if (fields.failed) {
    completion_request_free(request);
    return -1;
  }
  *result = request;
  return 0;
}

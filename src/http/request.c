#include "http/request.h"

#include <stdlib.h>
#include <string.h>

#include "http/anthropic_request.h"
#include "http/fields.h"
#include "http/json.h"
#include "http/messages.h"
#include "http/prompt_fields.h"
#include "http/sampling_fields.h"

void completion_request_drop_prompt(struct completion_request *request) {
  json_decref(request->messages);
  json_decref(request->tools);
  json_decref(request->template_variables);
  output_constraint_free(&request->constraint);
  free(request->suffix);
  free(request->continuation);
  request->continuation = NULL;
  request->messages = request->tools = request->template_variables = NULL;
  request->suffix = NULL;
  for (size_t i = 0; i < request->prompt_count; i++) {
    struct request_prompt *prompt = &request->prompts[i];
    free(prompt->tokens);
    prompt->tokens = NULL;
    if (request->echo) continue;
    free(prompt->text);
    prompt->text = NULL;
  }
}

void completion_request_free(struct completion_request *request) {
  if (!request) return;
  request->echo = false;
  completion_request_drop_prompt(request);
  free(request->prompts);
  for (size_t i = 0; i < request->stop_count; i++) free(request->stops[i]);
  free(request->sampling.bias);
  free(request->model);
  json_decref(request->mirror);
  tool_schemas_free(request->tool_schemas);
  grammar_masks_release(request->masks);
  free(request);
}

static void set_defaults(struct completion_request *request, const struct generation_defaults *defaults) {
  request->sampling = sampling_defaults(defaults);
  if (request->endpoint == ENDPOINT_COMPLETIONS) request->max_tokens = REQUEST_DEFAULT_COMPLETION_TOKENS;
}

static void parse_length(struct fields *fields, struct completion_request *request) {
  int64_t tokens = request->max_tokens;
  field_integer(fields, "max_tokens", request->endpoint == ENDPOINT_COMPLETIONS ? 0 : 1, UINT32_MAX, &tokens);
  if (request->endpoint != ENDPOINT_COMPLETIONS) field_integer(fields, "max_completion_tokens", 1, UINT32_MAX, &tokens);
  request->max_tokens = (uint32_t)tokens;
  field_boolean(fields, "ignore_eos", &request->ignore_eos);
  bool cache_prompt = true;
  field_boolean(fields, "cache_prompt", &cache_prompt);
  request->ignore_cache = !cache_prompt;
  int64_t choices = 1;
  field_integer(fields, "n", 1, REQUEST_MAX_CHOICES, &choices);
  request->choices = (uint32_t)choices;
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
  if (top > 0 && !wanted) field_fail(fields, "invalid_value", "top_logprobs", "'top_logprobs' needs 'logprobs': true");
  if (wanted) request->sampling.top_logprobs = (int)top;
}

static void add_stop(struct fields *fields, struct completion_request *request, const json_t *stop) {
  if (fields->failed) return;
  if (!json_is_string(stop)) {
    field_fail(fields, "invalid_type", "stop", "'stop' must be a string or an array of strings");
  } else if (json_string_length(stop) == 0 || json_string_length(stop) > REQUEST_MAX_STOP_BYTES) {
    field_fail(fields, "invalid_value", "stop", "a string in 'stop' must have between 1 and 1024 bytes");
  } else if (request->stop_count == REQUEST_MAX_STOPS) {
    field_fail(fields, "invalid_value", "stop", "'stop' takes at most 16 strings");
  } else {
    char *copy = strdup(json_string_value(stop));
    if (copy)
      request->stops[request->stop_count++] = copy;
    else
      field_fail_memory(fields);
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
  if (field_any(fields, "functions") || field_any(fields, "function_call"))
    field_fail(fields, "unsupported", "functions", "'functions' and 'function_call' are not supported: use 'tools'");
}

/* The caller's, and reasoning_effort, which templates know under that name; "none" turns thoughts off where a template
 * can. */
static json_t *template_variables(struct fields *fields, const json_t *given) {
  const char *effort = NULL;
  field_string(fields, "reasoning_effort", &effort);
  if (!effort) return json_incref((json_t *)given);
  json_t *variables = given ? json_copy((json_t *)given) : json_object();
  bool failed = !json_object_get(variables, "reasoning_effort") &&
                json_object_set_new(variables, "reasoning_effort", json_string(effort)) != 0;
  if (strcmp(effort, "none") == 0 && !json_object_get(variables, "enable_thinking"))
    failed |= json_object_set_new(variables, "enable_thinking", json_false()) != 0;
  if (failed) field_fail_memory(fields);
  return variables;
}

/* "continue_final_message": the last message is the beginning of the answer. */
static void take_continuation(struct fields *fields, struct completion_request *request) {
  bool wanted = false;
  field_boolean(fields, "continue_final_message", &wanted);
  if (!wanted || fields->failed) return;
  size_t last = json_array_size(request->messages) - 1;
  const json_t *message = json_array_get(request->messages, last);
  const char *role = json_string_value(json_object_get(message, "role"));
  if (strcmp(role, "assistant") != 0 || json_object_get(message, "tool_calls")) {
    field_fail(fields, "invalid_value", "continue_final_message",
               "'continue_final_message' needs a last message of the assistant, without tool calls");
    return;
  }
  request->continuation = strdup(json_string_value(json_object_get(message, "content")));
  if (!request->continuation || json_array_remove(request->messages, last)) field_fail_memory(fields);
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
  request->template_variables = template_variables(fields, variables);
  take_continuation(fields, request);
  constraint_fields_parse(fields, true, request->tools, &request->constraint);
  if (request->continuation && request->constraint.kind != CONSTRAINT_NONE)
    field_fail(fields, "invalid_value", "continue_final_message",
               "an answer that has begun cannot be constrained: leave out the assistant's last message");
}

static void check_choices(struct fields *fields, const struct completion_request *request) {
  size_t prompts = request->endpoint == ENDPOINT_COMPLETIONS ? request->prompt_count : 1;
  if (prompts * request->choices > REQUEST_MAX_CHOICES)
    field_fail(fields, "invalid_value", "n", "'n' is %u for each of %zu prompts: at most %d choices are made in all",
               request->choices, prompts, REQUEST_MAX_CHOICES);
}

int completion_request_from(struct completion_request **result, enum completion_endpoint endpoint, const json_t *object,
                            const struct config *config, struct api_error *error) {
  *result = NULL;
  struct completion_request *request = calloc(1, sizeof *request);
  if (!request) return api_fail_memory(error);
  struct fields fields = {.object = object, .path = "", .error = error};
  request->endpoint = endpoint;
  set_defaults(request, &config->generation);
  const char *model = NULL;
  field_string(&fields, "model", &model);
  if (model && !(request->model = strdup(model))) field_fail_memory(&fields);
  parse_stream(&fields, request);
  request->has_seed = sampling_fields_parse(&fields, &request->sampling, config->vocabulary);
  parse_length(&fields, request);
  parse_logprobs(&fields, request);
  parse_stop(&fields, request);
  if (endpoint == ENDPOINT_COMPLETIONS) {
    prompt_fields_parse(&fields, request, config->vocabulary);
    constraint_fields_parse(&fields, false, NULL, &request->constraint);
  } else {
    parse_chat(&fields, request);
  }
  check_choices(&fields, request);
  if (fields.failed) {
    completion_request_free(request);
    return -1;
  }
  *result = request;
  return 0;
}

int completion_request_parse(struct completion_request **result, enum completion_endpoint endpoint, const char *body,
                             size_t length, const struct config *config, struct api_error *error) {
  *result = NULL;
  json_t *object = json_decode(body, length, error);
  if (!object) return -1;
  int code = endpoint == ENDPOINT_MESSAGES ? anthropic_request(result, object, false, config, error)
                                           : completion_request_from(result, endpoint, object, config, error);
  json_decref(object);
  return code;
}

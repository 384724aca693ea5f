#include "http/prompt_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *copy_text(struct fields *fields, const json_t *text, size_t *length) {
  *length = json_string_length(text);
  char *copy = strdup(json_string_value(text));
  if (!copy) field_fail_memory(fields);
  return copy;
}

static void parse_tokens(struct fields *fields, struct request_prompt *prompt, const json_t *ids, const char *path,
                         uint32_t vocabulary) {
  size_t count = json_array_size(ids);
  prompt->tokens = calloc(count, sizeof *prompt->tokens);
  if (!prompt->tokens) {
    field_fail_memory(fields);
    return;
  }
  for (size_t i = 0; i < count && !fields->failed; i++) {
    const json_t *id = json_array_get(ids, i);
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= vocabulary) {
      field_fail(fields, "invalid_value", "prompt", "'%s[%zu]' must be a token id below %u", path, i, vocabulary);
      return;
    }
    prompt->tokens[i] = (uint32_t)json_integer_value(id);
  }
  prompt->token_count = count;
}

static void parse_prompt(struct fields *fields, struct request_prompt *prompt, const json_t *value, const char *path,
                         uint32_t vocabulary) {
  if (json_is_string(value) && json_string_length(value) > 0)
    prompt->text = copy_text(fields, value, &prompt->length);
  else if (json_is_array(value) && json_array_size(value) > 0)
    parse_tokens(fields, prompt, value, path, vocabulary);
  else if (json_is_string(value) || json_is_array(value))
    field_fail(fields, "invalid_value", "prompt", "'%s' is empty: it needs at least one token", path);
  else
    field_fail(fields, "invalid_type", "prompt", "'%s' must be a string or an array of token ids, not %s", path,
               json_type_name(value));
}

static void parse_prompts(struct fields *fields, struct completion_request *request, uint32_t vocabulary) {
  const json_t *prompt = field_any(fields, "prompt"), *first = json_array_get(prompt, 0);
  if (!prompt) {
    field_fail(fields, "missing_field", "prompt",
               "'prompt' is required: a string, an array of token ids, or an array of these");
    return;
  }
  bool several = json_is_string(first) || json_is_array(first);
  size_t count = several ? json_array_size(prompt) : 1;
  if (count > REQUEST_MAX_CHOICES) {
    field_fail(fields, "invalid_value", "prompt", "'prompt' holds %zu prompts: at most %d are taken", count,
               REQUEST_MAX_CHOICES);
    return;
  }
  request->prompts = calloc(count, sizeof *request->prompts);
  if (!request->prompts) {
    field_fail_memory(fields);
    return;
  }
  request->prompt_count = count;
  for (size_t i = 0; i < count && !fields->failed; i++) {
    char path[32] = "prompt";
    if (several) snprintf(path, sizeof path, "prompt[%zu]", i);
    parse_prompt(fields, &request->prompts[i], several ? json_array_get(prompt, i) : prompt, path, vocabulary);
  }
}

void prompt_fields_parse(struct fields *fields, struct completion_request *request, uint32_t vocabulary) {
  int64_t best_of = request->choices;
  const json_t *suffix = field_value(fields, "suffix", JSON_STRING, "a string");
  field_boolean(fields, "echo", &request->echo);
  request->only_echo = request->max_tokens == 0;
  if (request->only_echo && !request->echo)
    field_fail(fields, "invalid_value", "max_tokens", "'max_tokens' is 0: without 'echo' nothing would be answered");
  field_integer(fields, "best_of", INT64_MIN, INT64_MAX, &best_of);
  if (best_of != request->choices)
    field_fail(fields, "unsupported", "best_of", "'best_of' must be equal to 'n': every choice is returned");
  if (!fields->failed) parse_prompts(fields, request, vocabulary);
  if (!fields->failed && json_string_length(suffix) > 0)
    request->suffix = copy_text(fields, suffix, &request->suffix_length);
  if (request->suffix && request->echo && request->sampling.top_logprobs >= 0)
    field_fail(fields, "unsupported", "logprobs",
               "'logprobs' of an echo and 'suffix' do not go together: the tokens are not those of the text");
}

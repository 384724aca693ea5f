#include "http/logprobs.h"

#include "base/buffer.h"

static const double MINIMUM = -9999;

static json_t *probability(float logprob) { return json_real(logprob >= MINIMUM ? (double)logprob : MINIMUM); }

json_t *logprobs_token_text(const struct tokenizer *tokenizer, uint32_t token) {
  size_t length = 0;
  const char *bytes = tokenizer_bytes(tokenizer, token, &length);
  json_t *text = json_stringn(length ? bytes : "", length);
  if (text) return text;
  struct buffer escaped = {0};
  buffer_append_text(&escaped, "bytes:");
  for (size_t i = 0; i < length; i++) buffer_append_format(&escaped, "\\x%02x", (unsigned char)bytes[i]);
  text = json_stringn(buffer_text(&escaped), escaped.length);
  buffer_free(&escaped);
  return text;
}

static json_t *byte_list(const struct tokenizer *tokenizer, uint32_t token) {
  size_t length = 0;
  const char *bytes = tokenizer_bytes(tokenizer, token, &length);
  json_t *list = json_array();
  for (size_t i = 0; i < length; i++) json_array_append_new(list, json_integer((unsigned char)bytes[i]));
  return list;
}

static json_t *chat_entry(const struct tokenizer *tokenizer, uint32_t token, float logprob) {
  return json_pack("{s:o, s:o, s:o}", "token", logprobs_token_text(tokenizer, token), "logprob", probability(logprob),
                   "bytes", byte_list(tokenizer, token));
}

static void add_chat(struct logprobs *logprobs, const struct sampled *sampled) {
  if (!logprobs->value) logprobs->value = json_pack("{s:[], s:n}", "content", "refusal");
  json_t *entry = chat_entry(logprobs->tokenizer, sampled->token, sampled->logprob), *top = json_array();
  for (uint32_t i = 0; i < sampled->top_count; i++)
    json_array_append_new(top, chat_entry(logprobs->tokenizer, sampled->top[i].token, sampled->top[i].logprob));
  json_object_set_new(entry, "top_logprobs", top);
  json_array_append_new(json_object_get(logprobs->value, "content"), entry);
}

static void add_alternative(json_t *top, const struct tokenizer *tokenizer, uint32_t token, float logprob) {
  json_t *key = logprobs_token_text(tokenizer, token);
  /* Two tokens may have the same text: the more probable one comes first and stays. */
  if (key && !json_object_get(top, json_string_value(key)))
    json_object_set_new(top, json_string_value(key), probability(logprob));
  json_decref(key);
}

/* Characters that begin in the bytes. */
static size_t count_characters(const char *bytes, size_t length) {
  size_t count = 0;
  for (size_t i = 0; i < length; i++) count += ((unsigned char)bytes[i] & 0xc0) != 0x80;
  return count;
}

/* Appends an entry to each of the parallel lists. */
static void append_completion(struct logprobs *logprobs, uint32_t token, bool in_text, json_t *logprob, json_t *top) {
  if (!logprobs->value)
    logprobs->value = json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs", "top_logprobs", "text_offset");
  json_t *value = logprobs->value;
  json_array_append_new(json_object_get(value, "tokens"), logprobs_token_text(logprobs->tokenizer, token));
  json_array_append_new(json_object_get(value, "token_logprobs"), logprob);
  json_array_append_new(json_object_get(value, "top_logprobs"), top);
  json_array_append_new(json_object_get(value, "text_offset"), json_integer((json_int_t)logprobs->text_offset));
  if (!in_text) return;
  size_t length = 0;
  const char *bytes = tokenizer_bytes(logprobs->tokenizer, token, &length);
  logprobs->text_offset += count_characters(bytes, length);
}

static void add_completion(struct logprobs *logprobs, const struct sampled *sampled, bool in_text) {
  json_t *top = json_object();
  for (uint32_t i = 0; i < sampled->top_count; i++)
    add_alternative(top, logprobs->tokenizer, sampled->top[i].token, sampled->top[i].logprob);
  if (sampled->top_count) add_alternative(top, logprobs->tokenizer, sampled->token, sampled->logprob);
  append_completion(logprobs, sampled->token, in_text, probability(sampled->logprob), top);
}

void logprobs_first(struct logprobs *logprobs, uint32_t token) {
  append_completion(logprobs, token, true, json_null(), json_null());
}

void logprobs_echo(struct logprobs *logprobs, const struct sampled *sampled) {
  add_completion(logprobs, sampled, true);
}

void logprobs_add(struct logprobs *logprobs, const struct sampled *sampled) {
  if (logprobs->endpoint == ENDPOINT_COMPLETIONS)
    add_completion(logprobs, sampled, !tokenizer_is_special(logprobs->tokenizer, sampled->token));
  else
    add_chat(logprobs, sampled);
}

json_t *logprobs_take(struct logprobs *logprobs) {
  json_t *value = logprobs->value;
  logprobs->value = NULL;
  return value ? value : json_null();
}

void logprobs_free(struct logprobs *logprobs) {
  json_decref(logprobs->value);
  logprobs->value = NULL;
}

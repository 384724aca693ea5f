#include "scripted/script.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "model/json_read.h"
#include "text/tokenizer.h"

struct rule {
  const json_t *when, *unless; /* of the document; a string, an array of strings, or NULL */
  uint32_t within;             /* bytes at the prompt's end; 0: all */
  uint32_t delay_ms;
  struct token_list reply;
};

struct script {
  json_t *document;
  struct tokenizer *tokenizer;
  FILE *log; /* or NULL */
  uint32_t end;
  size_t rule_count;
  struct rule *rules; /* [rule_count + 1], the last one "otherwise" */
};

static int take_reply(struct script *script, struct rule *rule, const char *text, struct kj_error *error) {
  int code = tokenizer_encode(script->tokenizer, text, strlen(text), true, &rule->reply, error);
  return code ? code : token_list_push(&rule->reply, script->end, error);
}

static int take_conditions(const struct json_place *place, const char *key, const json_t **value,
                           struct kj_error *error) {
  *value = json_read_field(place, key);
  bool valid = !*value || json_is_string(*value) || json_is_array(*value);
  for (size_t i = 0; valid && i < json_array_size(*value); i++) valid = json_is_string(json_array_get(*value, i));
  return valid ? 0 : json_read_fail(place, key, "a string or an array of strings", *value, error);
}

static int take_rule(struct script *script, struct rule *rule, const json_t *object, const char *name,
                     struct kj_error *error) {
  struct json_place place = {object, name};
  const char *text = NULL;
  int code;
  if (!json_is_object(object)) return kj_fail(error, KJ_INVALID, "%s: an object is needed", name);
  if ((code = take_conditions(&place, "when", &rule->when, error))) return code;
  if ((code = take_conditions(&place, "unless", &rule->unless, error))) return code;
  if ((code = json_read_whole(&place, "within", 1, UINT32_MAX, &rule->within, error))) return code;
  if ((code = json_read_whole(&place, "delay_ms", 0, 60000, &rule->delay_ms, error))) return code;
  if ((code = json_read_required(&place, "say", error))) return code;
  if ((code = json_read_text(&place, "say", &text, error))) return code;
  return take_reply(script, rule, text, error);
}

static int take_rules(struct script *script, const struct json_place *root, struct kj_error *error) {
  const json_t *rules = json_read_field(root, "rules");
  if (rules && !json_is_array(rules)) return json_read_fail(root, "rules", "an array", rules, error);
  script->rules = calloc(json_array_size(rules) + 1, sizeof *script->rules);
  if (!script->rules) return kj_fail_memory(error, "the rules of a script");
  for (size_t i = 0; i < json_array_size(rules); i++) {
    char name[80];
    snprintf(name, sizeof name, "rule %zu of the script", i);
    script->rule_count++;
    int code = take_rule(script, &script->rules[i], json_array_get(rules, i), name, error);
    if (code) return code;
  }
  const char *otherwise = "No rule holds.";
  int code = json_read_text(root, "otherwise", &otherwise, error);
  return code ? code : take_reply(script, &script->rules[script->rule_count], otherwise, error);
}

static int take_script(struct script *script, const struct json_place *root, struct kj_error *error) {
  const char *directory = NULL, *end = "<|im_end|>", *log = NULL;
  int code = json_read_required(root, "tokenizer", error);
  if (code || (code = json_read_text(root, "tokenizer", &directory, error))) return code;
  if ((code = tokenizer_load(&script->tokenizer, directory, error))) return code;
  if ((code = json_read_text(root, "end", &end, error))) return code;
  if (!tokenizer_find(script->tokenizer, end, &script->end))
    return kj_fail(error, KJ_INVALID, "%s: end: no token is called \"%s\"", root->name, end);
  if ((code = json_read_text(root, "log", &log, error))) return code;
  if (log && !(script->log = fopen(log, "a")))
    return kj_fail(error, KJ_IO, "%s: cannot write the log %s: %s", root->name, log, strerror(errno));
  return take_rules(script, root, error);
}

int script_load(struct script **result, const char *path, struct kj_error *error) {
  *result = NULL;
  struct script *script = calloc(1, sizeof *script);
  if (!script) return kj_fail_memory(error, "a script");
  int code = json_read_file(&script->document, path, 16 << 20, error);
  if (!code) code = take_script(script, &(struct json_place){script->document, path}, error);
  if (code) {
    script_free(script);
    return code;
  }
  *result = script;
  return 0;
}

void script_free(struct script *script) {
  if (!script) return;
  for (size_t i = 0; script->rules && i <= script->rule_count; i++) token_list_free(&script->rules[i].reply);
  free(script->rules);
  if (script->log) fclose(script->log);
  tokenizer_free(script->tokenizer);
  json_decref(script->document);
  free(script);
}

/* How many of the conditions stand in the text, and how many there are. */
static size_t count_found(const json_t *conditions, const char *text, size_t length, size_t *total) {
  bool single = json_is_string(conditions);
  size_t found = 0;
  *total = single ? 1 : json_array_size(conditions);
  for (size_t i = 0; i < *total; i++) {
    const json_t *condition = single ? conditions : json_array_get(conditions, i);
    found += memmem(text, length, json_string_value(condition), json_string_length(condition)) != NULL;
  }
  return found;
}

static bool holds(const struct rule *rule, const struct buffer *prompt) {
  size_t length = prompt->length, total;
  if (rule->within > 0 && rule->within < length) length = rule->within;
  const char *text = buffer_text(prompt) + prompt->length - length;
  if (count_found(rule->when, text, length, &total) < total) return false;
  return count_found(rule->unless, text, length, &total) == 0;
}

static int write_log(const struct script *script, size_t rule, const struct buffer *prompt, struct kj_error *error) {
  json_t *line = json_pack("{s:i, s:s%}", "rule", rule < script->rule_count ? (int)rule : -1, "prompt",
                           buffer_text(prompt), prompt->length);
  bool written = line && json_dumpf(line, script->log, JSON_COMPACT) == 0 && fputc('\n', script->log) != EOF &&
                 fflush(script->log) == 0;
  json_decref(line);
  return written ? 0 : kj_fail(error, KJ_IO, "cannot write the log of the script");
}

int script_reply(const struct script *script, const uint32_t *prompt, size_t count, bool log,
                 struct script_reply *reply, struct kj_error *error) {
  struct buffer text = {0};
  for (size_t i = 0; i < count; i++) {
    size_t length;
    const char *bytes = tokenizer_bytes(script->tokenizer, prompt[i], &length);
    buffer_append(&text, bytes, length);
  }
  if (buffer_failed(&text)) {
    buffer_free(&text);
    return kj_fail_memory(error, "a prompt's text");
  }
  size_t at = 0;
  while (at < script->rule_count && !holds(&script->rules[at], &text)) at++;
  int code = log && script->log ? write_log(script, at, &text, error) : 0;
  buffer_free(&text);
  const struct rule *rule = &script->rules[at];
  *reply = (struct script_reply){rule->reply.ids, rule->reply.count, rule->delay_ms};
  return code;
}

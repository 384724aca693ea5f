/* Values of enum and const. */
#include <stdint.h>
#include <stdlib.h>

#include "grammar/json_schema_parts.h"
#include "grammar/json_text.h"
#include "text/utf8.h"

static bool number_allowed(const struct flat_schema *flat, const json_t *value) {
  int low = flat->minimum.value ? number_compare(value, flat->minimum.value) : 1;
  int high = flat->maximum.value ? number_compare(value, flat->maximum.value) : -1;
  return (low > 0 || (low == 0 && !flat->minimum.exclusive)) && (high < 0 || (high == 0 && !flat->maximum.exclusive));
}

/* The strings that pattern, format and length allow as a grammar, or NULL: all, or a failure. */
static struct grammar *strings_allowed(struct schema_compiler *compiler, const struct flat_schema *flat) {
  if (!(flat->spoken_of & TYPE_STRING)) return NULL;
  struct grammar_builder *builder = NULL;
  struct grammar *grammar = NULL;
  struct kj_error error = {0};
  struct string_rules rules = schema_string_rules(compiler, flat);
  if (compiler->failed) return NULL;
  bool failed = grammar_builder_create(&builder, &error) ||
                grammar_finish(builder, string_rules_expression(builder, &rules, PATTERN_IN_TEXT), &grammar, &error);
  /* KJ_INVALID: no string at all, which is a language like any other. */
  if (failed && error.code != KJ_INVALID) schema_fail(compiler, error.code, flat->path, error.message);
  grammar_builder_free(builder);
  return grammar;
}

enum { MATCH_WORK = 32 }; /* of grammar_matches_within that are one of SCHEMA_MAX_WORK */

/* Whether the strings have the value. Leniently one for which that takes too long is among them. */
static bool string_allowed(struct schema_compiler *compiler, const struct flat_schema *flat,
                           const struct grammar *strings, const json_t *value) {
  size_t most = (SCHEMA_MAX_WORK - compiler->work) * MATCH_WORK, left = most;
  int matches = grammar_matches_within(strings, json_string_value(value), json_string_length(value), &left);
  if (!schema_work(compiler, flat->path, left ? (most - left) / MATCH_WORK : SIZE_MAX)) return false;
  if (matches < 0) schema_refuse(compiler, flat->path, "pattern", "it is too ambiguous to be compared with values");
  return matches != 0;
}

/* What is said about the members or elements of a value would have to be looked at value by value. */
static bool speaks_of_contents(const struct flat_schema *flat, unsigned type) {
  return type & flat->spoken_of & (TYPE_OBJECT | TYPE_ARRAY);
}

json_t *schema_allowed_values(struct schema_compiler *compiler, const struct flat_schema *flat) {
  struct grammar *strings = strings_allowed(compiler, flat);
  json_t *allowed = schema_keep(compiler, json_array()), *value = NULL;
  size_t index = 0;
  bool all_strings = !(flat->spoken_of & TYPE_STRING);
  if (!schema_work(compiler, flat->path, json_array_size(flat->values))) allowed = NULL;
  json_array_foreach(flat->values, index, value) {
    unsigned type = json_type_of(value);
    if (!allowed || compiler->failed) break;
    if (!(type & flat->types)) continue;
    if (speaks_of_contents(flat, type))
      schema_refuse(compiler, flat->path, "enum", "of objects or arrays about which more is said");
    if (json_is_number(value) && !number_allowed(flat, value)) continue;
    if (json_is_string(value) && !all_strings && (!strings || !string_allowed(compiler, flat, strings, value)))
      continue;
    json_array_append(allowed, value);
  }
  grammar_release(strings);
  return allowed;
}

grammar_expression schema_values(struct schema_compiler *compiler, const struct flat_schema *flat) {
  struct grammar_builder *builder = compiler->values.builder;
  json_t *allowed = schema_allowed_values(compiler, flat), *value = NULL;
  size_t count = json_array_size(allowed), strings = 0, others = 0, index = 0;
  grammar_expression *parts = calloc(2 * count + 1, sizeof *parts), *texts = parts ? parts + count + 1 : NULL;
  if (!parts) return grammar_fail(builder, KJ_MEMORY, "out of memory for a grammar");
  json_array_foreach(allowed, index, value) {
    /* Texts of one choice become a tree. */
    if (json_is_string(value))
      texts[strings++] = json_text_literal(builder, json_string_value(value), json_string_length(value));
    else
      parts[others++] = json_value_literal(&compiler->values, value);
  }
  grammar_expression quote = grammar_text(builder, "\"");
  if (strings) parts[others++] = GRAMMAR_SEQUENCE(builder, quote, grammar_choice(builder, texts, strings), quote);
  grammar_expression expression = grammar_choice(builder, parts, others);
  free(parts);
  return expression;
}

#include "grammar/string_rules.h"

#include <string.h>

#include "grammar/json_text.h"
#include "grammar/known_pattern.h"
#include "grammar/pattern_length.h"
#include "grammar/string_format.h"

/* The pattern to obey; "" for any text, NULL for a format that is not known. Beside a pattern, which is the more exact
 * of the two, a format is an annotation. */
static const char *pattern_of(const struct string_rules *rules) {
  if (rules->pattern) return known_pattern(rules->pattern);
  return rules->format ? string_format_pattern(rules->format) : "";
}

static grammar_expression any_characters(struct grammar_builder *builder, const struct string_rules *rules,
                                         enum pattern_place place) {
  if (rules->min_length > rules->max_length) return grammar_choice(builder, NULL, 0);
  if (place == PATTERN_IN_JSON_STRING) return json_text_characters(builder, rules->min_length, rules->max_length);
  return grammar_repeat(builder, grammar_class(builder, NULL, 0, true), rules->min_length, rules->max_length);
}

grammar_expression string_rules_expression(struct grammar_builder *builder, const struct string_rules *rules,
                                           enum pattern_place place) {
  const char *pattern = pattern_of(rules);
  if (!pattern) return grammar_fail(builder, KJ_UNSUPPORTED, "a format that is not known");
  if (!*pattern) return any_characters(builder, rules, place);
  return pattern_compile_bounded(builder, pattern, strlen(pattern), place, rules->min_length, rules->max_length);
}

/* Compiles it aside. */
static int try_out(const struct string_rules *rules, struct kj_error *error) {
  struct grammar_builder *builder = NULL;
  if (grammar_builder_create(&builder, error)) return error->code;
  grammar_expression expression = string_rules_expression(builder, rules, PATTERN_IN_JSON_STRING);
  struct grammar *grammar = NULL;
  int result = 0;
  /* A language without a text is no fault of the pattern. */
  if (grammar_failed(builder)) result = grammar_finish(builder, expression, &grammar, error);
  grammar_release(grammar);
  grammar_builder_free(builder);
  return result;
}

int string_rules_check(const struct string_rules *rules, const char **culprit, struct kj_error *error) {
  const char *pattern = pattern_of(rules);
  *culprit = "format";
  if (!pattern) return kj_fail(error, KJ_UNSUPPORTED, "'%.100s'", rules->format);
  if (rules->pattern) *culprit = "pattern";
  if (!*pattern) return 0;
  struct string_rules alone = {.pattern = rules->pattern, .format = rules->format, .max_length = GRAMMAR_UNBOUNDED};
  int result = try_out(&alone, error);
  if (result) return result;
  *culprit = rules->max_length != GRAMMAR_UNBOUNDED ? "maxLength" : "minLength";
  return try_out(rules, error);
}

/* Strings that a schema allows. */
#include <string.h>

#include "grammar/json_schema_parts.h"

/* To bound the length of a pattern may take as much as a thousand plain schemas, and a byte of one as much as a few. */
enum { BOUNDED_WORK = 1000, PATTERN_WORK = 4, FORMAT_WORK = 400 };

struct string_rules schema_string_rules(struct schema_compiler *compiler, const struct flat_schema *flat) {
  struct string_rules rules = {flat->pattern, flat->format, flat->min_length, flat->max_length};
  struct kj_error reason = {0};
  const char *culprit = NULL;
  bool is_bounded = rules.min_length || rules.max_length != GRAMMAR_UNBOUNDED;
  size_t work = rules.pattern ? strlen(rules.pattern) * PATTERN_WORK : rules.format ? FORMAT_WORK : 0;
  if (work && !schema_work(compiler, flat->path, work + (is_bounded ? BOUNDED_WORK : 0))) return rules;
  /* Leniently one after the other is left out until what is left can be kept. */
  for (int i = 0; i < 3 && string_rules_check(&rules, &culprit, &reason); i++) {
    schema_refuse(compiler, flat->path, culprit, "%.250s", reason.message);
    if (culprit[0] == 'f') {
      rules.format = NULL;
    } else if (culprit[0] == 'p') {
      rules.pattern = NULL;
    } else {
      rules.min_length = 0;
      rules.max_length = GRAMMAR_UNBOUNDED;
    }
  }
  return rules;
}

grammar_expression schema_string(struct schema_compiler *compiler, const struct flat_schema *flat) {
  struct grammar_builder *builder = compiler->values.builder;
  struct string_rules rules = schema_string_rules(compiler, flat);
  if (compiler->failed) return compiler->values.string;
  if (!rules.pattern && !rules.format && !rules.min_length && rules.max_length == GRAMMAR_UNBOUNDED)
    return compiler->values.string;
  grammar_expression quote = grammar_text(builder, "\"");
  return GRAMMAR_SEQUENCE(builder, quote, string_rules_expression(builder, &rules, PATTERN_IN_JSON_STRING), quote);
}

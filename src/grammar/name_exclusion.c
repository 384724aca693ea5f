#include "grammar/name_exclusion.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/json_text.h"
#include "grammar/json_value.h"
#include "text/utf8.h"

struct exclusion {
  struct grammar_builder *builder;
  enum pattern_place place;
  grammar_expression any; /* any characters of a name, or none */
};

static bool contains(const struct code_range *characters, size_t count, uint32_t code_point) {
  for (size_t i = 0; i < count; i++)
    if (characters[i].first == code_point) return true;
  return false;
}

/* A character of names that is none of these. */
static grammar_expression character_besides(const struct exclusion *exclusion, const struct code_range *characters,
                                            size_t count) {
  static const char PLAIN[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
  if (exclusion->place == PATTERN_IN_JSON_STRING) return json_text_class(exclusion->builder, characters, count, true);
  struct code_range ranges[sizeof PLAIN];
  size_t kept = 0;
  for (const char *c = PLAIN; *c; c++)
    if (!contains(characters, count, (uint32_t)*c)) ranges[kept++] = (struct code_range){(uint32_t)*c, (uint32_t)*c};
  return grammar_class(exclusion->builder, ranges, kept, false);
}

static grammar_expression character(const struct exclusion *exclusion, const struct code_range *one) {
  return (exclusion->place == PATTERN_IN_JSON_STRING ? json_text_class : grammar_class)(exclusion->builder, one, 1,
                                                                                        false);
}

/* The rest of a name whose beginning, `offset` bytes, all the names share. */
static grammar_expression rest_without(const struct exclusion *exclusion, const char *const *names, size_t count,
                                       size_t offset) {
  struct grammar_builder *builder = exclusion->builder;
  struct code_range *next = calloc(count + 1, sizeof *next);
  grammar_expression *parts = calloc(count + 2, sizeof *parts), expression = 0;
  size_t children = 0, part_count = 0, at = 0;
  if (!next || !parts) {
    expression = grammar_fail(builder, KJ_MEMORY, "out of memory for a grammar");
    goto done;
  }
  bool is_name = count && !names[0][offset], is_empty = offset == 0;
  if (is_name)
    at = 1;
  else if (exclusion->place == PATTERN_IN_JSON_STRING || !is_empty)
    parts[part_count++] = grammar_text(builder, "");
  while (at < count) {
    uint32_t code_point = 0;
    size_t length = utf8_read(names[at] + offset, strlen(names[at] + offset), &code_point), end = at;
    if (length == 0 || offset > NAME_EXCLUSION_LENGTH) {
      grammar_fail(builder, KJ_UNSUPPORTED, "a property name of more than %d bytes where others are allowed",
                   NAME_EXCLUSION_LENGTH);
      break;
    }
    while (end < count && strncmp(names[end] + offset, names[at] + offset, length) == 0) end++;
    next[children] = (struct code_range){code_point, code_point};
    /* A rule, so that a long name does not nest. */
    grammar_expression rest = grammar_rule(builder, "other names");
    grammar_define(builder, rest, rest_without(exclusion, names + at, end - at, offset + length));
    parts[part_count++] = GRAMMAR_SEQUENCE(builder, character(exclusion, &next[children]), rest);
    children++;
    at = end;
  }
  parts[part_count++] = GRAMMAR_SEQUENCE(builder, character_besides(exclusion, next, children), exclusion->any);
  expression = grammar_choice(builder, parts, part_count);
done:
  free(next);
  free(parts);
  return expression;
}

grammar_expression name_exclusion(struct grammar_builder *builder, const char *const *names, size_t count,
                                  enum pattern_place place) {
  struct exclusion exclusion = {.builder = builder, .place = place};
  exclusion.any = grammar_repeat(builder, character_besides(&exclusion, NULL, 0), 0, GRAMMAR_UNBOUNDED);
  return rest_without(&exclusion, names, count, 0);
}

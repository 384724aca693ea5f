#include "grammar/json_value.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/json_text.h"
#include "grammar/number_range.h"

enum { LITERAL_DEPTH = 64 };

static grammar_expression space(struct grammar_builder *builder) {
  static const struct code_range BLANKS[] = {{' ', ' '}, {'\t', '\t'}};
  grammar_expression indent = grammar_repeat(builder, grammar_class(builder, BLANKS, 2, false), 0, JSON_VALUE_INDENT);
  grammar_expression line = GRAMMAR_SEQUENCE(builder, grammar_text(builder, "\n"), indent);
  return grammar_optional(builder, GRAMMAR_CHOICE(builder, grammar_text(builder, " "), line));
}

static grammar_expression digits(struct grammar_builder *builder, uint32_t minimum, uint32_t maximum) {
  static const struct code_range DIGITS[] = {{'0', '9'}};
  return grammar_repeat(builder, grammar_class(builder, DIGITS, 1, false), minimum, maximum);
}

static grammar_expression one_of(struct grammar_builder *builder, uint32_t first, uint32_t last) {
  return grammar_class(builder, &(struct code_range){first, last}, 1, false);
}

static grammar_expression number(struct grammar_builder *builder) {
  grammar_expression whole =
      GRAMMAR_CHOICE(builder, grammar_text(builder, "0"),
                     GRAMMAR_SEQUENCE(builder, one_of(builder, '1', '9'), digits(builder, 0, 17)));
  grammar_expression fraction = GRAMMAR_SEQUENCE(builder, grammar_text(builder, "."), digits(builder, 1, 17));
  /* 18 digits before the point and an exponent of 290 would come to more than a double holds. */
  grammar_expression size = GRAMMAR_CHOICE(
      builder, digits(builder, 1, 2), GRAMMAR_SEQUENCE(builder, one_of(builder, '0', '1'), digits(builder, 2, 2)),
      GRAMMAR_SEQUENCE(builder, grammar_text(builder, "2"), one_of(builder, '0', '8'), digits(builder, 1, 1)));
  static const struct code_range E[] = {{'e', 'e'}, {'E', 'E'}}, SIGNS[] = {{'+', '+'}, {'-', '-'}};
  grammar_expression exponent =
      GRAMMAR_SEQUENCE(builder, grammar_class(builder, E, 2, false),
                       grammar_optional(builder, grammar_class(builder, SIGNS, 2, false)), size);
  return GRAMMAR_SEQUENCE(builder, grammar_optional(builder, grammar_text(builder, "-")), whole,
                          grammar_optional(builder, fraction), grammar_optional(builder, exponent));
}

/* Any number of `part`, with commas between them, within brackets. */
static grammar_expression list(const struct json_values *values, grammar_expression open, grammar_expression part,
                               grammar_expression close, grammar_expression empty) {
  struct grammar_builder *builder = values->builder;
  grammar_expression more =
      grammar_repeat(builder, GRAMMAR_SEQUENCE(builder, values->comma, part), 0, GRAMMAR_UNBOUNDED);
  return GRAMMAR_CHOICE(builder, empty, GRAMMAR_SEQUENCE(builder, open, part, more, close));
}

struct json_values json_values_make(struct grammar_builder *builder) {
  grammar_expression blank = space(builder), quote = grammar_text(builder, "\"");
  struct json_values values = {
      .builder = builder,
      .comma = GRAMMAR_SEQUENCE(builder, grammar_text(builder, ","), blank),
      .colon =
          GRAMMAR_SEQUENCE(builder, grammar_text(builder, ":"), grammar_optional(builder, grammar_text(builder, " "))),
      .open_object = GRAMMAR_SEQUENCE(builder, grammar_text(builder, "{"), blank),
      .close_object = GRAMMAR_SEQUENCE(builder, blank, grammar_text(builder, "}")),
      .open_array = GRAMMAR_SEQUENCE(builder, grammar_text(builder, "["), blank),
      .close_array = GRAMMAR_SEQUENCE(builder, blank, grammar_text(builder, "]")),
      .empty_object = GRAMMAR_SEQUENCE(builder, grammar_text(builder, "{"), blank, grammar_text(builder, "}")),
      .empty_array = GRAMMAR_SEQUENCE(builder, grammar_text(builder, "["), blank, grammar_text(builder, "]")),
      .string = GRAMMAR_SEQUENCE(builder, quote, json_text_characters(builder, 0, GRAMMAR_UNBOUNDED), quote),
      .number = number(builder),
      .integer = number_range_integers(builder, (struct number_bound){0}, (struct number_bound){0}),
      .boolean = GRAMMAR_CHOICE(builder, grammar_text(builder, "true"), grammar_text(builder, "false")),
      .null = grammar_text(builder, "null"),
      .object = grammar_rule(builder, "object"),
      .array = grammar_rule(builder, "array"),
      .any = grammar_rule(builder, "value"),
  };
  grammar_expression member = GRAMMAR_SEQUENCE(builder, values.string, values.colon, values.any);
  grammar_define(builder, values.object,
                 list(&values, values.open_object, member, values.close_object, values.empty_object));
  grammar_define(builder, values.array,
                 list(&values, values.open_array, values.any, values.close_array, values.empty_array));
  grammar_define(
      builder, values.any,
      GRAMMAR_CHOICE(builder, values.object, values.array, values.string, values.number, values.boolean, values.null));
  return values;
}

grammar_expression json_value_string(const struct json_values *values, const char *text, size_t length) {
  grammar_expression quote = grammar_text(values->builder, "\"");
  return GRAMMAR_SEQUENCE(values->builder, quote, json_text_literal(values->builder, text, length), quote);
}

grammar_expression json_value_key(const struct json_values *values, const char *name) {
  return GRAMMAR_SEQUENCE(values->builder, json_value_string(values, name, strlen(name)), values->colon);
}

static grammar_expression literal(const struct json_values *values, const json_t *value, unsigned depth);

static grammar_expression literal_members(const struct json_values *values, const json_t *container, unsigned depth) {
  struct grammar_builder *builder = values->builder;
  bool is_object = json_is_object(container);
  size_t count = is_object ? json_object_size(container) : json_array_size(container), at = 0;
  if (count == 0) return is_object ? values->empty_object : values->empty_array;
  grammar_expression *parts = calloc(2 * count + 1, sizeof *parts);
  if (!parts) return grammar_fail(builder, KJ_MEMORY, "out of memory for a JSON value");
  const char *name = NULL;
  json_t *member = NULL;
  size_t index = 0;
  parts[at++] = is_object ? values->open_object : values->open_array;
  if (is_object) {
    /* Jansson's iteration wants a pointer to what it does not change. */
    json_object_foreach((json_t *)(uintptr_t)container, name, member) {
      if (at > 1) parts[at++] = values->comma;
      parts[at++] = GRAMMAR_SEQUENCE(builder, json_value_key(values, name), literal(values, member, depth));
    }
  } else {
    json_array_foreach(container, index, member) {
      if (at > 1) parts[at++] = values->comma;
      parts[at++] = literal(values, member, depth);
    }
  }
  parts[at++] = is_object ? values->close_object : values->close_array;
  grammar_expression whole = grammar_sequence(builder, parts, at);
  free(parts);
  return whole;
}

static grammar_expression literal_real(const struct json_values *values, double value) {
  char text[40];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  return grammar_text(values->builder, text);
}

static grammar_expression literal(const struct json_values *values, const json_t *value, unsigned depth) {
  struct grammar_builder *builder = values->builder;
  if (depth == LITERAL_DEPTH)
    return grammar_fail(builder, KJ_UNSUPPORTED, "a value is nested more than %d levels deep", LITERAL_DEPTH);
  char text[32];
  switch (json_typeof(value)) {
    case JSON_OBJECT:
    case JSON_ARRAY:
      return literal_members(values, value, depth + 1);
    case JSON_STRING:
      return json_value_string(values, json_string_value(value), json_string_length(value));
    case JSON_INTEGER:
      snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
      return grammar_text(builder, text);
    case JSON_REAL:
      return literal_real(values, json_real_value(value));
    default:
      return grammar_text(builder, json_is_null(value) ? "null" : json_is_true(value) ? "true" : "false");
  }
}

grammar_expression json_value_literal(const struct json_values *values, const json_t *value) {
  return literal(values, value, 0);
}

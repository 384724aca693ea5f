#include "grammar/pattern.h"

#include <string.h>

#include "grammar/json_text.h"
#include "grammar/part_list.h"
#include "grammar/pattern_class.h"
#include "text/utf8.h"

enum { MAX_NESTING = 200 };

struct pattern {
  struct pattern_text text;
  enum pattern_place place;
  struct part_list parts;
  unsigned nesting;
};

static struct grammar_builder *builder_of(struct pattern *pattern) { return pattern->text.builder; }

static grammar_expression class_of(struct pattern *pattern, const struct code_range *ranges, size_t count,
                                   bool negated) {
  return pattern->place == PATTERN_IN_JSON_STRING ? json_text_class(builder_of(pattern), ranges, count, negated)
                                                  : grammar_class(builder_of(pattern), ranges, count, negated);
}

/* Any text, where the pattern is not anchored. */
static grammar_expression anything(struct pattern *pattern) {
  struct grammar_builder *builder = builder_of(pattern);
  if (pattern->place == PATTERN_IN_JSON_STRING) return json_text_characters(builder, 0, GRAMMAR_UNBOUNDED);
  return grammar_repeat(builder, grammar_class(builder, NULL, 0, true), 0, GRAMMAR_UNBOUNDED);
}

static grammar_expression character(struct pattern *pattern, uint32_t code_point) {
  char bytes[4];
  size_t length = utf8_write(code_point, bytes);
  return pattern->place == PATTERN_IN_JSON_STRING ? json_text_literal(builder_of(pattern), bytes, length)
                                                  : grammar_bytes(builder_of(pattern), bytes, length);
}

static grammar_expression read_escape(struct pattern *pattern) {
  struct pattern_set set = {0};
  char next = pattern_peek(&pattern->text, 1);
  if (next == 'b' || next == 'B')
    return pattern_fail(&pattern->text, KJ_UNSUPPORTED, "word boundaries (\\b and \\B) are not supported");
  if ((next >= '1' && next <= '9') || next == 'k')
    return pattern_fail(&pattern->text, KJ_UNSUPPORTED, "backreferences are not supported");
  uint32_t code_point = pattern_read_escape(&pattern->text, &set);
  grammar_expression result =
      set.count > 0 ? class_of(pattern, set.ranges, set.count, false) : character(pattern, code_point);
  pattern_set_free(&set);
  return result;
}

static grammar_expression read_class(struct pattern *pattern) {
  struct pattern_set set = {0};
  bool negated = pattern_read_class(&pattern->text, &set);
  grammar_expression result = class_of(pattern, set.ranges, set.count, negated);
  pattern_set_free(&set);
  return result;
}

/* A quantifier that begins at the position; false where there is none. A { that begins none is itself. */
static bool read_bounds(struct pattern *pattern, uint32_t *minimum, uint32_t *maximum) {
  struct pattern_text *text = &pattern->text;
  size_t begin = text->at;
  *minimum = 0;
  *maximum = GRAMMAR_UNBOUNDED;
  if (pattern_take(text, '*')) return true;
  if (pattern_take(text, '+')) {
    *minimum = 1;
    return true;
  }
  if (pattern_take(text, '?')) {
    *maximum = 1;
    return true;
  }
  if (!pattern_take(text, '{')) return false;
  if (pattern_read_number(text, minimum)) {
    *maximum = *minimum;
    if (pattern_take(text, ',') && !pattern_read_number(text, maximum)) *maximum = GRAMMAR_UNBOUNDED;
    if (pattern_take(text, '}')) return true;
  }
  text->at = begin;
  return false;
}

static grammar_expression read_quantifier(struct pattern *pattern, grammar_expression part) {
  uint32_t minimum, maximum;
  if (!read_bounds(pattern, &minimum, &maximum)) return part;
  pattern_take(&pattern->text, '?'); /* lazy: the same texts */
  part = grammar_repeat(builder_of(pattern), part, minimum, maximum);
  if (read_bounds(pattern, &minimum, &maximum))
    return pattern_fail(&pattern->text, KJ_INVALID, "a quantifier behind a quantifier");
  return part;
}

static grammar_expression read_choice(struct pattern *pattern, bool whole);

static grammar_expression read_group(struct pattern *pattern) {
  struct pattern_text *text = &pattern->text;
  text->at++;
  if (pattern_take(text, '?')) {
    char kind = pattern_peek(text, 0), next = pattern_peek(text, 1);
    if (kind == '=' || kind == '!') return pattern_fail(text, KJ_UNSUPPORTED, "lookahead is not supported");
    if (kind == '<' && (next == '=' || next == '!'))
      return pattern_fail(text, KJ_UNSUPPORTED, "lookbehind is not supported");
    if (kind == '<') {
      while (pattern_peek(text, 0) && pattern_peek(text, 0) != '>') text->at++;
      if (!pattern_take(text, '>')) return pattern_fail(text, KJ_INVALID, "the name of a group does not end");
    } else if (!pattern_take(text, ':')) {
      return pattern_fail(text, KJ_UNSUPPORTED, "flags and other kinds of groups are not supported");
    }
  }
  if (++pattern->nesting > MAX_NESTING) return pattern_fail(text, KJ_UNSUPPORTED, "groups more than 200 deep");
  grammar_expression group = read_choice(pattern, false);
  pattern->nesting--;
  if (!pattern_take(text, ')')) return pattern_fail(text, KJ_INVALID, "a group is not closed");
  return group;
}

static grammar_expression read_atom(struct pattern *pattern) {
  static const struct code_range LINE_ENDS[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  struct pattern_text *text = &pattern->text;
  char next = pattern_peek(text, 0);
  if (next == '(') return read_group(pattern);
  if (next == '[') return read_class(pattern);
  if (next == '\\') return read_escape(pattern);
  if (next == '^' || next == '$')
    return pattern_fail(text, KJ_UNSUPPORTED,
                        "^ and $ are supported where an alternative of the whole pattern begins and ends");
  uint32_t minimum, maximum;
  if (read_bounds(pattern, &minimum, &maximum))
    return pattern_fail(text, KJ_INVALID, "a quantifier with nothing before it");
  if (pattern_take(text, '.')) return class_of(pattern, LINE_ENDS, 3, true);
  return character(pattern, pattern_read_character(text));
}

/* `whole`: an alternative of the pattern itself, not of a group. */
static grammar_expression read_alternative(struct pattern *pattern, bool whole) {
  struct pattern_text *text = &pattern->text;
  size_t begin = pattern->parts.count;
  bool anchored = false;
  if (whole && !pattern_take(text, '^')) part_list_push(&pattern->parts, text->builder, anything(pattern));
  for (;;) {
    char next = pattern_peek(text, 0), second = pattern_peek(text, 1);
    if (!next || next == '|' || next == ')') break;
    if (whole && next == '$' && (!second || second == '|')) {
      text->at++;
      anchored = true;
      break;
    }
    grammar_expression atom = read_atom(pattern);
    part_list_push(&pattern->parts, text->builder, read_quantifier(pattern, atom));
  }
  if (whole && !anchored) part_list_push(&pattern->parts, text->builder, anything(pattern));
  return part_list_sequence(&pattern->parts, text->builder, begin);
}

static grammar_expression read_choice(struct pattern *pattern, bool whole) {
  size_t begin = pattern->parts.count;
  do {
    grammar_expression part = read_alternative(pattern, whole);
    part_list_push(&pattern->parts, builder_of(pattern), part);
  } while (pattern_take(&pattern->text, '|'));
  return part_list_choice(&pattern->parts, builder_of(pattern), begin);
}

grammar_expression pattern_compile(struct grammar_builder *builder, const char *text, size_t length,
                                   enum pattern_place place) {
  struct pattern pattern = {.text = {.text = text, .length = length, .builder = builder}, .place = place};
  size_t offset;
  if (length > PATTERN_MAX_LENGTH)
    return grammar_fail(builder, KJ_UNSUPPORTED, "a pattern of %zu bytes is longer than %d, the most", length,
                        (int)PATTERN_MAX_LENGTH);
  if (!utf8_valid(text, length, &offset))
    return grammar_fail(builder, KJ_INVALID, "the pattern is not UTF-8 at byte %zu", offset);
  grammar_expression result = read_choice(&pattern, true);
  if (pattern.text.at < length) result = pattern_fail(&pattern.text, KJ_INVALID, "a ) or NUL without a beginning");
  part_list_free(&pattern.parts);
  return result;
}

#include "grammar/gbnf.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "grammar/part_list.h"
#include "text/utf8.h"

enum { MAX_NESTING = 200, MAX_NAME = 200 };

struct rule {
  const char *name;
  size_t length, used_at; /* where it was named first */
  grammar_expression expression;
  bool defined;
};

struct parser {
  const char *text;
  size_t length, at;
  struct grammar_builder *builder;
  struct rule *rules; /* hash table with linear probing; no name: empty */
  size_t rule_count, slot_count;
  struct part_list parts;
  unsigned nesting;
};

/* Line and column of an offset, and the message; the first failure counts. */
static grammar_expression fail_at(struct parser *parser, size_t at, enum kj_code code, const char *message) {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < at && i < parser->length; i++) {
    unsigned char byte = (unsigned char)parser->text[i];
    if (byte == '\n') {
      line++;
      column = 1;
    } else if ((byte & 0xc0) != 0x80) {
      column++;
    }
  }
  return grammar_fail(parser->builder, code, "line %zu, column %zu: %s", line, column, message);
}

static grammar_expression fail(struct parser *parser, enum kj_code code, const char *message) {
  return fail_at(parser, parser->at, code, message);
}

/* 0 at the end and after a failure, which both end every loop. */
static char peek(const struct parser *parser) {
  return parser->at < parser->length && !grammar_failed(parser->builder) ? parser->text[parser->at] : 0;
}

static bool take(struct parser *parser, char byte) {
  if (peek(parser) != byte) return false;
  parser->at++;
  return true;
}

static void skip_space(struct parser *parser, bool lines) {
  for (;;) {
    char byte = peek(parser);
    if (byte == '#')
      while (peek(parser) && peek(parser) != '\n') parser->at++;
    else if (byte == ' ' || byte == '\t' || (lines && (byte == '\n' || byte == '\r')))
      parser->at++;
    else
      return;
  }
}

static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

static bool is_name(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || is_digit(byte) || byte == '-' || byte == '_';
}

static size_t name_length(const struct parser *parser) {
  size_t end = parser->at;
  while (end < parser->length && is_name(parser->text[end])) end++;
  return end - parser->at;
}

static size_t slot_of(const struct rule *rules, size_t slot_count, const char *name, size_t length) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)name[i]) * 0x100000001b3u;
  size_t slot = (hash ^ hash >> 32) & (slot_count - 1);
  while (rules[slot].name && (rules[slot].length != length || memcmp(rules[slot].name, name, length) != 0))
    slot = (slot + 1) & (slot_count - 1);
  return slot;
}

/* The rule of the name that begins here, made when it is met first; NULL after a failure. */
static struct rule *read_name(struct parser *parser) {
  size_t length = name_length(parser);
  const char *name = parser->text + parser->at;
  if (length > MAX_NAME) {
    fail(parser, KJ_UNSUPPORTED, "a name of more than 200 characters");
    return NULL;
  }
  if ((parser->rule_count + 1) * 2 > parser->slot_count) {
    size_t wanted = parser->slot_count ? parser->slot_count * 2 : 64;
    struct rule *grown = calloc(wanted, sizeof *grown);
    if (!grown) {
      grammar_fail(parser->builder, KJ_MEMORY, "out of memory while reading a grammar");
      return NULL;
    }
    for (size_t i = 0; i < parser->slot_count; i++) {
      const struct rule *rule = &parser->rules[i];
      if (rule->name) grown[slot_of(grown, wanted, rule->name, rule->length)] = *rule;
    }
    free(parser->rules);
    parser->rules = grown;
    parser->slot_count = wanted;
  }
  struct rule *rule = &parser->rules[slot_of(parser->rules, parser->slot_count, name, length)];
  if (!rule->name) {
    char copy[MAX_NAME + 1];
    memcpy(copy, name, length);
    copy[length] = 0;
    *rule = (struct rule){name, length, parser->at, grammar_rule(parser->builder, copy), false};
    parser->rule_count++;
  }
  parser->at += length;
  return grammar_failed(parser->builder) ? NULL : rule;
}

static uint32_t read_hex(struct parser *parser, unsigned digits) {
  uint32_t value = 0;
  for (unsigned i = 0; i < digits; i++) {
    char byte = peek(parser), lower = (char)(byte | 0x20);
    if (!is_digit(byte) && (lower < 'a' || lower > 'f')) {
      fail(parser, KJ_INVALID, "a hexadecimal digit is missing here");
      return 0;
    }
    value = value << 4 | (uint32_t)(is_digit(byte) ? byte - '0' : lower - 'a' + 10);
    parser->at++;
  }
  if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) {
    fail(parser, KJ_INVALID, "the number before this is no character of Unicode");
    return 0;
  }
  return value;
}

/* One character of a literal or class. */
static uint32_t read_character(struct parser *parser) {
  uint32_t code_point;
  size_t length = utf8_read(parser->text + parser->at, parser->length - parser->at, &code_point);
  if (length == 0) { /* the text is valid, so this is its end */
    fail(parser, KJ_INVALID, "the grammar ends within a literal or class");
    return 0;
  }
  parser->at += length;
  if (code_point != '\\') return code_point;
  char escape = peek(parser);
  if (escape) parser->at++;
  switch (escape) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'x':
      return read_hex(parser, 2);
    case 'u':
      return read_hex(parser, 4);
    case 'U':
      return read_hex(parser, 8);
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
      return (uint32_t)escape;
    default:
      parser->at--;
      fail(parser, KJ_INVALID,
           "an unknown escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xHH \\uHHHH \\UHHHHHHHH");
      return 0;
  }
}

static grammar_expression read_literal(struct parser *parser) {
  struct buffer bytes = {0};
  parser->at++;
  while (!grammar_failed(parser->builder) && !take(parser, '"')) {
    char written[4];
    uint32_t code_point = read_character(parser);
    buffer_append(&bytes, written, utf8_write(code_point, written));
  }
  if (buffer_failed(&bytes)) grammar_fail(parser->builder, KJ_MEMORY, "out of memory while reading a grammar");
  grammar_expression literal = grammar_bytes(parser->builder, buffer_text(&bytes), bytes.length);
  buffer_free(&bytes);
  return literal;
}

static grammar_expression read_class(struct parser *parser) {
  struct buffer ranges = {0};
  parser->at++;
  bool negated = take(parser, '^');
  while (!grammar_failed(parser->builder) && !take(parser, ']')) {
    size_t begin = parser->at;
    struct code_range range;
    range.first = range.last = read_character(parser);
    if (peek(parser) == '-' && parser->at + 1 < parser->length && parser->text[parser->at + 1] != ']') {
      parser->at++;
      range.last = read_character(parser);
      if (range.first > range.last) fail_at(parser, begin, KJ_INVALID, "a range whose end comes before its beginning");
    }
    buffer_append(&ranges, &range, sizeof range);
  }
  if (buffer_failed(&ranges)) grammar_fail(parser->builder, KJ_MEMORY, "out of memory while reading a grammar");
  grammar_expression class = grammar_class(parser->builder, (const struct code_range *)(const void *)ranges.data,
                                           ranges.length / sizeof(struct code_range), negated);
  buffer_free(&ranges);
  return class;
}

static uint32_t read_number(struct parser *parser) {
  uint64_t value = 0;
  if (!is_digit(peek(parser))) fail(parser, KJ_INVALID, "a number is missing here");
  while (is_digit(peek(parser))) {
    value = value * 10 + (uint64_t)(parser->text[parser->at++] - '0');
    if (value > GRAMMAR_MAX_REPEAT) fail(parser, KJ_UNSUPPORTED, "a repetition of more than 16777216 times");
  }
  return (uint32_t)value;
}

/* What may stand behind an element: * + ? and numbers in braces. */
static grammar_expression read_repeats(struct parser *parser, grammar_expression part) {
  for (;;) {
    uint32_t minimum = 0, maximum = GRAMMAR_UNBOUNDED;
    if (take(parser, '*')) {
      minimum = 0;
    } else if (take(parser, '+')) {
      minimum = 1;
    } else if (take(parser, '?')) {
      maximum = 1;
    } else if (take(parser, '{')) {
      size_t begin = parser->at;
      skip_space(parser, false);
      if (peek(parser) != ',') minimum = maximum = read_number(parser);
      skip_space(parser, false);
      if (take(parser, ',')) {
        skip_space(parser, false);
        maximum = is_digit(peek(parser)) ? read_number(parser) : GRAMMAR_UNBOUNDED;
        skip_space(parser, false);
      }
      if (!take(parser, '}')) fail(parser, KJ_INVALID, "a } is missing here");
      if (minimum > maximum) fail_at(parser, begin, KJ_INVALID, "a repetition whose maximum is below its minimum");
    } else {
      return part;
    }
    part = grammar_repeat(parser->builder, part, minimum, maximum);
  }
}

static grammar_expression read_choice(struct parser *parser, bool nested);

static grammar_expression read_group(struct parser *parser) {
  size_t begin = parser->at++;
  if (++parser->nesting > MAX_NESTING) return fail(parser, KJ_UNSUPPORTED, "groups more than 200 deep");
  skip_space(parser, true);
  grammar_expression group = read_choice(parser, true);
  parser->nesting--;
  if (!take(parser, ')'))
    return peek(parser) ? fail(parser, KJ_INVALID, "a ) or an element is missing here")
                        : fail_at(parser, begin, KJ_INVALID, "this group is not closed");
  return group;
}

/* Elements up to what cannot be one. */
static grammar_expression read_sequence(struct parser *parser, bool nested) {
  size_t begin = parser->parts.count;
  for (;;) {
    char byte = peek(parser);
    grammar_expression part;
    if (byte == '"')
      part = read_literal(parser);
    else if (byte == '[')
      part = read_class(parser);
    else if (byte == '(')
      part = read_group(parser);
    else if (byte == '.' && ++parser->at)
      part = grammar_class(parser->builder, NULL, 0, true);
    else if (byte == '<' || byte == '!')
      part =
          fail(parser, KJ_UNSUPPORTED, "terms of tokens (<…> and !<…>) are not supported: write the text of the token");
    else if (is_name(byte)) {
      const struct rule *rule = read_name(parser);
      part = rule ? rule->expression : UINT32_MAX;
    } else {
      return part_list_sequence(&parser->parts, parser->builder, begin);
    }
    skip_space(parser, nested);
    part = read_repeats(parser, part);
    part_list_push(&parser->parts, parser->builder, part);
    skip_space(parser, nested);
  }
}

static grammar_expression read_choice(struct parser *parser, bool nested) {
  size_t begin = parser->parts.count;
  do {
    skip_space(parser, nested || parser->parts.count > begin);
    grammar_expression part = read_sequence(parser, nested);
    part_list_push(&parser->parts, parser->builder, part);
  } while (take(parser, '|'));
  return part_list_choice(&parser->parts, parser->builder, begin);
}

static void read_rule(struct parser *parser) {
  size_t begin = parser->at;
  if (!is_name(peek(parser))) {
    fail(parser, KJ_INVALID, "the name of a rule is missing here");
    return;
  }
  size_t length = name_length(parser);
  struct rule *rule = read_name(parser);
  skip_space(parser, false);
  if (!rule) return;
  if (rule->defined) {
    fail_at(parser, begin, KJ_INVALID, "this rule is defined twice");
    return;
  }
  rule->defined = true;
  grammar_expression expression = rule->expression; /* the table may move */
  if (parser->length - parser->at < 3 || memcmp(parser->text + parser->at, "::=", 3) != 0) {
    fail(parser, KJ_INVALID, length ? "::= is missing here" : "the name of a rule is missing here");
    return;
  }
  parser->at += 3;
  skip_space(parser, true);
  grammar_define(parser->builder, expression, read_choice(parser, false));
  if (peek(parser) && peek(parser) != '\n' && peek(parser) != '\r')
    fail(parser, KJ_INVALID, "an element, | or the end of the line is missing here");
}

static void check_rules(struct parser *parser) {
  const struct rule *first = NULL;
  for (size_t i = 0; i < parser->slot_count; i++) {
    const struct rule *rule = &parser->rules[i];
    if (rule->name && !rule->defined && (!first || rule->used_at < first->used_at)) first = rule;
  }
  if (first) fail_at(parser, first->used_at, KJ_INVALID, "this rule is used and not defined");
}

grammar_expression gbnf_expression(struct grammar_builder *builder, const char *text, size_t length) {
  struct parser parser = {.builder = builder, .text = text, .length = length};
  grammar_expression root = UINT32_MAX;
  size_t offset;
  if (length > GBNF_MAX_LENGTH)
    return grammar_fail(builder, KJ_UNSUPPORTED, "a grammar of %zu bytes is longer than %d, the most", length,
                        (int)GBNF_MAX_LENGTH);
  if (!utf8_valid(text, length, &offset))
    return grammar_fail(builder, KJ_INVALID, "the grammar is not UTF-8 at byte %zu", offset);
  skip_space(&parser, true);
  while (parser.at < length && !grammar_failed(builder)) {
    if (!peek(&parser)) fail(&parser, KJ_INVALID, "a NUL character");
    read_rule(&parser);
    skip_space(&parser, true);
  }
  check_rules(&parser);
  if (parser.slot_count > 0) {
    const struct rule *rule = &parser.rules[slot_of(parser.rules, parser.slot_count, "root", 4)];
    if (rule->name) root = rule->expression;
  }
  if (root == UINT32_MAX) fail(&parser, KJ_INVALID, "the grammar has no rule \"root\"");
  free(parser.rules);
  part_list_free(&parser.parts);
  return root;
}

int gbnf_compile(const char *text, size_t length, struct grammar **grammar, struct kj_error *error) {
  struct grammar_builder *builder = NULL;
  *grammar = NULL;
  int code = grammar_builder_create(&builder, error);
  if (code) return code;
  code = grammar_finish(builder, gbnf_expression(builder, text, length), grammar, error);
  grammar_builder_free(builder);
  return code;
}

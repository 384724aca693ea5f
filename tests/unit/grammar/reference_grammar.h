/* Random small grammars and a naive matcher of them, which shares nothing with the one that is tested: it tries one way
 * after the other, with what follows as a list of continuations. All texts are short. */
#ifndef KAIJU_TESTS_REFERENCE_GRAMMAR_H
#define KAIJU_TESTS_REFERENCE_GRAMMAR_H

#include <stdbool.h>
#include <stdlib.h>

#include "grammar/grammar.h"
#include "text/utf8.h"
#include "unit/unit.h"

enum reference_kind { BYTES, CLASS, SEQUENCE, CHOICE, REPEAT, RULE, UNTIL, WITHOUT };
enum { NODES = 256, PARTS = 4, RULES = 3 };

struct reference_node {
  enum reference_kind kind;
  char bytes[16];
  size_t length;
  struct code_range ranges[3];
  bool negated, nullable;
  int parts[PARTS], count; /* numbers of nodes; of a rule: parts[0], -1 while it has none */
  uint32_t minimum, maximum;
  grammar_expression expression;
};

struct reference {
  struct reference_node nodes[NODES];
  int count, rules[RULES], root;
  uint64_t random;
  struct grammar_builder *builder;
  long work;
};

static uint32_t reference_random(struct reference *reference, uint32_t below) {
  reference->random = reference->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((reference->random >> 33) % below);
}

struct continuation {
  int node; /* or -1: a round of the repetition `round` ends */
  int round;
  uint32_t rounds; /* complete ones */
  size_t began;    /* where the round began */
  const struct continuation *next;
};

static bool in_class(const struct reference_node *node, uint32_t code_point) {
  bool inside = false;
  for (int i = 0; i < node->count; i++)
    inside = inside || (code_point >= node->ranges[i].first && code_point <= node->ranges[i].last);
  return inside != node->negated && (code_point < 0xd800 || code_point > 0xdfff);
}

/* Do the bytes begin a character of the class? */
static bool begins_class(const struct reference_node *node, const char *bytes, size_t length) {
  unsigned char lead = (unsigned char)bytes[0];
  unsigned bits = lead < 0xc2 ? 0 : lead < 0xe0 ? 6 : lead < 0xf0 ? 12 : lead < 0xf5 ? 18 : 0;
  if (6 * (length - 1) >= bits) return false;
  uint32_t first = (uint32_t)(lead & (bits == 6 ? 0x1f : bits == 12 ? 0x0f : 0x07)) << bits;
  for (size_t i = 1; i < length; i++) {
    bits -= 6;
    first |= (uint32_t)((unsigned char)bytes[i] & 0x3f) << bits;
  }
  for (uint32_t code_point = first; code_point < first + (1u << bits) && code_point <= 0x10ffff; code_point++) {
    char written[4];
    if (!in_class(node, code_point)) continue;
    size_t count = utf8_write(code_point, written);
    if (count > length && !memcmp(written, bytes, length)) return true;
  }
  return false;
}

/* The bytes of any one character at the beginning; 0: none; -1: the beginning of one. */
static int any_character(const char *text, size_t length) {
  static const struct reference_node any = {.kind = CLASS, .negated = true};
  uint32_t code_point;
  size_t size = utf8_read(text, length, &code_point);
  if (size > 0) return (int)size;
  return length > 0 && length < 4 && begins_class(&any, text, length) ? -1 : 0;
}

static bool reference_run(struct reference *reference, const struct continuation *todo, const char *text, size_t at,
                          size_t length, bool complete);

static bool run_text(struct reference *reference, const struct reference_node *node, const struct continuation *next,
                     const char *text, size_t at, size_t length, bool complete) {
  for (size_t end = at;;) {
    bool stops = end >= at + node->length && !memcmp(text + end - node->length, node->bytes, node->length);
    if (stops) return node->kind == UNTIL && reference_run(reference, next, text, end, length, complete);
    if (node->kind == WITHOUT && reference_run(reference, next, text, end, length, complete)) return true;
    if (end == length) return !complete;
    int size = any_character(text + end, length - end);
    if (size < 0) {
      return !complete;
    }
    if (size == 0) return false;
    end += (size_t)size;
  }
}

static bool run_rounds(struct reference *reference, int number, uint32_t rounds, const struct continuation *next,
                       const char *text, size_t at, size_t length, bool complete) {
  const struct reference_node *node = &reference->nodes[number];
  uint32_t minimum = reference->nodes[node->parts[0]].nullable ? 0 : node->minimum;
  if (rounds >= minimum && reference_run(reference, next, text, at, length, complete)) return true;
  if (rounds >= node->maximum) return false;
  struct continuation end = {-1, number, rounds, at, next}, body = {node->parts[0], 0, 0, 0, &end};
  return reference_run(reference, &body, text, at, length, complete);
}

/* Is there a way on from here that takes the whole text (complete), or all of it and more? */
static bool reference_run(struct reference *reference, const struct continuation *todo, const char *text, size_t at,
                          size_t length, bool complete) {
  if (++reference->work > 2000000) return false; /* the caller looks at it */
  if (at == length && !complete) return true;
  if (!todo) return at == length;
  if (todo->node < 0) /* a round without a byte leads nowhere new */
    return at > todo->began &&
           run_rounds(reference, todo->round, todo->rounds + 1, todo->next, text, at, length, complete);
  const struct reference_node *node = &reference->nodes[todo->node];
  struct continuation parts[PARTS];
  switch (node->kind) {
    case BYTES: {
      size_t left = length - at, shorter = left < node->length ? left : node->length;
      if (memcmp(text + at, node->bytes, shorter)) return false;
      if (left < node->length) return !complete;
      return reference_run(reference, todo->next, text, at + node->length, length, complete);
    }
    case CLASS: {
      uint32_t code_point;
      size_t size = utf8_read(text + at, length - at, &code_point);
      if (size > 0)
        return in_class(node, code_point) && reference_run(reference, todo->next, text, at + size, length, complete);
      return !complete && at < length && length - at < 4 && begins_class(node, text + at, length - at);
    }
    case SEQUENCE:
      for (int i = node->count; i-- > 0;)
        parts[i] = (struct continuation){node->parts[i], 0, 0, 0, i + 1 < node->count ? &parts[i + 1] : todo->next};
      return reference_run(reference, node->count > 0 ? parts : todo->next, text, at, length, complete);
    case CHOICE:
    case RULE:
      for (int i = 0; i < (node->kind == RULE ? 1 : node->count); i++) {
        parts[0] = (struct continuation){node->parts[i], 0, 0, 0, todo->next};
        if (reference_run(reference, parts, text, at, length, complete)) return true;
      }
      return false;
    case REPEAT:
      return run_rounds(reference, todo->node, 0, todo->next, text, at, length, complete);
    default:
      return run_text(reference, node, todo->next, text, at, length, complete);
  }
}

static bool reference_matches(struct reference *reference, const char *text, size_t length, bool complete) {
  struct continuation root = {reference->root, 0, 0, 0, NULL};
  reference->work = 0;
  return reference_run(reference, &root, text, 0, length, complete);
}

static int reference_add(struct reference *reference, struct reference_node node) {
  assert_true(reference->count < NODES);
  reference->nodes[reference->count] = node;
  return reference->count++;
}

/* Literals are of these characters, which share beginnings of their encodings. */
static const char *const CHARACTERS[] = {"a",  "b",        "c",        "\"",           "\\",
                                         "\n", "\xc3\xa9", "\xc3\xa8", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
enum { CHARACTER_COUNT = 10 };

static int random_bytes(struct reference *reference, enum reference_kind kind, int least) {
  struct reference_node node = {.kind = kind};
  int count = least + (int)reference_random(reference, 3);
  for (int i = 0; i < count; i++) {
    /* Ends of texts repeat themselves, so that their beginnings matter. */
    const char *character = CHARACTERS[reference_random(reference, kind == BYTES ? CHARACTER_COUNT : 2)];
    memcpy(node.bytes + node.length, character, strlen(character));
    node.length += strlen(character);
  }
  node.nullable = node.length == 0 || kind == WITHOUT;
  if (kind == UNTIL) node.nullable = false;
  node.expression = kind == UNTIL     ? grammar_text_until(reference->builder, node.bytes, node.length)
                    : kind == WITHOUT ? grammar_text_without(reference->builder, node.bytes, node.length)
                                      : grammar_bytes(reference->builder, node.bytes, node.length);
  return reference_add(reference, node);
}

static int random_class(struct reference *reference) {
  static const struct code_range RANGES[] = {{'a', 'b'},      {'a', 'a'},   {'c', 'c'},       {'"', '"'},
                                             {0, 0x1f},       {'\\', '\\'}, {0xe8, 0xe9},     {0xe9, 0x20ac},
                                             {0x7f, 0x10fff}, {'b', 0xff},  {0x20, 0x10ffff}, {0x1f600, 0x1f600}};
  struct reference_node node = {.kind = CLASS, .count = 1 + (int)reference_random(reference, 3)};
  node.negated = reference_random(reference, 4) == 0;
  for (int i = 0; i < node.count; i++) node.ranges[i] = RANGES[reference_random(reference, 12)];
  bool any = false;
  for (uint32_t i = 0; i <= 0x10ffff && !any; i++) any = in_class(&node, i);
  if (!any) node.negated = false;
  node.expression = grammar_class(reference->builder, node.ranges, (size_t)node.count, node.negated);
  return reference_add(reference, node);
}

/* `first`: whether a text can begin here, where a rule would be left recursion. */
static int random_node(struct reference *reference, int depth, bool first) {
  uint32_t way = reference_random(reference, depth > 0 ? 12 : 4);
  struct reference_node node = {0};
  grammar_expression parts[PARTS];
  if (way < 2) return random_bytes(reference, BYTES, way == 0 ? 1 : (int)reference_random(reference, 2));
  if (way < 4) return random_class(reference);
  if (way == 4) return random_bytes(reference, reference_random(reference, 2) ? UNTIL : WITHOUT, 1);
  if (way == 5 && !first) return reference->rules[reference_random(reference, RULES)];
  if (way < 8) {
    static const uint32_t BOUNDS[][2] = {
        {0, 1}, {0, GRAMMAR_UNBOUNDED}, {1, GRAMMAR_UNBOUNDED}, {2, GRAMMAR_UNBOUNDED}, {0, 2}, {2, 3}, {1, 6}, {5, 7},
        {3, 3}};
    const uint32_t *bounds = BOUNDS[reference_random(reference, 9)];
    node = (struct reference_node){.kind = REPEAT, .count = 1, .minimum = bounds[0], .maximum = bounds[1]};
    node.parts[0] = random_node(reference, depth - 1, first);
    node.nullable = node.minimum == 0 || reference->nodes[node.parts[0]].nullable;
    node.expression =
        grammar_repeat(reference->builder, reference->nodes[node.parts[0]].expression, bounds[0], bounds[1]);
    return reference_add(reference, node);
  }
  node.kind = way < 10 ? SEQUENCE : CHOICE;
  node.count = 1 + (int)reference_random(reference, PARTS);
  node.nullable = node.kind == SEQUENCE;
  for (int i = 0; i < node.count; i++) {
    node.parts[i] = random_node(reference, depth - 1, first);
    const struct reference_node *part = &reference->nodes[node.parts[i]];
    parts[i] = part->expression;
    if (node.kind == SEQUENCE)
      node.nullable = node.nullable && part->nullable, first = first && part->nullable;
    else
      node.nullable = node.nullable || part->nullable;
  }
  node.expression = node.kind == SEQUENCE ? grammar_sequence(reference->builder, parts, (size_t)node.count)
                                          : grammar_choice(reference->builder, parts, (size_t)node.count);
  return reference_add(reference, node);
}

/* A grammar from the seed; both sides of it. Rules begin with a character and may refer to all rules after it; each has
 * a way that ends. */
static struct grammar *reference_make(struct reference *reference, uint64_t seed) {
  *reference = (struct reference){.random = seed};
  assert_int_equal(grammar_builder_create(&reference->builder, NULL), 0);
  for (int i = 0; i < RULES; i++) {
    struct reference_node rule = {.kind = RULE, .count = 1};
    rule.expression = grammar_rule(reference->builder, "rule");
    reference->rules[i] = reference_add(reference, rule);
  }
  for (int i = 0; i < RULES; i++) {
    struct reference_node way = {.kind = SEQUENCE, .count = 2}, rule = {.kind = CHOICE, .count = 2};
    grammar_expression parts[2];
    way.parts[0] = random_bytes(reference, BYTES, 1);
    way.parts[1] = random_node(reference, 2, false);
    for (int j = 0; j < 2; j++) parts[j] = reference->nodes[way.parts[j]].expression;
    way.expression = grammar_sequence(reference->builder, parts, 2);
    rule.parts[0] = reference_add(reference, way);
    rule.parts[1] = random_bytes(reference, BYTES, 1);
    for (int j = 0; j < 2; j++) parts[j] = reference->nodes[rule.parts[j]].expression;
    rule.expression = grammar_choice(reference->builder, parts, 2);
    grammar_define(reference->builder, reference->nodes[reference->rules[i]].expression, rule.expression);
    reference->nodes[reference->rules[i]].parts[0] = reference_add(reference, rule);
  }
  reference->root = random_node(reference, 4, false);
  struct grammar *grammar;
  struct kj_error error = {0};
  if (grammar_finish(reference->builder, reference->nodes[reference->root].expression, &grammar, &error))
    fail_msg("%s", error.message);
  grammar_builder_free(reference->builder);
  return grammar;
}

/* Repetitions of a class that nearly all tokens consist of, counted or not, next to others that its characters may
 * belong to as well. */
static struct grammar *reference_make_runs(struct reference *reference, uint64_t seed) {
  static const struct code_range ABSENT[] = {{0x7f, 0x7f}, {0x7f, 0x7f}, {'c', 'c'}};
  static const uint32_t BOUNDS[][2] = {{0, 2},  {1, 3}, {2, 4}, {0, 1}, {0, GRAMMAR_UNBOUNDED}, {3, GRAMMAR_UNBOUNDED},
                                       {0, 20}, {5, 5}};
  *reference = (struct reference){.random = seed};
  assert_int_equal(grammar_builder_create(&reference->builder, NULL), 0);
  struct reference_node root = {.kind = SEQUENCE};
  grammar_expression parts[PARTS];
  if (reference_random(reference, 3) == 0) root.parts[root.count++] = random_bytes(reference, BYTES, 1);
  for (int i = 0; i < 2; i++) {
    struct reference_node class = {.kind = CLASS, .count = 1, .negated = true}, way = {.kind = CHOICE, .count = 2};
    class.ranges[0] = ABSENT[reference_random(reference, 3)];
    class.expression = grammar_class(reference->builder, class.ranges, 1, true);
    int part = reference_add(reference, class);
    if (reference_random(reference, 2)) {
      way.parts[0] = part;
      way.parts[1] = random_bytes(reference, BYTES, 2);
      for (int j = 0; j < 2; j++) parts[j] = reference->nodes[way.parts[j]].expression;
      way.expression = grammar_choice(reference->builder, parts, 2);
      part = reference_add(reference, way);
    }
    const uint32_t *bounds = BOUNDS[reference_random(reference, 8)];
    struct reference_node repeat = {
        .kind = REPEAT, .count = 1, .parts = {part}, .minimum = bounds[0], .maximum = bounds[1]};
    repeat.expression = grammar_repeat(reference->builder, reference->nodes[part].expression, bounds[0], bounds[1]);
    root.parts[root.count++] = reference_add(reference, repeat);
    if (reference_random(reference, 2)) break;
  }
  root.parts[root.count++] = random_bytes(reference, reference_random(reference, 4) ? BYTES : UNTIL, 1);
  for (int i = 0; i < root.count; i++) parts[i] = reference->nodes[root.parts[i]].expression;
  root.expression = grammar_sequence(reference->builder, parts, (size_t)root.count);
  reference->root = reference_add(reference, root);
  struct grammar *grammar;
  struct kj_error error = {0};
  if (grammar_finish(reference->builder, root.expression, &grammar, &error)) fail_msg("%s", error.message);
  grammar_builder_free(reference->builder);
  return grammar;
}

#endif

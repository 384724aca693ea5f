#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/class_ranges.h"
#include "grammar/expression.h"
#include "text/utf8.h"

enum { FIRST_CAPACITY = 32 };

int grammar_builder_create(struct grammar_builder **result, struct kj_error *error) {
  struct grammar_builder *builder = calloc(1, sizeof *builder);
  *result = NULL;
  if (!builder) return kj_fail_memory(error, "a grammar");
  builder->expressions = calloc(FIRST_CAPACITY, sizeof *builder->expressions);
  builder->parts = calloc(FIRST_CAPACITY, sizeof *builder->parts);
  builder->ranges = calloc(FIRST_CAPACITY, sizeof *builder->ranges);
  builder->bytes = calloc(FIRST_CAPACITY, 1);
  builder->expression_capacity = builder->part_capacity = FIRST_CAPACITY;
  builder->range_capacity = builder->byte_capacity = FIRST_CAPACITY;
  if (!builder->expressions || !builder->parts || !builder->ranges || !builder->bytes) {
    grammar_builder_free(builder);
    return kj_fail_memory(error, "a grammar");
  }
  *result = builder;
  return 0;
}

void grammar_builder_free(struct grammar_builder *builder) {
  if (!builder) return;
  free(builder->expressions);
  free(builder->parts);
  free(builder->ranges);
  free(builder->bytes);
  free(builder);
}

grammar_expression grammar_fail(struct grammar_builder *builder, enum kj_code code, const char *format, ...) {
  if (builder->failure.code) return NO_EXPRESSION;
  va_list arguments;
  va_start(arguments, format);
  builder->failure.code = code;
  vsnprintf(builder->failure.message, sizeof builder->failure.message, format, arguments);
  va_end(arguments);
  return NO_EXPRESSION;
}

bool grammar_failed(const struct grammar_builder *builder) { return builder->failure.code != KJ_OK; }

/* Makes room for `extra` elements more in one of the builder's arrays; false after a failure, old or new. */
static bool reserve(struct grammar_builder *builder, void **array, size_t count, size_t *capacity, size_t extra,
                    size_t size) {
  if (grammar_failed(builder)) return false;
  size_t total = builder->expression_count + builder->part_count + builder->range_count + builder->byte_count;
  if (extra > GRAMMAR_MAX_SIZE || total + extra > GRAMMAR_MAX_SIZE) {
    grammar_fail(builder, KJ_UNSUPPORTED, "the grammar is larger than %d elements", (int)GRAMMAR_MAX_SIZE);
    return false;
  }
  if (count + extra <= *capacity) return true;
  size_t wanted = *capacity ? *capacity * 2 : 64;
  if (wanted < count + extra) wanted = count + extra;
  void *grown = realloc(*array, wanted * size);
  if (!grown) {
    grammar_fail(builder, KJ_MEMORY, "out of memory while building a grammar");
    return false;
  }
  *array = grown;
  *capacity = wanted;
  return true;
}

#define RESERVE(builder, array, count, capacity, extra) \
  reserve(builder, (void **)&(builder)->array, (builder)->count, &(builder)->capacity, extra, sizeof *(builder)->array)

static grammar_expression add(struct grammar_builder *builder, struct expression expression) {
  if (!RESERVE(builder, expressions, expression_count, expression_capacity, 1)) return NO_EXPRESSION;
  if (expression.depth > GRAMMAR_MAX_DEPTH)
    return grammar_fail(builder, KJ_UNSUPPORTED, "the grammar is nested more than %d deep", (int)GRAMMAR_MAX_DEPTH);
  builder->expressions[builder->expression_count] = expression;
  return (grammar_expression)builder->expression_count++;
}

static bool is_expression(struct grammar_builder *builder, grammar_expression expression) {
  if (grammar_failed(builder)) return false;
  if (expression < builder->expression_count) return true;
  grammar_fail(builder, KJ_INTERNAL, "a grammar is built from an expression that does not exist");
  return false;
}

/* Depth of an expression as a part of another one: a rule is only referred to. */
static uint16_t depth_of(const struct grammar_builder *builder, grammar_expression expression) {
  const struct expression *part = &builder->expressions[expression];
  return part->kind == EXPRESSION_RULE ? 0 : part->depth;
}

static grammar_expression add_bytes(struct grammar_builder *builder, enum expression_kind kind, const char *bytes,
                                    size_t length) {
  size_t offset;
  if (!utf8_valid(bytes, length, &offset))
    return grammar_fail(builder, KJ_INVALID, "a literal of the grammar is not UTF-8 at byte %zu", offset);
  if (!RESERVE(builder, bytes, byte_count, byte_capacity, length)) return NO_EXPRESSION;
  uint32_t first = (uint32_t)builder->byte_count;
  if (length > 0) memcpy(builder->bytes + first, bytes, length);
  builder->byte_count += length;
  return add(builder, (struct expression){.kind = (uint8_t)kind, .first = first, .count = (uint32_t)length});
}

grammar_expression grammar_bytes(struct grammar_builder *builder, const char *bytes, size_t length) {
  return add_bytes(builder, EXPRESSION_BYTES, bytes, length);
}

grammar_expression grammar_text(struct grammar_builder *builder, const char *text) {
  return add_bytes(builder, EXPRESSION_BYTES, text, strlen(text));
}

static grammar_expression add_stop(struct grammar_builder *builder, enum expression_kind kind, const char *stop,
                                   size_t length) {
  if (length == 0 && !grammar_failed(builder))
    return grammar_fail(builder, KJ_INVALID, "a text that ends with the empty text has no end");
  if (length > GRAMMAR_MAX_STOP)
    return grammar_fail(builder, KJ_UNSUPPORTED, "a text that ends with a text of more than %d bytes",
                        (int)GRAMMAR_MAX_STOP);
  return add_bytes(builder, kind, stop, length);
}

grammar_expression grammar_text_until(struct grammar_builder *builder, const char *stop, size_t length) {
  return add_stop(builder, EXPRESSION_UNTIL, stop, length);
}

grammar_expression grammar_text_without(struct grammar_builder *builder, const char *stop, size_t length) {
  return add_stop(builder, EXPRESSION_WITHOUT, stop, length);
}

grammar_expression grammar_class(struct grammar_builder *builder, const struct code_range *ranges, size_t count,
                                 bool negated) {
  /* Sorted in place behind what is stored, which is at most one range longer than what was given, and one for the gap
   * of the surrogates. */
  if (!RESERVE(builder, ranges, range_count, range_capacity, count + 2)) return NO_EXPRESSION;
  struct code_range *own = builder->ranges + builder->range_count;
  for (size_t i = 0; i < count; i++) {
    if (ranges[i].first > ranges[i].last || ranges[i].last > 0x10ffff)
      return grammar_fail(builder, KJ_INVALID, "a class of the grammar has the range U+%04X to U+%04X", ranges[i].first,
                          ranges[i].last);
    own[i] = ranges[i];
  }
  size_t kept = class_ranges_normalize(own, count, negated);
  uint32_t first = (uint32_t)builder->range_count;
  builder->range_count += kept;
  return add(builder, (struct expression){.kind = EXPRESSION_CLASS, .first = first, .count = (uint32_t)kept});
}

static grammar_expression add_parts(struct grammar_builder *builder, enum expression_kind kind,
                                    const grammar_expression *parts, size_t count) {
  uint16_t depth = 0;
  for (size_t i = 0; i < count; i++) {
    if (!is_expression(builder, parts[i])) return NO_EXPRESSION;
    uint16_t part = depth_of(builder, parts[i]);
    if (part > depth) depth = part;
  }
  if (!RESERVE(builder, parts, part_count, part_capacity, count)) return NO_EXPRESSION;
  uint32_t first = (uint32_t)builder->part_count;
  if (count > 0) memcpy(builder->parts + first, parts, count * sizeof *parts);
  builder->part_count += count;
  return add(builder,
             (struct expression){
                 .kind = (uint8_t)kind, .first = first, .count = (uint32_t)count, .depth = (uint16_t)(depth + 1)});
}

grammar_expression grammar_sequence(struct grammar_builder *builder, const grammar_expression *parts, size_t count) {
  return count == 1 ? parts[0] : add_parts(builder, EXPRESSION_SEQUENCE, parts, count);
}

grammar_expression grammar_choice(struct grammar_builder *builder, const grammar_expression *parts, size_t count) {
  return count == 1 ? parts[0] : add_parts(builder, EXPRESSION_CHOICE, parts, count);
}

grammar_expression grammar_repeat(struct grammar_builder *builder, grammar_expression part, uint32_t minimum,
                                  uint32_t maximum) {
  if (!is_expression(builder, part)) return NO_EXPRESSION;
  bool unbounded = maximum == GRAMMAR_UNBOUNDED;
  if (minimum > maximum || (unbounded && minimum == GRAMMAR_UNBOUNDED))
    return grammar_fail(builder, KJ_INVALID, "a repetition from %u to %u times is not possible", minimum, maximum);
  if (minimum > GRAMMAR_MAX_REPEAT || (!unbounded && maximum > GRAMMAR_MAX_REPEAT))
    return grammar_fail(builder, KJ_UNSUPPORTED, "a repetition of %u times is beyond the %d that are counted",
                        minimum > GRAMMAR_MAX_REPEAT ? minimum : maximum, (int)GRAMMAR_MAX_REPEAT);
  if (maximum == 0) return grammar_bytes(builder, "", 0);
  if (minimum == 1 && maximum == 1) return part;
  return add(builder, (struct expression){.kind = EXPRESSION_REPEAT,
                                          .part = part,
                                          .minimum = minimum,
                                          .maximum = maximum,
                                          .depth = (uint16_t)(depth_of(builder, part) + 1)});
}

grammar_expression grammar_optional(struct grammar_builder *builder, grammar_expression part) {
  return grammar_repeat(builder, part, 0, 1);
}

grammar_expression grammar_rule(struct grammar_builder *builder, const char *name) {
  size_t length = strlen(name) + 1;
  if (!RESERVE(builder, bytes, byte_count, byte_capacity, length)) return NO_EXPRESSION;
  uint32_t first = (uint32_t)builder->byte_count;
  memcpy(builder->bytes + first, name, length);
  builder->byte_count += length;
  return add(builder, (struct expression){
                          .kind = EXPRESSION_RULE, .first = first, .count = (uint32_t)length, .part = NO_EXPRESSION});
}

void grammar_define(struct grammar_builder *builder, grammar_expression rule, grammar_expression expression) {
  if (!is_expression(builder, rule) || !is_expression(builder, expression)) return;
  struct expression *defined = &builder->expressions[rule];
  if (defined->kind != EXPRESSION_RULE || defined->part != NO_EXPRESSION) {
    grammar_fail(builder, KJ_INTERNAL, "a grammar defines what is no rule, or a rule twice");
    return;
  }
  defined->part = expression;
}

/* What the builder stores of a grammar (grammar/grammar.h), for the modules that check and compile it. */
#ifndef KAIJU_GRAMMAR_EXPRESSION_H
#define KAIJU_GRAMMAR_EXPRESSION_H

#include "base/buffer.h"
#include "grammar/grammar.h"

enum expression_kind {
  EXPRESSION_BYTES,    /* list: bytes */
  EXPRESSION_CLASS,    /* list: ranges, ascending and apart from each other */
  EXPRESSION_SEQUENCE, /* list: parts */
  EXPRESSION_CHOICE,   /* list: parts */
  EXPRESSION_REPEAT,   /* part, minimum, maximum */
  EXPRESSION_UNTIL,    /* list: bytes */
  EXPRESSION_WITHOUT,  /* list: bytes */
  EXPRESSION_RULE      /* part: the definition, or NO_EXPRESSION; list: the name in `bytes`, with a NUL */
};

#define NO_EXPRESSION UINT32_MAX

struct expression {
  uint8_t kind;
  bool reached, productive, nullable; /* found by grammar_check */
  uint16_t depth;
  uint32_t first, count; /* the list, in the builder's array of what it holds */
  uint32_t part, minimum, maximum;
  uint32_t uses; /* by other expressions that are reached */
};

struct grammar_builder {
  struct expression *expressions;
  uint32_t *parts;
  struct code_range *ranges;
  char *bytes;
  size_t expression_count, expression_capacity, part_count, part_capacity, range_count, range_capacity, byte_count,
      byte_capacity;
  struct kj_error failure; /* code KJ_OK: none */
};

/* The expressions that `expression` consists of. */
static inline const uint32_t *expression_parts(const struct grammar_builder *builder,
                                               const struct expression *expression, uint32_t *count) {
  if (expression->kind == EXPRESSION_SEQUENCE || expression->kind == EXPRESSION_CHOICE) {
    *count = expression->count;
    return builder->parts + expression->first;
  }
  *count = (expression->kind == EXPRESSION_REPEAT || expression->kind == EXPRESSION_RULE) &&
           expression->part != NO_EXPRESSION;
  return &expression->part;
}

/* Finds what the root reaches, counts uses, and works out which expressions match some text (productive) and which the
 * empty text (nullable). Refuses rules without a definition, a root that is not productive, and left recursion. */
int grammar_check(struct grammar_builder *builder, grammar_expression root, struct kj_error *error);

#endif

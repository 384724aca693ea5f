#include <stdlib.h>

#include "grammar/expression.h"

/* Which expressions use which: users[first_user[i] … first_user[i + 1]) of expression i, once for each use. */
struct usage {
  uint32_t *first_user, *users;
};

struct check {
  struct grammar_builder *builder;
  uint32_t *stack;   /* [expressions] work to do */
  uint32_t *pending; /* [expressions] parts still missing */
  struct usage usage;
};

static int allocate(struct check *check, struct kj_error *error) {
  size_t count = check->builder->expression_count;
  check->stack = calloc(count, sizeof *check->stack);
  check->pending = calloc(count, sizeof *check->pending);
  check->usage.first_user = calloc(count + 1, sizeof *check->usage.first_user);
  check->usage.users = calloc(count + check->builder->part_count + 1, sizeof *check->usage.users);
  if (check->stack && check->pending && check->usage.first_user && check->usage.users) return 0;
  return kj_fail_memory(error, "the check of a grammar");
}

static int reach(struct check *check, grammar_expression root, struct kj_error *error) {
  struct grammar_builder *builder = check->builder;
  size_t depth = 0;
  check->stack[depth++] = root;
  builder->expressions[root].reached = true;
  while (depth > 0) {
    const struct expression *expression = &builder->expressions[check->stack[--depth]];
    if (expression->kind == EXPRESSION_RULE && expression->part == NO_EXPRESSION)
      return kj_fail(error, KJ_INVALID, "the rule \"%.200s\" is used and not defined",
                     builder->bytes + expression->first);
    uint32_t count;
    const uint32_t *parts = expression_parts(builder, expression, &count);
    for (uint32_t i = 0; i < count; i++) {
      struct expression *part = &builder->expressions[parts[i]];
      part->uses++;
      if (!part->reached) check->stack[depth++] = parts[i];
      part->reached = true;
    }
  }
  return 0;
}

static void list_users(struct check *check) {
  struct grammar_builder *builder = check->builder;
  uint32_t *first = check->usage.first_user, at = 0;
  for (size_t i = 0; i < builder->expression_count; i++) {
    at += builder->expressions[i].uses;
    first[i] = at; /* the end; filled backwards below */
  }
  first[builder->expression_count] = at;
  for (size_t i = 0; i < builder->expression_count; i++) {
    if (!builder->expressions[i].reached) continue;
    uint32_t count;
    const uint32_t *parts = expression_parts(builder, &builder->expressions[i], &count);
    for (uint32_t j = 0; j < count; j++) check->usage.users[--first[parts[j]]] = (uint32_t)i;
  }
}

/* How many of its parts must have a property for the expression to have it: all of a sequence, one of the others; 0: it
 * has it in any case; NO_EXPRESSION: in no case. */
static uint32_t needed_to_be_productive(const struct expression *expression) {
  switch (expression->kind) {
    case EXPRESSION_CLASS:
      return expression->count > 0 ? 0 : NO_EXPRESSION;
    case EXPRESSION_SEQUENCE:
      return expression->count;
    case EXPRESSION_CHOICE:
      return expression->count > 0 ? 1 : NO_EXPRESSION;
    case EXPRESSION_REPEAT:
      return expression->minimum > 0;
    case EXPRESSION_RULE:
      return 1;
    default:
      return 0;
  }
}

static uint32_t needed_to_be_nullable(const struct expression *expression) {
  switch (expression->kind) {
    case EXPRESSION_BYTES:
      return expression->count == 0 ? 0 : NO_EXPRESSION;
    case EXPRESSION_CLASS:
    case EXPRESSION_UNTIL:
      return NO_EXPRESSION;
    case EXPRESSION_WITHOUT:
      return 0;
    default:
      return needed_to_be_productive(expression);
  }
}

/* The least set with the property; linear in the size of the grammar. */
static void spread(struct check *check, uint32_t (*needed)(const struct expression *expression), bool nullable) {
  struct grammar_builder *builder = check->builder;
  size_t depth = 0;
  for (size_t i = 0; i < builder->expression_count; i++) {
    struct expression *expression = &builder->expressions[i];
    if (!expression->reached) continue;
    check->pending[i] = needed(expression);
    if (check->pending[i] > 0) continue;
    *(nullable ? &expression->nullable : &expression->productive) = true;
    check->stack[depth++] = (uint32_t)i;
  }
  while (depth > 0) {
    uint32_t known = check->stack[--depth];
    for (uint32_t i = check->usage.first_user[known]; i < check->usage.first_user[known + 1]; i++) {
      uint32_t user = check->usage.users[i];
      bool *has = nullable ? &builder->expressions[user].nullable : &builder->expressions[user].productive;
      if (*has || check->pending[user] == NO_EXPRESSION || --check->pending[user] > 0) continue;
      *has = true;
      check->stack[depth++] = user;
    }
  }
}

/* How many of the parts may stand at the beginning of a text of the expression. */
static uint32_t leading_parts(const struct grammar_builder *builder, const struct expression *expression,
                              const uint32_t *parts, uint32_t count) {
  if (!expression->productive) return 0;
  if (expression->kind != EXPRESSION_SEQUENCE) return count;
  uint32_t leading = 0;
  while (leading < count && builder->expressions[parts[leading++]].nullable) continue;
  return leading;
}

/* A depth-first walk along what an expression can begin with: meeting an expression that is still being walked is left
 * recursion. */
static int refuse_left_recursion(struct check *check, struct kj_error *error) {
  enum { NEW, WALKED, DONE };
  struct grammar_builder *builder = check->builder;
  uint32_t *next = check->pending; /* the next part to walk to */
  uint8_t *state = calloc(builder->expression_count, 1);
  if (!state) return kj_fail_memory(error, "the check of a grammar");
  int code = 0;
  for (size_t start = 0; start < builder->expression_count && !code; start++) {
    if (!builder->expressions[start].reached || state[start] != NEW) continue;
    size_t depth = 0;
    check->stack[depth++] = (uint32_t)start;
    state[start] = WALKED;
    next[start] = 0;
    while (depth > 0 && !code) {
      uint32_t current = check->stack[depth - 1], count;
      const uint32_t *parts = expression_parts(builder, &builder->expressions[current], &count);
      if (next[current] == leading_parts(builder, &builder->expressions[current], parts, count)) {
        state[current] = DONE;
        depth--;
        continue;
      }
      uint32_t part = parts[next[current]++];
      if (state[part] == NEW) {
        state[part] = WALKED;
        next[part] = 0;
        check->stack[depth++] = part;
      } else if (state[part] == WALKED) {
        while (builder->expressions[check->stack[depth - 1]].kind != EXPRESSION_RULE) depth--;
        const struct expression *rule = &builder->expressions[check->stack[depth - 1]];
        code = kj_fail(error, KJ_UNSUPPORTED,
                       "the rule \"%.200s\" is left-recursive: it can begin with itself; write it as a repetition",
                       builder->bytes + rule->first);
      }
    }
  }
  free(state);
  return code;
}

int grammar_check(struct grammar_builder *builder, grammar_expression root, struct kj_error *error) {
  struct check check = {.builder = builder};
  int code = allocate(&check, error);
  if (!code) code = reach(&check, root, error);
  if (!code) {
    list_users(&check);
    spread(&check, needed_to_be_productive, false);
    spread(&check, needed_to_be_nullable, true);
    if (!builder->expressions[root].productive)
      code = kj_fail(error, KJ_INVALID, "no text at all satisfies the grammar");
  }
  if (!code) code = refuse_left_recursion(&check, error);
  free(check.stack);
  free(check.pending);
  free(check.usage.first_user);
  free(check.usage.users);
  return code;
}

#include "text/jinja_evaluate.h"

#include <string.h>

#include "text/jinja_attributes.h"
#include "text/jinja_filters.h"
#include "text/jinja_functions.h"
#include "text/jinja_methods.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_tests.h"
#include "text/jinja_text.h"

struct scope *scope_make(struct run *run, struct scope *parent) {
  struct scope *scope = run_allocate(run, 1, sizeof *scope);
  if (scope) scope->parent = parent;
  return scope;
}

void scope_set(struct run *run, struct scope *scope, uint32_t symbol, struct value value) {
  if (!scope || symbol == NO_SYMBOL) return;
  for (size_t i = 0; i < scope->count; i++) {
    if (scope->bindings[i].symbol == symbol) {
      scope->bindings[i].value = value;
      return;
    }
  }
  struct binding *bindings = run_grow(run, scope->bindings, scope->count, &scope->capacity, sizeof *bindings);
  if (!bindings) return;
  scope->bindings = bindings;
  scope->bindings[scope->count++] = (struct binding){symbol, value};
}

const struct value *scope_find(const struct scope *scope, uint32_t symbol) {
  for (; scope; scope = scope->parent) {
    for (size_t i = 0; i < scope->count; i++) {
      if (scope->bindings[i].symbol == symbol) return &scope->bindings[i].value;
    }
  }
  return NULL;
}

static struct value evaluate_name(const struct scope *scope, const struct node *node) {
  const struct value *found = scope_find(scope, node->symbol);
  if (found) return *found;
  int function = function_find(node->value.text);
  if (function >= 0) return (struct value){.kind = VALUE_FUNCTION, .detail = (uint32_t)function};
  return value_undefined(UNDEFINED_VARIABLE, node->value.text);
}

static struct value evaluate_sequence(struct renderer *renderer, struct scope *scope, const struct node *node) {
  enum sequence_flavour flavour = node->kind == NODE_TUPLE ? SEQUENCE_TUPLE : SEQUENCE_LIST;
  struct sequence *items = sequence_make(renderer->run, flavour, node->count);
  for (uint32_t i = 0; i < node->count; i++) {
    sequence_add(renderer->run, items, evaluate(renderer, scope, node->children[i]));
  }
  return value_sequence(items);
}

static struct value evaluate_mapping(struct renderer *renderer, struct scope *scope, const struct node *node) {
  struct run *run = renderer->run;
  struct mapping *mapping = mapping_make(run);
  for (uint32_t i = 0; i + 1 < node->count && !run->failed; i += 2) {
    struct value key = evaluate(renderer, scope, node->children[i]);
    struct value value = evaluate(renderer, scope, node->children[i + 1]);
    if (!value_hashable(&key)) run_fail(run, "unhashable type: '%s'", value_type(key));
    mapping_set(run, mapping, key, value);
  }
  return value_mapping(mapping);
}

static bool compare(struct run *run, enum compare_operator operation, struct value a, struct value b) {
  int order = 0;
  switch (operation) {
    case COMPARE_EQUAL:
      return value_equal(run, a, b);
    case COMPARE_NOT_EQUAL:
      return !value_equal(run, a, b);
    case COMPARE_IN:
      return value_contains(run, a, b);
    case COMPARE_NOT_IN:
      return !value_contains(run, a, b);
    case COMPARE_LESS:
      return value_compare(run, a, b, "<") == -1;
    case COMPARE_GREATER:
      return value_compare(run, a, b, ">") == 1;
    case COMPARE_LESS_EQUAL:
      return value_compare(run, a, b, "<=") <= 0;
    case COMPARE_GREATER_EQUAL:
      order = value_compare(run, a, b, ">=");
      return order == 0 || order == 1;
  }
  return false;
}

static struct value evaluate_compare(struct renderer *renderer, struct scope *scope, const struct node *node) {
  struct value left = evaluate(renderer, scope, node->children[0]);
  for (uint32_t i = 0; i + 1 < node->count; i++) {
    struct value right = evaluate(renderer, scope, node->children[i + 1]);
    if (renderer->run->failed || !compare(renderer->run, node->operators[i], left, right)) return value_boolean(false);
    left = right;
  }
  return value_boolean(true);
}

static struct value evaluate_concat(struct renderer *renderer, struct scope *scope, const struct node *node) {
  struct buffer out = {0};
  for (uint32_t i = 0; i < node->count && !renderer->run->failed && text_grows(renderer->run, &out); i++) {
    print_string(renderer->run, evaluate(renderer, scope, node->children[i]), &out);
  }
  const struct text *text = text_take(renderer->run, &out);
  buffer_free(&out);
  return value_text(text);
}

static struct value evaluate_condition(struct renderer *renderer, struct scope *scope, const struct node *node) {
  struct value test = evaluate(renderer, scope, node->children[1]);
  if (value_truth(&test)) return evaluate(renderer, scope, node->children[0]);
  if (node->children[2]) return evaluate(renderer, scope, node->children[2]);
  return value_undefined_reason(renderer->run, "the condition of an inline if was false and it has no else");
}

static struct value evaluate_slice(struct renderer *renderer, struct scope *scope, const struct node *node) {
  struct value parts[4];
  for (int i = 0; i < 4; i++) {
    parts[i] = node->children[i] ? evaluate(renderer, scope, node->children[i]) : value_none();
  }
  return value_slice(renderer->run, parts[0], parts[1], parts[2], parts[3]);
}

/* The values of a call's arguments, in the run's memory. */
static struct arguments evaluate_arguments(struct renderer *renderer, struct scope *scope,
                                           const struct arguments_node *node, const struct value *caller) {
  struct run *run = renderer->run;
  struct arguments arguments = {0};
  struct value rest = {.kind = VALUE_MISSING}, rest_keywords = {.kind = VALUE_MISSING};
  struct value *positional = NULL;
  struct keyword *keywords = NULL;
  if (node->rest) rest = evaluate(renderer, scope, node->rest);
  if (node->rest_keywords) rest_keywords = evaluate(renderer, scope, node->rest_keywords);
  const struct sequence *more = rest.kind == VALUE_MISSING ? NULL : value_iterate(run, rest);
  if (rest_keywords.kind != VALUE_MISSING && rest_keywords.kind != VALUE_MAPPING) {
    run_fail(run, "what follows ** in a call must be a mapping, not '%s'", value_type(rest_keywords));
  }
  const struct mapping *more_keywords = rest_keywords.kind == VALUE_MAPPING ? rest_keywords.mapping : NULL;
  size_t count = node->positional_count + (more ? more->count : 0);
  size_t keyword_count = node->keyword_count + (more_keywords ? more_keywords->count : 0) + (caller ? 1 : 0);
  if (count) positional = run_allocate(run, count, sizeof *positional);
  if (keyword_count) keywords = run_allocate(run, keyword_count, sizeof *keywords);
  if (run->failed || (count && !positional) || (keyword_count && !keywords)) return arguments;
  for (size_t i = 0; i < count; i++) {
    positional[i] = i < node->positional_count ? evaluate(renderer, scope, node->positional[i])
                                               : more->items[i - node->positional_count];
  }
  for (size_t i = 0; i < node->keyword_count; i++) {
    keywords[i] = (struct keyword){node->keywords[i].name, evaluate(renderer, scope, node->keywords[i].value)};
  }
  for (size_t i = 0; more_keywords && i < more_keywords->count; i++) {
    struct value key = more_keywords->pairs[i].key;
    if (key.kind != VALUE_STRING) run_fail(run, "keywords must be strings, not '%s'", value_type(key));
    keywords[node->keyword_count + i] = (struct keyword){argument_text(run, key, NULL), more_keywords->pairs[i].value};
  }
  if (caller) keywords[keyword_count - 1] = (struct keyword){text_view(run, "caller", 6), *caller};
  return (struct arguments){positional, count, keywords, keyword_count};
}

/* The keyword argument of that name; remembers in `used` that it was taken. */
static const struct value *take_keyword(const struct arguments *arguments, const struct text *name, bool *used) {
  for (size_t i = 0; i < arguments->keyword_count; i++) {
    if (!text_equal(arguments->keywords[i].name, name)) continue;
    used[i] = true;
    return &arguments->keywords[i].value;
  }
  return NULL;
}

/* What is left of the arguments: varargs, kwargs and caller, or a failure where the macro does not ask for them. */
static void bind_rest(struct renderer *renderer, struct scope *scope, const struct macro *macro,
                      const struct arguments *arguments, bool *used) {
  struct run *run = renderer->run;
  const struct macro_node *node = macro->node;
  bool caller_is_parameter = false;
  for (size_t i = 0; i < node->count; i++) caller_is_parameter |= text_is(node->parameters[i].name, "caller");
  if (node->uses_caller && !caller_is_parameter) {
    const struct text *name = text_view(run, "caller", 6);
    const struct value *caller = take_keyword(arguments, name, used);
    scope_set(run, scope, renderer->caller, caller ? *caller : value_undefined_reason(run, "no caller is defined"));
  }
  if (node->uses_varargs) {
    struct sequence *rest = sequence_make(run, SEQUENCE_TUPLE, 0);
    for (size_t i = node->count; i < arguments->count; i++) sequence_add(run, rest, arguments->positional[i]);
    scope_set(run, scope, renderer->varargs, value_sequence(rest));
  } else if (arguments->count > node->count) {
    run_fail(run, "macro '%.*s' takes at most %zu arguments", (int)macro->name->length, macro->name->bytes,
             node->count);
  }
  struct mapping *rest = mapping_make(run);
  for (size_t i = 0; i < arguments->keyword_count && !run->failed; i++) {
    const struct text *name = arguments->keywords[i].name;
    if (used[i]) continue;
    mapping_set(run, rest, value_text(name), arguments->keywords[i].value);
    if (node->uses_kwargs) continue;
    run_fail(run, "macro '%.*s' takes no keyword argument '%.*s'", (int)macro->name->length, macro->name->bytes,
             (int)name->length, name->bytes);
  }
  if (node->uses_kwargs) scope_set(run, scope, renderer->kwargs, value_mapping(rest));
}

static struct value call_macro(struct renderer *renderer, const struct macro *macro,
                               const struct arguments *arguments) {
  struct run *run = renderer->run;
  const struct macro_node *node = macro->node;
  struct scope *scope = scope_make(run, macro->scope);
  bool *used = run_allocate(run, arguments->keyword_count + 1, sizeof *used);
  if (!scope || !used || !run_enter(run)) return value_none();
  /* Names are bound before any default is evaluated, so that no default sees a name of the scope around. */
  for (size_t i = 0; i < node->count; i++) {
    const struct value *given =
        i < arguments->count ? &arguments->positional[i] : take_keyword(arguments, node->parameters[i].name, used);
    struct value value = given ? *given : value_undefined_reason(run, "a parameter was not provided");
    if (given || !node->parameters[i].initial) scope_set(run, scope, node->parameters[i].symbol, value);
  }
  for (size_t i = 0; i < node->count && !run->failed; i++) {
    const struct parameter_node *parameter = &node->parameters[i];
    bool bound = false;
    for (size_t j = 0; j < scope->count; j++) bound |= scope->bindings[j].symbol == parameter->symbol;
    if (!bound) scope_set(run, scope, parameter->symbol, evaluate(renderer, scope, parameter->initial));
  }
  bind_rest(renderer, scope, macro, arguments, used);
  struct value text = run->failed ? value_none() : execute_to_text(renderer, scope, node->body);
  run_leave(run);
  return text;
}

struct value evaluate_call(struct renderer *renderer, struct scope *scope, const struct node *node,
                           const struct value *caller) {
  struct run *run = renderer->run;
  struct value callee = evaluate(renderer, scope, node->children[0]);
  struct arguments arguments = evaluate_arguments(renderer, scope, node->arguments, caller);
  if (run->failed) return value_none();
  run->line = node->line;
  switch (callee.kind) {
    case VALUE_MACRO:
      return call_macro(renderer, callee.macro, &arguments);
    case VALUE_FUNCTION:
      return function_call(run, callee.detail, &arguments);
    case VALUE_METHOD:
      return method_call(run, callee.method, &arguments);
    case VALUE_JOINER:
      return joiner_call(run, callee.cycler, &arguments);
    case VALUE_UNDEFINED:
      value_fail_undefined(run, callee);
      return value_none();
    default:
      run_fail(run, "a value of type '%s' cannot be called", value_type(callee));
      return value_none();
  }
}

struct value evaluate_filters(struct renderer *renderer, struct scope *scope, const struct node *node,
                              struct value text) {
  struct run *run = renderer->run;
  if (!node || !run_enter(run)) return text;
  struct value value = node->children[0] ? evaluate_filters(renderer, scope, node->children[0], text) : text;
  struct arguments arguments = evaluate_arguments(renderer, scope, node->arguments, NULL);
  run->line = node->line;
  value = filter_apply(run, (int)node->which, value, &arguments);
  run_leave(run);
  return value;
}

static struct value evaluate_test(struct renderer *renderer, struct scope *scope, const struct node *node) {
  struct value value = evaluate(renderer, scope, node->children[0]);
  struct arguments arguments = evaluate_arguments(renderer, scope, node->arguments, NULL);
  renderer->run->line = node->line;
  return value_boolean(!renderer->run->failed && test_apply(renderer->run, (int)node->which, value, &arguments));
}

static struct value evaluate_filter(struct renderer *renderer, struct scope *scope, const struct node *node) {
  struct value value = evaluate(renderer, scope, node->children[0]);
  struct arguments arguments = evaluate_arguments(renderer, scope, node->arguments, NULL);
  renderer->run->line = node->line;
  return filter_apply(renderer->run, (int)node->which, value, &arguments);
}

static struct value evaluate_two(struct renderer *renderer, struct scope *scope, const struct node *node) {
  struct run *run = renderer->run;
  struct value left = evaluate(renderer, scope, node->children[0]);
  if (node->kind == NODE_AND && !value_truth(&left)) return left;
  if (node->kind == NODE_OR && value_truth(&left)) return left;
  struct value right = evaluate(renderer, scope, node->children[1]);
  run->line = node->line;
  if (run->failed || node->kind == NODE_AND || node->kind == NODE_OR) return right;
  if (node->kind == NODE_ITEM) return value_item(run, left, right);
  return value_binary(run, (enum token_kind)node->which, left, right);
}

static struct value evaluate_one(struct renderer *renderer, struct scope *scope, const struct node *node) {
  struct run *run = renderer->run;
  struct value value = evaluate(renderer, scope, node->children[0]);
  run->line = node->line;
  if (run->failed) return value_none();
  if (node->kind == NODE_NOT) return value_boolean(!value_truth(&value));
  if (node->kind == NODE_ATTRIBUTE) return value_attribute(run, value, node->value.text);
  return node->kind == NODE_NEGATIVE ? value_negative(run, value) : value_positive(run, value);
}

static struct value evaluate_node(struct renderer *renderer, struct scope *scope, const struct node *node) {
  switch (node->kind) {
    case NODE_CONSTANT:
      return node->value;
    case NODE_NAME:
      return evaluate_name(scope, node);
    case NODE_LIST:
    case NODE_TUPLE:
      return evaluate_sequence(renderer, scope, node);
    case NODE_MAPPING:
      return evaluate_mapping(renderer, scope, node);
    case NODE_SLICE:
      return evaluate_slice(renderer, scope, node);
    case NODE_CALL:
      return evaluate_call(renderer, scope, node, NULL);
    case NODE_FILTER:
      return evaluate_filter(renderer, scope, node);
    case NODE_TEST:
      return evaluate_test(renderer, scope, node);
    case NODE_CONDITION:
      return evaluate_condition(renderer, scope, node);
    case NODE_COMPARE:
      return evaluate_compare(renderer, scope, node);
    case NODE_CONCAT:
      return evaluate_concat(renderer, scope, node);
    case NODE_AND:
    case NODE_OR:
    case NODE_BINARY:
    case NODE_ITEM:
      return evaluate_two(renderer, scope, node);
    case NODE_NOT:
    case NODE_ATTRIBUTE:
    case NODE_NEGATIVE:
    case NODE_POSITIVE:
      return evaluate_one(renderer, scope, node);
    default:
      run_fail(renderer->run, "this cannot be evaluated");
      return value_none();
  }
}

struct value evaluate(struct renderer *renderer, struct scope *scope, const struct node *node) {
  if (!run_step(renderer->run, 1) || !run_enter(renderer->run)) return value_none();
  renderer->run->line = node->line;
  struct value value = evaluate_node(renderer, scope, node);
  run_leave(renderer->run);
  return value;
}

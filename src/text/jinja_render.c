#include "text/jinja_render.h"

#include "text/jinja_evaluate.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

/* Nothing that is made in a scope that a macro sees may be overwritten when the scope ends. */
static void capture(struct scope *scope) {
  for (; scope && !scope->captured; scope = scope->parent) scope->captured = true;
}

static struct value make_macro(struct renderer *renderer, struct scope *scope, const struct node *node) {
  struct macro *macro = run_allocate(renderer->run, 1, sizeof *macro);
  if (!macro) return value_none();
  *macro = (struct macro){node->macro->name, node->macro, scope};
  capture(scope);
  return (struct value){.kind = VALUE_MACRO, .macro = macro};
}

static void assign(struct renderer *renderer, struct scope *scope, const struct node *target, struct value value) {
  struct run *run = renderer->run;
  if (run->failed) return;
  run->line = target->line;
  if (target->kind == NODE_NAME) {
    scope_set(run, scope, target->symbol, value);
  } else if (target->kind == NODE_NAMESPACE_TARGET) {
    const struct value *object = scope_find(scope, target->symbol);
    if (object && object->kind == VALUE_NAMESPACE) {
      mapping_set(run, object->mapping, target->value, value);
    } else {
      run_fail(run, "only a namespace's attributes can be assigned to");
    }
  } else {
    const struct sequence *items = value_iterate(run, value);
    if (items->count != target->count) {
      run_fail(run, "%zu values cannot be unpacked into %u names", items->count, target->count);
    }
    for (uint32_t i = 0; i < target->count && !run->failed; i++) {
      assign(renderer, scope, target->children[i], items->items[i]);
    }
  }
}

static enum outcome execute_if(struct renderer *renderer, struct scope *scope, const struct node *node,
                               struct buffer *out) {
  uint32_t i = 0;
  for (; i + 1 < node->count; i += 2) {
    struct value test = evaluate(renderer, scope, node->children[i]);
    if (renderer->run->failed) return OUTCOME_NEXT;
    if (value_truth(&test)) return execute(renderer, scope, node->children[i + 1], out);
  }
  return i < node->count ? execute(renderer, scope, node->children[i], out) : OUTCOME_NEXT;
}

/* The scope of the next round of a loop: the last one's memory unless a macro still sees it. */
static struct scope *next_scope(struct run *run, struct scope *used, struct scope *parent) {
  if (!used || used->captured) return scope_make(run, parent);
  used->count = 0;
  return used;
}

/* The items for which the loop's condition holds. */
static const struct sequence *filter_items_of_loop(struct renderer *renderer, struct scope *scope,
                                                   const struct node *node, const struct sequence *items) {
  struct run *run = renderer->run;
  struct sequence *kept = sequence_make(run, SEQUENCE_LIST, 0);
  struct scope *round = NULL;
  for (size_t i = 0; i < items->count && run_step(run, 1); i++) {
    round = next_scope(run, round, scope);
    assign(renderer, round, node->children[0], items->items[i]);
    struct value test = run->failed ? value_none() : evaluate(renderer, round, node->children[2]);
    if (value_truth(&test)) sequence_add(run, kept, items->items[i]);
  }
  return kept ? kept : items;
}

static void execute_for(struct renderer *renderer, struct scope *scope, const struct node *node, struct buffer *out) {
  struct run *run = renderer->run;
  struct value iterable = evaluate(renderer, scope, node->children[1]);
  const struct sequence *items = value_iterate(run, iterable);
  if (node->children[2]) items = filter_items_of_loop(renderer, scope, node, items);
  struct loop *loop = run_allocate(run, 1, sizeof *loop);
  if (!loop) return;
  loop->items = items;
  struct scope *round = NULL;
  for (size_t i = 0; i < items->count && run_step(run, 1); i++) {
    loop->index = i;
    round = next_scope(run, round, scope);
    scope_set(run, round, renderer->loop, (struct value){.kind = VALUE_LOOP, .loop = loop});
    assign(renderer, round, node->children[0], items->items[i]);
    if (run->failed || execute(renderer, round, node->children[3], out) == OUTCOME_BREAK) break;
  }
  if (!items->count && node->children[4] && !run->failed) {
    execute(renderer, scope_make(run, scope), node->children[4], out);
  }
}

struct value execute_to_text(struct renderer *renderer, struct scope *scope, const struct node *body) {
  struct buffer out = {0};
  execute(renderer, scope, body, &out);
  struct value text = value_text(text_take(renderer->run, &out));
  buffer_free(&out);
  return text;
}

static enum outcome execute_with(struct renderer *renderer, struct scope *scope, const struct node *node,
                                 struct buffer *out) {
  struct scope *inner = scope_make(renderer->run, scope);
  for (uint32_t i = 0; i + 1 < node->count; i += 2) {
    assign(renderer, inner, node->children[i], evaluate(renderer, scope, node->children[i + 1]));
  }
  return renderer->run->failed ? OUTCOME_NEXT : execute(renderer, inner, node->children[node->count - 1], out);
}

static void execute_print(struct renderer *renderer, struct scope *scope, const struct node *node, struct buffer *out) {
  for (uint32_t i = 0; i < node->count; i++) {
    struct value value = evaluate(renderer, scope, node->children[i]);
    if (renderer->run->failed) return;
    print_string(renderer->run, value, out);
  }
}

static void execute_set_block(struct renderer *renderer, struct scope *scope, const struct node *node) {
  struct scope *inner = scope_make(renderer->run, scope);
  if (!inner) return;
  struct value text = execute_to_text(renderer, inner, node->children[2]);
  assign(renderer, scope, node->children[0], evaluate_filters(renderer, inner, node->children[1], text));
}

static void execute_call_block(struct renderer *renderer, struct scope *scope, const struct node *node,
                               struct buffer *out) {
  struct value caller = make_macro(renderer, scope, node);
  struct value result = evaluate_call(renderer, scope, node->children[0], &caller);
  if (!renderer->run->failed) print_string(renderer->run, result, out);
}

static void execute_filter_block(struct renderer *renderer, struct scope *scope, const struct node *node,
                                 struct buffer *out) {
  struct scope *inner = scope_make(renderer->run, scope);
  if (!inner) return;
  struct value text = execute_to_text(renderer, inner, node->children[1]);
  struct value filtered = evaluate_filters(renderer, inner, node->children[0], text);
  if (!renderer->run->failed) print_string(renderer->run, filtered, out);
}

static enum outcome execute_node(struct renderer *renderer, struct scope *scope, const struct node *node,
                                 struct buffer *out) {
  struct run *run = renderer->run;
  enum outcome outcome = OUTCOME_NEXT;
  switch (node->kind) {
    case NODE_DATA:
      buffer_append(out, node->value.text->bytes, node->value.text->length);
      break;
    case NODE_PRINT:
      execute_print(renderer, scope, node, out);
      break;
    case NODE_BODY:
      for (uint32_t i = 0; i < node->count && outcome == OUTCOME_NEXT && !run->failed; i++) {
        outcome = execute(renderer, scope, node->children[i], out);
      }
      break;
    case NODE_IF:
      return execute_if(renderer, scope, node, out);
    case NODE_FOR:
      execute_for(renderer, scope, node, out);
      break;
    case NODE_SET:
      assign(renderer, scope, node->children[0], evaluate(renderer, scope, node->children[1]));
      break;
    case NODE_SET_BLOCK:
      execute_set_block(renderer, scope, node);
      break;
    case NODE_MACRO:
      scope_set(run, scope, node->symbol, make_macro(renderer, scope, node));
      break;
    case NODE_CALL_BLOCK:
      execute_call_block(renderer, scope, node, out);
      break;
    case NODE_FILTER_BLOCK:
      execute_filter_block(renderer, scope, node, out);
      break;
    case NODE_WITH:
      return execute_with(renderer, scope, node, out);
    case NODE_SCOPE: {
      struct scope *inner = scope_make(run, node->which ? scope : renderer->outermost);
      return inner ? execute(renderer, inner, node->children[0], out) : OUTCOME_NEXT;
    }
    case NODE_BREAK:
      return OUTCOME_BREAK;
    case NODE_CONTINUE:
      return OUTCOME_CONTINUE;
    default:
      run_fail(run, "this cannot be executed");
  }
  return outcome;
}

enum outcome execute(struct renderer *renderer, struct scope *scope, const struct node *node, struct buffer *out) {
  struct run *run = renderer->run;
  if (!scope || !run_step(run, 1) || !run_enter(run)) return OUTCOME_NEXT;
  run->line = node->line;
  enum outcome outcome = execute_node(renderer, scope, node, out);
  if (out->length > JINJA_OUTPUT) run_fail(run, "the text becomes longer than %d MiB", JINJA_OUTPUT / (1024 * 1024));
  run_leave(run);
  return outcome;
}

static uint32_t find_symbol(const struct symbols *symbols, const char *name) {
  for (size_t i = 0; i < symbols->count; i++) {
    if (text_is(symbols->items[i].name, name)) return (uint32_t)i;
  }
  return NO_SYMBOL;
}

void render_template(struct run *run, const struct node *body, const struct symbols *symbols,
                     const struct jinja_variable *variables, size_t count, struct buffer *out) {
  struct renderer renderer = {
      .run = run,
      .loop = find_symbol(symbols, "loop"),
      .caller = find_symbol(symbols, "caller"),
      .varargs = find_symbol(symbols, "varargs"),
      .kwargs = find_symbol(symbols, "kwargs"),
  };
  struct scope *given = scope_make(run, NULL);
  renderer.outermost = scope_make(run, given);
  for (size_t i = 0; i < count && !run->failed; i++) {
    uint32_t symbol = find_symbol(symbols, variables[i].name);
    if (symbol != NO_SYMBOL) scope_set(run, given, symbol, value_from_json(run, variables[i].value));
  }
  if (!run->failed) execute(&renderer, renderer.outermost, body, out);
}

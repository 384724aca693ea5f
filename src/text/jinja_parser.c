#include "text/jinja_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "text/jinja_functions.h"

static const struct node *parse_body(struct parser *parser, const char *const *ends);

const struct token *parser_token(const struct parser *parser) { return &parser->tokens[parser->at]; }

const struct token *parser_look(const struct parser *parser) {
  return &parser->tokens[parser->at + 1 < parser->count ? parser->at + 1 : parser->at];
}

void parser_next(struct parser *parser) {
  if (parser->at + 1 < parser->count) parser->at++;
}

bool parser_at(const struct parser *parser, enum token_kind kind) { return parser_token(parser)->kind == kind; }

bool parser_at_name(const struct parser *parser, const char *name) {
  const struct token *token = parser_token(parser);
  return token->kind == TOKEN_NAME && text_is(token->value.text, name);
}

bool parser_take(struct parser *parser, enum token_kind kind) {
  if (parser->run->failed || !parser_at(parser, kind)) return false;
  parser_next(parser);
  return true;
}

bool parser_take_name(struct parser *parser, const char *name) {
  if (parser->run->failed || !parser_at_name(parser, name)) return false;
  parser_next(parser);
  return true;
}

static void fail_expected(struct parser *parser, const char *what) {
  const struct token *token = parser_token(parser);
  if (token->kind == TOKEN_NAME) {
    parser_fail(parser, token->line, false, "expected '%s', got '%.*s'", what, (int)token->value.text->length,
                token->value.text->bytes);
  } else {
    parser_fail(parser, token->line, false, "expected '%s', got '%s'", what, token_describe(token));
  }
}

bool parser_expect(struct parser *parser, enum token_kind kind, const char *what) {
  if (parser_take(parser, kind)) return true;
  fail_expected(parser, what);
  return false;
}

const struct text *parser_expect_name(struct parser *parser) {
  const struct token *token = parser_token(parser);
  if (!parser_expect(parser, TOKEN_NAME, "name")) return NULL;
  return token->value.text;
}

void parser_fail(struct parser *parser, uint32_t line, bool unsupported, const char *format, ...) {
  char reason[600];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  if (unsupported) {
    run_fail_plain(parser->run, KJ_UNSUPPORTED, "%s line %u: %s", parser->run->name, line, reason);
  } else {
    parser->run->line = line;
    run_fail(parser->run, "%s", reason);
  }
}

struct node *parser_node(struct parser *parser, enum node_kind kind, uint32_t line, const struct node *const *children,
                         size_t count) {
  struct node *node = run_allocate(parser->run, 1, sizeof *node);
  const struct node **copy = count ? run_allocate(parser->run, count, sizeof *copy) : NULL;
  if (!node || (count && !copy)) return NULL;
  node->kind = kind;
  node->line = line;
  node->count = (uint32_t)count;
  node->children = copy;
  for (size_t i = 0; i < count; i++) {
    copy[i] = children[i];
    if (children[i] && children[i]->depth > node->depth) node->depth = children[i]->depth;
  }
  if (++node->depth > JINJA_TREE_DEPTH) {
    parser_fail(parser, line, false, "more than %d nested statements and expressions", JINJA_TREE_DEPTH);
    return NULL;
  }
  return node;
}

void node_list_add(struct parser *parser, struct node_list *list, const struct node *node) {
  if (parser->run->failed) return;
  const struct node **items = run_grow(parser->run, list->items, list->count, &list->capacity, sizeof *items);
  if (!items) return;
  list->items = items;
  list->items[list->count++] = node;
}

uint32_t parser_symbol(struct parser *parser, const struct text *name) {
  struct symbols *symbols = parser->symbols;
  for (size_t i = 0; i < symbols->count; i++) {
    if (text_equal(symbols->items[i].name, name)) return (uint32_t)i;
  }
  struct symbol *items = run_grow(parser->run, symbols->items, symbols->count, &symbols->capacity, sizeof *items);
  if (!items) return 0;
  symbols->items = items;
  symbols->items[symbols->count] = (struct symbol){.name = name};
  return (uint32_t)symbols->count++;
}

/* The body of a tag up to one of the names in `ends` (NULL-terminated), which becomes the current token. */
static const struct node *parse_block_body(struct parser *parser, const char *const *ends) {
  parser_take(parser, TOKEN_COLON);
  if (!parser_expect(parser, TOKEN_BLOCK_END, "%}")) return NULL;
  return parse_body(parser, ends);
}

/* The same with one end, which is taken. */
static const struct node *parse_until(struct parser *parser, const char *end) {
  const char *const ends[] = {end, NULL};
  const struct node *body = parse_block_body(parser, ends);
  parser_next(parser);
  return body;
}

static const struct node *parse_if(struct parser *parser, uint32_t line) {
  static const char *const ENDS[] = {"elif", "else", "endif", NULL};
  struct node_list parts = {0};
  do {
    node_list_add(parser, &parts, parse_tuple(parser, false));
    node_list_add(parser, &parts, parse_block_body(parser, ENDS));
  } while (parser_take_name(parser, "elif"));
  if (parser_take_name(parser, "else")) {
    node_list_add(parser, &parts, parse_until(parser, "endif"));
  } else {
    parser_next(parser);
  }
  return parser_node(parser, NODE_IF, line, parts.items, parts.count);
}

static bool names_loop(const struct node *target) {
  if (!target) return false;
  if (target->kind == NODE_NAME) return text_is(target->value.text, "loop");
  for (uint32_t i = 0; i < target->count; i++) {
    if (names_loop(target->children[i])) return true;
  }
  return false;
}

static const struct node *parse_for(struct parser *parser, uint32_t line) {
  static const char *const ENDS[] = {"endfor", "else", NULL};
  const struct node *parts[5] = {parse_target(parser, false)};
  if (names_loop(parts[0])) parser_fail(parser, line, false, "the target of a loop cannot be named 'loop'");
  if (!parser_take_name(parser, "in")) fail_expected(parser, "in");
  parts[1] = parse_tuple(parser, false);
  if (parser_take_name(parser, "if")) parts[2] = parse_expression(parser, true);
  if (parser_at_name(parser, "recursive")) parser_fail(parser, line, true, "recursive loops are not supported");
  parser->loops++;
  parts[3] = parse_block_body(parser, ENDS);
  parser->loops--;
  if (parser_take_name(parser, "else")) {
    parts[4] = parse_until(parser, "endfor");
  } else {
    parser_next(parser);
  }
  return parser_node(parser, NODE_FOR, line, parts, 5);
}

static const struct node *parse_set(struct parser *parser, uint32_t line) {
  const struct node *parts[3] = {parse_target(parser, true)};
  if (parser_take(parser, TOKEN_ASSIGN)) {
    parts[1] = parse_tuple(parser, true);
    return parser_node(parser, NODE_SET, line, parts, 2);
  }
  parts[1] = parse_filters(parser, NULL, false);
  parts[2] = parse_until(parser, "endset");
  return parser_node(parser, NODE_SET_BLOCK, line, parts, 3);
}

static void parse_signature(struct parser *parser, struct macro_node *macro) {
  struct parameter_node *parameters = NULL;
  size_t capacity = 0;
  if (!parser_expect(parser, TOKEN_LEFT_PARENTHESIS, "(")) return;
  while (!parser_at(parser, TOKEN_RIGHT_PARENTHESIS) && !parser->run->failed) {
    if (macro->count && !parser_expect(parser, TOKEN_COMMA, ",")) return;
    uint32_t line = parser_token(parser)->line;
    const struct text *name = parser_expect_name(parser);
    if (!name) return;
    parameters = run_grow(parser->run, parameters, macro->count, &capacity, sizeof *parameters);
    if (!parameters) return;
    struct parameter_node *parameter = &parameters[macro->count];
    parameter->name = name;
    parameter->symbol = parser_symbol(parser, name);
    parser->symbols->items[parameter->symbol].assigned = true;
    if (parser_take(parser, TOKEN_ASSIGN)) {
      parameter->initial = parse_expression(parser, true);
    } else if (macro->count && parameters[macro->count - 1].initial) {
      parser_fail(parser, line, false, "a parameter without a default follows one with a default");
    }
    macro->count++;
    macro->parameters = parameters;
  }
  parser_next(parser);
}

/* A macro's signature, if it has one, and its body up to `end`; `call` receives the call of a call block. */
static struct macro_node *parse_macro_parts(struct parser *parser, bool signature, const char *end,
                                            const struct node **call) {
  struct macro_node *macro = run_allocate(parser->run, 1, sizeof *macro);
  if (!macro) return NULL;
  struct macro_node *outer = parser->macro;
  unsigned loops = parser->loops;
  if (signature) parse_signature(parser, macro);
  if (call) *call = parse_expression(parser, true);
  parser->macro = macro;
  parser->loops = 0;
  macro->body = parse_until(parser, end);
  parser->loops = loops;
  parser->macro = outer;
  if (outer) {
    outer->uses_caller |= macro->uses_caller;
    outer->uses_varargs |= macro->uses_varargs;
    outer->uses_kwargs |= macro->uses_kwargs;
  }
  return macro;
}

static struct node *macro_statement(struct parser *parser, enum node_kind kind, uint32_t line, const struct node *call,
                                    const struct macro_node *macro) {
  struct node *node = parser_node(parser, kind, line, &call, call ? 1 : 0);
  if (!node || !macro || !macro->body) return NULL;
  node->macro = macro;
  if (macro->body->depth >= node->depth) node->depth = macro->body->depth + 1;
  if (node->depth > JINJA_TREE_DEPTH)
    parser_fail(parser, line, false, "more than %d nested statements", JINJA_TREE_DEPTH);
  return node;
}

static const struct node *parse_macro(struct parser *parser, uint32_t line) {
  const struct text *name = parser_expect_name(parser);
  if (!name) return NULL;
  uint32_t symbol = parser_symbol(parser, name);
  parser->symbols->items[symbol].assigned = true;
  struct macro_node *macro = parse_macro_parts(parser, true, "endmacro", NULL);
  if (macro) macro->name = name;
  struct node *node = macro_statement(parser, NODE_MACRO, line, NULL, macro);
  if (node) node->symbol = symbol;
  return node;
}

static const struct node *parse_call_block(struct parser *parser, uint32_t line) {
  const struct node *call = NULL;
  bool signature = parser_at(parser, TOKEN_LEFT_PARENTHESIS);
  struct macro_node *macro = parse_macro_parts(parser, signature, "endcall", &call);
  if (!macro || parser->run->failed) return NULL;
  if (!call || call->kind != NODE_CALL) {
    parser_fail(parser, line, false, "a call block needs a call");
    return NULL;
  }
  macro->name = text_view(parser->run, "caller", strlen("caller"));
  return macro_statement(parser, NODE_CALL_BLOCK, line, call, macro);
}

static const struct node *parse_with(struct parser *parser, uint32_t line) {
  struct node_list parts = {0};
  while (!parser_at(parser, TOKEN_BLOCK_END) && !parser->run->failed) {
    if (parts.count && !parser_expect(parser, TOKEN_COMMA, ",")) return NULL;
    const struct text *name = parser_at(parser, TOKEN_NAME) ? parser_token(parser)->value.text : NULL;
    /* Only one name a time: a comma begins the next assignment. */
    if (!name) {
      fail_expected(parser, "name");
      return NULL;
    }
    struct node *target = parser_node(parser, NODE_NAME, line, NULL, 0);
    if (!target) return NULL;
    target->symbol = parser_symbol(parser, name);
    target->value = value_text(name);
    parser->symbols->items[target->symbol].assigned = true;
    parser_next(parser);
    if (!parser_expect(parser, TOKEN_ASSIGN, "=")) return NULL;
    node_list_add(parser, &parts, target);
    node_list_add(parser, &parts, parse_expression(parser, true));
  }
  node_list_add(parser, &parts, parse_until(parser, "endwith"));
  return parser_node(parser, NODE_WITH, line, parts.items, parts.count);
}

static const struct node *parse_block(struct parser *parser, uint32_t line) {
  const struct text *name = parser_expect_name(parser);
  bool scoped = parser_take_name(parser, "scoped");
  unsigned loops = parser->loops;
  parser->loops = 0;
  const struct node *body = parse_until(parser, "endblock");
  parser->loops = loops;
  const struct token *repeated = parser_token(parser);
  if (name && repeated->kind == TOKEN_NAME && text_equal(repeated->value.text, name)) parser_next(parser);
  struct node *node = parser_node(parser, NODE_SCOPE, line, &body, 1);
  if (node) node->which = scoped;
  return node;
}

static const struct node *parse_print(struct parser *parser, uint32_t line) {
  struct node_list parts = {0};
  while (!parser_at(parser, TOKEN_BLOCK_END) && !parser->run->failed) {
    if (parts.count && !parser_expect(parser, TOKEN_COMMA, ",")) return NULL;
    node_list_add(parser, &parts, parse_expression(parser, true));
  }
  return parser_node(parser, NODE_PRINT, line, parts.items, parts.count);
}

static const struct node *parse_filter_block(struct parser *parser, uint32_t line) {
  const struct node *parts[2] = {parse_filters(parser, NULL, true)};
  parts[1] = parse_until(parser, "endfilter");
  return parser_node(parser, NODE_FILTER_BLOCK, line, parts, 2);
}

/* Where Transformers marks what the model says; the marks do not show in the text, but names set there stay there. */
static const struct node *parse_generation(struct parser *parser, uint32_t line) {
  const struct node *body = parse_until(parser, "endgeneration");
  struct node *node = parser_node(parser, NODE_SCOPE, line, &body, 1);
  if (node) node->which = true;
  return node;
}

static const struct node *parse_jump(struct parser *parser, uint32_t line, enum node_kind kind) {
  if (!parser->loops) parser_fail(parser, line, false, "break or continue outside of a loop");
  return parser_node(parser, kind, line, NULL, 0);
}

/* A tag after "{%", up to and without its "%}". */
static const struct node *parse_statement(struct parser *parser) {
  uint32_t line = parser_token(parser)->line;
  const struct text *name = parser_expect_name(parser);
  if (!name) return NULL;
  if (text_is(name, "if")) return parse_if(parser, line);
  if (text_is(name, "for")) return parse_for(parser, line);
  if (text_is(name, "set")) return parse_set(parser, line);
  if (text_is(name, "macro")) return parse_macro(parser, line);
  if (text_is(name, "call")) return parse_call_block(parser, line);
  if (text_is(name, "with")) return parse_with(parser, line);
  if (text_is(name, "filter")) return parse_filter_block(parser, line);
  if (text_is(name, "print")) return parse_print(parser, line);
  if (text_is(name, "block")) return parse_block(parser, line);
  if (text_is(name, "generation")) return parse_generation(parser, line);
  if (text_is(name, "break")) return parse_jump(parser, line, NODE_BREAK);
  if (text_is(name, "continue")) return parse_jump(parser, line, NODE_CONTINUE);
  parser_fail(parser, line, true, "unknown tag '%.*s'", (int)name->length, name->bytes);
  return NULL;
}

static bool at_end_tag(const struct parser *parser, const char *const *ends) {
  for (size_t i = 0; ends && ends[i]; i++) {
    if (parser_at_name(parser, ends[i])) return true;
  }
  return false;
}

/* What a person left open, for the message. */
static void fail_open(struct parser *parser, const char *const *ends) {
  struct buffer names = {0};
  for (size_t i = 0; ends[i]; i++) buffer_append_format(&names, "%s'%s'", i ? " or " : "", ends[i]);
  parser_fail(parser, parser_token(parser)->line, false, "unexpected end of template, expected %s",
              buffer_text(&names));
  buffer_free(&names);
}

static const struct node *parse_body(struct parser *parser, const char *const *ends) {
  uint32_t line = parser_token(parser)->line;
  struct node_list statements = {0};
  if (!run_enter(parser->run)) return NULL;
  while (!parser->run->failed && !parser_at(parser, TOKEN_END)) {
    const struct token *token = parser_token(parser);
    parser_next(parser);
    if (token->kind == TOKEN_DATA) {
      struct node *data = parser_node(parser, NODE_DATA, token->line, NULL, 0);
      if (data) data->value = token->value;
      node_list_add(parser, &statements, data);
    } else if (token->kind == TOKEN_PRINT_BEGIN) {
      const struct node *expression = parse_tuple(parser, true);
      node_list_add(parser, &statements, parser_node(parser, NODE_PRINT, token->line, &expression, 1));
      parser_expect(parser, TOKEN_PRINT_END, "}}");
    } else {
      if (at_end_tag(parser, ends)) break;
      node_list_add(parser, &statements, parse_statement(parser));
      parser_expect(parser, TOKEN_BLOCK_END, "%}");
    }
  }
  if (ends && parser_at(parser, TOKEN_END)) fail_open(parser, ends);
  run_leave(parser->run);
  return parser_node(parser, NODE_BODY, line, statements.items, statements.count);
}

/* A function that is neither global nor made by the template can never be called. */
static void check_calls(struct parser *parser) {
  for (size_t i = 0; i < parser->symbols->count; i++) {
    const struct symbol *symbol = &parser->symbols->items[i];
    if (!symbol->called_line || symbol->assigned || function_find(symbol->name) >= 0) continue;
    if (text_is(symbol->name, "caller")) continue;
    if (text_is(symbol->name, "loop")) {
      parser_fail(parser, symbol->called_line, true, "recursive loops are not supported");
    }
    parser_fail(parser, symbol->called_line, true, "no function named '%.*s'", (int)symbol->name->length,
                symbol->name->bytes);
  }
}

const struct node *parse_template(struct run *run, struct token_stream tokens, struct symbols *symbols) {
  struct parser parser = {.run = run, .tokens = tokens.tokens, .count = tokens.count, .symbols = symbols};
  if (run->failed) return NULL;
  const struct node *body = parse_body(&parser, NULL);
  if (!run->failed) check_calls(&parser);
  return run->failed ? NULL : body;
}

#include <string.h>

#include "base/buffer.h"
#include "text/jinja_filters.h"
#include "text/jinja_functions.h"
#include "text/jinja_methods.h"
#include "text/jinja_parser.h"
#include "text/jinja_tests.h"

static const struct node *parse_unary(struct parser *parser, bool filters);
static const struct node *parse_primary(struct parser *parser);

static const struct node *node_pair(struct parser *parser, enum node_kind kind, uint32_t line, const struct node *left,
                                    const struct node *right) {
  const struct node *children[] = {left, right};
  return parser_node(parser, kind, line, children, right ? 2 : 1);
}

static const struct node *constant(struct parser *parser, uint32_t line, struct value value) {
  struct node *node = parser_node(parser, NODE_CONSTANT, line, NULL, 0);
  if (node) node->value = value;
  return node;
}

/* Whether a list of expressions with commas ends here. */
static bool tuple_ends(const struct parser *parser) {
  return parser_at(parser, TOKEN_PRINT_END) || parser_at(parser, TOKEN_BLOCK_END) ||
         parser_at(parser, TOKEN_RIGHT_PARENTHESIS);
}

static const struct node *parse_items(struct parser *parser, bool conditional, bool parenthesised) {
  uint32_t line = parser_token(parser)->line;
  struct node_list items = {0};
  bool tuple = false;
  for (;;) {
    if (tuple_ends(parser)) break;
    node_list_add(parser, &items, parse_expression(parser, conditional));
    if (!parser_take(parser, TOKEN_COMMA)) break;
    tuple = true;
  }
  if (!tuple && items.count) return items.items[0];
  if (!tuple && !parenthesised) {
    parser_fail(parser, line, false, "expected an expression, got '%s'", token_describe(parser_token(parser)));
    return NULL;
  }
  return parser_node(parser, NODE_TUPLE, line, items.items, items.count);
}

const struct node *parse_tuple(struct parser *parser, bool conditional) {
  return parse_items(parser, conditional, false);
}

static const struct node *parse_list(struct parser *parser) {
  uint32_t line = parser_token(parser)->line;
  struct node_list items = {0};
  parser_next(parser);
  while (!parser_at(parser, TOKEN_RIGHT_BRACKET) && !parser->run->failed) {
    node_list_add(parser, &items, parse_expression(parser, true));
    if (!parser_take(parser, TOKEN_COMMA)) break;
  }
  parser_expect(parser, TOKEN_RIGHT_BRACKET, "]");
  return parser_node(parser, NODE_LIST, line, items.items, items.count);
}

static const struct node *parse_mapping(struct parser *parser) {
  uint32_t line = parser_token(parser)->line;
  struct node_list items = {0};
  parser_next(parser);
  while (!parser_at(parser, TOKEN_RIGHT_BRACE) && !parser->run->failed) {
    node_list_add(parser, &items, parse_expression(parser, true));
    parser_expect(parser, TOKEN_COLON, ":");
    node_list_add(parser, &items, parse_expression(parser, true));
    if (!parser_take(parser, TOKEN_COMMA)) break;
  }
  parser_expect(parser, TOKEN_RIGHT_BRACE, "}");
  return parser_node(parser, NODE_MAPPING, line, items.items, items.count);
}

static const struct node *parse_name(struct parser *parser) {
  const struct token *token = parser_token(parser);
  const struct text *name = token->value.text;
  parser_next(parser);
  if (text_is(name, "true") || text_is(name, "True")) return constant(parser, token->line, value_boolean(true));
  if (text_is(name, "false") || text_is(name, "False")) return constant(parser, token->line, value_boolean(false));
  if (text_is(name, "none") || text_is(name, "None")) return constant(parser, token->line, value_none());
  struct node *node = parser_node(parser, NODE_NAME, token->line, NULL, 0);
  if (!node) return NULL;
  node->symbol = parser_symbol(parser, name);
  node->value = value_text(name);
  if (parser->macro && text_is(name, "caller")) parser->macro->uses_caller = true;
  if (parser->macro && text_is(name, "varargs")) parser->macro->uses_varargs = true;
  if (parser->macro && text_is(name, "kwargs")) parser->macro->uses_kwargs = true;
  return node;
}

/* Strings that follow each other are one. */
static const struct node *parse_string(struct parser *parser) {
  const struct token *token = parser_token(parser);
  const struct text *text = token->value.text;
  parser_next(parser);
  if (parser_at(parser, TOKEN_STRING)) {
    struct buffer joined = {0};
    buffer_append(&joined, text->bytes, text->length);
    for (; parser_at(parser, TOKEN_STRING); parser_next(parser)) {
      const struct text *more = parser_token(parser)->value.text;
      buffer_append(&joined, more->bytes, more->length);
    }
    text = text_make(parser->run, buffer_text(&joined), joined.length);
    buffer_free(&joined);
  }
  return constant(parser, token->line, value_text(text));
}

static const struct node *parse_primary(struct parser *parser) {
  const struct token *token = parser_token(parser);
  const struct node *node = NULL;
  switch (token->kind) {
    case TOKEN_NAME:
      return parse_name(parser);
    case TOKEN_STRING:
      return parse_string(parser);
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
      parser_next(parser);
      return constant(parser, token->line, token->value);
    case TOKEN_LEFT_PARENTHESIS:
      parser_next(parser);
      node = parse_items(parser, true, true);
      parser_expect(parser, TOKEN_RIGHT_PARENTHESIS, ")");
      return node;
    case TOKEN_LEFT_BRACKET:
      return parse_list(parser);
    case TOKEN_LEFT_BRACE:
      return parse_mapping(parser);
    default:
      parser_fail(parser, token->line, false, "unexpected '%s'", token_describe(token));
      return NULL;
  }
}

static const struct node *parse_slice_part(struct parser *parser) {
  if (parser_at(parser, TOKEN_COLON) || parser_at(parser, TOKEN_RIGHT_BRACKET)) return NULL;
  return parse_expression(parser, true);
}

static const struct node *parse_subscript(struct parser *parser, const struct node *object) {
  uint32_t line = parser_token(parser)->line;
  parser_next(parser);
  if (parser_at(parser, TOKEN_RIGHT_BRACKET)) {
    parser_fail(parser, line, false, "expected a subscript between the brackets");
    return NULL;
  }
  const struct node *parts[4] = {object, parse_slice_part(parser), NULL, NULL};
  if (!parser_at(parser, TOKEN_COLON)) {
    struct node_list items = {0};
    node_list_add(parser, &items, parts[1]);
    while (parser_take(parser, TOKEN_COMMA)) node_list_add(parser, &items, parse_expression(parser, true));
    parser_expect(parser, TOKEN_RIGHT_BRACKET, "]");
    if (items.count > 1) parts[1] = parser_node(parser, NODE_TUPLE, line, items.items, items.count);
    return parser_node(parser, NODE_ITEM, line, parts, 2);
  }
  parser_next(parser);
  parts[2] = parse_slice_part(parser);
  if (parser_take(parser, TOKEN_COLON)) parts[3] = parse_slice_part(parser);
  parser_expect(parser, TOKEN_RIGHT_BRACKET, "]");
  return parser_node(parser, NODE_SLICE, line, parts, 4);
}

static const struct node *parse_attribute(struct parser *parser, const struct node *object) {
  uint32_t line = parser_token(parser)->line;
  parser_next(parser);
  const struct token *token = parser_token(parser);
  if (token->kind == TOKEN_INTEGER) {
    parser_next(parser);
    return node_pair(parser, NODE_ITEM, line, object, constant(parser, token->line, token->value));
  }
  const struct text *name = parser_expect_name(parser);
  struct node *node = parser_node(parser, NODE_ATTRIBUTE, line, &object, 1);
  if (node && name) node->value = value_text(name);
  return node;
}

static void add_keyword(struct parser *parser, struct arguments_node *arguments) {
  struct keyword_node *keywords = run_allocate(parser->run, arguments->keyword_count + 1, sizeof *keywords);
  const struct text *name = parser_token(parser)->value.text;
  parser_next(parser);
  parser_next(parser);
  const struct node *value = parse_expression(parser, true);
  if (!keywords || !value) return;
  if (arguments->keyword_count) memcpy(keywords, arguments->keywords, arguments->keyword_count * sizeof *keywords);
  for (size_t i = 0; i < arguments->keyword_count; i++) {
    if (text_equal(keywords[i].name, name)) {
      parser_fail(parser, value->line, false, "the keyword argument '%.*s' is repeated", (int)name->length,
                  name->bytes);
    }
  }
  keywords[arguments->keyword_count++] = (struct keyword_node){name, value};
  arguments->keywords = keywords;
}

static const struct arguments_node *parse_arguments(struct parser *parser) {
  uint32_t line = parser_token(parser)->line;
  struct arguments_node *arguments = run_allocate(parser->run, 1, sizeof *arguments);
  struct node_list positional = {0};
  bool in_order = true;
  parser_expect(parser, TOKEN_LEFT_PARENTHESIS, "(");
  while (arguments && !parser_at(parser, TOKEN_RIGHT_PARENTHESIS) && !parser->run->failed) {
    if (parser_take(parser, TOKEN_MULTIPLY)) {
      in_order &= !arguments->rest && !arguments->rest_keywords;
      arguments->rest = parse_expression(parser, true);
    } else if (parser_take(parser, TOKEN_POWER)) {
      in_order &= !arguments->rest_keywords;
      arguments->rest_keywords = parse_expression(parser, true);
    } else if (parser_at(parser, TOKEN_NAME) && parser_look(parser)->kind == TOKEN_ASSIGN) {
      in_order &= !arguments->rest_keywords;
      add_keyword(parser, arguments);
    } else {
      in_order &= !arguments->rest && !arguments->rest_keywords && !arguments->keyword_count;
      node_list_add(parser, &positional, parse_expression(parser, true));
    }
    if (!parser_take(parser, TOKEN_COMMA)) break;
  }
  parser_expect(parser, TOKEN_RIGHT_PARENTHESIS, ")");
  if (!in_order) parser_fail(parser, line, false, "invalid order of arguments in a call");
  if (!arguments) return NULL;
  arguments->positional = positional.items;
  arguments->positional_count = positional.count;
  return arguments;
}

static uint32_t arguments_depth(const struct arguments_node *arguments) {
  uint32_t deepest = 0;
  for (size_t i = 0; i < arguments->positional_count; i++) {
    if (arguments->positional[i]->depth > deepest) deepest = arguments->positional[i]->depth;
  }
  for (size_t i = 0; i < arguments->keyword_count; i++) {
    if (arguments->keywords[i].value->depth > deepest) deepest = arguments->keywords[i].value->depth;
  }
  if (arguments->rest && arguments->rest->depth > deepest) deepest = arguments->rest->depth;
  if (arguments->rest_keywords && arguments->rest_keywords->depth > deepest) deepest = arguments->rest_keywords->depth;
  return deepest;
}

/* A call, filter or test of `object`, which may be NULL. */
static struct node *node_with_arguments(struct parser *parser, enum node_kind kind, uint32_t line,
                                        const struct node *object, const struct arguments_node *arguments) {
  static const struct arguments_node NONE;
  struct node *node = parser_node(parser, kind, line, &object, 1);
  if (!node) return NULL;
  node->arguments = arguments ? arguments : &NONE;
  uint32_t depth = arguments_depth(node->arguments) + 1;
  if (depth > node->depth) node->depth = depth;
  if (node->depth > JINJA_TREE_DEPTH)
    parser_fail(parser, line, false, "more than %d nested expressions", JINJA_TREE_DEPTH);
  return node;
}

static const struct node *parse_call(struct parser *parser, const struct node *object) {
  uint32_t line = parser_token(parser)->line;
  const struct arguments_node *arguments = parse_arguments(parser);
  if (!object || parser->run->failed) return NULL;
  if (object->kind == NODE_NAME) {
    struct symbol *symbol = &parser->symbols->items[object->symbol];
    if (!symbol->called_line) symbol->called_line = line;
  }
  if (object->kind == NODE_ATTRIBUTE && method_is_lacking(object->value.text)) {
    const struct text *name = object->value.text;
    parser_fail(parser, line, true, "the method '%.*s' is not supported", (int)name->length, name->bytes);
  }
  return node_with_arguments(parser, NODE_CALL, line, object, arguments);
}

static const struct node *parse_postfix(struct parser *parser, const struct node *node) {
  while (!parser->run->failed) {
    if (parser_at(parser, TOKEN_DOT)) {
      node = parse_attribute(parser, node);
    } else if (parser_at(parser, TOKEN_LEFT_BRACKET)) {
      node = parse_subscript(parser, node);
    } else if (parser_at(parser, TOKEN_LEFT_PARENTHESIS)) {
      node = parse_call(parser, node);
    } else {
      break;
    }
  }
  return node;
}

/* map('upper'), select('defined')…: a filter or test that is named by a constant can be looked up now. */
static void check_named_argument(struct parser *parser, const struct text *filter,
                                 const struct arguments_node *arguments, uint32_t line) {
  bool attribute = text_is(filter, "selectattr") || text_is(filter, "rejectattr");
  bool test = attribute || text_is(filter, "select") || text_is(filter, "reject");
  size_t position = attribute ? 1 : 0;
  if ((!test && !text_is(filter, "map")) || !arguments || arguments->positional_count <= position) return;
  const struct node *argument = arguments->positional[position];
  if (argument->kind != NODE_CONSTANT || argument->value.kind != VALUE_STRING) return;
  const struct text *name = argument->value.text;
  if (test ? test_find(name) < 0 : filter_find(name) < 0) {
    parser_fail(parser, line, true, "no %s named '%.*s'", test ? "test" : "filter", (int)name->length, name->bytes);
  }
}

const struct node *parse_filters(struct parser *parser, const struct node *node, bool starts_inline) {
  while ((starts_inline || parser_take(parser, TOKEN_PIPE)) && !parser->run->failed) {
    uint32_t line = parser_token(parser)->line;
    const struct text *name = parser_expect_name(parser);
    if (!name) return NULL;
    starts_inline = false;
    int which = filter_find(name);
    if (which < 0 || parser_at(parser, TOKEN_DOT)) {
      parser_fail(parser, line, true, "no filter named '%.*s'", (int)name->length, name->bytes);
      return NULL;
    }
    bool called = parser_at(parser, TOKEN_LEFT_PARENTHESIS);
    const struct arguments_node *arguments = called ? parse_arguments(parser) : NULL;
    if (parser->run->failed) return NULL;
    check_named_argument(parser, name, arguments, line);
    struct node *filter = node_with_arguments(parser, NODE_FILTER, line, node, arguments);
    if (filter) filter->which = (uint32_t)which;
    node = filter;
  }
  return node;
}

/* Whether a test's one argument follows without parentheses: `x is divisibleby 3`. */
static bool bare_argument_follows(const struct parser *parser) {
  switch (parser_token(parser)->kind) {
    case TOKEN_NAME:
      return !parser_at_name(parser, "else") && !parser_at_name(parser, "or") && !parser_at_name(parser, "and");
    case TOKEN_STRING:
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
    case TOKEN_LEFT_BRACKET:
    case TOKEN_LEFT_BRACE:
      return true;
    default:
      return false;
  }
}

static const struct node *parse_test(struct parser *parser, const struct node *node) {
  uint32_t line = parser_token(parser)->line;
  parser_next(parser);
  bool negated = parser_take_name(parser, "not");
  const struct text *name = parser_expect_name(parser);
  if (!name) return NULL;
  int which = test_find(name);
  if (which < 0 || parser_at(parser, TOKEN_DOT)) {
    parser_fail(parser, line, true, "no test named '%.*s'", (int)name->length, name->bytes);
    return NULL;
  }
  const struct arguments_node *arguments = NULL;
  if (parser_at(parser, TOKEN_LEFT_PARENTHESIS)) {
    arguments = parse_arguments(parser);
  } else if (bare_argument_follows(parser)) {
    if (parser_at_name(parser, "is")) {
      parser_fail(parser, line, false, "tests cannot be chained with 'is'");
      return NULL;
    }
    struct arguments_node *one = run_allocate(parser->run, 1, sizeof *one);
    struct node_list positional = {0};
    node_list_add(parser, &positional, parse_postfix(parser, parse_primary(parser)));
    if (!one || parser->run->failed) return NULL;
    one->positional = positional.items;
    one->positional_count = positional.count;
    arguments = one;
  }
  if (parser->run->failed) return NULL;
  struct node *test = node_with_arguments(parser, NODE_TEST, line, node, arguments);
  if (test) test->which = (uint32_t)which;
  return negated ? node_pair(parser, NODE_NOT, line, test, NULL) : test;
}

static const struct node *parse_unary(struct parser *parser, bool filters) {
  uint32_t line = parser_token(parser)->line;
  const struct node *node = NULL;
  if (!run_enter(parser->run)) return NULL;
  if (parser_take(parser, TOKEN_SUBTRACT)) {
    node = node_pair(parser, NODE_NEGATIVE, line, parse_unary(parser, false), NULL);
  } else if (parser_take(parser, TOKEN_ADD)) {
    node = node_pair(parser, NODE_POSITIVE, line, parse_unary(parser, false), NULL);
  } else {
    node = parse_primary(parser);
  }
  node = parse_postfix(parser, node);
  while (filters && !parser->run->failed) {
    if (parser_at(parser, TOKEN_PIPE)) {
      node = parse_filters(parser, node, false);
    } else if (parser_at_name(parser, "is")) {
      node = parse_test(parser, node);
    } else if (parser_at(parser, TOKEN_LEFT_PARENTHESIS)) {
      node = parse_call(parser, node);
    } else {
      break;
    }
  }
  run_leave(parser->run);
  return node;
}

static const struct node *binary(struct parser *parser, enum token_kind operation, uint32_t line,
                                 const struct node *left, const struct node *right) {
  const struct node *children[] = {left, right};
  struct node *node = parser_node(parser, NODE_BINARY, line, children, 2);
  if (node) node->which = operation;
  return node;
}

static const struct node *parse_power(struct parser *parser) {
  uint32_t line = parser_token(parser)->line;
  const struct node *left = parse_unary(parser, true);
  while (!parser->run->failed && parser_take(parser, TOKEN_POWER)) {
    left = binary(parser, TOKEN_POWER, line, left, parse_unary(parser, true));
  }
  return left;
}

static const struct node *parse_product(struct parser *parser) {
  const struct node *left = parse_power(parser);
  while (!parser->run->failed) {
    const struct token *token = parser_token(parser);
    if (token->kind != TOKEN_MULTIPLY && token->kind != TOKEN_DIVIDE && token->kind != TOKEN_FLOOR_DIVIDE &&
        token->kind != TOKEN_MODULO) {
      break;
    }
    parser_next(parser);
    left = binary(parser, token->kind, token->line, left, parse_power(parser));
  }
  return left;
}

static const struct node *parse_concatenation(struct parser *parser) {
  uint32_t line = parser_token(parser)->line;
  const struct node *first = parse_product(parser);
  if (!parser_at(parser, TOKEN_TILDE)) return first;
  struct node_list parts = {0};
  node_list_add(parser, &parts, first);
  while (parser_take(parser, TOKEN_TILDE)) node_list_add(parser, &parts, parse_product(parser));
  return parser_node(parser, NODE_CONCAT, line, parts.items, parts.count);
}

static const struct node *parse_sum(struct parser *parser) {
  const struct node *left = parse_concatenation(parser);
  while (!parser->run->failed && (parser_at(parser, TOKEN_ADD) || parser_at(parser, TOKEN_SUBTRACT))) {
    const struct token *token = parser_token(parser);
    parser_next(parser);
    left = binary(parser, token->kind, token->line, left, parse_concatenation(parser));
  }
  return left;
}

static bool take_comparison(struct parser *parser, enum compare_operator *operation) {
  enum token_kind kind = parser_token(parser)->kind;
  if (kind >= TOKEN_EQUAL && kind <= TOKEN_LESS_EQUAL) {
    static const enum compare_operator OPERATIONS[] = {COMPARE_EQUAL,         COMPARE_NOT_EQUAL, COMPARE_GREATER,
                                                       COMPARE_GREATER_EQUAL, COMPARE_LESS,      COMPARE_LESS_EQUAL};
    *operation = OPERATIONS[kind - TOKEN_EQUAL];
    parser_next(parser);
    return true;
  }
  if (parser_take_name(parser, "in")) {
    *operation = COMPARE_IN;
    return true;
  }
  const struct token *next = parser_look(parser);
  if (!parser_at_name(parser, "not") || next->kind != TOKEN_NAME || !text_is(next->value.text, "in")) return false;
  parser_next(parser);
  parser_next(parser);
  *operation = COMPARE_NOT_IN;
  return true;
}

static const struct node *parse_comparison(struct parser *parser) {
  uint32_t line = parser_token(parser)->line;
  const struct node *first = parse_sum(parser);
  enum compare_operator operations[JINJA_TREE_DEPTH];
  struct node_list operands = {0};
  size_t count = 0;
  while (!parser->run->failed && take_comparison(parser, &operations[count])) {
    if (!count) node_list_add(parser, &operands, first);
    node_list_add(parser, &operands, parse_sum(parser));
    if (++count == JINJA_TREE_DEPTH) {
      parser_fail(parser, line, false, "a comparison of more than %d operands", JINJA_TREE_DEPTH);
      return NULL;
    }
  }
  if (!count) return first;
  enum compare_operator *copy = run_allocate(parser->run, count, sizeof *copy);
  struct node *node = parser_node(parser, NODE_COMPARE, line, operands.items, operands.count);
  if (!copy || !node) return NULL;
  memcpy(copy, operations, count * sizeof *copy);
  node->operators = copy;
  return node;
}

static const struct node *parse_not(struct parser *parser) {
  uint32_t line = parser_token(parser)->line;
  if (!parser_take_name(parser, "not")) return parse_comparison(parser);
  if (!run_enter(parser->run)) return NULL;
  const struct node *node = node_pair(parser, NODE_NOT, line, parse_not(parser), NULL);
  run_leave(parser->run);
  return node;
}

static const struct node *parse_and(struct parser *parser) {
  uint32_t line = parser_token(parser)->line;
  const struct node *left = parse_not(parser);
  while (parser_take_name(parser, "and")) left = node_pair(parser, NODE_AND, line, left, parse_not(parser));
  return left;
}

static const struct node *parse_or(struct parser *parser) {
  uint32_t line = parser_token(parser)->line;
  const struct node *left = parse_and(parser);
  while (parser_take_name(parser, "or")) left = node_pair(parser, NODE_OR, line, left, parse_and(parser));
  return left;
}

const struct node *parse_expression(struct parser *parser, bool conditional) {
  if (!conditional) return parse_or(parser);
  if (!run_enter(parser->run)) return NULL;
  uint32_t line = parser_token(parser)->line;
  const struct node *node = parse_or(parser);
  while (parser_take_name(parser, "if")) {
    const struct node *test = parse_or(parser);
    const struct node *other = parser_take_name(parser, "else") ? parse_expression(parser, true) : NULL;
    const struct node *children[] = {node, test, other};
    node = parser_node(parser, NODE_CONDITION, line, children, 3);
  }
  run_leave(parser->run);
  return node;
}

static const struct node *parse_single_target(struct parser *parser, bool namespaces) {
  uint32_t line = parser_token(parser)->line;
  if (parser_take(parser, TOKEN_LEFT_PARENTHESIS)) {
    if (!run_enter(parser->run)) return NULL;
    const struct node *tuple = parse_target(parser, namespaces);
    run_leave(parser->run);
    parser_expect(parser, TOKEN_RIGHT_PARENTHESIS, ")");
    return tuple;
  }
  const struct text *name = parser_expect_name(parser);
  if (!name) return NULL;
  static const char *const CONSTANTS[] = {"true", "false", "none", "True", "False", "None"};
  for (size_t i = 0; i < sizeof CONSTANTS / sizeof *CONSTANTS; i++) {
    if (text_is(name, CONSTANTS[i])) parser_fail(parser, line, false, "cannot assign to '%s'", CONSTANTS[i]);
  }
  bool attribute = namespaces && parser_take(parser, TOKEN_DOT);
  struct node *node = parser_node(parser, attribute ? NODE_NAMESPACE_TARGET : NODE_NAME, line, NULL, 0);
  if (!node) return NULL;
  node->symbol = parser_symbol(parser, name);
  node->value = value_text(name);
  if (attribute) {
    const struct text *member = parser_expect_name(parser);
    if (member) node->value = value_text(member);
  } else {
    parser->symbols->items[node->symbol].assigned = true;
  }
  return node;
}

const struct node *parse_target(struct parser *parser, bool namespaces) {
  uint32_t line = parser_token(parser)->line;
  const struct node *first = parse_single_target(parser, namespaces);
  if (!parser_at(parser, TOKEN_COMMA)) return first;
  struct node_list targets = {0};
  node_list_add(parser, &targets, first);
  while (parser_take(parser, TOKEN_COMMA)) {
    if (tuple_ends(parser) || parser_at_name(parser, "in") || parser_at(parser, TOKEN_ASSIGN)) break;
    node_list_add(parser, &targets, parse_single_target(parser, namespaces));
  }
  return parser_node(parser, NODE_TUPLE, line, targets.items, targets.count);
}

/* Tokens to the tree of a template, by Jinja's grammar. What the interpreter lacks is refused here: unknown tags,
 * filters, tests and functions, and Python's string methods that are not provided.
 *
 * jinja_parser.c has the statements, jinja_expression.c the expressions; this header is what the two share.
 */
#ifndef KAIJU_TEXT_JINJA_PARSER_H
#define KAIJU_TEXT_JINJA_PARSER_H

#include "text/jinja_lexer.h"
#include "text/jinja_tree.h"

struct symbol {
  const struct text *name;
  bool assigned;        /* somewhere in the template */
  uint32_t called_line; /* where it is first called as a function, 0 for nowhere */
};

struct symbols {
  struct symbol *items;
  size_t count, capacity;
};

struct node_list {
  const struct node **items;
  size_t count, capacity;
};

struct parser {
  struct run *run;
  const struct token *tokens;
  size_t at, count;
  struct symbols *symbols;
  struct macro_node *macro; /* the innermost one that the position is in, or NULL */
  unsigned loops;           /* that break and continue may mean here */
};

/* Parses a whole template into a body; the symbols are numbered from 0. Failures are the run's. */
const struct node *parse_template(struct run *run, struct token_stream tokens, struct symbols *symbols);

/* The token at the position, and the one after it. */
const struct token *parser_token(const struct parser *parser);
const struct token *parser_look(const struct parser *parser);
void parser_next(struct parser *parser);
bool parser_at(const struct parser *parser, enum token_kind kind);
bool parser_at_name(const struct parser *parser, const char *name);
/* Takes the token if it is that one. */
bool parser_take(struct parser *parser, enum token_kind kind);
bool parser_take_name(struct parser *parser, const char *name);
/* The same, failing otherwise; `what` is how a person writes it. */
bool parser_expect(struct parser *parser, enum token_kind kind, const char *what);
const struct text *parser_expect_name(struct parser *parser);
/* Fails at the line, with a feature that is valid but not provided if `unsupported`. */
void parser_fail(struct parser *parser, uint32_t line, bool unsupported, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A node with a copy of the children; NULL once the run has failed. */
struct node *parser_node(struct parser *parser, enum node_kind kind, uint32_t line, const struct node *const *children,
                         size_t count);
void node_list_add(struct parser *parser, struct node_list *list, const struct node *node);
uint32_t parser_symbol(struct parser *parser, const struct text *name);

/* One expression; `conditional` allows `a if b else c`. */
const struct node *parse_expression(struct parser *parser, bool conditional);
/* One expression, or a tuple of several with commas. */
const struct node *parse_tuple(struct parser *parser, bool conditional);
/* What may be assigned to: a name, a tuple of targets and, where allowed, NAMESPACE.NAME. */
const struct node *parse_target(struct parser *parser, bool namespaces);
/* Filters after a "|", applied to `node`, which is NULL for the text of a block; or the first one without "|". */
const struct node *parse_filters(struct parser *parser, const struct node *node, bool starts_inline);

#endif

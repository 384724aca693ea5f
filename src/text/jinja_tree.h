/* The tree that a template is parsed into: expressions and statements. It lives in the arena of its template. */
#ifndef KAIJU_TEXT_JINJA_TREE_H
#define KAIJU_TEXT_JINJA_TREE_H

#include "text/jinja_value.h"

enum node_kind {
  /* Expressions. */
  NODE_CONSTANT,  /* value */
  NODE_NAME,      /* symbol, value: its text */
  NODE_LIST,      /* children */
  NODE_TUPLE,     /* children */
  NODE_MAPPING,   /* children: key, value, key, value… */
  NODE_ATTRIBUTE, /* children[0].value */
  NODE_ITEM,      /* children[0][children[1]] */
  NODE_SLICE,     /* children[0][children[1]:children[2]:children[3]], NULL where left out */
  NODE_CALL,      /* children[0](arguments) */
  NODE_FILTER,    /* children[0] | which(arguments); children[0] is NULL in filter blocks and sets: the text */
  NODE_TEST,      /* children[0] is which(arguments) */
  NODE_CONDITION, /* children[0] if children[1] else children[2], which may be NULL */
  NODE_AND,
  NODE_OR,
  NODE_NOT,
  NODE_NEGATIVE,
  NODE_POSITIVE,
  NODE_BINARY,           /* children[0] which children[1]: a token kind */
  NODE_COMPARE,          /* children[0], then operators[i] children[i + 1] */
  NODE_CONCAT,           /* children joined with ~ */
  NODE_NAMESPACE_TARGET, /* symbol.value, only assigned to */
  /* Statements. */
  NODE_DATA,         /* value */
  NODE_PRINT,        /* children, one after the other */
  NODE_IF,           /* children: test, body (NODE_BODY), test, body…, and the else body if their number is odd */
  NODE_FOR,          /* children: target, iterable, filter or NULL, body, else body or NULL */
  NODE_SET,          /* children: target, expression */
  NODE_SET_BLOCK,    /* children: target, filter or NULL, body */
  NODE_MACRO,        /* symbol, value: its name, macro */
  NODE_CALL_BLOCK,   /* children[0]: the call; macro: the caller */
  NODE_FILTER_BLOCK, /* children: filter, body */
  NODE_WITH,         /* children: target, value, target, value…, body */
  NODE_SCOPE, /* children[0]: a body with names of its own, which sees only the outermost ones; which: sees all */
  NODE_BODY,  /* children: statements */
  NODE_BREAK,
  NODE_CONTINUE,
};

enum compare_operator {
  COMPARE_EQUAL,
  COMPARE_NOT_EQUAL,
  COMPARE_LESS,
  COMPARE_LESS_EQUAL,
  COMPARE_GREATER,
  COMPARE_GREATER_EQUAL,
  COMPARE_IN,
  COMPARE_NOT_IN,
};

struct keyword_node {
  const struct text *name;
  const struct node *value;
};

struct arguments_node {
  const struct node *const *positional;
  size_t positional_count;
  const struct keyword_node *keywords;
  size_t keyword_count;
  const struct node *rest;          /* *rest, or NULL */
  const struct node *rest_keywords; /* **rest, or NULL */
};

struct parameter_node {
  const struct text *name;
  uint32_t symbol;
  const struct node *initial; /* NULL: none */
};

struct macro_node {
  const struct text *name;
  const struct parameter_node *parameters;
  size_t count;
  const struct node *body;
  bool uses_caller, uses_varargs, uses_kwargs;
};

struct node {
  enum node_kind kind;
  uint32_t line;
  uint32_t depth; /* 1 + the deepest child's */
  uint32_t symbol;
  uint32_t which;
  uint32_t count;
  const struct node *const *children;
  struct value value;
  union {
    const struct arguments_node *arguments;
    const struct macro_node *macro;
    const enum compare_operator *operators;
  };
};

/* A macro that a template made. */
struct scope;
struct macro {
  const struct text *name;
  const struct macro_node *node;
  struct scope *scope; /* where it was made */
};

#endif

/* Template source to tokens, with Jinja's white space control as Transformers sets it (trim_blocks, lstrip_blocks).
 *
 * Comments and raw blocks are gone afterwards: a raw block is data. Texts of data and strings are what they stand for:
 * newlines normalised, escapes replaced. Their memory is the run's arena or the source itself.
 */
#ifndef KAIJU_TEXT_JINJA_LEXER_H
#define KAIJU_TEXT_JINJA_LEXER_H

#include "text/jinja_value.h"

enum token_kind {
  TOKEN_END, /* of the template */
  TOKEN_DATA,
  TOKEN_PRINT_BEGIN, /* {{ */
  TOKEN_PRINT_END,
  TOKEN_BLOCK_BEGIN, /* {% */
  TOKEN_BLOCK_END,
  TOKEN_NAME,
  TOKEN_STRING,
  TOKEN_INTEGER,
  TOKEN_FLOAT,
  TOKEN_ADD,
  TOKEN_SUBTRACT,
  TOKEN_DIVIDE,
  TOKEN_FLOOR_DIVIDE,
  TOKEN_MULTIPLY,
  TOKEN_MODULO,
  TOKEN_POWER,
  TOKEN_TILDE,
  TOKEN_LEFT_BRACKET,
  TOKEN_RIGHT_BRACKET,
  TOKEN_LEFT_PARENTHESIS,
  TOKEN_RIGHT_PARENTHESIS,
  TOKEN_LEFT_BRACE,
  TOKEN_RIGHT_BRACE,
  TOKEN_EQUAL,
  TOKEN_NOT_EQUAL,
  TOKEN_GREATER,
  TOKEN_GREATER_EQUAL,
  TOKEN_LESS,
  TOKEN_LESS_EQUAL,
  TOKEN_ASSIGN,
  TOKEN_DOT,
  TOKEN_COLON,
  TOKEN_PIPE,
  TOKEN_COMMA,
  TOKEN_SEMICOLON,
};

struct token {
  enum token_kind kind;
  uint32_t line;
  struct value value; /* of data, name and string the text, of a number the number */
};

struct token_stream {
  struct token *tokens; /* the last is TOKEN_END */
  size_t count;
};

/* The source is valid UTF-8 and lives as long as the run. Failures are the run's. */
struct token_stream tokenize(struct run *run, const char *source, size_t length);

/* What a person would call the token, for messages. */
const char *token_describe(const struct token *token);

#endif

/* GBNF, llama.cpp's notation of grammars (its grammars/README.md), as a grammar.
 *
 * Read: rules `name ::= …` in any order, beginning at `root`; literals and classes with the escapes \n \r \t \\ \" \[
 * \]
 * \- \^ \xHH \uHHHH \UHHHHHHHH; `.`; `* + ? {m} {m,} {,n} {m,n}`; groups; comments from # to the end of the line; line
 * breaks within groups and after | and ::=. Terms of tokens (`<[1000]>`, `<think>`, `!<…>`) are refused by name: a
 * constraint is over texts. Left recursion is refused (grammar_finish), as are a rule that is used and not defined, and
 * a rule that is defined twice.
 */
#ifndef KAIJU_GRAMMAR_GBNF_H
#define KAIJU_GRAMMAR_GBNF_H

#include "grammar/grammar.h"

enum { GBNF_MAX_LENGTH = 1 << 20 }; /* bytes */

/* `text` is UTF-8 of `length` bytes. KJ_INVALID with "line L, column C: …" (columns in characters, from 1);
 * KJ_UNSUPPORTED for what is named above. */
int gbnf_compile(const char *text, size_t length, struct grammar **grammar, struct kj_error *error);
/* The same as a part of a larger grammar; what is wrong is the builder's failure. */
grammar_expression gbnf_expression(struct grammar_builder *builder, const char *text, size_t length);

#endif

/* Cuts text into the pieces that byte pair encoding works on, by regular expressions (PCRE2, JIT where there is one).
 * An expression is immutable and may be used by many threads; a splitter belongs to one.
 */
#ifndef KAIJU_TEXT_SPLIT_H
#define KAIJU_TEXT_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct split_expression;
struct splitter;

/* Oniguruma's syntax (text/split_syntax.h), or with `literal` the string itself. */
int split_expression_compile(struct split_expression **expression, const char *text, size_t length, bool literal,
                             struct kj_error *error);
void split_expression_free(struct split_expression *expression);

/* For texts of up to `length` bytes. */
int splitter_create(struct splitter **splitter, size_t length, struct kj_error *error);
void splitter_free(struct splitter *splitter);

typedef int split_visitor(void *context, const char *piece, size_t length, struct kj_error *error);

/* Gives the visitor, in order, every match and whatever lies between matches (none empty), and stops with its code if
 * that is not 0. With several expressions each cuts the pieces of the one before; with none the text is one piece.
 * KJ_INVALID if an expression takes too many steps: an answer is never guessed. `text` must be valid UTF-8. */
int splitter_run(struct splitter *splitter, struct split_expression *const *expressions, size_t count, const char *text,
                 size_t length, split_visitor *visit, void *context, struct kj_error *error);

#endif

/* A grammar: the set of texts that constrained output may produce, as an immutable object, and the builder that makes
 * one. JSON schemas, tool-call notations, GBNF (grammar/gbnf.h) and regular expressions (grammar/pattern.h) are all
 * written down with the builder; a constraint (grammar/constraint.h) runs the result over a vocabulary.
 *
 * Every function of the builder returns a handle of an expression. A handle may be used in any number of places of its
 * builder: an expression that is used twice is compiled once. A failure (out of memory, a size beyond the bounds below,
 * a handle or argument that makes no sense) is remembered: what follows is harmless, and grammar_finish reports the
 * first one. So a caller checks once, at its end.
 *
 * Texts are UTF-8. A class is one whole code point; literal bytes must be whole characters, too.
 */
#ifndef KAIJU_GRAMMAR_GRAMMAR_H
#define KAIJU_GRAMMAR_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct grammar;
struct grammar_builder;
typedef uint32_t grammar_expression;

enum {
  GRAMMAR_MAX_SIZE = 1 << 20,   /* expressions, their parts, literal bytes and class ranges of a grammar together */
  GRAMMAR_MAX_STATES = 1 << 20, /* of the automaton that it compiles to; a class takes up to a few dozen */
  GRAMMAR_MAX_DEPTH = 1000,     /* expressions within expressions, rules aside */
  GRAMMAR_MAX_STOP = 1024,      /* bytes of a text that ends another one */
  GRAMMAR_MAX_REPEAT = 1 << 24  /* as a bound of a repetition */
};
#define GRAMMAR_UNBOUNDED UINT32_MAX

struct code_range {
  uint32_t first, last; /* code points, both included */
};

int grammar_builder_create(struct grammar_builder **builder, struct kj_error *error);
void grammar_builder_free(struct grammar_builder *builder);

/* The bytes themselves, whole characters of UTF-8; none at all is the empty text. Copied. */
grammar_expression grammar_bytes(struct grammar_builder *builder, const char *bytes, size_t length);
grammar_expression grammar_text(struct grammar_builder *builder, const char *text); /* up to its NUL */
/* One code point that lies in one of the ranges, or (negated) in none of them. Ranges may overlap and come in any
 * order; surrogates belong to no class. No range, negated: any character. A class without a member is allowed and
 * matches nothing. */
grammar_expression grammar_class(struct grammar_builder *builder, const struct code_range *ranges, size_t count,
                                 bool negated);
/* One part after the other; no part: the empty text. */
grammar_expression grammar_sequence(struct grammar_builder *builder, const grammar_expression *parts, size_t count);
/* Any one of the parts; no part: nothing matches. Literals of a choice (an enum of a thousand values) are merged into a
 * tree by their beginnings. */
grammar_expression grammar_choice(struct grammar_builder *builder, const grammar_expression *parts, size_t count);
/* `part` from `minimum` to `maximum` times (GRAMMAR_UNBOUNDED: any number of times). Counted, not copied: a bound of
 * 100,000 costs what one of 3 costs. Bounds beyond GRAMMAR_MAX_REPEAT, or the wrong way round, are failures. */
grammar_expression grammar_repeat(struct grammar_builder *builder, grammar_expression part, uint32_t minimum,
                                  uint32_t maximum);
grammar_expression grammar_optional(struct grammar_builder *builder, grammar_expression part); /* 0 to 1 times */
/* Any text up to and with the first occurrence of `stop` (not empty, whole characters). */
grammar_expression grammar_text_until(struct grammar_builder *builder, const char *stop, size_t length);
/* Any text, also the empty one, in which `stop` does not occur. What follows it in a sequence may complete a `stop`
 * across the border: where that matters, use grammar_text_until. */
grammar_expression grammar_text_without(struct grammar_builder *builder, const char *stop, size_t length);

/* A rule that is defined later: the handle stands for it everywhere, also within its own definition. Rules may be
 * recursive, but not left-recursive (a rule that can begin with itself), which grammar_finish refuses by the rule's
 * name. Names serve messages alone (copied) and need not be unique. */
grammar_expression grammar_rule(struct grammar_builder *builder, const char *name);
/* Defines a rule, once. */
void grammar_define(struct grammar_builder *builder, grammar_expression rule, grammar_expression expression);

/* The caller's own failure, kept like the builder's: the first one counts. Returns a handle, as an expression would. */
grammar_expression grammar_fail(struct grammar_builder *builder, enum kj_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool grammar_failed(const struct grammar_builder *builder);

/* Compiles all that `root` reaches. The builder is used up, whatever the result, and only to be freed. KJ_UNSUPPORTED:
 * left recursion, or a size beyond the bounds; KJ_INVALID: a rule without a definition, a grammar that no text at all
 * satisfies. */
int grammar_finish(struct grammar_builder *builder, grammar_expression root, struct grammar **grammar,
                   struct kj_error *error);

/* Grammars are immutable and counted: any thread may use one and take or give back a reference. */
struct grammar *grammar_keep(struct grammar *grammar);
void grammar_release(struct grammar *grammar); /* NULL is fine */

/* Whether the text is in the grammar: 1, or 0, or -1 if that takes more ambiguity or memory than is allowed. For tests
 * and for values that are known beforehand; the length is that of the text in bytes. */
int grammar_matches(const struct grammar *grammar, const char *text, size_t length);
/* The same for grammars from outside: -1 also if it takes more than *work, of which what it took is taken. A byte that
 * can be read in one way is a few units; a unit takes some 50 ns. */
int grammar_matches_within(const struct grammar *grammar, const char *text, size_t length, size_t *work);

#endif

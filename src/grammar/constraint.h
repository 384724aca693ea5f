/* A constraint: keeps one sequence's text within a grammar, token by token (sched/token_constraint.h).
 *
 * What a grammar and a vocabulary have in common, the states and masks found so far, lies in `struct grammar_masks`:
 * kept for a grammar, it makes the next request with that grammar start warm, and several sequences (n > 1) share it.
 * Any thread may create and release masks and constraints; but the constraints of one grammar_masks may be *used*
 * (allowed, accept, release after the first use) by one thread only, the engine's.
 */
#ifndef KAIJU_GRAMMAR_CONSTRAINT_H
#define KAIJU_GRAMMAR_CONSTRAINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/token_vocabulary.h"
#include "sched/token_constraint.h"

struct grammar_masks;

/* Takes references of its own. The end tokens (copied) are allowed exactly where the text so far is in the grammar. */
int grammar_masks_create(struct grammar_masks **masks, struct grammar *grammar, struct token_vocabulary *vocabulary,
                         const uint32_t *end_tokens, size_t end_count, struct kj_error *error);
struct grammar_masks *grammar_masks_keep(struct grammar_masks *masks);
void grammar_masks_release(struct grammar_masks *masks); /* NULL is fine */

/* A constraint at the beginning of a text; takes a reference. Given to engine_submit, or given back with
 * token_constraint_release. */
int constraint_create(struct token_constraint **constraint, struct grammar_masks *masks, struct kj_error *error);

#endif

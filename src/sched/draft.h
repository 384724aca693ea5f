/* Drafts without a second model: what followed the last time a sequence's latest tokens occurred in it.
 *
 * Agents rewrite files, so that long runs of their output stand in the prompt. The draft of a sequence keeps an index
 * of where each run of DRAFT_NGRAM tokens occurred last (and of shorter runs, for a start), proposes the tokens that
 * followed the longest match, and learns how many of its proposals were accepted. Proposals decide how fast tokens
 * come, never which: the model verifies every one (prompt lookup decoding: Saxena 2023; verification as in Leviathan et
 * al. 2023, in the special case of a deterministic draft).
 */
#ifndef KAIJU_SCHED_DRAFT_H
#define KAIJU_SCHED_DRAFT_H

#include <stdint.h>

#include "base/error.h"

struct draft; /* of one sequence */

int draft_create(struct draft **draft, struct kj_error *error);
void draft_free(struct draft *draft);

/* Writes up to `limit` tokens that may follow tokens[0 … count), of which only the end has changed since the last call
 * (tokens were appended). Stops where the chance that a token is accepted, as learned so far, falls below `worth`
 * (0…1). Running out of memory only means no proposal. */
uint32_t draft_propose(struct draft *draft, const uint32_t *tokens, uint32_t count, uint32_t limit, double worth,
                       uint32_t *proposal);
/* What became of the last proposal. */
void draft_learn(struct draft *draft, uint32_t proposed, uint32_t accepted);

#endif

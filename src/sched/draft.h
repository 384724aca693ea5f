/* Drafts without a second model: what followed the last time a sequence's latest tokens occurred in it.
 *
 * Agents rewrite files, so that long runs of their output stand in the prompt. The draft of a sequence keeps an index
 * of where each run of two, three and four tokens occurred, proposes the tokens that followed the occurrence which
 * agrees with the end of the sequence furthest back, and learns how many of its proposals are accepted, apart for short
 * and long agreement. Proposals decide how fast tokens come, never which: the model verifies every one (prompt lookup
 * decoding: Saxena 2023; verification as in Leviathan et al. 2023, in the special case of a deterministic draft).
 */
#ifndef KAIJU_SCHED_DRAFT_H
#define KAIJU_SCHED_DRAFT_H

#include <stdint.h>

#include "base/error.h"

struct draft; /* of one sequence */

int draft_create(struct draft **draft, struct kj_error *error);
void draft_free(struct draft *draft);

/* Writes up to `limit` tokens that may follow tokens[0 … count), and returns how many. Since the last call tokens were
 * only appended; fewer than at the last call start the index anew. Stops where the chance that a token is accepted
 * (with all before it), as learned so far, falls below `worth` (0…1). Where nothing is worth it, one or two tokens are
 * still proposed now and then, the more rarely the less likely they are accepted: otherwise neither their chance nor
 * their cost would ever be learned anew. Running out of memory only means no proposal. Takes 28 to 56 bytes a token. */
uint32_t draft_propose(struct draft *draft, const uint32_t *tokens, uint32_t count, uint32_t limit, double worth,
                       uint32_t *proposal);
/* What became of the last proposal: of its first `proposed` tokens, which were verified, the first `accepted` were the
 * model's own choice. Without a call nothing is learned from it. */
void draft_learn(struct draft *draft, uint32_t proposed, uint32_t accepted);

#endif

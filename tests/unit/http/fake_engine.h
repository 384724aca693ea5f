/* A test double of sched/engine.h: requests get scripted tokens, one request at a time, from a thread of its own.
 *
 * Like the engine it ends every request with exactly one event that has a finish, and cuts max_tokens to the context.
 */
#ifndef KAIJU_TESTS_FAKE_ENGINE_H
#define KAIJU_TESTS_FAKE_ENGINE_H

#include "sched/engine.h"

enum { FAKE_NO_PAUSE = -1 };

struct fake_settings {
  uint32_t vocabulary, eos, context;
  uint32_t capacity; /* requests that have not ended; 0: any number */
};

struct engine *fake_engine_create(const struct fake_settings *settings);
/* What the following requests generate before the end token. Copied. */
void fake_engine_set_tokens(struct engine *engine, const uint32_t *tokens, size_t count);
/* Requests stop before the token with this index until fake_engine_resume. */
void fake_engine_pause_before(struct engine *engine, int index);
void fake_engine_resume(struct engine *engine);
/* Instead of an end token: an error. */
void fake_engine_set_failure(struct engine *engine, enum kj_code code, const char *message);
/* Requests are refused with this until the message is NULL. */
void fake_engine_set_full(struct engine *engine, const char *message, uint32_t retry_after);
/* What the events of requests report besides their tokens. */
struct fake_savings {
  uint32_t cached_tokens, drafted_tokens, draft_accepted;
};
void fake_engine_set_savings(struct engine *engine, const struct fake_savings *savings);
void fake_engine_set_state(struct engine *engine, enum engine_state state, const char *reason);

enum fake_count { FAKE_SUBMITTED, FAKE_PAUSED, FAKE_CANCELLED, FAKE_ENDED, FAKE_COUNTS };
/* Waits until it has happened `count` times in all; false after 20 seconds. */
bool fake_engine_wait(struct engine *engine, enum fake_count what, uint64_t count);
/* The request that was submitted last; its tokens and bias are the engine's. */
struct request fake_engine_last(struct engine *engine);

#endif

/* The thought of a reasoning model apart from its answer: "<think>thought</think>answer", as Qwen3 and DeepSeek-R1
 * write it. White space at both ends of the thought and before the answer is not part of either.
 *
 * A thought comes first or not at all. Where the prompt ends with an open <think>, it has begun already. What comes
 * out, joined, does not depend on how the text was cut into pieces; no more is held back than may still be a tag or
 * white space at the end of the thought.
 */
#ifndef KAIJU_TEXT_THOUGHT_H
#define KAIJU_TEXT_THOUGHT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "text/chat.h"

/* Whether a thought stands before an answer. */
enum thought_place {
  THOUGHT_NONE,     /* the answer alone */
  THOUGHT_MAY_BE,   /* <think>…</think> or nothing before it */
  THOUGHT_HAS_BEGUN /* the prompt ends within a thought: its rest, </think>, and the answer */
};

struct thought {
  enum { THOUGHT_EXPECTED, THOUGHT_BEGUN, THOUGHT_GOES_ON, THOUGHT_ENDED, THOUGHT_OVER } state;
  struct buffer held;
};

/* True if the template tells thoughts from answers. */
bool thought_known(const struct chat_template *chat);
/* True if the prompt ends with an open <think>; with a closed one, as templates write it that are to prevent a thought.
 */
bool thought_opened(const char *prompt, size_t length);
bool thought_closed(const char *prompt, size_t length);

/* `begun` as thought_opened says. To be freed. */
struct thought thought_start(bool begun);
void thought_free(struct thought *thought);
/* Appends what the text releases to `inner` (the thought) and `answer`. */
void thought_push(struct thought *thought, const char *text, size_t length, struct buffer *inner,
                  struct buffer *answer);
/* The end of the text: releases what is held back. */
void thought_finish(struct thought *thought, struct buffer *inner, struct buffer *answer);
/* True once the answer has begun. */
static inline bool thought_over(const struct thought *thought) { return thought->state == THOUGHT_OVER; }

#endif

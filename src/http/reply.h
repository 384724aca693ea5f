/* What a model writes, as parts: its thought, text and tool calls, in the order in which they come.
 *
 * The detokenizer's output goes to reply_text(); reply_read makes parts of it. Parts of one kind that follow each other
 * are one part, until reply_clear: a stream takes and clears them as they come, a whole answer reads all at its end.
 */
#ifndef KAIJU_HTTP_REPLY_H
#define KAIJU_HTTP_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "http/request.h"

enum reply_kind {
  REPLY_THOUGHT, /* between <think> and </think>, without the white space at its ends */
  REPLY_TEXT,
  REPLY_CALL /* of a tool; the bytes are its arguments, the text of a JSON object */
};

struct reply_part {
  enum reply_kind kind;
  struct buffer bytes; /* whole characters; only a call's may be empty */

  /* REPLY_CALL */
  size_t call;       /* from 0 */
  bool begins, ends; /* the first part of the call; its arguments are complete */
  char id[32];       /* "call_" and hexadecimal digits, unlike all others */
  char *name;        /* owned */
};

struct reply;

/* The reply to a request, which it borrows the tools of. -1 without memory. */
int reply_create(struct reply **reply, const struct completion_request *request);
void reply_free(struct reply *reply); /* NULL is allowed */

/* Where text is appended for reply_read, which takes it. */
struct buffer *reply_text(struct reply *reply);
/* Text that stands before what the model writes, as it is. */
void reply_put(struct reply *reply, const char *text, size_t length);
/* True once nothing more is wanted: the first call is complete and the request takes only one. */
bool reply_read(struct reply *reply);
/* The end of the text. `cut`: the model had not ended it. */
void reply_finish(struct reply *reply, bool cut);

/* Valid until the next call of another function. */
const struct reply_part *reply_parts(const struct reply *reply, size_t *count);
void reply_clear(struct reply *reply);

/* True while what the model writes is its thought. */
bool reply_thinks(const struct reply *reply);
/* True if the model called tools, and completed the calls. */
bool reply_calls(const struct reply *reply);
/* True once memory ran out. */
bool reply_failed(const struct reply *reply);

#endif

/* What a model writes, as the content and the tool calls of OpenAI's message.
 *
 * The detokenizer's output goes to `text`; reply_read makes `content` and calls of it. A whole reply keeps all calls
 * until they are taken, a streamed one their parts since the last time: an entry with index, id and name, then entries
 * with the next part of the arguments.
 */
#ifndef KAIJU_HTTP_REPLY_H
#define KAIJU_HTTP_REPLY_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buffer.h"
#include "http/request.h"
#include "text/tool_calls.h"

struct reply {
  struct buffer text;    /* not yet read */
  struct buffer content; /* not yet taken by the user of this struct, who clears it */

  struct tool_calls *calls; /* NULL: all text is content */
  bool streamed, only_one;
  struct buffer arguments; /* not yet in `list` */
  json_t *list;            /* entries of tool_calls */
  size_t ended;            /* calls that are complete */
  bool failed;
};

/* The reply to a request, which it borrows the tools of. Zero-initialised before; -1 without memory. */
int reply_begin(struct reply *reply, const struct completion_request *request);
void reply_free(struct reply *reply); /* one that has not begun is allowed */

/* True once nothing more is wanted: the first call is complete and the request takes only one. */
bool reply_read(struct reply *reply);
/* The end of the text. `cut`: the model had not ended it. */
void reply_finish(struct reply *reply, bool cut);
/* The array of calls, or of their parts, or NULL if there are none. */
json_t *reply_take_calls(struct reply *reply);
/* The finish_reason for a text that ended for `reason`: "tool_calls" if it ended of itself, with calls. */
const char *reply_reason(const struct reply *reply, const char *reason);
/* True once memory ran out. */
bool reply_failed(const struct reply *reply);

#endif

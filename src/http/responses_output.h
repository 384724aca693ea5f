/* The output items of a response (reasoning, message, function_call, custom_tool_call) from the parts of a reply, and
 * the events that tell of them as they grow.
 *
 * Order of the events of an item: output_item.added, then for its text content_part.added, deltas, done and
 * content_part.done, or for a call deltas and done of its arguments, then output_item.done. Each event has the next
 * sequence number.
 *
 * The log-probabilities of all that the model has written, thoughts and calls included, are those of the first message.
 */
#ifndef KAIJU_HTTP_RESPONSES_OUTPUT_H
#define KAIJU_HTTP_RESPONSES_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "http/reply.h"

struct responses_output {
  /* Set at the beginning, borrowed: */
  const char *response_id;
  const json_t *tools; /* of the request, or NULL */
  bool plain_reasoning;
  struct buffer *out; /* NULL: no events are wanted; may be another one at each call */

  uint64_t sequence; /* of the next event */
  json_t *items;     /* those that are complete, an array; NULL before the first */
  json_t *logprobs;  /* so far, an array, or NULL */
  size_t told;       /* of the log-probabilities, in deltas */
  json_t *message;   /* the first one among the items, borrowed */
  bool failed;       /* memory ran out */

  enum { ITEM_NONE, ITEM_REASONING, ITEM_MESSAGE, ITEM_FUNCTION, ITEM_CUSTOM } open;
  char item_id[64];
  struct buffer text; /* of the open item, or its arguments */
  char *call_id, *name, *name_space;
};

/* An event with these members, of which `type` and `sequence_number` are added. */
void responses_output_event(struct responses_output *output, const char *type, json_t *members);

/* `logprobs` is taken over: chat's (http/logprobs.h), or JSON null. */
void responses_output_logprobs(struct responses_output *output, json_t *logprobs);
void responses_output_part(struct responses_output *output, const struct reply_part *part);
/* The end of the reply. `cut`: the item that is open is incomplete. There is then one item at least. */
void responses_output_finish(struct responses_output *output, bool cut);
void responses_output_free(struct responses_output *output);

#endif

/* The text that a model writes, as it comes, to plain text and tool calls.
 *
 * Calls are read as text/tool_form.h shows them, in either notation within <tool_call>; with TOOL_FORM_XML also without
 * it (<function=NAME> of a known tool anywhere, of an unknown one at the beginning of a line), with TOOL_FORM_JSON an
 * object at the beginning of a line whose first member is the name of a known tool. A block may hold several
 * calls, its end or the closing tags of a call may be missing. Arguments become the text of a JSON object: values of
 * the XML form get the types of text/tool_schemas.h, those of the JSON form stay as they were written, control
 * characters and wrong escapes in strings, strings in single quotes, True, False and None mended, brackets that are
 * missing at the end added. Of a repeated parameter the first one counts. A block that holds no call is text.
 *
 * The newlines with which the template surrounds things are not part of them: one on each side of a parameter's value;
 * before a call all white space (XML) or one newline (JSON); after it all white space up to the next call or the end.
 *
 * What comes out, joined, does not depend on how the text was cut into pieces. If pieces end between characters of
 * UTF-8, events do as well. No more text is held back than may still become a call, and no value of which the type
 * could be another than a string.
 */
#ifndef KAIJU_TEXT_TOOL_CALLS_H
#define KAIJU_TEXT_TOOL_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "text/tool_form.h"
#include "text/tool_schemas.h"

struct tool_calls;

enum tool_event_kind {
  TOOL_TEXT,      /* bytes: the next part of the text outside of calls */
  TOOL_BEGIN,     /* bytes: the name of the tool; ended by NUL */
  TOOL_ARGUMENTS, /* bytes: the next part of the call's arguments, the text of a JSON object */
  TOOL_END        /* the arguments are complete */
};

struct tool_event {
  enum tool_event_kind kind;
  size_t call; /* from 0; not of TOOL_TEXT */
  const char *bytes;
  size_t length; /* > 0 where there are bytes */
};

typedef void tool_event_handler(void *context, const struct tool_event *event);

/* `form` is not TOOL_FORM_NONE; `schemas` is borrowed. */
int tool_calls_create(struct tool_calls **calls, enum tool_form form, const struct tool_schemas *schemas,
                      tool_event_handler *handler, void *context, struct kj_error *error);
void tool_calls_free(struct tool_calls *calls); /* NULL is allowed */

void tool_calls_push(struct tool_calls *calls, const char *text, size_t length);
/* The end of the text: what was held back comes out. `cut`: the model had not finished; the call that was being written
 * then gets no TOOL_END, and unless its arguments were complete they are no valid JSON, so that nobody acts on half of
 * a call. Otherwise it is completed. */
void tool_calls_finish(struct tool_calls *calls, bool cut);

/* Calls that have begun. */
size_t tool_calls_count(const struct tool_calls *calls);
/* True once memory ran out: what came out is not complete. */
bool tool_calls_failed(const struct tool_calls *calls);

#endif

/* The text of `kaiju top`: what two moments of /metrics say, in lines of a given width, for a person.
 *
 * Pure: no terminal, no clock, no control codes. Names that the server sends are shown without bytes that a terminal
 * would act on.
 */
#ifndef KAIJU_CMD_TOP_VIEW_H
#define KAIJU_CMD_TOP_VIEW_H

#include <stddef.h>

#include "base/buffer.h"
#include "cmd/top_sample.h"

struct top_view {
  const char *url;
  const struct top_sample *now;    /* NULL: nothing has been read yet */
  const struct top_sample *before; /* for rates; NULL: none can be shown */
  const struct top_sample *window; /* for latencies and shares; NULL: since the server's start */
  const char *problem;             /* why there is nothing, or why the engine is not ready; "": all is well */
};

enum { TOP_LEAST_COLUMNS = 20 };

/* Appends lines of at most `columns` columns (at least TOP_LEAST_COLUMNS), each ending in a newline. */
void top_view_write(const struct top_view *view, size_t columns, struct buffer *out);

#endif

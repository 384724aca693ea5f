/* Lines of system messages that change with every request, taken out before the template: an agent's header with a time
 * or a counter would otherwise make every prompt new from there on, and nothing behind it could come from the prefix
 * cache.
 */
#ifndef KAIJU_HTTP_PROMPT_LINES_H
#define KAIJU_HTTP_PROMPT_LINES_H

#include <jansson.h>

#include "base/error.h"
#include "http/api_error.h"

struct prompt_lines; /* immutable: may be used by many threads */

/* `expression`: PCRE2's syntax, on Unicode text. KJ_INVALID with the position of what is wrong in it. */
int prompt_lines_compile(struct prompt_lines **lines, const char *expression, struct kj_error *error);
void prompt_lines_free(struct prompt_lines *lines); /* NULL is allowed */

/* From every system message (messages as messages_check returns them) removes the lines, with their ends, that the
 * expression matches anywhere. A line is looked at without its end, LF or CR LF. 0, or -1 and `error`: an expression
 * that takes too many steps on a line is a 400, never a guess. */
int prompt_lines_drop(const struct prompt_lines *lines, json_t *messages, struct api_error *error);

#endif

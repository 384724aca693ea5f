/* Jinja templates as chat templates use them: compile once, render any number of times, from any thread.
 *
 * Equal to Python's jinja2 in the environment that Transformers sets up (immutable sandbox, trim_blocks, lstrip_blocks,
 * loop controls, its own `tojson`). Not provided: template inheritance and inclusion, recursive loops, autoescaping,
 * integers of more than 64 bits; a template that needs one of these is refused when it is compiled, or when the integer
 * appears. Every rendering is bounded in steps, depth, memory and output (jinja_run.h).
 */
#ifndef KAIJU_TEXT_JINJA_H
#define KAIJU_TEXT_JINJA_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"

struct jinja_template;

struct jinja_variable {
  const char *name;
  const json_t *value; /* NULL: None */
};

/* `name` is what messages call the template. KJ_INVALID for what is no template, KJ_UNSUPPORTED for what is one that
 * the interpreter lacks something for, with line and reason. */
int jinja_compile(struct jinja_template **template, const char *name, const char *source, size_t length,
                  struct kj_error *error);
void jinja_free(struct jinja_template *template); /* NULL is allowed */
/* True if the source has the text. */
bool jinja_mentions(const struct jinja_template *template, const char *text);

/* Appends the text; on failure `out` is as before. A later variable of the same name wins. The template's own
 * raise_exception(text) gives KJ_INVALID with just the text; other failures name the line. */
int jinja_render(const struct jinja_template *template, const struct jinja_variable *variables, size_t count,
                 struct buffer *out, struct kj_error *error);

#endif

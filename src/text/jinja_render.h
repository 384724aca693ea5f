/* Executing a template's tree. */
#ifndef KAIJU_TEXT_JINJA_RENDER_H
#define KAIJU_TEXT_JINJA_RENDER_H

#include "base/buffer.h"
#include "text/jinja.h"
#include "text/jinja_parser.h"

/* Appends the text; the run says whether it failed. */
void render_template(struct run *run, const struct node *body, const struct symbols *symbols,
                     const struct jinja_variable *variables, size_t count, struct buffer *out);

#endif

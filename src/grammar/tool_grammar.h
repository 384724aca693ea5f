/* The calls that a model must make of a request's tools, in its checkpoint's notation (text/tool_form.h), so that
 * text/tool_calls.h reads back what was meant.
 *
 * Arguments obey the tool's `parameters` (grammar/json_schema.h, leniently: what is not supported narrows nothing). Of
 * parameters that it does not name there are none, unless it names none at all or says additionalProperties. In the
 * XML form they come in the order of `properties`, strings as they are up to </parameter>, other values as JSON; a
 * string whose length is bounded has no '<'. A schema beyond all bounds counts as any object; the bound on work is one
 * for all tools.
 */
#ifndef KAIJU_GRAMMAR_TOOL_GRAMMAR_H
#define KAIJU_GRAMMAR_TOOL_GRAMMAR_H

#include <jansson.h>
#include <stdbool.h>

#include "grammar/grammar.h"
#include "grammar/thought_first.h"
#include "text/tool_form.h"

struct tool_grammar_options {
  enum tool_form form;   /* not TOOL_FORM_NONE */
  const json_t *tools;   /* array of {"function": {"name", "parameters"}} */
  const json_t *allowed; /* array of the names that may be called, or NULL: any */
  bool only_one;         /* one call; otherwise one or more */
  enum thought_place thought;
};

/* The calls alone, without a thought, as a part of something else. `plain`: any object for arguments, for schemas that
 * together are too much. KJ_INVALID as below; what else is wrong, grammar_finish says. */
int tool_grammar_expression(struct grammar_builder *builder, const struct tool_grammar_options *options, bool plain,
                            grammar_expression *expression, struct kj_error *error);

/* KJ_INVALID if no tool of the request may be called, or has a name that its form can write. */
int tool_grammar_create(struct grammar **grammar, const struct tool_grammar_options *options, struct kj_error *error);

#endif

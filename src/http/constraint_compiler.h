/* What an answer must be, as masks over the model's tokens: compiled on the preparer's thread.
 *
 * The last few grammars are kept with the masks found so far: a client that sends the same schema again, or the same
 * tools, starts warm. The vocabulary's tree is built with the first one.
 */
#ifndef KAIJU_HTTP_CONSTRAINT_COMPILER_H
#define KAIJU_HTTP_CONSTRAINT_COMPILER_H

#include <jansson.h>

#include "grammar/constraint.h"
#include "grammar/thought_first.h"
#include "http/api_error.h"
#include "http/constraint_fields.h"
#include "model/config.h"
#include "text/tokenizer.h"
#include "text/tool_form.h"

struct constraint_compiler;

enum { CONSTRAINTS_KEPT = 16 };

/* Both are borrowed. */
int constraint_compiler_create(struct constraint_compiler **compiler, const struct tokenizer *tokenizer,
                               const struct config *config, struct kj_error *error);
void constraint_compiler_destroy(struct constraint_compiler *compiler); /* NULL is allowed */

/* What a constraint is compiled for besides what it says. */
struct constraint_setting {
  const json_t *tools; /* of the request, or NULL */
  enum tool_form tool_form;
  bool only_one_call;
  enum thought_place thought;
};

/* A reference to the masks; 0, or -1 and the error with the path of what is wrong. `constraint` is not
 * CONSTRAINT_NONE. */
int constraint_compile(struct constraint_compiler *compiler, const struct output_constraint *constraint,
                       const struct constraint_setting *setting, struct grammar_masks **masks, struct api_error *error);

/* The grammar alone. */
int constraint_grammar(const struct output_constraint *constraint, const struct constraint_setting *setting,
                       struct grammar **grammar, struct api_error *error);

#endif

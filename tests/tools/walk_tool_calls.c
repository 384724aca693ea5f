/* Tool calls as their grammar has them, read back, for the oracle tests: a JSON object a line on standard input, one a
 * line on standard output.
 *
 * {"form": "xml" or "json", "tools": […], "allowed": [name…], "only_one": boolean, "thinks": boolean, "walks": n,
 * "seed": n} gives {"error": message} or {"walks": [{"text": text, "content": text, "calls": [{"name",
 * "arguments"}]}]}; "allowed" may be missing. A walk that does not end gives null.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/tool_grammar.h"
#include "json_lines.h"
#include "text/thought.h"
#include "tool_answer.h"
#include "walk_grammar.h"

/* What stands behind the thought. */
static void drop_thought(const struct buffer *text, bool begun, struct buffer *answer) {
  struct thought thought = thought_start(begun);
  struct buffer inner = {0};
  thought_push(&thought, buffer_text(text), text->length, &inner, answer);
  thought_finish(&thought, &inner, answer);
  thought_free(&thought);
  buffer_free(&inner);
}

static json_t *read_back(const struct buffer *text, const struct tool_grammar_options *options,
                         const struct tool_schemas *schemas) {
  struct answer answer = {.calls = json_array()};
  struct tool_calls *calls = NULL;
  struct buffer behind = {0};
  if (options->thought == THOUGHT_NONE)
    buffer_append(&behind, buffer_text(text), text->length);
  else
    drop_thought(text, options->thought == THOUGHT_HAS_BEGUN, &behind);
  if (tool_calls_create(&calls, options->form, schemas, take, &answer, NULL)) abort();
  tool_calls_push(calls, buffer_text(&behind), behind.length);
  tool_calls_finish(calls, false);
  json_t *result = json_pack("{s:s%, s:s, s:o}", "text", buffer_text(text), text->length, "content",
                             buffer_text(&answer.content), "calls", answer.calls);
  tool_calls_free(calls);
  buffer_free(&behind);
  buffer_free(&answer.content);
  buffer_free(&answer.name);
  buffer_free(&answer.arguments);
  return result;
}

static json_t *answer_to(json_t *request, struct kj_error *none) {
  (void)none;
  const char *form = json_string_value(json_object_get(request, "form"));
  bool thinks = json_is_true(json_object_get(request, "thinks"));
  struct tool_grammar_options options = {.form = strcmp(form, "xml") == 0 ? TOOL_FORM_XML : TOOL_FORM_JSON,
                                         .tools = json_object_get(request, "tools"),
                                         .allowed = json_object_get(request, "allowed"),
                                         .only_one = json_is_true(json_object_get(request, "only_one")),
                                         .thought = thinks ? THOUGHT_MAY_BE : THOUGHT_NONE};
  json_int_t count = json_integer_value(json_object_get(request, "walks"));
  uint64_t seed = (uint64_t)json_integer_value(json_object_get(request, "seed"));
  struct grammar *grammar = NULL;
  struct tool_schemas *schemas = NULL;
  struct kj_error error = {0};
  if (tool_schemas_compile(&schemas, options.tools, &error) || tool_grammar_create(&grammar, &options, &error)) {
    tool_schemas_free(schemas);
    return json_pack("{s:s}", "error", error.message);
  }
  json_t *walks = json_array();
  for (json_int_t i = 0; i < count; i++) {
    struct buffer text = {0};
    int result = walk_grammar(grammar, seed + (uint64_t)i * 7919, 4000, &text, &error);
    json_t *walk = !result                    ? read_back(&text, &options, schemas)
                   : error.code == KJ_TIMEOUT ? json_null()
                                              : json_string(error.message);
    json_array_append_new(walks, walk);
    buffer_free(&text);
  }
  grammar_release(grammar);
  tool_schemas_free(schemas);
  return json_pack("{s:o}", "walks", walks);
}

int main(void) { return json_lines(answer_to); }

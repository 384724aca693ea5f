/* JSON schemas as grammars, for the oracle tests: a JSON object a line on standard input, one a line on standard
 * output.
 *
 * {"schema": …, "lenient": boolean, "texts": [text…], "walks": n, "seed": n} gives {"error": message, "path": place} or
 * {"found": ["accepted", "prefix" or "refused"…], "walks": [text…]}; a walk that does not end gives null.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/json_schema.h"
#include "json_lines.h"
#include "walk_grammar.h"

static json_t *found_of(struct grammar *grammar, const json_t *texts, struct kj_error *error) {
  static const char *const FOUND[] = {"refused", "prefix", "accepted"};
  json_t *found = json_array(), *text = NULL;
  size_t index = 0;
  json_array_foreach(texts, index, text) {
    int result = follow_grammar(grammar, json_string_value(text), json_string_length(text), error);
    json_array_append_new(found, json_string(result < 0 ? error->message : FOUND[result]));
  }
  return found;
}

static json_t *walks_of(struct grammar *grammar, json_int_t count, uint64_t seed) {
  json_t *walks = json_array();
  for (json_int_t i = 0; i < count; i++) {
    struct buffer text = {0};
    struct kj_error error = {0};
    int result = walk_grammar(grammar, seed + (uint64_t)i * 7919, 4000, &text, &error);
    json_t *walk = result ? (error.code == KJ_TIMEOUT ? json_null() : json_string(error.message))
                          : json_stringn(buffer_text(&text), text.length);
    json_array_append_new(walks, walk);
    buffer_free(&text);
  }
  return walks;
}

static json_t *answer_to(json_t *request, struct kj_error *none) {
  (void)none;
  struct json_schema_options options = {.lenient = json_is_true(json_object_get(request, "lenient"))};
  struct grammar_builder *builder = NULL;
  struct grammar *grammar = NULL;
  struct kj_error error = {0};
  char path[JSON_SCHEMA_PATH] = "schema";
  grammar_expression root = 0;
  json_t *answer = NULL;
  if (grammar_builder_create(&builder, &error) ||
      json_schema_compile(builder, json_object_get(request, "schema"), &options, path, &root, &error) ||
      grammar_finish(builder, root, &grammar, &error))
    answer = json_pack("{s:s, s:s}", "error", error.message, "path", path);
  else
    answer = json_pack("{s:o, s:o}", "found", found_of(grammar, json_object_get(request, "texts"), &error), "walks",
                       walks_of(grammar, json_integer_value(json_object_get(request, "walks")),
                                (uint64_t)json_integer_value(json_object_get(request, "seed"))));
  grammar_release(grammar);
  grammar_builder_free(builder);
  return answer;
}

int main(void) { return json_lines(answer_to); }

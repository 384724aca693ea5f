// links: grammar
/* A regular expression behind a byte that picks where it stands: what it matches within a JSON string is one. */
#include <jansson.h>
#include <string.h>

#include "grammar/pattern.h"
#include "grammar_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct grammar_builder *builder;
  struct grammar *grammar;
  char text[WALK_STEPS + 2] = {'"'};
  bool complete;
  if (size == 0) return 0;
  enum pattern_place place = data[0] & 1 ? PATTERN_IN_JSON_STRING : PATTERN_IN_TEXT;
  check(!grammar_builder_create(&builder, NULL));
  grammar_expression root = pattern_compile(builder, (const char *)data + 1, size - 1, place);
  int code = grammar_finish(builder, root, &grammar, NULL);
  grammar_builder_free(builder);
  if (code) return 0;
  size_t length = walk(grammar, size, text + 1, &complete);
  if (complete) check(grammar_matches(grammar, text + 1, length) != 0);
  if (complete && place == PATTERN_IN_JSON_STRING) {
    text[1 + length] = '"';
    json_t *value = json_loadb(text, length + 2, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    check(value != NULL);
    json_decref(value);
  }
  grammar_release(grammar);
  return 0;
}

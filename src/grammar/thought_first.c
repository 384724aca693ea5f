#include "grammar/thought_first.h"

#include <string.h>

#include "grammar/json_value.h"

grammar_expression thought_first(struct grammar_builder *builder, enum thought_place place, grammar_expression answer) {
  static const char END[] = "</think>";
  if (place == THOUGHT_NONE) return answer;
  grammar_expression lines = grammar_repeat(builder, grammar_text(builder, "\n"), 0, 2);
  grammar_expression thought = GRAMMAR_SEQUENCE(builder, grammar_text_until(builder, END, strlen(END)), lines);
  if (place == THOUGHT_MAY_BE)
    thought = grammar_optional(builder, GRAMMAR_SEQUENCE(builder, grammar_text(builder, "<think>"), thought));
  return GRAMMAR_SEQUENCE(builder, thought, answer);
}

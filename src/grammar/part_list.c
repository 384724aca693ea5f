#include "grammar/part_list.h"

#include <stdlib.h>

void part_list_free(struct part_list *list) {
  free(list->parts);
  *list = (struct part_list){0};
}

void part_list_push(struct part_list *list, struct grammar_builder *builder, grammar_expression part) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? list->capacity * 2 : 32;
    grammar_expression *grown = realloc(list->parts, capacity * sizeof *grown);
    if (!grown) {
      grammar_fail(builder, KJ_MEMORY, "out of memory while reading a grammar");
      return;
    }
    list->parts = grown;
    list->capacity = capacity;
  }
  list->parts[list->count++] = part;
}

/* After a failed push fewer parts are there than were pushed, also none at all. */
static size_t take(struct part_list *list, size_t begin) {
  size_t count = list->count > begin ? list->count - begin : 0;
  if (count > 0) list->count = begin;
  return count;
}

grammar_expression part_list_sequence(struct part_list *list, struct grammar_builder *builder, size_t begin) {
  size_t count = take(list, begin);
  return grammar_sequence(builder, count ? list->parts + begin : NULL, count);
}

grammar_expression part_list_choice(struct part_list *list, struct grammar_builder *builder, size_t begin) {
  size_t count = take(list, begin);
  return grammar_choice(builder, count ? list->parts + begin : NULL, count);
}

/* Arrays that a schema allows. */
#include "grammar/json_schema_parts.h"

static grammar_expression element(struct schema_compiler *compiler, const struct flat_schema *flat, size_t index) {
  char path[JSON_SCHEMA_PATH], base[JSON_SCHEMA_PATH];
  if (index >= json_array_size(flat->prefix)) {
    schema_path(path, flat->path, "items", 0);
    return schema_value(compiler, flat->items, path);
  }
  schema_path(base, flat->path, "prefixItems", 0);
  schema_path(path, base, NULL, index);
  return schema_value(compiler, json_array_get(flat->prefix, index), path);
}

/* Elements behind those of the prefix, each behind a comma; `some`: elements have been written. */
static grammar_expression others(struct schema_compiler *compiler, grammar_expression item, bool some, uint32_t least,
                                 uint32_t most) {
  struct grammar_builder *builder = compiler->values.builder;
  grammar_expression next = GRAMMAR_SEQUENCE(builder, compiler->values.comma, item);
  if (most == 0) return grammar_text(builder, "");
  if (some) return grammar_repeat(builder, next, least, most);
  grammar_expression rest =
      grammar_repeat(builder, next, least ? least - 1 : 0, most == GRAMMAR_UNBOUNDED ? most : most - 1);
  return GRAMMAR_SEQUENCE(builder, item, rest);
}

grammar_expression schema_array(struct schema_compiler *compiler, const struct flat_schema *flat) {
  const struct json_values *values = &compiler->values;
  struct grammar_builder *builder = values->builder;
  if (flat->min_items > flat->max_items) return grammar_choice(builder, NULL, 0);
  size_t prefix = json_array_size(flat->prefix);
  if (!schema_work(compiler, flat->path, prefix)) return values->array;
  if (prefix > flat->max_items) prefix = flat->max_items;
  uint32_t most = flat->max_items == GRAMMAR_UNBOUNDED ? flat->max_items : flat->max_items - (uint32_t)prefix;
  uint32_t least = flat->min_items > prefix ? flat->min_items - (uint32_t)prefix : 0;
  /* From the last element of the prefix to the first: what may follow it. Rules keep the grammar from nesting. */
  grammar_expression item = most ? element(compiler, flat, json_array_size(flat->prefix)) : 0;
  grammar_expression tail = others(compiler, item, prefix > 0, least, most);
  if (most && least == 0 && prefix == 0) {
    return GRAMMAR_CHOICE(builder, values->empty_array,
                          GRAMMAR_SEQUENCE(builder, values->open_array, tail, values->close_array));
  }
  for (size_t i = prefix; i-- > 0;) {
    grammar_expression one = element(compiler, flat, i);
    if (i > 0) one = GRAMMAR_SEQUENCE(builder, values->comma, one);
    grammar_expression from_here = GRAMMAR_SEQUENCE(builder, one, tail);
    /* The first is left out only with all the others: as the empty array. */
    if (i > 0 && i >= flat->min_items) from_here = grammar_optional(builder, from_here);
    tail = grammar_rule(builder, flat->path);
    grammar_define(builder, tail, from_here);
  }
  if (flat->max_items == 0) return values->empty_array;
  grammar_expression full = GRAMMAR_SEQUENCE(builder, values->open_array, tail, values->close_array);
  return flat->min_items ? full : GRAMMAR_CHOICE(builder, values->empty_array, full);
}

#include "grammar/tool_grammar_xml.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/name_exclusion.h"

enum { NAME_LENGTH = 256, BOUNDED_LENGTH = 1000 };

static const char END[] = "</parameter>";

bool tool_grammar_xml_name(const char *name) {
  size_t length = strlen(name);
  if (length == 0 || length > NAME_LENGTH || strpbrk(name, "<>")) return false;
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)name[i] < 0x20) return false;
  return !strchr(" \"'", name[0]) && !strchr(" \"'", name[length - 1]);
}

/* What a parameter's value may be, put together from all branches of its schema. */
struct raw_value {
  struct schema_compiler *compiler;
  grammar_expression *parts; /* texts before END, with the newline */
  size_t count, capacity;
  bool any_text;
};

static void add_part(struct raw_value *value, grammar_expression part) {
  if (value->count == value->capacity) {
    size_t capacity = value->capacity ? 2 * value->capacity : 8;
    grammar_expression *grown = realloc(value->parts, capacity * sizeof *grown);
    if (!grown) {
      grammar_fail(value->compiler->values.builder, KJ_MEMORY, "out of memory for a grammar");
      return;
    }
    value->parts = grown;
    value->capacity = capacity;
  }
  value->parts[value->count++] = part;
}

/* A string as it stands in the text. */
static void add_string(struct raw_value *value, const struct flat_schema *flat) {
  static const struct code_range LESS[] = {{'<', '<'}};
  struct grammar_builder *builder = value->compiler->values.builder;
  struct string_rules rules = schema_string_rules(value->compiler, flat);
  grammar_expression plain = grammar_class(builder, LESS, 1, true);
  if (rules.pattern || rules.format)
    add_part(value, string_rules_expression(builder, &rules, PATTERN_IN_TEXT));
  else if (rules.max_length <= BOUNDED_LENGTH && rules.min_length <= rules.max_length)
    add_part(value, grammar_repeat(builder, plain, rules.min_length, rules.max_length));
  else
    value->any_text = true;
}

static void add_values(struct raw_value *value, const struct flat_schema *flat) {
  json_t *allowed = schema_allowed_values(value->compiler, flat), *one = NULL;
  struct grammar_builder *builder = value->compiler->values.builder;
  size_t index = 0;
  json_array_foreach(allowed, index, one) {
    bool is_raw = json_is_string(one) && !strstr(json_string_value(one), END);
    if (is_raw)
      add_part(value, grammar_bytes(builder, json_string_value(one), json_string_length(one)));
    else if (!json_is_string(one))
      add_part(value, json_value_literal(&value->compiler->values, one));
  }
}

static void add_flat(struct raw_value *value, const struct flat_schema *flat) {
  struct schema_compiler *compiler = value->compiler;
  if (compiler->failed) return;
  if (flat->union_count) {
    struct flat_schema base = *flat;
    struct schema_union branches = base.unions[--base.union_count];
    size_t index = 0;
    json_t *branch = NULL;
    if (++compiler->union_depth > SCHEMA_MAX_DEPTH)
      schema_fail(compiler, KJ_UNSUPPORTED, branches.path, "it contains itself, or too many others");
    json_array_foreach(branches.branches, index, branch) {
      struct flat_schema both = base;
      flat_schema_add(compiler, &both, branch, branches.path, 0);
      add_flat(value, &both);
    }
    compiler->union_depth--;
    return;
  }
  if (flat->values) {
    add_values(value, flat);
    return;
  }
  struct flat_schema typed = *flat;
  schema_infer_type(&typed);
  if (typed.types & TYPE_STRING) add_string(value, &typed);
  typed.types &= ~(unsigned)TYPE_STRING;
  if (typed.types) add_part(value, schema_flat(compiler, &typed));
}

/* The value of a schema, from behind the tag to the end of the closing one. NULL: any. */
static grammar_expression value_of(struct schema_compiler *compiler, const json_t *schema) {
  struct grammar_builder *builder = compiler->values.builder;
  struct raw_value value = {.compiler = compiler};
  struct flat_schema flat;
  flat_schema_begin(&flat, "parameters");
  if (schema) flat_schema_add(compiler, &flat, schema, "parameters", 0);
  add_flat(&value, &flat);
  grammar_expression text = grammar_text_until(builder, END, strlen(END));
  if (!value.any_text)
    text = GRAMMAR_SEQUENCE(builder, grammar_choice(builder, value.parts, value.count), grammar_text(builder, "\n"),
                            grammar_text(builder, END));
  free(value.parts);
  return text;
}

static grammar_expression parameter(struct schema_compiler *compiler, grammar_expression name, const json_t *schema) {
  struct grammar_builder *builder = compiler->values.builder;
  return GRAMMAR_SEQUENCE(builder, grammar_text(builder, "<parameter="), name, grammar_text(builder, ">\n"),
                          value_of(compiler, schema), grammar_text(builder, "\n"));
}

static int compare_names(const void *left, const void *right) {
  return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Parameters that the schema does not name. */
static grammar_expression others(struct schema_compiler *compiler, const struct flat_schema *parameters) {
  struct grammar_builder *builder = compiler->values.builder;
  const char **names = calloc(json_object_size(parameters->properties) + 1, sizeof *names), *name = NULL;
  size_t count = 0;
  json_t *schema = NULL;
  if (!names) return grammar_fail(builder, KJ_MEMORY, "out of memory for a grammar");
  json_object_foreach((json_t *)(uintptr_t)parameters->properties, name, schema) { names[count++] = name; }
  qsort(names, count, sizeof *names, compare_names);
  grammar_expression other =
      parameter(compiler, name_exclusion(builder, names, count, PATTERN_IN_TEXT), parameters->additional);
  free(names);
  return grammar_repeat(builder, other, 0, GRAMMAR_UNBOUNDED);
}

static grammar_expression named(struct schema_compiler *compiler, const struct flat_schema *parameters,
                                const char *name, const json_t *schema) {
  grammar_expression one = parameter(compiler, grammar_text(compiler->values.builder, name), schema);
  bool required = json_object_get(parameters->required, name) != NULL;
  return required ? one : grammar_optional(compiler->values.builder, one);
}

grammar_expression tool_grammar_xml_call(struct schema_compiler *compiler, const char *name,
                                         const struct flat_schema *parameters) {
  struct grammar_builder *builder = compiler->values.builder;
  size_t count = 0;
  const char *key = NULL;
  json_t *schema = NULL;
  grammar_expression *parts =
      calloc(json_object_size(parameters->properties) + json_object_size(parameters->required) + 5, sizeof *parts);
  if (!parts) return grammar_fail(builder, KJ_MEMORY, "out of memory for a grammar");
  parts[count++] = grammar_text(builder, "<function=");
  parts[count++] = grammar_text(builder, name);
  parts[count++] = grammar_text(builder, ">\n");
  json_object_foreach((json_t *)(uintptr_t)parameters->properties, key, schema) {
    if (tool_grammar_xml_name(key) && !json_is_false(schema)) parts[count++] = named(compiler, parameters, key, schema);
  }
  json_object_foreach((json_t *)(uintptr_t)parameters->required, key, schema) {
    if (tool_grammar_xml_name(key) && !json_object_get(parameters->properties, key))
      parts[count++] = named(compiler, parameters, key, parameters->additional);
  }
  if (!json_is_false(parameters->additional)) parts[count++] = others(compiler, parameters);
  parts[count++] = grammar_text(builder, "</function>");
  grammar_expression call = grammar_sequence(builder, parts, count);
  free(parts);
  return call;
}

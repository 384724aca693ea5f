#include "grammar/json_schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/json_schema_parts.h"

enum { REFERENCE_WORK = 8 }; /* bytes of a reference that take as long as a plain schema */

void schema_path(char out[JSON_SCHEMA_PATH], const char *path, const char *name, size_t index) {
  int length = name ? snprintf(out, JSON_SCHEMA_PATH, "%s.%s", path, name)
                    : snprintf(out, JSON_SCHEMA_PATH, "%s[%zu]", path, index);
  if (length < JSON_SCHEMA_PATH) return;
  /* Not within a character. */
  size_t end = JSON_SCHEMA_PATH - 1;
  while (end && ((unsigned char)out[end - 1] & 0xc0) == 0x80) end--;
  if (end && (unsigned char)out[end - 1] >= 0xc0) end--;
  out[end] = '\0';
}

static void fail_at(struct schema_compiler *compiler, enum kj_code code, const char *path, const char *keyword,
                    const char *message) {
  if (compiler->failed || code == KJ_OK) return;
  compiler->failed = true;
  if (keyword)
    schema_path(compiler->error_path, path, keyword, 0);
  else
    snprintf(compiler->error_path, sizeof compiler->error_path, "%s", path);
  kj_fail(&compiler->error, code, "'%s': %s", compiler->error_path, message);
}

void schema_fail(struct schema_compiler *compiler, enum kj_code code, const char *path, const char *message) {
  fail_at(compiler, code, path, NULL, message);
}

void schema_refuse(struct schema_compiler *compiler, const char *path, const char *keyword, const char *format, ...) {
  if (compiler->lenient || compiler->failed) return;
  char reason[300], message[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  snprintf(message, sizeof message, "not supported%s%s", reason[0] ? ": " : "", reason);
  fail_at(compiler, KJ_UNSUPPORTED, path, keyword, message);
}

void schema_invalid(struct schema_compiler *compiler, const char *path, const char *keyword, const char *expected) {
  if (compiler->lenient) return;
  char message[200];
  snprintf(message, sizeof message, "it must be %s", expected);
  fail_at(compiler, KJ_INVALID, path, keyword, message);
}

bool schema_work(struct schema_compiler *compiler, const char *path, size_t amount) {
  if (amount <= SCHEMA_MAX_WORK - compiler->work) {
    compiler->work += amount;
    return true;
  }
  schema_fail(compiler, KJ_UNSUPPORTED, path, "the schema is too large, or its parts are combined in too many ways");
  return false;
}

bool schema_reference_work(struct schema_compiler *compiler, const json_t *schema, const char *path) {
  return schema_work(compiler, path, 1 + json_string_length(json_object_get(schema, "$ref")) / REFERENCE_WORK);
}

json_t *schema_keep(struct schema_compiler *compiler, json_t *made) {
  if (made && json_array_append_new(compiler->made, made) == 0) return made;
  schema_fail(compiler, KJ_MEMORY, "", "out of memory");
  return NULL;
}

grammar_expression schema_value(struct schema_compiler *compiler, const json_t *schema, const char *path) {
  char target_path[JSON_SCHEMA_PATH];
  const json_t *target = NULL;
  for (size_t i = 0; i < SCHEMA_MAX_DEPTH && (target = schema_alias(compiler, schema, target_path)); i++) {
    if (!schema_reference_work(compiler, schema, path)) break;
    schema = target;
    path = target_path;
  }
  if (!schema || json_is_true(schema)) return compiler->values.any;
  if (json_is_false(schema) || compiler->failed) return grammar_choice(compiler->values.builder, NULL, 0);
  const struct pair_map_entry *known = pair_map_find(&compiler->rule_of, schema, NULL);
  if (known) return compiler->rules[known->number].rule;
  if (compiler->rule_count == compiler->rule_capacity) {
    size_t capacity = compiler->rule_capacity ? 2 * compiler->rule_capacity : 64;
    struct schema_rule *grown = realloc(compiler->rules, capacity * sizeof *grown);
    if (!grown) {
      schema_fail(compiler, KJ_MEMORY, path, "out of memory");
      return compiler->values.any;
    }
    compiler->rules = grown;
    compiler->rule_capacity = capacity;
  }
  struct schema_rule *rule = &compiler->rules[compiler->rule_count];
  *rule = (struct schema_rule){schema, strdup(path), grammar_rule(compiler->values.builder, path)};
  if (!rule->path || !pair_map_add(&compiler->rule_of, schema, NULL, compiler->rule_count))
    schema_fail(compiler, KJ_MEMORY, path, "out of memory");
  compiler->rule_count++;
  return rule->rule;
}

/* A schema of which nothing but a union is known: its branches are schemas of their own. */
static bool is_anything(const struct flat_schema *flat) {
  return flat->types == TYPE_ANY && !flat->spoken_of && !flat->values && flat->union_count == 0;
}

static grammar_expression union_of(struct schema_compiler *compiler, const struct flat_schema *flat) {
  struct grammar_builder *builder = compiler->values.builder;
  struct flat_schema base = *flat;
  struct schema_union branches = base.unions[--base.union_count];
  size_t count = json_array_size(branches.branches), index = 0;
  grammar_expression *parts = calloc(count, sizeof *parts);
  json_t *branch = NULL;
  if (!parts) return grammar_fail(builder, KJ_MEMORY, "out of memory for a grammar");
  if (++compiler->union_depth > SCHEMA_MAX_DEPTH)
    schema_fail(compiler, KJ_UNSUPPORTED, branches.path, "it contains itself, or too many others");
  json_array_foreach(branches.branches, index, branch) {
    char path[JSON_SCHEMA_PATH];
    schema_path(path, branches.path, NULL, index);
    if (compiler->failed || is_anything(&base)) {
      parts[index] = schema_value(compiler, branch, path);
      continue;
    }
    struct flat_schema both = base;
    flat_schema_add(compiler, &both, branch, path, 0);
    parts[index] = compiler->failed ? grammar_choice(builder, NULL, 0) : schema_flat(compiler, &both);
  }
  compiler->union_depth--;
  grammar_expression expression = grammar_choice(builder, parts, count);
  free(parts);
  return expression;
}

static grammar_expression numbers(struct schema_compiler *compiler, const struct flat_schema *flat) {
  struct grammar_builder *builder = compiler->values.builder;
  bool is_integer = !(flat->types & TYPE_NUMBER);
  if (!flat->minimum.value && !flat->maximum.value)
    return is_integer ? compiler->values.integer : compiler->values.number;
  if (is_integer) return number_range_integers(builder, flat->minimum, flat->maximum);
  grammar_expression decimals = 0;
  if (number_range_decimals(builder, flat->minimum, flat->maximum, &decimals)) return decimals;
  schema_refuse(compiler, flat->path, flat->minimum.value ? "minimum" : "maximum",
                "with so many digits it cannot be kept exactly");
  return compiler->values.number;
}

void schema_infer_type(struct flat_schema *flat) {
  static const unsigned KINDS[] = {TYPE_STRING, TYPE_NUMBER | TYPE_INTEGER, TYPE_OBJECT, TYPE_ARRAY};
  for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS && flat->types == TYPE_ANY; i++)
    if (flat->spoken_of && !(flat->spoken_of & ~KINDS[i])) flat->types = KINDS[i];
}

grammar_expression schema_flat(struct schema_compiler *compiler, const struct flat_schema *flat) {
  struct grammar_builder *builder = compiler->values.builder;
  if (compiler->failed || grammar_failed(builder)) return grammar_choice(builder, NULL, 0);
  if (flat->union_count) return union_of(compiler, flat);
  if (flat->values) return schema_values(compiler, flat);
  if (is_anything(flat)) return compiler->values.any;
  struct flat_schema typed = *flat;
  schema_infer_type(&typed);
  grammar_expression parts[6];
  size_t count = 0;
  if (typed.types & TYPE_OBJECT) parts[count++] = schema_object(compiler, &typed);
  if (typed.types & TYPE_ARRAY) parts[count++] = schema_array(compiler, &typed);
  if (typed.types & TYPE_STRING) parts[count++] = schema_string(compiler, &typed);
  if (typed.types & (TYPE_NUMBER | TYPE_INTEGER)) parts[count++] = numbers(compiler, &typed);
  if (typed.types & TYPE_BOOLEAN) parts[count++] = compiler->values.boolean;
  if (typed.types & TYPE_NULL) parts[count++] = compiler->values.null;
  return grammar_choice(builder, parts, count);
}

int schema_compiler_begin(struct schema_compiler *compiler, const struct json_values *values, const json_t *root,
                          const char *root_path, bool lenient, struct kj_error *error) {
  *compiler = (struct schema_compiler){
      .values = *values, .root = root, .root_path = root_path, .lenient = lenient, .made = json_array()};
  return compiler->made ? 0 : kj_fail_memory(error, "a schema");
}

void schema_compiler_run(struct schema_compiler *compiler) {
  for (size_t i = 0; i < compiler->rule_count && !compiler->failed && !grammar_failed(compiler->values.builder); i++) {
    /* The array may move meanwhile. */
    struct schema_rule rule = compiler->rules[i];
    struct flat_schema flat;
    flat_schema_begin(&flat, rule.path);
    flat_schema_add(compiler, &flat, rule.schema, rule.path, 0);
    grammar_define(compiler->values.builder, rule.rule, schema_flat(compiler, &flat));
  }
}

int schema_compiler_end(struct schema_compiler *compiler, char path[JSON_SCHEMA_PATH], struct kj_error *error) {
  int result = compiler->failed ? kj_fail(error, compiler->error.code, "%s", compiler->error.message) : 0;
  if (result) memcpy(path, compiler->error_path, JSON_SCHEMA_PATH);
  for (size_t i = 0; i < compiler->rule_count; i++) free(compiler->rules[i].path);
  free(compiler->rules);
  pair_map_free(&compiler->rule_of);
  pair_map_free(&compiler->all_of);
  json_decref(compiler->made);
  return result;
}

int json_schema_compile(struct grammar_builder *builder, const json_t *schema,
                        const struct json_schema_options *options, char path[JSON_SCHEMA_PATH],
                        grammar_expression *expression, struct kj_error *error) {
  char root_path[JSON_SCHEMA_PATH];
  memcpy(root_path, path, JSON_SCHEMA_PATH);
  struct schema_compiler compiler;
  struct json_values values = json_values_make(builder);
  if (schema_compiler_begin(&compiler, &values, options->root ? options->root : schema, root_path, options->lenient,
                            error))
    return KJ_MEMORY;
  *expression = schema_value(&compiler, schema, root_path);
  schema_compiler_run(&compiler);
  return schema_compiler_end(&compiler, path, error);
}

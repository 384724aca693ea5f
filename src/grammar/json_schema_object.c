/* Objects that a schema allows: the members that it names, in their order, then others. */
#include <stdlib.h>
#include <string.h>

#include "grammar/json_schema_parts.h"
#include "grammar/name_exclusion.h"

struct member {
  const char *name;
  grammar_expression text; /* "name": value */
  bool required;
};

struct object_parts {
  struct schema_compiler *compiler;
  const struct flat_schema *flat;
  struct member *members;
  size_t count, required; /* required: how many of them are */
  bool has_others;
  grammar_expression other; /* "any other name": value */
  bool impossible;          /* a member is required that cannot be */
};

static grammar_expression named(struct object_parts *parts, const char *name, const json_t *schema, const char *where) {
  char path[JSON_SCHEMA_PATH], base[JSON_SCHEMA_PATH];
  schema_path(base, parts->flat->path, where, 0);
  schema_path(path, base, name, 0);
  struct schema_compiler *compiler = parts->compiler;
  return GRAMMAR_SEQUENCE(compiler->values.builder, json_value_key(&compiler->values, name),
                          schema_value(compiler, schema, path));
}

static void add_member(struct object_parts *parts, const char *name, const json_t *schema, const char *where) {
  bool required = json_object_get(parts->flat->required, name) != NULL;
  if (json_is_false(schema)) {
    parts->impossible |= required;
    return;
  }
  parts->members[parts->count++] = (struct member){name, named(parts, name, schema, where), required};
  parts->required += required;
}

/* The names of others where propertyNames says what they are: an array of values, or NULL. */
static json_t *listed_names(struct schema_compiler *compiler, const struct flat_schema *names) {
  return names->values && !names->union_count ? schema_allowed_values(compiler, names) : NULL;
}

static bool is_listed(const json_t *listed, const char *name) {
  size_t index = 0;
  json_t *value = NULL;
  json_array_foreach(listed, index, value) {
    if (json_is_string(value) && strcmp(json_string_value(value), name) == 0) return true;
  }
  return false;
}

/* The names that are required and that `properties` does not have, and those that propertyNames lists. */
static void add_unnamed(struct object_parts *parts, const json_t *listed) {
  const struct flat_schema *flat = parts->flat;
  const char *name = NULL;
  json_t *value = NULL;
  size_t index = 0;
  json_array_foreach(listed, index, value) {
    const char *text = json_string_value(value);
    if (text && !json_object_get(flat->properties, text))
      add_member(parts, text, flat->additional, "additionalProperties");
  }
  json_object_foreach((json_t *)(uintptr_t)flat->required, name, value) {
    if (json_object_get(flat->properties, name) || is_listed(listed, name)) continue;
    add_member(parts, name, listed ? json_false() : flat->additional, "additionalProperties");
  }
}

static int compare_names(const void *left, const void *right) {
  return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The quoted names that the schema does not have: of those that may not be, neither. */
static grammar_expression other_names(struct object_parts *parts) {
  struct grammar_builder *builder = parts->compiler->values.builder;
  const json_t *properties = parts->flat->properties;
  const char **names = calloc(parts->count + json_object_size(properties) + 1, sizeof *names), *name = NULL;
  size_t count = 0;
  json_t *schema = NULL;
  if (!names) return grammar_fail(builder, KJ_MEMORY, "out of memory for a grammar");
  json_object_foreach((json_t *)(uintptr_t)properties, name, schema) { names[count++] = name; }
  for (size_t i = 0; i < parts->count; i++)
    if (!json_object_get(properties, parts->members[i].name)) names[count++] = parts->members[i].name;
  qsort(names, count, sizeof *names, compare_names);
  grammar_expression quote = grammar_text(builder, "\""), text = parts->compiler->values.string;
  if (count)
    text = GRAMMAR_SEQUENCE(builder, quote, name_exclusion(builder, names, count, PATTERN_IN_JSON_STRING), quote);
  free(names);
  return text;
}

/* Others by one pattern of names alone. Returns false if nothing of the kind is wanted. */
static bool add_by_pattern(struct object_parts *parts) {
  const struct flat_schema *flat = parts->flat;
  struct schema_compiler *compiler = parts->compiler;
  struct grammar_builder *builder = compiler->values.builder;
  const char *pattern = NULL;
  json_t *schema = NULL;
  if (!flat->by_pattern) return false;
  if (json_object_size(flat->by_pattern) > 1 || json_object_size(flat->properties) ||
      json_object_size(flat->required) || flat->names || !json_is_false(flat->additional)) {
    schema_refuse(compiler, flat->path, "patternProperties",
                  "unless it is a single pattern, beside \"additionalProperties\": false alone");
    return false;
  }
  json_object_foreach((json_t *)(uintptr_t)flat->by_pattern, pattern, schema) {
    char path[JSON_SCHEMA_PATH], base[JSON_SCHEMA_PATH];
    schema_path(base, flat->path, "patternProperties", 0);
    schema_path(path, base, pattern, 0);
    struct flat_schema name;
    flat_schema_begin(&name, base);
    name.types = TYPE_STRING;
    name.pattern = pattern;
    parts->other = GRAMMAR_SEQUENCE(builder, schema_string(compiler, &name), compiler->values.colon,
                                    schema_value(compiler, schema, path));
    parts->has_others = true;
  }
  return true;
}

static void add_others(struct object_parts *parts, const struct flat_schema *names, bool is_listed) {
  const struct flat_schema *flat = parts->flat;
  struct schema_compiler *compiler = parts->compiler;
  struct grammar_builder *builder = compiler->values.builder;
  if (add_by_pattern(parts) || is_listed || json_is_false(flat->additional)) return;
  char path[JSON_SCHEMA_PATH];
  schema_path(path, flat->path, "additionalProperties", 0);
  bool any_name = !names->spoken_of && !names->union_count && names->types & TYPE_STRING;
  if (!any_name && parts->count)
    schema_refuse(compiler, flat->path, "propertyNames", "beside properties that have names");
  grammar_expression name = 0;
  if (any_name || parts->count) {
    name = other_names(parts);
  } else {
    struct flat_schema strings = *names;
    strings.types &= TYPE_STRING;
    name = schema_flat(compiler, &strings);
  }
  parts->other =
      GRAMMAR_SEQUENCE(builder, name, compiler->values.colon, schema_value(compiler, flat->additional, path));
  parts->has_others = true;
}

/* Bounds on how many members there are; leniently, those that cannot be kept are left out. */
static void check_counts(struct object_parts *parts, uint32_t *least, uint32_t *most) {
  const struct flat_schema *flat = parts->flat;
  *least = flat->min_properties;
  *most = flat->max_properties;
  if (*least > 1 && *least > parts->required) {
    /* The names of others may come twice, and then they are one. */
    schema_refuse(parts->compiler, flat->path, "minProperties", "more than 1, and more than are required");
    *least = 1;
  }
  if (*most != GRAMMAR_UNBOUNDED && parts->count && (parts->has_others || parts->count > *most)) {
    schema_refuse(parts->compiler, flat->path, "maxProperties", "beside properties that have names");
    *most = GRAMMAR_UNBOUNDED;
  }
}

/* Others alone. */
static grammar_expression dictionary(const struct object_parts *parts, uint32_t least, uint32_t most) {
  const struct json_values *values = &parts->compiler->values;
  struct grammar_builder *builder = values->builder;
  if (most == 0 || !parts->has_others) return least ? grammar_choice(builder, NULL, 0) : values->empty_object;
  grammar_expression more = grammar_repeat(builder, GRAMMAR_SEQUENCE(builder, values->comma, parts->other), 0,
                                           most == GRAMMAR_UNBOUNDED ? most : most - 1);
  grammar_expression full = GRAMMAR_SEQUENCE(builder, values->open_object, parts->other, more, values->close_object);
  return least ? full : GRAMMAR_CHOICE(builder, values->empty_object, full);
}

/* The first member may be any up to the first that is required. Behind it a chain of the others, each with its comma:
 * the tails are shared, so that the whole grows with the number of members alone. */
static grammar_expression members(const struct object_parts *parts, bool may_be_empty) {
  const struct json_values *values = &parts->compiler->values;
  struct grammar_builder *builder = values->builder;
  grammar_expression *firsts = calloc(parts->count + 2, sizeof *firsts);
  if (!firsts) return grammar_fail(builder, KJ_MEMORY, "out of memory for a grammar");
  size_t may_begin = 0, count = 0;
  while (may_begin < parts->count && !parts->members[may_begin].required) may_begin++;
  grammar_expression tail = grammar_text(builder, "");
  if (parts->has_others)
    tail = grammar_repeat(builder, GRAMMAR_SEQUENCE(builder, values->comma, parts->other), 0, GRAMMAR_UNBOUNDED);
  if (parts->has_others && !parts->required) firsts[count++] = GRAMMAR_SEQUENCE(builder, parts->other, tail);
  for (size_t i = parts->count; i-- > 0;) {
    const struct member *member = &parts->members[i];
    if (i <= may_begin) firsts[count++] = GRAMMAR_SEQUENCE(builder, member->text, tail);
    grammar_expression next = GRAMMAR_SEQUENCE(builder, values->comma, member->text);
    if (!member->required) next = grammar_optional(builder, next);
    grammar_expression longer = grammar_rule(builder, parts->flat->path);
    grammar_define(builder, longer, GRAMMAR_SEQUENCE(builder, next, tail));
    tail = longer;
  }
  grammar_expression full =
      GRAMMAR_SEQUENCE(builder, values->open_object, grammar_choice(builder, firsts, count), values->close_object);
  free(firsts);
  return may_be_empty && !parts->required ? GRAMMAR_CHOICE(builder, values->empty_object, full) : full;
}

grammar_expression schema_object(struct schema_compiler *compiler, const struct flat_schema *flat) {
  struct flat_schema names;
  char path[JSON_SCHEMA_PATH];
  schema_path(path, flat->path, "propertyNames", 0);
  flat_schema_begin(&names, path);
  if (flat->names) flat_schema_add(compiler, &names, flat->names, path, 0);
  json_t *listed = flat->names && !compiler->failed ? listed_names(compiler, &names) : NULL;
  size_t count = json_object_size(flat->properties) + json_object_size(flat->required) + json_array_size(listed);
  struct object_parts parts = {.compiler = compiler, .flat = flat, .members = calloc(count + 1, sizeof *parts.members)};
  grammar_expression object = compiler->values.object;
  const char *name = NULL;
  json_t *schema = NULL;
  if (!parts.members) object = grammar_fail(compiler->values.builder, KJ_MEMORY, "out of memory for a grammar");
  if (!parts.members || !schema_work(compiler, flat->path, count * (listed ? json_array_size(listed) + 1 : 1)))
    goto done;
  json_object_foreach((json_t *)(uintptr_t)flat->properties, name, schema) {
    add_member(&parts, name, listed && !is_listed(listed, name) ? json_false() : schema, "properties");
  }
  if (!flat->by_pattern) add_unnamed(&parts, listed);
  add_others(&parts, &names, listed != NULL);
  uint32_t least = 0, most = 0;
  check_counts(&parts, &least, &most);
  if (compiler->failed) goto done;
  if (parts.impossible || least > most)
    object = grammar_choice(compiler->values.builder, NULL, 0);
  else if (parts.count == 0)
    object = dictionary(&parts, least, most);
  else
    object = members(&parts, least == 0);
done:
  free(parts.members);
  return object;
}

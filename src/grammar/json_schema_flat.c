/* A schema with all that it refers to and consists of brought together. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "grammar/json_schema_parts.h"
#include "text/json_pointer.h"

/* One keyword of a schema being read. */
struct reading {
  struct schema_compiler *compiler;
  struct flat_schema *flat;
  const json_t *schema, *value;
  const char *keyword, *schema_path;
  char path[JSON_SCHEMA_PATH]; /* of the keyword */
  unsigned depth;
};

void flat_schema_begin(struct flat_schema *flat, const char *path) {
  *flat = (struct flat_schema){.types = TYPE_ANY,
                               .max_length = GRAMMAR_UNBOUNDED,
                               .max_items = GRAMMAR_UNBOUNDED,
                               .max_properties = GRAMMAR_UNBOUNDED};
  snprintf(flat->path, sizeof flat->path, "%s", path);
}

static void expect(const struct reading *reading, const char *expected) {
  schema_invalid(reading->compiler, reading->path, NULL, expected);
}

/* Where the reference leads. */
static void reference_path(const struct schema_compiler *compiler, const char *reference, char path[JSON_SCHEMA_PATH]) {
  char pointer[JSON_SCHEMA_PATH];
  snprintf(pointer, sizeof pointer, "%s", reference[1] ? reference + 2 : "");
  for (char *c = pointer; *c; c++)
    if (*c == '/') *c = '.';
  if (reference[1])
    schema_path(path, compiler->root_path, pointer, 0);
  else
    snprintf(path, JSON_SCHEMA_PATH, "%s", compiler->root_path);
}

static void read_reference(const struct reading *reading) {
  const char *reference = json_string_value(reading->value);
  if (!schema_reference_work(reading->compiler, reading->schema, reading->path)) return;
  const json_t *target = reference ? json_pointer_resolve(reading->compiler->root, reference) : NULL;
  if (!reference) {
    expect(reading, "a string");
  } else if (reference[0] != '#') {
    schema_refuse(reading->compiler, reading->path, NULL, "it leads out of the schema, to '%.200s'", reference);
  } else if (!target) {
    schema_fail(reading->compiler, reading->compiler->lenient ? KJ_OK : KJ_INVALID, reading->path,
                "it leads to nothing in the schema");
  } else {
    char path[JSON_SCHEMA_PATH];
    reference_path(reading->compiler, reference, path);
    flat_schema_add(reading->compiler, reading->flat, target, path, reading->depth + 1);
  }
}

static void read_all_of(const struct reading *reading) {
  if (!json_is_array(reading->value)) {
    expect(reading, "an array of schemas");
    return;
  }
  size_t index = 0;
  json_t *part = NULL;
  json_array_foreach(reading->value, index, part) {
    char path[JSON_SCHEMA_PATH];
    schema_path(path, reading->path, NULL, index);
    flat_schema_add(reading->compiler, reading->flat, part, path, reading->depth + 1);
  }
}

static void read_union(const struct reading *reading) {
  if (json_array_size(reading->value) == 0) {
    expect(reading, "an array of schemas, one at least");
  } else if (json_array_size(reading->value) == 1) {
    read_all_of(reading);
  } else if (reading->flat->union_count == SCHEMA_MAX_UNIONS) {
    schema_refuse(reading->compiler, reading->path, NULL, "more than %d that hold together", SCHEMA_MAX_UNIONS);
  } else {
    struct schema_union *added = &reading->flat->unions[reading->flat->union_count++];
    added->branches = reading->value;
    memcpy(added->path, reading->path, sizeof added->path);
  }
}

static void read_type(const struct reading *reading) {
  bool is_list = json_is_array(reading->value);
  size_t count = is_list ? json_array_size(reading->value) : 1;
  unsigned types = 0;
  for (size_t i = 0; i < count; i++) {
    unsigned named = json_types_named(json_string_value(is_list ? json_array_get(reading->value, i) : reading->value));
    if (!named) {
      expect(reading, "string, number, integer, boolean, object, array or null, or an array of these");
      return;
    }
    types |= named;
  }
  reading->flat->types &= types;
}

static bool equal(const json_t *left, const json_t *right) {
  if (json_is_number(left) && json_is_number(right)) return number_compare(left, right) == 0;
  return json_equal(left, right);
}

static void narrow_values(const struct reading *reading, json_t *values) {
  struct flat_schema *flat = reading->flat;
  if (!flat->values) {
    flat->values = values;
    return;
  }
  json_t *common = schema_keep(reading->compiler, json_array());
  size_t index = 0, other = 0;
  json_t *value = NULL, *allowed = NULL;
  if (!common ||
      !schema_work(reading->compiler, reading->path, json_array_size(flat->values) * json_array_size(values)))
    return;
  json_array_foreach(values, index, value) {
    json_array_foreach(flat->values, other, allowed) {
      if (equal(value, allowed)) json_array_append(common, value);
    }
  }
  flat->values = common;
}

static void read_enum(const struct reading *reading) {
  if (json_is_array(reading->value))
    narrow_values(reading, (json_t *)(uintptr_t)reading->value);
  else
    expect(reading, "an array");
}

static void read_const(const struct reading *reading) {
  json_t *values = schema_keep(reading->compiler, json_array());
  if (values && json_array_append(values, (json_t *)(uintptr_t)reading->value) == 0) narrow_values(reading, values);
}

static void raise_minimum(struct flat_schema *flat, const json_t *value, bool exclusive) {
  int order = flat->minimum.value ? number_compare(value, flat->minimum.value) : 1;
  if (order > 0) flat->minimum = (struct number_bound){value, exclusive};
  if (order == 0) flat->minimum.exclusive |= exclusive;
}

static void lower_maximum(struct flat_schema *flat, const json_t *value, bool exclusive) {
  int order = flat->maximum.value ? number_compare(value, flat->maximum.value) : -1;
  if (order < 0) flat->maximum = (struct number_bound){value, exclusive};
  if (order == 0) flat->maximum.exclusive |= exclusive;
}

static void read_minimum(const struct reading *reading) {
  /* Draft 4 has a boolean beside the bound. */
  bool exclusive = json_is_true(json_object_get(reading->schema, "exclusiveMinimum"));
  if (json_is_number(reading->value))
    raise_minimum(reading->flat, reading->value, exclusive);
  else
    expect(reading, "a number");
}

static void read_maximum(const struct reading *reading) {
  bool exclusive = json_is_true(json_object_get(reading->schema, "exclusiveMaximum"));
  if (json_is_number(reading->value))
    lower_maximum(reading->flat, reading->value, exclusive);
  else
    expect(reading, "a number");
}

static void read_exclusive_minimum(const struct reading *reading) {
  if (json_is_number(reading->value))
    raise_minimum(reading->flat, reading->value, true);
  else if (!json_is_boolean(reading->value))
    expect(reading, "a number");
}

static void read_exclusive_maximum(const struct reading *reading) {
  if (json_is_number(reading->value))
    lower_maximum(reading->flat, reading->value, true);
  else if (!json_is_boolean(reading->value))
    expect(reading, "a number");
}

static void read_multiple(const struct reading *reading) {
  if (json_is_number(reading->value) && json_number_value(reading->value) == 1)
    reading->flat->types &= ~(unsigned)TYPE_NUMBER;
  else
    schema_refuse(reading->compiler, reading->path, NULL, "other than 1");
}

/* A count; false if it is none. What is beyond all bounds of repetitions is GRAMMAR_UNBOUNDED. */
static bool read_count(const struct reading *reading, uint32_t *count) {
  double value = json_number_value(reading->value);
  if (!json_is_number(reading->value) || !(value >= 0) || (value < 0x1p52 && value != (double)(uint64_t)value)) {
    expect(reading, "an integer from 0 on");
    return false;
  }
  *count = value > GRAMMAR_MAX_REPEAT ? GRAMMAR_UNBOUNDED : (uint32_t)value;
  return true;
}

static void raise_count(const struct reading *reading, uint32_t *least) {
  uint32_t count = 0;
  if (!read_count(reading, &count)) return;
  if (count == GRAMMAR_UNBOUNDED)
    schema_refuse(reading->compiler, reading->path, NULL, "more than %d", GRAMMAR_MAX_REPEAT);
  else if (count > *least)
    *least = count;
}

static void lower_count(const struct reading *reading, uint32_t *most) {
  uint32_t count = 0;
  if (read_count(reading, &count) && count < *most) *most = count;
}

static void read_min_length(const struct reading *reading) { raise_count(reading, &reading->flat->min_length); }
static void read_max_length(const struct reading *reading) { lower_count(reading, &reading->flat->max_length); }
static void read_min_items(const struct reading *reading) { raise_count(reading, &reading->flat->min_items); }
static void read_max_items(const struct reading *reading) { lower_count(reading, &reading->flat->max_items); }
static void read_min_properties(const struct reading *reading) { raise_count(reading, &reading->flat->min_properties); }
static void read_max_properties(const struct reading *reading) { lower_count(reading, &reading->flat->max_properties); }

static void set_text(const struct reading *reading, const char **text) {
  const char *value = json_string_value(reading->value);
  if (!value)
    expect(reading, "a string");
  else if (*text && strcmp(*text, value) != 0)
    schema_refuse(reading->compiler, reading->path, NULL, "together with another one");
  else
    *text = value;
}

static void read_pattern(const struct reading *reading) { set_text(reading, &reading->flat->pattern); }

static void read_format(const struct reading *reading) {
  static const struct {
    const char *name;
    int64_t minimum, maximum;
  } NUMBERS[] = {{"int8", INT8_MIN, INT8_MAX},
                 {"uint8", 0, UINT8_MAX},
                 {"int16", INT16_MIN, INT16_MAX},
                 {"uint16", 0, UINT16_MAX},
                 {"int32", INT32_MIN, INT32_MAX},
                 {"uint32", 0, UINT32_MAX},
                 {"int64", INT64_MIN, INT64_MAX},
                 {"uint64", 0, INT64_MAX},
                 {"float", 0, -1},
                 {"double", 0, -1}};
  const char *name = json_string_value(reading->value);
  for (size_t i = 0; name && i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
    if (strcmp(name, NUMBERS[i].name) != 0) continue;
    if (NUMBERS[i].minimum > NUMBERS[i].maximum) return;
    json_t *minimum = schema_keep(reading->compiler, json_integer(NUMBERS[i].minimum));
    json_t *maximum = schema_keep(reading->compiler, json_integer(NUMBERS[i].maximum));
    if (!minimum || !maximum) return;
    raise_minimum(reading->flat, minimum, false);
    lower_maximum(reading->flat, maximum, false);
    reading->flat->spoken_of |= TYPE_NUMBER | TYPE_INTEGER;
    return;
  }
  set_text(reading, &reading->flat->format);
  reading->flat->spoken_of |= TYPE_STRING;
}

/* prefixItems, items and additionalItems say what they say together. */
static void read_items(const struct reading *reading) {
  struct flat_schema *flat = reading->flat;
  const json_t *prefix = json_object_get(reading->schema, "prefixItems");
  const json_t *items = json_object_get(reading->schema, "items");
  if (strcmp(reading->keyword, "items") == 0 && prefix) return;
  if (!prefix && json_is_array(items)) {
    prefix = items;
    items = json_object_get(reading->schema, "additionalItems");
  }
  if (prefix && !json_is_array(prefix)) {
    expect(reading, "an array of schemas");
    return;
  }
  size_t count = json_array_size(prefix), before = json_array_size(flat->prefix);
  if (!flat->prefix && !flat->items) {
    flat->prefix = count ? prefix : NULL;
    flat->items = items;
    return;
  }
  json_t *both = schema_keep(reading->compiler, json_array());
  if (!both || !schema_work(reading->compiler, reading->path, count + before)) return;
  for (size_t i = 0; i < count || i < before; i++) {
    const json_t *element = schema_both(reading->compiler, i < before ? json_array_get(flat->prefix, i) : flat->items,
                                        i < count ? json_array_get(prefix, i) : items);
    json_array_append(both, element ? (json_t *)(uintptr_t)element : json_true());
  }
  flat->prefix = json_array_size(both) ? both : NULL;
  flat->items = schema_both(reading->compiler, flat->items, items);
}

/* Members of both schemas: one that only one of them names is an additional one of the other. */
static json_t *both_properties(const struct reading *reading, const json_t *properties, const json_t *additional) {
  const struct flat_schema *flat = reading->flat;
  json_t *both = schema_keep(reading->compiler, json_object());
  if (!both ||
      !schema_work(reading->compiler, reading->path, json_object_size(flat->properties) + json_object_size(properties)))
    return NULL;
  const json_t *const sides[] = {flat->properties, properties};
  for (size_t side = 0; side < 2; side++) {
    const char *name = NULL;
    json_t *schema = NULL;
    json_object_foreach((json_t *)(uintptr_t)sides[side], name, schema) {
      if (json_object_get(both, name)) continue;
      const json_t *mine = json_object_get(flat->properties, name), *theirs = json_object_get(properties, name);
      const json_t *member =
          schema_both(reading->compiler, mine ? mine : flat->additional, theirs ? theirs : additional);
      json_object_set(both, name, member ? (json_t *)(uintptr_t)member : json_true());
    }
  }
  return both;
}

/* properties, additionalProperties and patternProperties say what they say together. */
static void read_members(const struct reading *reading) {
  static const char *const NAMES[] = {"properties", "patternProperties", "additionalProperties"};
  struct flat_schema *flat = reading->flat;
  for (size_t i = 0; strcmp(NAMES[i], reading->keyword) != 0; i++)
    if (json_object_get(reading->schema, NAMES[i])) return;
  const json_t *properties = json_object_get(reading->schema, "properties");
  const json_t *additional = json_object_get(reading->schema, "additionalProperties");
  const json_t *by_pattern = json_object_get(reading->schema, "patternProperties");
  if ((properties && !json_is_object(properties)) || (by_pattern && !json_is_object(by_pattern))) {
    expect(reading, "an object of schemas");
    return;
  }
  if (json_object_size(by_pattern) == 0) by_pattern = NULL;
  if (!flat->has_members) {
    flat->properties = properties;
    flat->additional = additional;
    flat->by_pattern = by_pattern;
  } else if (flat->by_pattern || by_pattern) {
    schema_refuse(reading->compiler, reading->schema_path, "patternProperties", "together with other properties");
    flat->by_pattern = NULL;
    flat->additional = NULL;
  } else {
    flat->properties = both_properties(reading, properties, additional);
    flat->additional = schema_both(reading->compiler, flat->additional, additional);
  }
  flat->has_members = true;
}

static void read_names(const struct reading *reading) {
  reading->flat->names = schema_both(reading->compiler, reading->flat->names, reading->value);
}

static void read_required(const struct reading *reading) {
  json_t *names = schema_keep(reading->compiler, json_object());
  if (!names) return;
  bool is_list = json_is_array(reading->value);
  size_t index = 0;
  json_t *name = NULL;
  json_array_foreach(reading->value, index, name) {
    is_list &= json_is_string(name);
    if (json_is_string(name)) json_object_set_new(names, json_string_value(name), json_true());
  }
  if (!is_list) expect(reading, "an array of names");
  if (!schema_work(reading->compiler, reading->path, json_array_size(reading->value))) return;
  if (reading->flat->required) json_object_update_missing(names, (json_t *)(uintptr_t)reading->flat->required);
  reading->flat->required = names;
}

static void read_unsupported(const struct reading *reading) {
  schema_refuse(reading->compiler, reading->path, NULL, "%s", "");
}

/* Unsupported but where it says nothing. */
static void read_unless_false(const struct reading *reading) {
  if (!json_is_false(reading->value)) read_unsupported(reading);
}

static void read_unless_true(const struct reading *reading) {
  if (!json_is_true(reading->value)) read_unsupported(reading);
}

static void read_unless_empty(const struct reading *reading) {
  if (!json_is_object(reading->value) || json_object_size(reading->value)) read_unsupported(reading);
}

static const struct {
  const char *name;
  unsigned types; /* that it speaks of, or 0 */
  void (*read)(const struct reading *reading);
} KEYWORDS[] = {
    {"$ref", 0, read_reference},
    {"allOf", 0, read_all_of},
    {"anyOf", 0, read_union},
    {"oneOf", 0, read_union},
    {"type", 0, read_type},
    {"enum", 0, read_enum},
    {"const", 0, read_const},
    {"minimum", TYPE_NUMBER | TYPE_INTEGER, read_minimum},
    {"maximum", TYPE_NUMBER | TYPE_INTEGER, read_maximum},
    {"exclusiveMinimum", TYPE_NUMBER | TYPE_INTEGER, read_exclusive_minimum},
    {"exclusiveMaximum", TYPE_NUMBER | TYPE_INTEGER, read_exclusive_maximum},
    {"multipleOf", TYPE_NUMBER | TYPE_INTEGER, read_multiple},
    {"minLength", TYPE_STRING, read_min_length},
    {"maxLength", TYPE_STRING, read_max_length},
    {"pattern", TYPE_STRING, read_pattern},
    {"format", 0, read_format},
    {"prefixItems", TYPE_ARRAY, read_items},
    {"items", TYPE_ARRAY, read_items},
    {"minItems", TYPE_ARRAY, read_min_items},
    {"maxItems", TYPE_ARRAY, read_max_items},
    {"properties", TYPE_OBJECT, read_members},
    {"patternProperties", TYPE_OBJECT, read_members},
    {"additionalProperties", TYPE_OBJECT, read_members},
    {"propertyNames", TYPE_OBJECT, read_names},
    {"required", TYPE_OBJECT, read_required},
    {"minProperties", TYPE_OBJECT, read_min_properties},
    {"maxProperties", TYPE_OBJECT, read_max_properties},
    {"uniqueItems", TYPE_ARRAY, read_unless_false},
    {"unevaluatedItems", TYPE_ARRAY, read_unless_true},
    {"unevaluatedProperties", TYPE_OBJECT, read_unless_true},
    {"dependencies", TYPE_OBJECT, read_unless_empty},
    {"dependentRequired", TYPE_OBJECT, read_unless_empty},
    {"dependentSchemas", TYPE_OBJECT, read_unless_empty},
    {"contains", TYPE_ARRAY, read_unsupported},
    {"not", 0, read_unsupported},
    {"then", 0, read_unsupported},
    {"else", 0, read_unsupported},
    {"$dynamicRef", 0, read_unsupported},
    {"$recursiveRef", 0, read_unsupported},
    {"extends", 0, read_unsupported},
    {"disallow", 0, read_unsupported},
    {"divisibleBy", TYPE_NUMBER | TYPE_INTEGER, read_unsupported},
};

const json_t *schema_alias(const struct schema_compiler *compiler, const json_t *schema, char path[JSON_SCHEMA_PATH]) {
  const char *reference = json_string_value(json_object_get(schema, "$ref"));
  const json_t *target = reference ? json_pointer_resolve(compiler->root, reference) : NULL;
  if (!target || json_is_true(json_object_get(schema, "nullable"))) return NULL;
  for (size_t i = 0; i < sizeof KEYWORDS / sizeof *KEYWORDS; i++)
    if (KEYWORDS[i].read != read_reference && json_object_get(schema, KEYWORDS[i].name)) return NULL;
  reference_path(compiler, reference, path);
  return target;
}

/* OpenAPI 3.0: what the schema says else, or null. */
static void add_nullable(struct schema_compiler *compiler, struct flat_schema *flat, const json_t *schema,
                         const char *path) {
  const struct pair_map_entry *known = pair_map_find(&compiler->all_of, schema, NULL);
  const json_t *branches = known ? json_array_get(compiler->made, known->number) : NULL;
  if (!branches) {
    json_t *others = json_copy((json_t *)(uintptr_t)schema);
    if (others) json_object_del(others, "nullable");
    size_t number = json_array_size(compiler->made);
    branches = schema_keep(compiler, others ? json_pack("[o, {s:s}]", others, "type", "null") : NULL);
    if (!branches || !pair_map_add(&compiler->all_of, schema, NULL, number)) {
      schema_fail(compiler, KJ_MEMORY, path, "out of memory");
      return;
    }
  }
  struct reading reading = {
      .compiler = compiler, .flat = flat, .schema = schema, .value = branches, .keyword = "nullable"};
  schema_path(reading.path, path, "nullable", 0);
  read_union(&reading);
}

void flat_schema_add(struct schema_compiler *compiler, struct flat_schema *flat, const json_t *schema, const char *path,
                     unsigned depth) {
  if (compiler->failed || json_is_true(schema)) return;
  if (json_is_false(schema)) {
    flat->types = 0;
    return;
  }
  if (!json_is_object(schema)) {
    schema_invalid(compiler, path, NULL, "a schema: an object or a boolean");
    return;
  }
  if (depth == SCHEMA_MAX_DEPTH) {
    schema_fail(compiler, compiler->lenient ? KJ_OK : KJ_INVALID, path,
                "it refers to itself, or through too many others, before it says anything");
    return;
  }
  if (!schema_work(compiler, path, 1)) return;
  if (json_is_true(json_object_get(schema, "nullable"))) {
    add_nullable(compiler, flat, schema, path);
    return;
  }
  struct reading reading = {.compiler = compiler, .flat = flat, .schema = schema, .schema_path = path, .depth = depth};
  for (size_t i = 0; i < sizeof KEYWORDS / sizeof *KEYWORDS && !compiler->failed; i++) {
    reading.value = json_object_get(schema, KEYWORDS[i].name);
    if (!reading.value) continue;
    reading.keyword = KEYWORDS[i].name;
    schema_path(reading.path, path, KEYWORDS[i].name, 0);
    flat->spoken_of |= KEYWORDS[i].types;
    KEYWORDS[i].read(&reading);
  }
}

const json_t *schema_both(struct schema_compiler *compiler, const json_t *left, const json_t *right) {
  if (!left || json_is_true(left) || left == right) return right;
  if (!right || json_is_true(right)) return left;
  const struct pair_map_entry *known = pair_map_find(&compiler->all_of, left, right);
  if (known) return json_array_get(compiler->made, known->number);
  json_t *made = json_pack("{s:[O, O]}", "allOf", (json_t *)(uintptr_t)left, (json_t *)(uintptr_t)right);
  size_t number = json_array_size(compiler->made);
  if (!schema_keep(compiler, made)) return NULL;
  if (!pair_map_add(&compiler->all_of, left, right, number)) schema_fail(compiler, KJ_MEMORY, "", "out of memory");
  return made;
}

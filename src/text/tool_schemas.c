#include "text/tool_schemas.h"

#include <stdlib.h>
#include <string.h>

#include "text/json_pointer.h"

/* The schemas of one request are walked this far: references can make a small one endless. */
enum { VISITS_MAXIMUM = 200000, DEPTH_MAXIMUM = 24 };

struct entry {
  char *tool;
  char *parameter; /* NULL: the tool itself, with the types of parameters that it does not name */
  unsigned types;
};

struct tool_schemas {
  struct entry *entries; /* sorted */
  size_t count, capacity;
};

struct walk {
  const json_t *root;
  size_t *visits; /* left */
};

void tool_schemas_free(struct tool_schemas *schemas) {
  if (!schemas) return;
  for (size_t i = 0; i < schemas->count; i++) {
    free(schemas->entries[i].tool);
    free(schemas->entries[i].parameter);
  }
  free(schemas->entries);
  free(schemas);
}

/* A parameter that may be 1.5 may be 2. */
static unsigned types_of_value(const json_t *value) {
  return json_is_real(value) ? TYPE_NUMBER | TYPE_INTEGER : json_type_of(value);
}

static unsigned types_listed(const json_t *type) {
  if (json_is_string(type)) return json_types_named(json_string_value(type));
  unsigned types = 0;
  for (size_t i = 0; i < json_array_size(type); i++)
    types |= json_types_named(json_string_value(json_array_get(type, i)));
  return types;
}

static unsigned types_of_values(const json_t *values) {
  unsigned types = 0;
  for (size_t i = 0; i < json_array_size(values); i++) types |= types_of_value(json_array_get(values, i));
  return types;
}

static unsigned schema_types(const struct walk *walk, const json_t *schema, unsigned depth);

static unsigned union_of(const struct walk *walk, const json_t *schemas, unsigned depth) {
  unsigned types = 0;
  for (size_t i = 0; i < json_array_size(schemas); i++) types |= schema_types(walk, json_array_get(schemas, i), depth);
  return types;
}

/* The types that a schema allows by what it consists of. */
static unsigned combined_types(const struct walk *walk, const json_t *schema, unsigned depth) {
  unsigned types = TYPE_ANY;
  const char *reference = json_string_value(json_object_get(schema, "$ref"));
  const json_t *target = reference ? json_pointer_resolve(walk->root, reference) : NULL;
  if (target) types &= schema_types(walk, target, depth);
  static const char *const UNIONS[] = {"anyOf", "oneOf"};
  for (size_t i = 0; i < 2; i++) {
    const json_t *choices = json_object_get(schema, UNIONS[i]);
    if (json_array_size(choices)) types &= union_of(walk, choices, depth);
  }
  const json_t *all = json_object_get(schema, "allOf");
  for (size_t i = 0; i < json_array_size(all); i++) types &= schema_types(walk, json_array_get(all, i), depth);
  return types;
}

static unsigned schema_types(const struct walk *walk, const json_t *schema, unsigned depth) {
  if (json_is_false(schema)) return 0;
  if (!json_is_object(schema) || depth == DEPTH_MAXIMUM || *walk->visits == 0) return TYPE_ANY;
  --*walk->visits;
  unsigned types = combined_types(walk, schema, depth + 1);
  const json_t *type = json_object_get(schema, "type"), *values = json_object_get(schema, "enum"),
               *constant = json_object_get(schema, "const");
  if (json_is_string(type) || json_is_array(type)) types &= types_listed(type);
  if (json_is_array(values)) types &= types_of_values(values);
  if (constant) types &= types_of_value(constant);
  if (types == TYPE_ANY && (json_object_get(schema, "properties") || json_object_get(schema, "additionalProperties")))
    types = TYPE_OBJECT;
  if (types == TYPE_ANY && json_object_get(schema, "items")) types = TYPE_ARRAY;
  return types | (json_is_true(json_object_get(schema, "nullable")) ? TYPE_NULL : 0);
}

static bool add(struct tool_schemas *schemas, const char *tool, const char *parameter, unsigned types) {
  if (schemas->count == schemas->capacity) {
    size_t capacity = schemas->capacity ? schemas->capacity * 2 : 32;
    struct entry *entries = realloc(schemas->entries, capacity * sizeof *entries);
    if (!entries) return false;
    schemas->entries = entries;
    schemas->capacity = capacity;
  }
  struct entry *entry = &schemas->entries[schemas->count++];
  *entry = (struct entry){strdup(tool), parameter ? strdup(parameter) : NULL, types ? types : TYPE_STRING};
  return entry->tool && (!parameter || entry->parameter);
}

static int compare(const void *left, const void *right) {
  const struct entry *a = left, *b = right;
  int order = strcmp(a->tool, b->tool);
  if (order) return order;
  if (!a->parameter || !b->parameter) return (a->parameter != NULL) - (b->parameter != NULL);
  return strcmp(a->parameter, b->parameter);
}

static bool add_tool(struct tool_schemas *schemas, const json_t *function, size_t *visits) {
  const char *name = json_string_value(json_object_get(function, "name"));
  if (!name) return true;
  const json_t *root = json_object_get(function, "parameters"), *schema = root;
  struct walk walk = {.root = root, .visits = visits};
  const char *reference = json_string_value(json_object_get(root, "$ref"));
  if (reference && !json_object_get(root, "properties")) schema = json_pointer_resolve(root, reference);
  const json_t *others = json_object_get(schema, "additionalProperties");
  if (!add(schemas, name, NULL, json_is_object(others) ? schema_types(&walk, others, 0) : TYPE_STRING)) return false;
  /* Jansson's iteration wants a pointer to what it does not change. */
  json_t *properties = (json_t *)(uintptr_t)json_object_get(schema, "properties");
  const char *parameter = NULL;
  json_t *value = NULL;
  json_object_foreach(properties, parameter, value) {
    if (!add(schemas, name, parameter, schema_types(&walk, value, 0))) return false;
  }
  return true;
}

int tool_schemas_compile(struct tool_schemas **result, const json_t *tools, struct kj_error *error) {
  *result = NULL;
  struct tool_schemas *schemas = calloc(1, sizeof *schemas);
  bool added = schemas != NULL;
  size_t visits = VISITS_MAXIMUM;
  for (size_t i = 0; added && i < json_array_size(tools); i++)
    added = add_tool(schemas, json_object_get(json_array_get(tools, i), "function"), &visits);
  if (!added) {
    tool_schemas_free(schemas);
    return kj_fail_memory(error, "the tools");
  }
  if (schemas->count) qsort(schemas->entries, schemas->count, sizeof *schemas->entries, compare);
  *result = schemas;
  return 0;
}

static const struct entry *find(const struct tool_schemas *schemas, const char *tool, const char *parameter) {
  /* The search compares and nothing more. */
  struct entry wanted = {(char *)(uintptr_t)tool, (char *)(uintptr_t)parameter, 0};
  return schemas->count ? bsearch(&wanted, schemas->entries, schemas->count, sizeof wanted, compare) : NULL;
}

bool tool_schemas_know(const struct tool_schemas *schemas, const char *tool) { return find(schemas, tool, NULL); }

bool tool_schemas_know_parameter(const struct tool_schemas *schemas, const char *tool, const char *parameter) {
  return find(schemas, tool, parameter);
}

unsigned tool_schemas_types(const struct tool_schemas *schemas, const char *tool, const char *parameter) {
  const struct entry *entry = find(schemas, tool, parameter);
  if (!entry) entry = find(schemas, tool, NULL);
  return entry ? entry->types : TYPE_STRING;
}

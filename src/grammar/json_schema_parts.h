/* What the parts of grammar/json_schema.h share: the compiler's state, and a schema with all that it refers to and
 * consists of brought together.
 *
 * Every schema becomes a rule, defined later from a queue: recursion needs nothing more, and neither deep schemas nor
 * long ones need a stack.
 */
#ifndef KAIJU_GRAMMAR_JSON_SCHEMA_PARTS_H
#define KAIJU_GRAMMAR_JSON_SCHEMA_PARTS_H

#include <stdint.h>

#include "grammar/json_schema.h"
#include "grammar/json_value.h"
#include "grammar/number_range.h"
#include "grammar/pair_map.h"
#include "grammar/string_rules.h"
#include "text/json_types.h"

enum {
  SCHEMA_MAX_UNIONS = 8,   /* anyOf and oneOf of one schema that all hold */
  SCHEMA_MAX_DEPTH = 64,   /* of references to references, allOf within allOf */
  SCHEMA_MAX_WORK = 400000 /* members, elements and references looked at */
};

struct schema_rule {
  const json_t *schema;
  char *path;
  grammar_expression rule;
};

struct schema_compiler {
  struct json_values values;
  const json_t *root;
  const char *root_path;
  bool lenient;
  struct schema_rule *rules;
  size_t rule_count, rule_capacity;
  struct pair_map rule_of; /* schema to its place among the rules */
  struct pair_map all_of;  /* two schemas to the one that means both, by its place in `made` */
  json_t *made;            /* array of schemas that no document has */
  size_t work, union_depth;
  bool failed;
  struct kj_error error;
  char error_path[JSON_SCHEMA_PATH];
};

struct schema_union {
  const json_t *branches;
  char path[JSON_SCHEMA_PATH];
};

/* All that holds of a value. Members are borrowed from the document or from `made`. */
struct flat_schema {
  char path[JSON_SCHEMA_PATH]; /* of the schema that it began with */
  unsigned types;
  unsigned spoken_of;   /* types that keywords are about */
  const json_t *values; /* enum, or NULL */
  struct number_bound minimum, maximum;
  uint32_t min_length, max_length, min_items, max_items, min_properties, max_properties;
  const char *pattern, *format; /* or NULL */
  const json_t *prefix;         /* array of the first elements' schemas, or NULL */
  const json_t *items;          /* of the elements behind them; NULL: any */
  bool has_members;             /* some of the four below have been given */
  const json_t *properties;     /* object, or NULL */
  const json_t *additional;     /* NULL: any */
  const json_t *by_pattern;     /* patternProperties, or NULL */
  const json_t *names;          /* propertyNames, or NULL */
  const json_t *required;       /* object whose names they are, or NULL */
  struct schema_union unions[SCHEMA_MAX_UNIONS];
  size_t union_count;
};

/* `path`.`name`, or path[index] where the name is NULL. What is too long is cut. */
void schema_path(char out[JSON_SCHEMA_PATH], const char *path, const char *name, size_t index);

/* Not supported: fails unless lenient. `keyword` may be NULL: the path is the keyword's. */
void schema_refuse(struct schema_compiler *compiler, const char *path, const char *keyword, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Ill-formed: fails unless lenient. */
void schema_invalid(struct schema_compiler *compiler, const char *path, const char *keyword, const char *expected);
/* Whatever the mode. */
void schema_fail(struct schema_compiler *compiler, enum kj_code code, const char *path, const char *message);

/* Everything is valid. */
void flat_schema_begin(struct flat_schema *flat, const char *path);
/* Adds what the schema says. */
void flat_schema_add(struct schema_compiler *compiler, struct flat_schema *flat, const json_t *schema, const char *path,
                     unsigned depth);
/* What the schema refers to, if it says nothing else, and its path; otherwise NULL. */
const json_t *schema_alias(const struct schema_compiler *compiler, const json_t *schema, char path[JSON_SCHEMA_PATH]);
/* The schema that means both; either may be NULL, which is anything. NULL only after a failure or for two NULLs. */
const json_t *schema_both(struct schema_compiler *compiler, const json_t *left, const json_t *right);
/* Keeps what was made as long as the compiler; returns it, or NULL after a failure. */
json_t *schema_keep(struct schema_compiler *compiler, json_t *made);
/* False, and a failure, once there has been too much of it. */
bool schema_work(struct schema_compiler *compiler, const char *path, size_t amount);
/* The same for following the schema's reference. */
bool schema_reference_work(struct schema_compiler *compiler, const json_t *schema, const char *path);

/* The expression of a schema's values: its rule. NULL: any value. */
grammar_expression schema_value(struct schema_compiler *compiler, const json_t *schema, const char *path);
/* The expressions of one type's values. */
grammar_expression schema_object(struct schema_compiler *compiler, const struct flat_schema *flat);
grammar_expression schema_array(struct schema_compiler *compiler, const struct flat_schema *flat);
grammar_expression schema_string(struct schema_compiler *compiler, const struct flat_schema *flat);
/* What it says about strings; without, leniently, what is not supported. */
struct string_rules schema_string_rules(struct schema_compiler *compiler, const struct flat_schema *flat);
/* Of `flat->values` those that all else allows: an array, kept as long as the compiler, or NULL after a failure. */
json_t *schema_allowed_values(struct schema_compiler *compiler, const struct flat_schema *flat);
grammar_expression schema_values(struct schema_compiler *compiler, const struct flat_schema *flat);
/* A schema that is about one type alone, but does not say so, has that type. */
void schema_infer_type(struct flat_schema *flat);
/* All that the flat schema allows. */
grammar_expression schema_flat(struct schema_compiler *compiler, const struct flat_schema *flat);

/* `root_path` is borrowed. */
int schema_compiler_begin(struct schema_compiler *compiler, const struct json_values *values, const json_t *root,
                          const char *root_path, bool lenient, struct kj_error *error);
/* Defines all rules that have been asked for. */
void schema_compiler_run(struct schema_compiler *compiler);
/* Releases it; 0, or its failure, of which `path` gets the place. */
int schema_compiler_end(struct schema_compiler *compiler, char path[JSON_SCHEMA_PATH], struct kj_error *error);

#endif

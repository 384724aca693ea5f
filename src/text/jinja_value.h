/* The values that a template handles, with Python's meaning of truth, equality, order and hashing.
 *
 * Everything a value points to lives in the run's arena. Values never change once made (the sandbox that chat templates
 * are written for forbids it), except a namespace's attributes and the position of an iterator. A text is valid UTF-8
 * of `length` bytes, not NUL-terminated; `safe` marks what the filter `safe` made, which Python calls Markup.
 */
#ifndef KAIJU_TEXT_JINJA_VALUE_H
#define KAIJU_TEXT_JINJA_VALUE_H

#include <jansson.h>

#include "text/jinja_run.h"

enum value_kind {
  VALUE_MISSING, /* no value at all: an argument that was not given */
  VALUE_UNDEFINED,
  VALUE_NONE,
  VALUE_BOOLEAN,
  VALUE_INTEGER,
  VALUE_FLOAT,
  VALUE_STRING,
  VALUE_SEQUENCE,
  VALUE_MAPPING,
  VALUE_NAMESPACE,
  VALUE_MACRO,
  VALUE_FUNCTION, /* a global function */
  VALUE_METHOD,   /* a method together with the object it was taken from */
  VALUE_LOOP,
  VALUE_JOINER,
  VALUE_CYCLER,
};

struct text {
  const char *bytes;
  size_t length;
  size_t characters;
  bool safe;
};

struct value {
  enum value_kind kind;
  uint32_t detail; /* of an undefined: enum undefined_reason; of a function: which one */
  union {
    bool boolean;
    int64_t integer;
    double number;
    const struct text *text; /* of an undefined: the name, or the whole reason */
    struct sequence *sequence;
    struct mapping *mapping; /* also a namespace's attributes */
    const struct macro *macro;
    const struct method *method;
    struct loop *loop;
    struct cycler *cycler; /* also a joiner: position is 1 once it was used */
  };
};

enum undefined_reason {
  UNDEFINED_VARIABLE,  /* text: the variable's name */
  UNDEFINED_ATTRIBUTE, /* text: the attribute's name */
  UNDEFINED_UNSAFE,    /* text: the attribute's name, which the sandbox forbids */
  UNDEFINED_REASON,    /* text: a sentence */
};

enum sequence_flavour {
  SEQUENCE_LIST,
  SEQUENCE_TUPLE,
  SEQUENCE_RANGE,
  SEQUENCE_KEYS, /* what .keys(), .values() and .items() give: a length, but no subscripts */
  SEQUENCE_VALUES,
  SEQUENCE_ITEMS,
  SEQUENCE_ITERATOR, /* what map, select… give: can be walked once, has no length */
};

struct sequence {
  enum sequence_flavour flavour;
  size_t count, capacity;
  struct value *items;
  size_t position;  /* of an iterator */
  int64_t range[3]; /* of a range: start, stop, step */
};

struct pair {
  struct value key, value;
};

struct mapping {
  size_t count, capacity;
  struct pair *pairs; /* in order of insertion */
  uint32_t *index;    /* hash slots: position + 1; NULL while a search is as fast */
  size_t index_size;
};

struct method {
  struct value object;
  uint32_t which;
};

struct loop {
  const struct sequence *items;
  size_t index; /* from 0 */
  uint32_t depth;
  struct value changed; /* what loop.changed was last given */
};

struct cycler {
  size_t position, count;
  const struct value *items;
  const struct text *separator;
};

/* Makers. After a failure they return an empty value, never NULL. */
struct value value_undefined(enum undefined_reason reason, const struct text *text);
struct value value_undefined_reason(struct run *run, const char *reason);
struct value value_none(void);
struct value value_boolean(bool boolean);
struct value value_integer(int64_t integer);
struct value value_float(double number);
struct value value_text(const struct text *text);
struct value value_sequence(struct sequence *sequence);
struct value value_mapping(struct mapping *mapping);

/* Copies the bytes. */
const struct text *text_make(struct run *run, const char *bytes, size_t length);
/* Keeps pointing to the bytes, which live at least as long as the run. */
const struct text *text_view(struct run *run, const char *bytes, size_t length);
struct value value_string(struct run *run, const char *bytes); /* NUL-terminated; copied */

struct sequence *sequence_make(struct run *run, enum sequence_flavour flavour, size_t capacity);
void sequence_add(struct run *run, struct sequence *sequence, struct value item);

struct mapping *mapping_make(struct run *run);
/* The key must be hashable. */
void mapping_set(struct run *run, struct mapping *mapping, struct value key, struct value value);
const struct value *mapping_find(struct run *run, const struct mapping *mapping, struct value key);
/* The keys, values or items, as the methods of those names give them. */
struct sequence *mapping_view(struct run *run, const struct mapping *mapping, enum sequence_flavour flavour);

/* A JSON value as Python's json module would load it; strings are not copied. */
struct value value_from_json(struct run *run, const json_t *json);

/* Questions. */
bool value_truth(const struct value *value);
bool value_equal(struct run *run, struct value a, struct value b);
/* -1, 0 or 1; fails for values that have no order. `operation` is for the message: "<", "sort"… */
int value_compare(struct run *run, struct value a, struct value b, const char *operation);
bool value_hashable(const struct value *value);
bool value_is_number(struct value value, double *number);    /* boolean, integer or float */
bool value_is_integer(struct value value, int64_t *integer); /* boolean or integer */
/* Python's name of the type: "str", "dict"… */
const char *value_type(struct value value);
bool text_equal(const struct text *a, const struct text *b);
bool text_is(const struct text *text, const char *name);

/* The items that a walk over the value meets, an iterator's being used up. Fails if it cannot be iterated. */
const struct sequence *value_iterate(struct run *run, struct value value);
/* len(value); false if it has none. */
bool value_length(struct value value, size_t *length);

/* Fails with Jinja's reason for an undefined value, such as "'x' is undefined". */
void value_fail_undefined(struct run *run, struct value value);

#endif

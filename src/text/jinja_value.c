#include "text/jinja_value.h"

#include <math.h>
#include <string.h>

#include "text/jinja_text.h"

static const struct text EMPTY_TEXT = {.bytes = ""};

struct value value_undefined(enum undefined_reason reason, const struct text *text) {
  return (struct value){.kind = VALUE_UNDEFINED, .detail = reason, .text = text};
}

struct value value_undefined_reason(struct run *run, const char *reason) {
  return value_undefined(UNDEFINED_REASON, text_view(run, reason, strlen(reason)));
}

struct value value_none(void) {
  return (struct value){.kind = VALUE_NONE};
}

struct value value_boolean(bool boolean) {
  return (struct value){.kind = VALUE_BOOLEAN, .boolean = boolean};
}

struct value value_integer(int64_t integer) {
  return (struct value){.kind = VALUE_INTEGER, .integer = integer};
}

struct value value_float(double number) {
  return (struct value){.kind = VALUE_FLOAT, .number = number};
}

struct value value_text(const struct text *text) {
  return (struct value){.kind = VALUE_STRING, .text = text};
}

struct value value_sequence(struct sequence *sequence) {
  /* Only a failed run has no sequence to give. */
  return sequence ? (struct value){.kind = VALUE_SEQUENCE, .sequence = sequence} : value_none();
}

struct value value_mapping(struct mapping *mapping) {
  return mapping ? (struct value){.kind = VALUE_MAPPING, .mapping = mapping} : value_none();
}

const struct text *text_view(struct run *run, const char *bytes, size_t length) {
  struct text *text = run_allocate(run, 1, sizeof *text);
  /* Counting characters takes time: views of one long text in a loop are to end as well. */
  if (!text || !run_step(run, length / 256)) return &EMPTY_TEXT;
  text->bytes = bytes;
  text->length = length;
  text->characters = characters_count(bytes, length);
  return text;
}

const struct text *text_make(struct run *run, const char *bytes, size_t length) {
  char *copy = run_allocate(run, length ? length : 1, 1);
  if (!copy) return &EMPTY_TEXT;
  if (length) memcpy(copy, bytes, length);
  return text_view(run, copy, length);
}

struct value value_string(struct run *run, const char *bytes) {
  return value_text(text_make(run, bytes, strlen(bytes)));
}

struct sequence *sequence_make(struct run *run, enum sequence_flavour flavour, size_t capacity) {
  struct sequence *sequence = run_allocate(run, 1, sizeof *sequence);
  if (!sequence) return NULL;
  sequence->flavour = flavour;
  if (capacity) sequence->items = run_allocate(run, capacity, sizeof *sequence->items);
  sequence->capacity = sequence->items ? capacity : 0;
  return sequence;
}

void sequence_add(struct run *run, struct sequence *sequence, struct value item) {
  if (!sequence || run->failed) return;
  struct value *items = run_grow(run, sequence->items, sequence->count, &sequence->capacity, sizeof *items);
  if (!items) return;
  sequence->items = items;
  sequence->items[sequence->count++] = item;
}

static uint64_t hash_bytes(const char *bytes, size_t length) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211u;
  return hash;
}

static uint64_t hash_integer(uint64_t number) { return (number ^ (number >> 29)) * 0x9E3779B97F4A7C15u; }

/* Equal values have equal hashes: 1, 1.0 and True are one key. */
static uint64_t hash_value(struct run *run, struct value value) {
  int64_t integer = 0;
  if (value_is_integer(value, &integer)) return hash_integer((uint64_t)integer);
  switch (value.kind) {
    case VALUE_FLOAT:
      if (fabs(value.number) < 9e18 && floor(value.number) == value.number) {
        return hash_integer((uint64_t)(int64_t)value.number);
      }
      return hash_bytes((const char *)&value.number, sizeof value.number);
    case VALUE_STRING:
      return hash_bytes(value.text->bytes, value.text->length);
    case VALUE_SEQUENCE: {
      uint64_t hash = 3;
      if (value.sequence->flavour != SEQUENCE_TUPLE || !run_enter(run)) return hash;
      for (size_t i = 0; i < value.sequence->count; i++) {
        hash = hash * 31 + hash_value(run, value.sequence->items[i]);
      }
      run_leave(run);
      return hash;
    }
    default:
      return hash_integer(value.kind);
  }
}

bool value_hashable(const struct value *value) {
  if (value->kind == VALUE_MAPPING) return false;
  if (value->kind != VALUE_SEQUENCE) return true;
  enum sequence_flavour flavour = value->sequence->flavour;
  if (flavour == SEQUENCE_LIST || flavour == SEQUENCE_KEYS || flavour == SEQUENCE_ITEMS) return false;
  if (flavour != SEQUENCE_TUPLE) return true;
  for (size_t i = 0; i < value->sequence->count; i++) {
    const struct value *item = &value->sequence->items[i];
    /* A tuple of tuples as a key is more than templates do; refusing it keeps this from recursing. */
    if (item->kind == VALUE_SEQUENCE || item->kind == VALUE_MAPPING) return false;
  }
  return true;
}

struct mapping *mapping_make(struct run *run) {
  return run_allocate(run, 1, sizeof(struct mapping));
}

enum { SMALL_MAPPING = 8 };

static void index_pair(struct run *run, struct mapping *mapping, size_t position) {
  uint64_t slot = hash_value(run, mapping->pairs[position].key) & (mapping->index_size - 1);
  /* Keys may be chosen so that all have one hash: the steps bound what that costs. */
  while (mapping->index[slot] && run_step(run, 1)) slot = (slot + 1) & (mapping->index_size - 1);
  mapping->index[slot] = (uint32_t)position + 1;
}

static struct pair *find_pair(struct run *run, const struct mapping *mapping, struct value key) {
  if (!mapping->index) {
    for (size_t i = 0; i < mapping->count; i++) {
      if (value_equal(run, mapping->pairs[i].key, key)) return &mapping->pairs[i];
    }
    return NULL;
  }
  uint64_t slot = hash_value(run, key) & (mapping->index_size - 1);
  for (; mapping->index[slot] && run_step(run, 1); slot = (slot + 1) & (mapping->index_size - 1)) {
    struct pair *pair = &mapping->pairs[mapping->index[slot] - 1];
    if (value_equal(run, pair->key, key)) return pair;
  }
  return NULL;
}

void mapping_set(struct run *run, struct mapping *mapping, struct value key, struct value value) {
  if (!mapping || run->failed) return;
  struct pair *pair = find_pair(run, mapping, key);
  if (pair) {
    pair->value = value;
    return;
  }
  struct pair *pairs = run_grow(run, mapping->pairs, mapping->count, &mapping->capacity, sizeof *pairs);
  if (!pairs) return;
  mapping->pairs = pairs;
  if (mapping->capacity > SMALL_MAPPING && mapping->index_size != mapping->capacity * 2) {
    uint32_t *index = run_allocate(run, mapping->capacity * 2, sizeof *index);
    if (!index) return;
    mapping->index = index;
    mapping->index_size = mapping->capacity * 2;
    for (size_t i = 0; i < mapping->count; i++) index_pair(run, mapping, i);
  }
  mapping->pairs[mapping->count] = (struct pair){key, value};
  if (mapping->index) index_pair(run, mapping, mapping->count);
  mapping->count++;
}

const struct value *mapping_find(struct run *run, const struct mapping *mapping, struct value key) {
  struct pair *pair = find_pair(run, mapping, key);
  return pair ? &pair->value : NULL;
}

struct sequence *mapping_view(struct run *run, const struct mapping *mapping, enum sequence_flavour flavour) {
  struct sequence *view = sequence_make(run, flavour, mapping->count);
  for (size_t i = 0; i < mapping->count && run_step(run, 1); i++) {
    struct value key = mapping->pairs[i].key, value = mapping->pairs[i].value;
    if (flavour == SEQUENCE_ITEMS) {
      struct sequence *pair = sequence_make(run, SEQUENCE_TUPLE, 2);
      sequence_add(run, pair, key);
      sequence_add(run, pair, value);
      sequence_add(run, view, value_sequence(pair));
    } else {
      sequence_add(run, view, flavour == SEQUENCE_KEYS ? key : value);
    }
  }
  return view;
}

static struct value convert_json(struct run *run, const json_t *json) {
  switch (json_typeof(json)) {
    case JSON_TRUE:
    case JSON_FALSE:
      return value_boolean(json_is_true(json));
    case JSON_NULL:
      return value_none();
    case JSON_INTEGER:
      return value_integer(json_integer_value(json));
    case JSON_REAL:
      return value_float(json_real_value(json));
    case JSON_STRING:
      return value_text(text_view(run, json_string_value(json), json_string_length(json)));
    case JSON_ARRAY: {
      struct sequence *list = sequence_make(run, SEQUENCE_LIST, json_array_size(json));
      for (size_t i = 0; i < json_array_size(json); i++) {
        sequence_add(run, list, value_from_json(run, json_array_get(json, i)));
      }
      return value_sequence(list);
    }
    case JSON_OBJECT: {
      struct mapping *mapping = mapping_make(run);
      /* Jansson's iteration wants a pointer to what it does not change. */
      json_t *object = (json_t *)(uintptr_t)json;
      for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        const char *key = json_object_iter_key(i);
        struct value name = value_text(text_view(run, key, strlen(key)));
        mapping_set(run, mapping, name, value_from_json(run, json_object_iter_value(i)));
      }
      return value_mapping(mapping);
    }
  }
  return value_none();
}

struct value value_from_json(struct run *run, const json_t *json) {
  if (!json || !run_enter(run)) return value_none();
  struct value value = convert_json(run, json);
  run_leave(run);
  return value;
}

bool value_truth(const struct value *value) {
  switch (value->kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
      return false;
    case VALUE_BOOLEAN:
      return value->boolean;
    case VALUE_INTEGER:
      return value->integer != 0;
    case VALUE_FLOAT:
      return value->number != 0;
    case VALUE_STRING:
      return value->text->length > 0;
    case VALUE_SEQUENCE:
      return value->sequence->flavour == SEQUENCE_ITERATOR || value->sequence->count > 0;
    case VALUE_MAPPING:
      return value->mapping->count > 0;
    default:
      return true;
  }
}

bool value_is_integer(struct value value, int64_t *integer) {
  if (value.kind == VALUE_INTEGER) *integer = value.integer;
  if (value.kind == VALUE_BOOLEAN) *integer = value.boolean;
  return value.kind == VALUE_INTEGER || value.kind == VALUE_BOOLEAN;
}

bool value_is_number(struct value value, double *number) {
  int64_t integer = 0;
  if (value.kind == VALUE_FLOAT) {
    *number = value.number;
    return true;
  }
  if (!value_is_integer(value, &integer)) return false;
  *number = (double)integer;
  return true;
}

bool text_equal(const struct text *a, const struct text *b) {
  return a->length == b->length && (!a->length || memcmp(a->bytes, b->bytes, a->length) == 0);
}

bool text_is(const struct text *text, const char *name) {
  return text->length == strlen(name) && memcmp(text->bytes, name, text->length) == 0;
}

static bool sequences_equal(struct run *run, const struct sequence *a, const struct sequence *b) {
  if (a == b) return true;
  if (a->flavour != b->flavour || a->flavour > SEQUENCE_RANGE || a->count != b->count) return false;
  bool equal = true;
  for (size_t i = 0; equal && i < a->count; i++) equal = run_step(run, 1) && value_equal(run, a->items[i], b->items[i]);
  return equal;
}

static bool mappings_equal(struct run *run, const struct mapping *a, const struct mapping *b) {
  if (a->count != b->count) return false;
  for (size_t i = 0; i < a->count; i++) {
    const struct value *other = run_step(run, 1) ? mapping_find(run, b, a->pairs[i].key) : NULL;
    if (!other || !value_equal(run, a->pairs[i].value, *other)) return false;
  }
  return true;
}

bool value_equal(struct run *run, struct value a, struct value b) {
  int64_t x = 0, y = 0;
  double u = 0, v = 0;
  if (a.kind == VALUE_STRING && b.kind == VALUE_STRING) return text_equal(a.text, b.text);
  if (value_is_integer(a, &x) && value_is_integer(b, &y)) return x == y;
  if (value_is_number(a, &u) && value_is_number(b, &v)) return u == v;
  if (a.kind != b.kind) return false;
  if (a.kind == VALUE_UNDEFINED || a.kind == VALUE_NONE) return true;
  if (!run_enter(run)) return false;
  bool equal = false;
  if (a.kind == VALUE_SEQUENCE) {
    equal = sequences_equal(run, a.sequence, b.sequence);
  } else if (a.kind == VALUE_MAPPING) {
    equal = mappings_equal(run, a.mapping, b.mapping);
  } else if (a.kind == VALUE_FUNCTION) {
    equal = a.detail == b.detail;
  } else {
    equal = a.macro == b.macro;
  }
  run_leave(run);
  return equal;
}

static int compare_texts(const struct text *a, const struct text *b) {
  /* The order of UTF-8 bytes is the order of code points. */
  size_t common = a->length < b->length ? a->length : b->length;
  int order = common ? memcmp(a->bytes, b->bytes, common) : 0;
  if (order) return order < 0 ? -1 : 1;
  return (a->length > b->length) - (a->length < b->length);
}

static int compare_sequences(struct run *run, const struct sequence *a, const struct sequence *b,
                             const char *operation) {
  size_t common = a->count < b->count ? a->count : b->count;
  for (size_t i = 0; i < common && run_step(run, 1); i++) {
    if (!value_equal(run, a->items[i], b->items[i])) return value_compare(run, a->items[i], b->items[i], operation);
  }
  return (a->count > b->count) - (a->count < b->count);
}

int value_compare(struct run *run, struct value a, struct value b, const char *operation) {
  int64_t x = 0, y = 0;
  double u = 0, v = 0;
  if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED) {
    value_fail_undefined(run, a.kind == VALUE_UNDEFINED ? a : b);
    return 0;
  }
  if (value_is_integer(a, &x) && value_is_integer(b, &y)) return (x > y) - (x < y);
  if (value_is_number(a, &u) && value_is_number(b, &v)) return u < v ? -1 : u > v ? 1 : u == v ? 0 : 2;
  if (a.kind == VALUE_STRING && b.kind == VALUE_STRING) return compare_texts(a.text, b.text);
  if (a.kind == VALUE_SEQUENCE && b.kind == VALUE_SEQUENCE && a.sequence->flavour == b.sequence->flavour &&
      a.sequence->flavour <= SEQUENCE_TUPLE && run_enter(run)) {
    int order = compare_sequences(run, a.sequence, b.sequence, operation);
    run_leave(run);
    return order;
  }
  run_fail(run, "'%s' is not supported between '%s' and '%s'", operation, value_type(a), value_type(b));
  return 0;
}

const char *value_type(struct value value) {
  static const char *const SEQUENCES[] = {"list",        "tuple",      "range",    "dict_keys",
                                          "dict_values", "dict_items", "generator"};
  static const char *const KINDS[] = {
      [VALUE_MISSING] = "nothing",     [VALUE_UNDEFINED] = "Undefined", [VALUE_NONE] = "NoneType",
      [VALUE_BOOLEAN] = "bool",        [VALUE_INTEGER] = "int",         [VALUE_FLOAT] = "float",
      [VALUE_STRING] = "str",          [VALUE_SEQUENCE] = "list",       [VALUE_MAPPING] = "dict",
      [VALUE_NAMESPACE] = "Namespace", [VALUE_MACRO] = "Macro",         [VALUE_FUNCTION] = "function",
      [VALUE_METHOD] = "method",       [VALUE_LOOP] = "LoopContext",    [VALUE_JOINER] = "Joiner",
      [VALUE_CYCLER] = "Cycler",
  };
  if (value.kind == VALUE_SEQUENCE) return SEQUENCES[value.sequence->flavour];
  if (value.kind == VALUE_STRING && value.text->safe) return "Markup";
  return KINDS[value.kind];
}

const struct sequence *value_iterate(struct run *run, struct value value) {
  static const struct sequence NOTHING = {.flavour = SEQUENCE_LIST};
  if (run->failed || value.kind == VALUE_UNDEFINED) return &NOTHING;
  if (value.kind == VALUE_SEQUENCE && value.sequence->flavour != SEQUENCE_ITERATOR) return value.sequence;
  struct sequence *items = NULL;
  if (value.kind == VALUE_SEQUENCE) {
    struct sequence *iterator = value.sequence;
    items = sequence_make(run, SEQUENCE_LIST, 0);
    if (!items) return &NOTHING;
    if (iterator->count) items->items = iterator->items + iterator->position;
    items->count = items->capacity = iterator->count - iterator->position;
    iterator->position = iterator->count;
  } else if (value.kind == VALUE_MAPPING) {
    items = sequence_make(run, SEQUENCE_LIST, value.mapping->count);
    for (size_t i = 0; i < value.mapping->count; i++) sequence_add(run, items, value.mapping->pairs[i].key);
  } else if (value.kind == VALUE_STRING) {
    items = sequence_make(run, SEQUENCE_LIST, value.text->characters);
    for (size_t at = 0; at < value.text->length && run_step(run, 1);) {
      size_t size = character_size(value.text->bytes + at);
      sequence_add(run, items, value_text(text_view(run, value.text->bytes + at, size)));
      at += size;
    }
  } else {
    run_fail(run, "'%s' object is not iterable", value_type(value));
  }
  return items ? items : &NOTHING;
}

bool value_length(struct value value, size_t *length) {
  *length = 0;
  if (value.kind == VALUE_UNDEFINED) return true;
  if (value.kind == VALUE_STRING) *length = value.text->characters;
  if (value.kind == VALUE_MAPPING) *length = value.mapping->count;
  if (value.kind == VALUE_LOOP) *length = value.loop->items->count;
  if (value.kind == VALUE_SEQUENCE) *length = value.sequence->count;
  return value.kind == VALUE_STRING || value.kind == VALUE_MAPPING || value.kind == VALUE_LOOP ||
         (value.kind == VALUE_SEQUENCE && value.sequence->flavour != SEQUENCE_ITERATOR);
}

void value_fail_undefined(struct run *run, struct value value) {
  const struct text *text = value.text ? value.text : &EMPTY_TEXT;
  int length = text->length > 200 ? 200 : (int)text->length;
  switch ((enum undefined_reason)value.detail) {
    case UNDEFINED_VARIABLE:
      run_fail(run, "'%.*s' is undefined", length, text->bytes);
      break;
    case UNDEFINED_ATTRIBUTE:
      run_fail(run, "the value has no attribute '%.*s'", length, text->bytes);
      break;
    case UNDEFINED_UNSAFE:
      run_fail(run, "access to attribute '%.*s' is not allowed: values in a template cannot be changed", length,
               text->bytes);
      break;
    case UNDEFINED_REASON:
      run_fail(run, "%.*s", length, text->bytes);
      break;
  }
}

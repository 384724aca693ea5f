#include "text/jinja_methods.h"

#include "text/jinja_string_methods.h"
#include "text/jinja_text.h"

static bool bind(struct run *run, const struct arguments *arguments, const char *parameters, size_t required,
                 struct value *values) {
  return arguments_bind(run, arguments, "a method", parameters, required, values);
}

static struct value method_get(struct run *run, struct value object, const struct arguments *arguments, int variant) {
  (void)variant;
  struct value values[2];
  if (!bind(run, arguments, "key,default", 1, values)) return value_none();
  if (!value_hashable(&values[0])) run_fail(run, "unhashable type: '%s'", value_type(values[0]));
  const struct value *found = run->failed ? NULL : mapping_find(run, object.mapping, values[0]);
  if (found) return *found;
  return values[1].kind == VALUE_MISSING ? value_none() : values[1];
}

static struct value method_view(struct run *run, struct value object, const struct arguments *arguments, int variant) {
  struct value none;
  if (!bind(run, arguments, "", 0, &none)) return value_none();
  return value_sequence(mapping_view(run, object.mapping, (enum sequence_flavour)variant));
}

/* Values never change, so a copy is the value itself. */
static struct value method_copy(struct run *run, struct value object, const struct arguments *arguments, int variant) {
  (void)variant;
  struct value none;
  (void)bind(run, arguments, "", 0, &none); /* the run remembers a failure */
  return object;
}

static struct value method_count(struct run *run, struct value object, const struct arguments *arguments, int variant) {
  (void)variant;
  struct value wanted;
  int64_t count = 0;
  if (!bind(run, arguments, "value", 1, &wanted)) return value_none();
  for (size_t i = 0; i < object.sequence->count && run_step(run, 1); i++) {
    count += value_equal(run, object.sequence->items[i], wanted);
  }
  return value_integer(count);
}

static struct value method_index(struct run *run, struct value object, const struct arguments *arguments, int variant) {
  (void)variant;
  struct value wanted;
  if (!bind(run, arguments, "value", 1, &wanted)) return value_none();
  for (size_t i = 0; i < object.sequence->count && run_step(run, 1); i++) {
    if (value_equal(run, object.sequence->items[i], wanted)) return value_integer((int64_t)i);
  }
  run_fail(run, "the value is not in the list");
  return value_none();
}

static struct value method_cycle(struct run *run, struct value object, const struct arguments *arguments, int variant) {
  (void)variant;
  if (!arguments->count) {
    run_fail(run, "no items for cycling given");
    return value_none();
  }
  return arguments->positional[object.loop->index % arguments->count];
}

static struct value method_changed(struct run *run, struct value object, const struct arguments *arguments,
                                   int variant) {
  (void)variant;
  struct sequence *given = sequence_make(run, SEQUENCE_TUPLE, arguments->count);
  for (size_t i = 0; i < arguments->count; i++) sequence_add(run, given, arguments->positional[i]);
  struct value now = value_sequence(given);
  bool changed = object.loop->changed.kind == VALUE_MISSING || !value_equal(run, object.loop->changed, now);
  if (changed) object.loop->changed = now;
  return value_boolean(changed);
}

static struct value method_next(struct run *run, struct value object, const struct arguments *arguments, int variant) {
  (void)variant;
  struct value none;
  struct cycler *cycler = object.cycler;
  (void)bind(run, arguments, "", 0, &none); /* the run remembers a failure */
  struct value item = cycler->items[cycler->position];
  cycler->position = (cycler->position + 1) % cycler->count;
  return item;
}

static struct value method_reset(struct run *run, struct value object, const struct arguments *arguments, int variant) {
  (void)variant;
  struct value none;
  (void)bind(run, arguments, "", 0, &none); /* the run remembers a failure */
  object.cycler->position = 0;
  return value_none();
}

/* A method without a body changes the value, which is forbidden. */
static const struct method_entry MAPPING_METHODS[] = {{"get", method_get, 0},
                                                      {"keys", method_view, SEQUENCE_KEYS},
                                                      {"values", method_view, SEQUENCE_VALUES},
                                                      {"items", method_view, SEQUENCE_ITEMS},
                                                      {"copy", method_copy, 0},
                                                      {"pop", NULL, 0},
                                                      {"popitem", NULL, 0},
                                                      {"update", NULL, 0},
                                                      {"setdefault", NULL, 0},
                                                      {"clear", NULL, 0},
                                                      {NULL, NULL, 0}};
static const struct method_entry LIST_METHODS[] = {
    {"count", method_count, 0}, {"index", method_index, 0}, {"copy", method_copy, 0}, {"append", NULL, 0},
    {"extend", NULL, 0},        {"insert", NULL, 0},        {"pop", NULL, 0},         {"remove", NULL, 0},
    {"reverse", NULL, 0},       {"sort", NULL, 0},          {"clear", NULL, 0},       {NULL, NULL, 0}};
static const struct method_entry TUPLE_METHODS[] = {
    {"count", method_count, 0}, {"index", method_index, 0}, {NULL, NULL, 0}};
static const struct method_entry LOOP_METHODS[] = {
    {"cycle", method_cycle, 0}, {"changed", method_changed, 0}, {NULL, NULL, 0}};
static const struct method_entry CYCLER_METHODS[] = {
    {"next", method_next, 0}, {"reset", method_reset, 0}, {NULL, NULL, 0}};

static const struct method_entry *methods_of(struct value object) {
  switch (object.kind) {
    case VALUE_STRING:
      return STRING_METHODS;
    case VALUE_MAPPING:
      return MAPPING_METHODS;
    case VALUE_LOOP:
      return LOOP_METHODS;
    case VALUE_CYCLER:
      return CYCLER_METHODS;
    case VALUE_SEQUENCE:
      if (object.sequence->flavour == SEQUENCE_LIST) return LIST_METHODS;
      return object.sequence->flavour <= SEQUENCE_RANGE ? TUPLE_METHODS : NULL;
    default:
      return NULL;
  }
}

bool method_attribute(struct run *run, struct value object, const struct text *name, struct value *value) {
  const struct method_entry *entries = methods_of(object);
  for (uint32_t i = 0; entries && entries[i].name; i++) {
    if (!text_is(name, entries[i].name)) continue;
    if (!entries[i].body) {
      *value = value_undefined(UNDEFINED_UNSAFE, name);
      return true;
    }
    struct method *method = run_allocate(run, 1, sizeof *method);
    if (!method) return false;
    *method = (struct method){object, i};
    *value = (struct value){.kind = VALUE_METHOD, .method = method};
    return true;
  }
  return false;
}

struct value method_call(struct run *run, const struct method *method, const struct arguments *arguments) {
  if (run->failed) return value_none();
  const struct method_entry *entry = &methods_of(method->object)[method->which];
  return entry->body(run, method->object, arguments, entry->variant);
}

bool method_is_lacking(const struct text *name) {
  static const char *const LACKING[] = {"casefold",   "encode",      "translate",    "maketrans",
                                        "expandtabs", "format_map",  "istitle",      "isdecimal",
                                        "isnumeric",  "isprintable", "isidentifier", "isascii"};
  for (size_t i = 0; i < sizeof LACKING / sizeof *LACKING; i++) {
    if (text_is(name, LACKING[i])) return true;
  }
  return false;
}

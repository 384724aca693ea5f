#include "text/jinja_list_filters.h"

#include <string.h>

#include "text/jinja_attributes.h"
#include "text/jinja_filters.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_sort.h"
#include "text/jinja_tests.h"
#include "text/jinja_text.h"

/* What sorting and comparing without regard to case look at. */
static struct value ignore_case(struct run *run, struct value value) {
  return value.kind == VALUE_STRING ? value_text(text_change_case(run, value.text, CASE_LOWER)) : value;
}

/* The attribute at a path, lower case unless case matters; a missing path is the item itself. */
static struct value key_of(struct run *run, struct value item, struct value path, bool case_sensitive) {
  if (path.kind != VALUE_MISSING) item = value_path(run, item, path);
  return case_sensitive ? item : ignore_case(run, item);
}

struct value filter_first(struct run *run, struct value value, const struct arguments *arguments) {
  struct value none;
  if (!arguments_bind(run, arguments, "first", "", 0, &none)) return none;
  if (value.kind == VALUE_SEQUENCE && value.sequence->flavour == SEQUENCE_ITERATOR) {
    struct sequence *iterator = value.sequence;
    if (iterator->position < iterator->count) return iterator->items[iterator->position++];
    return value_undefined_reason(run, "no first item, the sequence is empty");
  }
  const struct sequence *items = value_iterate(run, value);
  return items->count ? items->items[0] : value_undefined_reason(run, "no first item, the sequence is empty");
}

struct value filter_last(struct run *run, struct value value, const struct arguments *arguments) {
  struct value none;
  if (!arguments_bind(run, arguments, "last", "", 0, &none)) return none;
  if (value.kind == VALUE_SEQUENCE && value.sequence->flavour == SEQUENCE_ITERATOR) {
    run_fail(run, "a generator has no last item; make it a list first");
  }
  const struct sequence *items = value_iterate(run, value);
  return items->count ? items->items[items->count - 1]
                      : value_undefined_reason(run, "no last item, the sequence is empty");
}

static struct sequence *copy_items(struct run *run, const struct sequence *items, enum sequence_flavour flavour) {
  struct sequence *copy = sequence_make(run, flavour, items->count);
  if (run_step(run, items->count)) {
    for (size_t i = 0; i < items->count; i++) sequence_add(run, copy, items->items[i]);
  }
  return copy;
}

struct value filter_list(struct run *run, struct value value, const struct arguments *arguments) {
  struct value none;
  if (!arguments_bind(run, arguments, "list", "", 0, &none)) return none;
  return value_sequence(copy_items(run, value_iterate(run, value), SEQUENCE_LIST));
}

struct value filter_reverse(struct run *run, struct value value, const struct arguments *arguments) {
  struct value none;
  if (!arguments_bind(run, arguments, "reverse", "", 0, &none)) return none;
  if (value.kind == VALUE_STRING) {
    struct value step = value_integer(-1);
    return value_slice(run, value, value_none(), value_none(), step);
  }
  bool generator = value.kind == VALUE_SEQUENCE && value.sequence->flavour == SEQUENCE_ITERATOR;
  struct sequence *items = copy_items(run, value_iterate(run, value), generator ? SEQUENCE_LIST : SEQUENCE_ITERATOR);
  for (size_t i = 0; items && i < items->count / 2; i++) {
    struct value swap = items->items[i];
    items->items[i] = items->items[items->count - 1 - i];
    items->items[items->count - 1 - i] = swap;
  }
  return value_sequence(items);
}

struct value filter_items(struct run *run, struct value value, const struct arguments *arguments) {
  struct value none;
  if (!arguments_bind(run, arguments, "items", "", 0, &none)) return none;
  if (value.kind == VALUE_UNDEFINED) return value_sequence(sequence_make(run, SEQUENCE_ITERATOR, 0));
  if (value.kind != VALUE_MAPPING) {
    run_fail(run, "only a mapping has items, not a '%s'", value_type(value));
    return value_none();
  }
  struct sequence *items = mapping_view(run, value.mapping, SEQUENCE_ITEMS);
  if (items) items->flavour = SEQUENCE_ITERATOR;
  return value_sequence(items);
}

struct value filter_join(struct run *run, struct value value, const struct arguments *arguments) {
  struct value values[2];
  if (!arguments_bind(run, arguments, "join", "d,attribute", 0, values)) return value_none();
  const struct text *separator = values[0].kind == VALUE_MISSING ? NULL : value_to_text(run, values[0]);
  const struct sequence *items = value_iterate(run, value);
  bool attribute = values[1].kind != VALUE_MISSING && values[1].kind != VALUE_NONE;
  struct buffer out = {0};
  for (size_t i = 0; i < items->count && run_step(run, 1) && text_grows(run, &out); i++) {
    if (i && separator) buffer_append(&out, separator->bytes, separator->length);
    print_string(run, attribute ? value_path(run, items->items[i], values[1]) : items->items[i], &out);
  }
  const struct text *joined = text_take(run, &out);
  buffer_free(&out);
  return value_text(joined);
}

struct value filter_sum(struct run *run, struct value value, const struct arguments *arguments) {
  struct value values[2];
  if (!arguments_bind(run, arguments, "sum", "attribute,start", 0, values)) return value_none();
  struct value total = values[1].kind == VALUE_MISSING ? value_integer(0) : values[1];
  bool attribute = values[0].kind != VALUE_MISSING && values[0].kind != VALUE_NONE;
  const struct sequence *items = value_iterate(run, value);
  if (total.kind == VALUE_STRING) run_fail(run, "strings are joined, not summed");
  for (size_t i = 0; i < items->count && run_step(run, 1); i++) {
    struct value item = attribute ? value_path(run, items->items[i], values[0]) : items->items[i];
    total = value_binary(run, TOKEN_ADD, total, item);
  }
  return total;
}

/* The keys that sorting by "one" or "one,two" compares: a list for each item. */
static struct value *sort_keys(struct run *run, const struct sequence *items, struct value attribute,
                               bool case_sensitive) {
  struct value *keys = run_allocate(run, items->count + 1, sizeof *keys);
  for (size_t i = 0; keys && i < items->count && run_step(run, 1); i++) {
    struct sequence *key = sequence_make(run, SEQUENCE_LIST, 1);
    if (attribute.kind != VALUE_STRING) {
      sequence_add(run, key, key_of(run, items->items[i], attribute, case_sensitive));
    } else {
      for (size_t at = 0; at <= attribute.text->length;) {
        const char *comma = memchr(attribute.text->bytes + at, ',', attribute.text->length - at);
        size_t end = comma ? (size_t)(comma - attribute.text->bytes) : attribute.text->length;
        struct value path = value_text(text_part(run, attribute.text, at, end));
        sequence_add(run, key, key_of(run, items->items[i], path, case_sensitive));
        at = end + 1;
      }
    }
    keys[i] = value_sequence(key);
  }
  return run->failed ? NULL : keys;
}

struct value filter_sort(struct run *run, struct value value, const struct arguments *arguments) {
  struct value values[3];
  if (!arguments_bind(run, arguments, "sort", "reverse,case_sensitive,attribute", 0, values)) return value_none();
  const struct sequence *items = value_iterate(run, value);
  const struct value *keys = sort_keys(run, items, values[2], argument_truth(values[1], false));
  return keys ? value_sequence(sort_items(run, items, keys, argument_truth(values[0], false))) : value_none();
}

struct value filter_dictsort(struct run *run, struct value value, const struct arguments *arguments) {
  struct value values[3];
  if (!arguments_bind(run, arguments, "dictsort", "case_sensitive,by,reverse", 0, values)) return value_none();
  const struct text *by = argument_text(run, values[1], text_view(run, "key", 3));
  if (value.kind == VALUE_UNDEFINED) value_fail_undefined(run, value);
  if (value.kind != VALUE_MAPPING) run_fail(run, "dictsort needs a mapping, not a '%s'", value_type(value));
  if (!text_is(by, "key") && !text_is(by, "value")) run_fail(run, "dictsort sorts by 'key' or 'value' only");
  if (run->failed) return value_none();
  const struct sequence *items = mapping_view(run, value.mapping, SEQUENCE_ITEMS);
  struct value *keys = run_allocate(run, value.mapping->count + 1, sizeof *keys);
  if (!items || !keys) return value_none();
  for (size_t i = 0; i < value.mapping->count; i++) {
    struct value key = text_is(by, "key") ? value.mapping->pairs[i].key : value.mapping->pairs[i].value;
    keys[i] = argument_truth(values[0], false) ? key : ignore_case(run, key);
  }
  return value_sequence(sort_items(run, items, keys, argument_truth(values[2], false)));
}

struct value filter_unique(struct run *run, struct value value, const struct arguments *arguments) {
  struct value values[2];
  if (!arguments_bind(run, arguments, "unique", "case_sensitive,attribute", 0, values)) return value_none();
  const struct sequence *items = value_iterate(run, value);
  struct sequence *unique = sequence_make(run, SEQUENCE_ITERATOR, 0);
  struct mapping *seen = mapping_make(run);
  for (size_t i = 0; i < items->count && run_step(run, 1); i++) {
    struct value key = key_of(run, items->items[i], values[1], argument_truth(values[0], false));
    if (!value_hashable(&key)) run_fail(run, "unique needs hashable values, not '%s'", value_type(key));
    if (run->failed || mapping_find(run, seen, key)) continue;
    mapping_set(run, seen, key, value_none());
    sequence_add(run, unique, items->items[i]);
  }
  return value_sequence(unique);
}

static struct value extreme(struct run *run, struct value value, const struct arguments *arguments, int wanted) {
  struct value values[2];
  if (!arguments_bind(run, arguments, "min or max", "case_sensitive,attribute", 0, values)) return value_none();
  bool case_sensitive = argument_truth(values[0], false);
  const struct sequence *items = value_iterate(run, value);
  if (!items->count) return value_undefined_reason(run, "no aggregated item, the sequence is empty");
  size_t best = 0;
  struct value best_key = key_of(run, items->items[0], values[1], case_sensitive);
  for (size_t i = 1; i < items->count && run_step(run, 1); i++) {
    struct value key = key_of(run, items->items[i], values[1], case_sensitive);
    if (value_compare(run, key, best_key, wanted < 0 ? "<" : ">") != wanted) continue;
    best = i;
    best_key = key;
  }
  return items->items[best];
}

struct value filter_min(struct run *run, struct value value, const struct arguments *arguments) {
  return extreme(run, value, arguments, -1);
}

struct value filter_max(struct run *run, struct value value, const struct arguments *arguments) {
  return extreme(run, value, arguments, 1);
}

/* map(attribute=…, default=…): the default stands in for every undefined step of the path. */
static struct value map_attribute(struct run *run, struct value value, const struct arguments *arguments) {
  struct value values[2];
  if (!arguments_bind(run, arguments, "map", "attribute,default", 1, values)) return value_none();
  const struct sequence *items = value_iterate(run, value);
  struct sequence *mapped = sequence_make(run, SEQUENCE_ITERATOR, items->count);
  bool has_default = values[1].kind != VALUE_MISSING && values[1].kind != VALUE_NONE;
  for (size_t i = 0; i < items->count && run_step(run, 1); i++) {
    struct value item = value_path(run, items->items[i], values[0]);
    sequence_add(run, mapped, item.kind == VALUE_UNDEFINED && has_default ? values[1] : item);
  }
  return value_sequence(mapped);
}

struct value filter_map(struct run *run, struct value value, const struct arguments *arguments) {
  if (!value_truth(&value)) return value_sequence(sequence_make(run, SEQUENCE_ITERATOR, 0));
  if (!arguments->count) return map_attribute(run, value, arguments);
  struct value name = arguments->positional[0];
  int which = name.kind == VALUE_STRING ? filter_find(name.text) : -1;
  if (which < 0) {
    run_fail(run, "map needs the name of a filter");
    return value_none();
  }
  struct arguments rest = *arguments;
  rest.positional++;
  rest.count--;
  const struct sequence *items = value_iterate(run, value);
  struct sequence *mapped = sequence_make(run, SEQUENCE_ITERATOR, items->count);
  if (!run_enter(run)) return value_none();
  for (size_t i = 0; i < items->count && run_step(run, 1); i++) {
    sequence_add(run, mapped, filter_apply(run, which, items->items[i], &rest));
  }
  run_leave(run);
  return value_sequence(mapped);
}

/* select, reject, selectattr and rejectattr: `attribute` takes the first argument as a path, the next names a test. */
static struct value select_items(struct run *run, struct value value, const struct arguments *arguments, bool attribute,
                                 bool wanted) {
  struct sequence *selected = sequence_make(run, SEQUENCE_ITERATOR, 0);
  if (!value_truth(&value)) return value_sequence(selected);
  if (attribute && !arguments->count) {
    run_fail(run, "selectattr and rejectattr need the name of an attribute");
    return value_none();
  }
  size_t offset = attribute ? 1 : 0;
  struct arguments rest = *arguments;
  int which = -1;
  if (arguments->count > offset) {
    struct value name = arguments->positional[offset];
    which = name.kind == VALUE_STRING ? test_find(name.text) : -1;
    if (which < 0) run_fail(run, "select and reject need the name of a test");
    rest.positional += offset + 1;
    rest.count -= offset + 1;
  }
  const struct sequence *items = value_iterate(run, value);
  for (size_t i = 0; i < items->count && run_step(run, 1); i++) {
    struct value item = items->items[i];
    struct value subject = attribute ? value_path(run, item, arguments->positional[0]) : item;
    bool holds = which < 0 ? value_truth(&subject) : test_apply(run, which, subject, &rest);
    if (holds == wanted) sequence_add(run, selected, item);
  }
  return value_sequence(selected);
}

struct value filter_select(struct run *run, struct value value, const struct arguments *arguments) {
  return select_items(run, value, arguments, false, true);
}

struct value filter_reject(struct run *run, struct value value, const struct arguments *arguments) {
  return select_items(run, value, arguments, false, false);
}

struct value filter_selectattr(struct run *run, struct value value, const struct arguments *arguments) {
  return select_items(run, value, arguments, true, true);
}

struct value filter_rejectattr(struct run *run, struct value value, const struct arguments *arguments) {
  return select_items(run, value, arguments, true, false);
}

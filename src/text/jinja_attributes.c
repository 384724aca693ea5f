#include "text/jinja_attributes.h"

#include <string.h>

#include "text/jinja_methods.h"
#include "text/jinja_text.h"
#include "text/jinja_tree.h"

static bool loop_attribute(struct run *run, const struct loop *loop, const struct text *name, struct value *value) {
  int64_t index = (int64_t)loop->index, length = (int64_t)loop->items->count;
  if (text_is(name, "index")) {
    *value = value_integer(index + 1);
  } else if (text_is(name, "index0")) {
    *value = value_integer(index);
  } else if (text_is(name, "revindex")) {
    *value = value_integer(length - index);
  } else if (text_is(name, "revindex0")) {
    *value = value_integer(length - index - 1);
  } else if (text_is(name, "length")) {
    *value = value_integer(length);
  } else if (text_is(name, "first")) {
    *value = value_boolean(index == 0);
  } else if (text_is(name, "last")) {
    *value = value_boolean(index == length - 1);
  } else if (text_is(name, "depth")) {
    *value = value_integer(1);
  } else if (text_is(name, "depth0")) {
    *value = value_integer(0);
  } else if (text_is(name, "previtem")) {
    *value = index > 0 ? loop->items->items[index - 1] : value_undefined_reason(run, "there is no previous item");
  } else if (text_is(name, "nextitem")) {
    *value = index < length - 1 ? loop->items->items[index + 1] : value_undefined_reason(run, "there is no next item");
  } else {
    return false;
  }
  return true;
}

/* What Python's getattr finds, if it finds anything. */
static bool find_attribute(struct run *run, struct value object, const struct text *name, struct value *value) {
  if (object.kind == VALUE_NAMESPACE) {
    const struct value *found = mapping_find(run, object.mapping, value_text(name));
    if (found) *value = *found;
    return found != NULL;
  }
  if (object.kind == VALUE_LOOP && loop_attribute(run, object.loop, name, value)) return true;
  if (object.kind == VALUE_MACRO && text_is(name, "name")) {
    *value = value_text(object.macro->name);
    return true;
  }
  if (object.kind == VALUE_CYCLER && text_is(name, "current")) {
    *value = object.cycler->items[object.cycler->position];
    return true;
  }
  return method_attribute(run, object, name, value);
}

struct value value_attribute(struct run *run, struct value object, const struct text *name) {
  struct value value;
  if (object.kind == VALUE_UNDEFINED) {
    value_fail_undefined(run, object);
    return value_undefined(UNDEFINED_ATTRIBUTE, name);
  }
  if (find_attribute(run, object, name, &value)) return value;
  if (object.kind == VALUE_MAPPING) {
    const struct value *found = mapping_find(run, object.mapping, value_text(name));
    if (found) return *found;
  }
  return value_undefined(UNDEFINED_ATTRIBUTE, name);
}

static bool find_item(struct run *run, struct value object, struct value key, struct value *value) {
  int64_t index = 0;
  if (object.kind == VALUE_MAPPING) {
    const struct value *found = value_hashable(&key) ? mapping_find(run, object.mapping, key) : NULL;
    if (found) *value = *found;
    return found != NULL;
  }
  if (!value_is_integer(key, &index)) return false;
  if (object.kind == VALUE_STRING) {
    const struct text *text = object.text;
    if (index < 0) index += (int64_t)text->characters;
    if (index < 0 || (uint64_t)index >= text->characters) return false;
    size_t start = character_offset(text, (size_t)index);
    if (!run_step(run, start / 256)) return false; /* finding the character takes time */
    *value = value_text(text_part(run, text, start, start + character_size(text->bytes + start)));
    return true;
  }
  if (object.kind != VALUE_SEQUENCE || object.sequence->flavour > SEQUENCE_RANGE) return false;
  if (index < 0) index += (int64_t)object.sequence->count;
  if (index < 0 || (uint64_t)index >= object.sequence->count) return false;
  *value = object.sequence->items[index];
  return true;
}

struct value value_item(struct run *run, struct value object, struct value key) {
  struct value value;
  if (object.kind == VALUE_UNDEFINED) {
    value_fail_undefined(run, object);
    return object;
  }
  if (find_item(run, object, key, &value)) return value;
  if (key.kind != VALUE_STRING) return value_undefined_reason(run, "the value has no such item");
  if (find_attribute(run, object, key.text, &value)) return value;
  return value_undefined(UNDEFINED_ATTRIBUTE, key.text);
}

/* Python's rules for the bounds of a slice of `length` items: where it starts, and how many it takes. */
static bool slice_bounds(struct run *run, size_t length, const struct value *bounds, int64_t *start, int64_t *stop,
                         int64_t *step) {
  int64_t count = (int64_t)length, given[3] = {0};
  for (int i = 0; i < 3; i++) {
    if (bounds[i].kind == VALUE_NONE || value_is_integer(bounds[i], &given[i])) continue;
    run_fail(run, "slice indices must be integers, not '%s'", value_type(bounds[i]));
    return false;
  }
  *step = bounds[2].kind == VALUE_NONE ? 1 : given[2];
  if (*step == 0) {
    run_fail(run, "the step of a slice cannot be zero");
    return false;
  }
  int64_t lowest = *step < 0 ? -1 : 0, highest = *step < 0 ? count - 1 : count;
  for (int i = 0; i < 2; i++) {
    if (given[i] < 0) given[i] = given[i] < -count ? lowest : given[i] + count;
    if (given[i] < lowest) given[i] = lowest;
    if (given[i] > highest) given[i] = highest;
  }
  *start = bounds[0].kind == VALUE_NONE ? (*step < 0 ? highest : lowest) : given[0];
  *stop = bounds[1].kind == VALUE_NONE ? (*step < 0 ? lowest : highest) : given[1];
  /* A step longer than the whole takes one item at most; this keeps the walk from overflowing. */
  if (*step > count + 1) *step = count + 1;
  if (*step < -count - 1) *step = -count - 1;
  return true;
}

static struct value slice_text(struct run *run, const struct text *text, int64_t start, int64_t stop, int64_t step) {
  if (step == 1) {
    size_t from = character_offset(text, (size_t)start);
    size_t to = stop > start ? character_offset(text, (size_t)stop) : from;
    return value_text(text_part(run, text, from, to));
  }
  struct buffer out = {0};
  const struct sequence *characters = value_iterate(run, value_text(text));
  for (int64_t i = start; (step > 0 ? i < stop : i > stop) && run_step(run, 1); i += step) {
    buffer_append(&out, characters->items[i].text->bytes, characters->items[i].text->length);
  }
  const struct text *part = text_marked(run, text_take(run, &out), text->safe);
  buffer_free(&out);
  return value_text(part);
}

struct value value_slice(struct run *run, struct value object, struct value from, struct value to, struct value step) {
  const struct value bounds[] = {from, to, step};
  int64_t start = 0, stop = 0, stride = 1;
  bool sequence = object.kind == VALUE_SEQUENCE && object.sequence->flavour <= SEQUENCE_RANGE;
  if (object.kind == VALUE_UNDEFINED) {
    value_fail_undefined(run, object);
    return value_none();
  }
  if (!sequence && object.kind != VALUE_STRING) {
    run_fail(run, "a value of type '%s' cannot be sliced", value_type(object));
    return value_none();
  }
  size_t length = sequence ? object.sequence->count : object.text->characters;
  if (!slice_bounds(run, length, bounds, &start, &stop, &stride)) return value_none();
  if (!sequence) return slice_text(run, object.text, start, stop, stride);
  struct sequence *part = sequence_make(run, object.sequence->flavour, 0);
  if (!part) return value_none();
  for (int64_t i = start; (stride > 0 ? i < stop : i > stop) && run_step(run, 1); i += stride) {
    sequence_add(run, part, object.sequence->items[i]);
  }
  const int64_t *range = object.sequence->range;
  /* Only for printing; near the ends of 64 bits the numbers wrap. */
  part->range[0] = (int64_t)((uint64_t)range[0] + (uint64_t)start * (uint64_t)range[2]);
  part->range[1] = (int64_t)((uint64_t)range[0] + (uint64_t)stop * (uint64_t)range[2]);
  part->range[2] = (int64_t)((uint64_t)range[2] * (uint64_t)stride);
  return value_sequence(part);
}

struct value value_path(struct run *run, struct value object, struct value path) {
  if (path.kind == VALUE_NONE) return object;
  if (path.kind != VALUE_STRING) return value_item(run, object, path);
  const struct text *text = path.text;
  for (size_t at = 0; at <= text->length && !run->failed;) {
    const char *dot = memchr(text->bytes + at, '.', text->length - at);
    size_t end = dot ? (size_t)(dot - text->bytes) : text->length;
    int64_t index = 0;
    bool number = end > at && end - at < 18;
    for (size_t i = at; i < end && number; i++) {
      number = text->bytes[i] >= '0' && text->bytes[i] <= '9';
      index = index * 10 + (text->bytes[i] - '0');
    }
    object = value_item(run, object, number ? value_integer(index) : value_text(text_part(run, text, at, end)));
    at = end + 1;
  }
  return object;
}

#include "text/jinja_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/jinja_sort.h"
#include "text/jinja_text.h"
#include "text/jinja_tree.h"

void print_float(double number, struct buffer *out) {
  char text[64], digits[32];
  if (!isfinite(number)) {
    buffer_append_text(out, isnan(number) ? "nan" : number < 0 ? "-inf" : "inf");
    return;
  }
  int precision = 0;
  do {
    snprintf(text, sizeof text, "%.*e", precision, number);
  } while (strtod(text, NULL) != number && ++precision < 17);
  const char *at = text;
  if (*at == '-') buffer_append(out, at++, 1);
  int count = 0;
  for (; *at != 'e'; at++) {
    if (*at != '.') digits[count++] = *at;
  }
  int exponent = atoi(at + 1);
  if (exponent < -4 || exponent >= 16) {
    buffer_append(out, digits, 1);
    if (count > 1) buffer_append_format(out, ".%.*s", count - 1, digits + 1);
    buffer_append_format(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
  } else if (exponent < 0) {
    buffer_append_format(out, "0.%.*s%.*s", -exponent - 1, "000", count, digits);
  } else {
    for (int i = 0; i <= exponent; i++) buffer_append(out, i < count ? &digits[i] : "0", 1);
    buffer_append_format(out, ".%.*s", count > exponent + 1 ? count - exponent - 1 : 1,
                         count > exponent + 1 ? digits + exponent + 1 : "0");
  }
}

static bool is_printable(int32_t character) {
  if (character < 0x7F) return character >= ' ';
  utf8proc_category_t category = utf8proc_category(character);
  return category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS;
}

static void repr_text(const struct text *text, struct buffer *out) {
  bool single = memchr(text->bytes, '\'', text->length) != NULL;
  bool both = single && memchr(text->bytes, '"', text->length) != NULL;
  char quote = single && !both ? '"' : '\'';
  if (text->safe) buffer_append_text(out, "Markup(");
  buffer_append(out, &quote, 1);
  size_t size = 0;
  for (size_t at = 0; at < text->length; at += size) {
    int32_t c = character_decode(text->bytes + at, &size);
    if (c == quote || c == '\\') {
      buffer_append_format(out, "\\%c", (char)c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      buffer_append_text(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    } else if (is_printable(c)) {
      buffer_append(out, text->bytes + at, size);
    } else if (c < 0x100) {
      buffer_append_format(out, "\\x%02x", (unsigned)c);
    } else {
      buffer_append_format(out, c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
    }
  }
  buffer_append(out, &quote, 1);
  if (text->safe) buffer_append_text(out, ")");
}

static void repr_items(struct run *run, const struct sequence *items, struct buffer *out) {
  for (size_t i = 0; i < items->count && run_step(run, 1); i++) {
    if (i) buffer_append_text(out, ", ");
    print_repr(run, items->items[i], out);
  }
}

static void repr_sequence(struct run *run, const struct sequence *items, struct buffer *out) {
  switch (items->flavour) {
    case SEQUENCE_LIST:
      buffer_append_text(out, "[");
      repr_items(run, items, out);
      buffer_append_text(out, "]");
      break;
    case SEQUENCE_TUPLE:
      buffer_append_text(out, "(");
      repr_items(run, items, out);
      buffer_append_text(out, items->count == 1 ? ",)" : ")");
      break;
    case SEQUENCE_RANGE:
      buffer_append_format(out, "range(%" PRId64 ", %" PRId64, items->range[0], items->range[1]);
      if (items->range[2] != 1) buffer_append_format(out, ", %" PRId64, items->range[2]);
      buffer_append_text(out, ")");
      break;
    case SEQUENCE_ITERATOR:
      buffer_append_text(out, "<generator object>");
      break;
    default:
      buffer_append_format(out, "%s([", value_type(value_sequence((struct sequence *)(uintptr_t)items)));
      repr_items(run, items, out);
      buffer_append_text(out, "])");
  }
}

static void repr_mapping(struct run *run, const struct mapping *mapping, struct buffer *out) {
  buffer_append_text(out, "{");
  for (size_t i = 0; i < mapping->count && run_step(run, 1); i++) {
    if (i) buffer_append_text(out, ", ");
    print_repr(run, mapping->pairs[i].key, out);
    buffer_append_text(out, ": ");
    print_repr(run, mapping->pairs[i].value, out);
  }
  buffer_append_text(out, "}");
}

static void repr_object(struct run *run, struct value value, struct buffer *out) {
  switch (value.kind) {
    case VALUE_NONE:
      buffer_append_text(out, "None");
      break;
    case VALUE_BOOLEAN:
      buffer_append_text(out, value.boolean ? "True" : "False");
      break;
    case VALUE_INTEGER:
      buffer_append_format(out, "%" PRId64, value.integer);
      break;
    case VALUE_FLOAT:
      print_float(value.number, out);
      break;
    case VALUE_STRING:
      repr_text(value.text, out);
      break;
    case VALUE_SEQUENCE:
      repr_sequence(run, value.sequence, out);
      break;
    case VALUE_MAPPING:
      repr_mapping(run, value.mapping, out);
      break;
    case VALUE_NAMESPACE:
      buffer_append_text(out, "<Namespace ");
      repr_mapping(run, value.mapping, out);
      buffer_append_text(out, ">");
      break;
    case VALUE_LOOP:
      buffer_append_format(out, "<LoopContext %zu/%zu>", value.loop->index + 1, value.loop->items->count);
      break;
    default:
      buffer_append_format(out, "<%s>", value_type(value));
  }
}

void print_repr(struct run *run, struct value value, struct buffer *out) {
  if (!text_grows(run, out) || !run_enter(run)) return;
  if (value.kind == VALUE_UNDEFINED) {
    buffer_append_text(out, "Undefined");
  } else {
    repr_object(run, value, out);
  }
  run_leave(run);
}

void print_string(struct run *run, struct value value, struct buffer *out) {
  if (value.kind == VALUE_STRING) {
    buffer_append(out, value.text->bytes, value.text->length);
  } else if (value.kind != VALUE_UNDEFINED) {
    print_repr(run, value, out);
  }
}

const struct text *value_to_text(struct run *run, struct value value) {
  if (value.kind == VALUE_STRING) return value.text;
  struct buffer out = {0};
  print_string(run, value, &out);
  const struct text *text = text_take(run, &out);
  buffer_free(&out);
  return text;
}

static void write_text(const struct text *text, bool ascii, struct buffer *out) {
  static const char NAMES[] = "btnvfr"; /* from \b on; JSON has no \v */
  size_t size = 0, plain = 0;
  buffer_append_text(out, "\"");
  for (size_t at = 0; at < text->length; at += size) {
    int32_t c = character_decode(text->bytes + at, &size);
    bool escaped = c < ' ' || c == '"' || c == '\\' || (ascii && c > '~');
    if (!escaped) continue;
    buffer_append(out, text->bytes + plain, at - plain);
    plain = at + size;
    if (c == '"' || c == '\\') {
      buffer_append_format(out, "\\%c", (char)c);
    } else if (c >= '\b' && c <= '\r' && c != '\v') {
      buffer_append_format(out, "\\%c", NAMES[c - '\b']);
    } else if (c < 0x10000) {
      buffer_append_format(out, "\\u%04x", (unsigned)c);
    } else {
      unsigned rest = (unsigned)c - 0x10000;
      buffer_append_format(out, "\\u%04x\\u%04x", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    }
  }
  buffer_append(out, text->bytes + plain, text->length - plain);
  buffer_append_text(out, "\"");
}

static void write_float(double number, struct buffer *out) {
  if (isfinite(number)) {
    print_float(number, out);
  } else {
    buffer_append_text(out, isnan(number) ? "NaN" : number < 0 ? "-Infinity" : "Infinity");
  }
}

static void write_newline(struct run *run, const struct json_style *style, size_t level, struct buffer *out) {
  if (!style->indent) return;
  buffer_append_text(out, "\n");
  for (size_t i = 0; i < level && run_step(run, 1); i++) {
    buffer_append(out, style->indent->bytes, style->indent->length);
  }
}

static void write_value(struct run *run, struct value value, const struct json_style *style, size_t level,
                        struct buffer *out);

static void write_key(struct run *run, struct value key, const struct json_style *style, struct buffer *out) {
  if (key.kind == VALUE_STRING) {
    write_text(key.text, style->ascii, out);
  } else if (key.kind >= VALUE_NONE && key.kind <= VALUE_FLOAT) {
    buffer_append_text(out, "\"");
    write_value(run, key, style, 0, out);
    buffer_append_text(out, "\"");
  } else {
    run_fail(run, "a key of a JSON object cannot be of type '%s'", value_type(key));
  }
}

static void write_object(struct run *run, const struct mapping *mapping, const struct json_style *style, size_t level,
                         struct buffer *out) {
  const struct pair *pairs = mapping->pairs;
  if (style->sorted) pairs = sort_pairs(run, mapping);
  buffer_append_text(out, "{");
  for (size_t i = 0; pairs && i < mapping->count && run_step(run, 1); i++) {
    if (i) buffer_append(out, style->separator->bytes, style->separator->length);
    write_newline(run, style, level + 1, out);
    write_key(run, pairs[i].key, style, out);
    buffer_append(out, style->colon->bytes, style->colon->length);
    write_value(run, pairs[i].value, style, level + 1, out);
  }
  if (mapping->count) write_newline(run, style, level, out);
  buffer_append_text(out, "}");
}

static void write_array(struct run *run, const struct sequence *items, const struct json_style *style, size_t level,
                        struct buffer *out) {
  buffer_append_text(out, "[");
  for (size_t i = 0; i < items->count && run_step(run, 1); i++) {
    if (i) buffer_append(out, style->separator->bytes, style->separator->length);
    write_newline(run, style, level + 1, out);
    write_value(run, items->items[i], style, level + 1, out);
  }
  if (items->count) write_newline(run, style, level, out);
  buffer_append_text(out, "]");
}

static void write_value(struct run *run, struct value value, const struct json_style *style, size_t level,
                        struct buffer *out) {
  if (!text_grows(run, out) || !run_enter(run)) return;
  if (value.kind == VALUE_STRING) {
    write_text(value.text, style->ascii, out);
  } else if (value.kind == VALUE_NONE) {
    buffer_append_text(out, "null");
  } else if (value.kind == VALUE_BOOLEAN) {
    buffer_append_text(out, value.boolean ? "true" : "false");
  } else if (value.kind == VALUE_INTEGER) {
    buffer_append_format(out, "%" PRId64, value.integer);
  } else if (value.kind == VALUE_FLOAT) {
    write_float(value.number, out);
  } else if (value.kind == VALUE_MAPPING) {
    write_object(run, value.mapping, style, level, out);
  } else if (value.kind == VALUE_SEQUENCE && value.sequence->flavour <= SEQUENCE_TUPLE) {
    write_array(run, value.sequence, style, level, out);
  } else {
    run_fail(run, "a value of type '%s' cannot be written as JSON", value_type(value));
  }
  run_leave(run);
}

void print_json(struct run *run, struct value value, const struct json_style *style, struct buffer *out) {
  write_value(run, value, style, 0, out);
}

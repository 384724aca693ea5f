#include "text/jinja_filters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja_format.h"
#include "text/jinja_list_filters.h"
#include "text/jinja_numbers.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

/* Of a filter without arguments. */
static bool no_arguments(struct run *run, const struct arguments *arguments) {
  struct value none;
  return arguments_bind(run, arguments, "this filter", "", 0, &none);
}

static struct value change_case(struct run *run, struct value value, const struct arguments *arguments,
                                enum text_case change) {
  if (!no_arguments(run, arguments)) return value;
  return value_text(text_change_case(run, value_to_text(run, value), change));
}

static struct value filter_upper(struct run *run, struct value value, const struct arguments *arguments) {
  return change_case(run, value, arguments, CASE_UPPER);
}

static struct value filter_lower(struct run *run, struct value value, const struct arguments *arguments) {
  return change_case(run, value, arguments, CASE_LOWER);
}

static struct value filter_capitalize(struct run *run, struct value value, const struct arguments *arguments) {
  return change_case(run, value, arguments, CASE_CAPITALIZE);
}

/* Unlike str.title, words begin after white space, '-' and opening brackets only. */
static struct value filter_title(struct run *run, struct value value, const struct arguments *arguments) {
  if (!no_arguments(run, arguments)) return value;
  const struct text *text = value_to_text(run, value);
  struct buffer out = {0};
  size_t size = 0;
  for (size_t at = 0; at < text->length && run_step(run, 1);) {
    size_t end = at;
    for (; end < text->length; end += size) {
      int32_t c = character_decode(text->bytes + end, &size);
      if (character_is_space(c) || (c < 0x80 && c && strchr("-({[<", c))) break;
    }
    if (end == at) {
      size = character_size(text->bytes + at);
      buffer_append(&out, text->bytes + at, size);
      at += size;
      continue;
    }
    size_t second = at + character_size(text->bytes + at);
    const struct text *first = text_change_case(run, text_part(run, text, at, second), CASE_UPPER);
    const struct text *rest = text_change_case(run, text_part(run, text, second, end), CASE_LOWER);
    buffer_append(&out, first->bytes, first->length);
    buffer_append(&out, rest->bytes, rest->length);
    at = end;
  }
  const struct text *title = text_take(run, &out);
  buffer_free(&out);
  return value_text(title);
}

static struct value filter_trim(struct run *run, struct value value, const struct arguments *arguments) {
  struct value chars;
  if (!arguments_bind(run, arguments, "trim", "chars", 0, &chars)) return value;
  if (chars.kind == VALUE_NONE) chars.kind = VALUE_MISSING;
  return value_text(text_strip(run, value_to_text(run, value), argument_text(run, chars, NULL), true, true));
}

static struct value filter_string(struct run *run, struct value value, const struct arguments *arguments) {
  if (!no_arguments(run, arguments)) return value;
  return value_text(value_to_text(run, value));
}

static struct value filter_safe(struct run *run, struct value value, const struct arguments *arguments) {
  if (!no_arguments(run, arguments)) return value;
  return value_text(text_marked(run, value_to_text(run, value), true));
}

static struct value filter_escape(struct run *run, struct value value, const struct arguments *arguments) {
  if (!no_arguments(run, arguments)) return value;
  return value_text(text_escape(run, value_to_text(run, value)));
}

static struct value filter_forceescape(struct run *run, struct value value, const struct arguments *arguments) {
  if (!no_arguments(run, arguments)) return value;
  return value_text(text_escape(run, text_marked(run, value_to_text(run, value), false)));
}

static struct value filter_replace(struct run *run, struct value value, const struct arguments *arguments) {
  struct value values[3];
  if (!arguments_bind(run, arguments, "replace", "old,new,count", 2, values)) return value;
  if (values[2].kind == VALUE_NONE) values[2].kind = VALUE_MISSING;
  const struct text *text = text_marked(run, value_to_text(run, value), false);
  return value_text(text_replace(run, text, value_to_text(run, values[0]), value_to_text(run, values[1]),
                                 argument_integer(run, values[2], -1)));
}

static struct value filter_indent(struct run *run, struct value value, const struct arguments *arguments) {
  struct value values[3];
  if (!arguments_bind(run, arguments, "indent", "width,first,blank", 0, values)) return value;
  const struct text *text = argument_text(run, value, NULL), *indent = NULL;
  bool first = argument_truth(values[1], false), blank = argument_truth(values[2], false);
  if (values[0].kind == VALUE_STRING) {
    indent = values[0].text;
  } else {
    int64_t width = argument_integer(run, values[0], 4);
    indent = text_pad(run, text_view(run, "", 0), width, text_view(run, " ", 1), '<');
  }
  struct buffer out = {0};
  buffer_append(&out, text->bytes, text->length);
  buffer_append_text(&out, "\n"); /* so that a last empty line is a line */
  const struct sequence *lines = text_lines(run, text_take(run, &out));
  for (size_t i = 0; lines && i < lines->count && run_step(run, 1) && text_grows(run, &out); i++) {
    const struct text *line = lines->items[i].text;
    if (i) buffer_append_text(&out, "\n");
    if (i ? blank || line->length : first) buffer_append(&out, indent->bytes, indent->length);
    buffer_append(&out, line->bytes, line->length);
  }
  const struct text *indented = text_marked(run, text_take(run, &out), text->safe);
  buffer_free(&out);
  return value_text(indented);
}

static struct value filter_truncate(struct run *run, struct value value, const struct arguments *arguments) {
  struct value values[4];
  if (!arguments_bind(run, arguments, "truncate", "length,killwords,end,leeway", 0, values)) return value;
  const struct text *end = argument_text(run, values[2], text_view(run, "...", 3));
  int64_t length = argument_integer(run, values[0], 255);
  int64_t leeway = values[3].kind == VALUE_NONE ? 5 : argument_integer(run, values[3], 5);
  if (length < (int64_t)end->characters || leeway < 0) run_fail(run, "the length or leeway of truncate is too small");
  size_t count = 0;
  if (!value_length(value, &count)) run_fail(run, "a value of type '%s' has no length", value_type(value));
  if (run->failed || (int64_t)count <= length || (int64_t)count - length <= leeway) return value;
  const struct text *text = argument_text(run, value, NULL);
  if (run->failed) return value;
  const struct text *kept = text_part(run, text, 0, character_offset(text, (size_t)length - end->characters));
  size_t space = text_find_last(kept, text_view(run, " ", 1), kept->length);
  if (!argument_truth(values[1], false) && space != SIZE_MAX) kept = text_part(run, kept, 0, space);
  return value_binary(run, TOKEN_ADD, value_text(kept), value_text(end));
}

static struct value filter_center(struct run *run, struct value value, const struct arguments *arguments) {
  struct value width;
  if (!arguments_bind(run, arguments, "center", "width", 0, &width)) return value;
  return value_text(
      text_pad(run, value_to_text(run, value), argument_integer(run, width, 80), text_view(run, " ", 1), 'c'));
}

static struct value filter_format(struct run *run, struct value value, const struct arguments *arguments) {
  if (arguments->count && arguments->keyword_count) {
    run_fail(run, "format takes positional or keyword arguments, not both");
    return value;
  }
  struct sequence *tuple = sequence_make(run, SEQUENCE_TUPLE, arguments->count);
  struct mapping *names = mapping_make(run);
  for (size_t i = 0; i < arguments->count; i++) sequence_add(run, tuple, arguments->positional[i]);
  for (size_t i = 0; i < arguments->keyword_count; i++) {
    mapping_set(run, names, value_text(arguments->keywords[i].name), arguments->keywords[i].value);
  }
  struct value operand = arguments->keyword_count ? value_mapping(names) : value_sequence(tuple);
  return value_text(format_percent(run, value_to_text(run, value), operand));
}

static struct value filter_length(struct run *run, struct value value, const struct arguments *arguments) {
  size_t length = 0;
  if (!no_arguments(run, arguments)) return value;
  if (!value_length(value, &length)) run_fail(run, "a value of type '%s' has no length", value_type(value));
  return value_integer((int64_t)length);
}

static struct value filter_default(struct run *run, struct value value, const struct arguments *arguments) {
  struct value values[2];
  if (!arguments_bind(run, arguments, "default", "default_value,boolean", 0, values)) return value;
  bool replaced = value.kind == VALUE_UNDEFINED || (argument_truth(values[1], false) && !value_truth(&value));
  if (!replaced) return value;
  return values[0].kind == VALUE_MISSING ? value_string(run, "") : values[0];
}

static struct value filter_abs(struct run *run, struct value value, const struct arguments *arguments) {
  int64_t integer = 0;
  if (!no_arguments(run, arguments)) return value;
  if (value.kind == VALUE_FLOAT) return value_float(fabs(value.number));
  if (!value_is_integer(value, &integer)) run_fail(run, "abs needs a number, not a '%s'", value_type(value));
  return integer < 0 ? value_negative(run, value) : value_integer(integer);
}

/* A float towards zero; the fallback where it has no integer. */
static struct value truncated(struct run *run, double number, struct value fallback) {
  if (!isfinite(number)) return fallback;
  if (fabs(number) >= 9.2e18) run_fail(run, "an integer becomes too large");
  return value_integer(run->failed ? 0 : (int64_t)number);
}

static struct value filter_int(struct run *run, struct value value, const struct arguments *arguments) {
  struct value values[2];
  if (!arguments_bind(run, arguments, "int", "default,base", 0, values)) return value;
  struct value fallback = values[0].kind == VALUE_MISSING ? value_integer(0) : values[0];
  int64_t integer = 0;
  double number = 0;
  if (value.kind == VALUE_UNDEFINED) value_fail_undefined(run, value);
  if (value_is_integer(value, &integer)) return value_integer(integer);
  if (value.kind == VALUE_FLOAT) return truncated(run, value.number, fallback);
  if (value.kind != VALUE_STRING) return fallback;
  enum number_result result = read_integer(value.text, (int)argument_integer(run, values[1], 10), &integer);
  if (result == NUMBER_TOO_LARGE) run_fail(run, "an integer becomes too large");
  if (result != NUMBER_MALFORMED) return value_integer(integer);
  return read_float(value.text, &number) == NUMBER_READ ? truncated(run, number, fallback) : fallback;
}

static struct value filter_float(struct run *run, struct value value, const struct arguments *arguments) {
  struct value fallback;
  double number = 0;
  if (!arguments_bind(run, arguments, "float", "default", 0, &fallback)) return value;
  if (value.kind == VALUE_UNDEFINED) value_fail_undefined(run, value);
  if (value_is_number(value, &number)) return value_float(number);
  if (value.kind == VALUE_STRING && read_float(value.text, &number) == NUMBER_READ) return value_float(number);
  return fallback.kind == VALUE_MISSING ? value_float(0) : fallback;
}

static struct value filter_round(struct run *run, struct value value, const struct arguments *arguments) {
  struct value values[2];
  if (!arguments_bind(run, arguments, "round", "precision,method", 0, values)) return value;
  int64_t precision = argument_integer(run, values[0], 0), integer = 0;
  const struct text *method = argument_text(run, values[1], text_view(run, "common", 6));
  double number = 0;
  if (!value_is_number(value, &number)) run_fail(run, "round needs a number, not a '%s'", value_type(value));
  if (precision < 0 || precision > 100) run_fail(run, "round supports a precision of 0 to 100 only");
  if (run->failed) return value;
  if (text_is(method, "common")) {
    if (value_is_integer(value, &integer)) return value_integer(integer);
    char digits[512];
    snprintf(digits, sizeof digits, "%.*f", (int)precision, number);
    return value_float(strtod(digits, NULL));
  }
  if (!text_is(method, "ceil") && !text_is(method, "floor")) run_fail(run, "round by 'common', 'ceil' or 'floor'");
  double scale = pow(10, (double)precision);
  return value_float((text_is(method, "ceil") ? ceil(number * scale) : floor(number * scale)) / scale);
}

/* The two texts of json.dumps(separators=…). */
static void json_separators(struct run *run, struct value value, struct json_style *style) {
  if (value.kind == VALUE_MISSING || value.kind == VALUE_NONE) return;
  if (value.kind != VALUE_SEQUENCE || value.sequence->count != 2) {
    run_fail(run, "separators of tojson must be a pair of strings");
    return;
  }
  style->separator = argument_text(run, value.sequence->items[0], NULL);
  style->colon = argument_text(run, value.sequence->items[1], NULL);
}

static struct value filter_tojson(struct run *run, struct value value, const struct arguments *arguments) {
  struct value values[4];
  if (!arguments_bind(run, arguments, "tojson", "ensure_ascii,indent,separators,sort_keys", 0, values)) return value;
  struct json_style style = {.ascii = argument_truth(values[0], false), .sorted = argument_truth(values[3], false)};
  if (values[1].kind == VALUE_STRING) {
    style.indent = values[1].text;
  } else if (values[1].kind != VALUE_MISSING && values[1].kind != VALUE_NONE) {
    style.indent =
        text_pad(run, text_view(run, "", 0), argument_integer(run, values[1], 0), text_view(run, " ", 1), '<');
  }
  style.separator = style.indent ? text_view(run, ",", 1) : text_view(run, ", ", 2);
  style.colon = text_view(run, ": ", 2);
  json_separators(run, values[2], &style);
  struct buffer out = {0};
  if (!run->failed) print_json(run, value, &style, &out);
  const struct text *json = text_take(run, &out);
  buffer_free(&out);
  return value_text(json);
}

static const struct {
  const char *name;
  filter_body *body;
} FILTERS[] = {
    {"abs", filter_abs},           {"capitalize", filter_capitalize},
    {"center", filter_center},     {"count", filter_length},
    {"d", filter_default},         {"default", filter_default},
    {"dictsort", filter_dictsort}, {"e", filter_escape},
    {"escape", filter_escape},     {"first", filter_first},
    {"float", filter_float},       {"forceescape", filter_forceescape},
    {"format", filter_format},     {"indent", filter_indent},
    {"int", filter_int},           {"items", filter_items},
    {"join", filter_join},         {"last", filter_last},
    {"length", filter_length},     {"list", filter_list},
    {"lower", filter_lower},       {"map", filter_map},
    {"max", filter_max},           {"min", filter_min},
    {"reject", filter_reject},     {"rejectattr", filter_rejectattr},
    {"replace", filter_replace},   {"reverse", filter_reverse},
    {"round", filter_round},       {"safe", filter_safe},
    {"select", filter_select},     {"selectattr", filter_selectattr},
    {"sort", filter_sort},         {"string", filter_string},
    {"sum", filter_sum},           {"title", filter_title},
    {"tojson", filter_tojson},     {"trim", filter_trim},
    {"truncate", filter_truncate}, {"unique", filter_unique},
    {"upper", filter_upper},
};

int filter_find(const struct text *name) {
  for (size_t i = 0; i < sizeof FILTERS / sizeof *FILTERS; i++) {
    if (text_is(name, FILTERS[i].name)) return (int)i;
  }
  return -1;
}

struct value filter_apply(struct run *run, int which, struct value value, const struct arguments *arguments) {
  if (run->failed) return value_none();
  return FILTERS[which].body(run, value, arguments);
}

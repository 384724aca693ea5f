#include "text/jinja_format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja_attributes.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

enum { WIDEST = 1000 }; /* characters that a width or precision may ask for */

/* How one value is to be shown; what both ways of formatting have in common. */
struct style {
  const struct text *fill;
  char align; /* '<', '>', '^', '=' between sign and digits; 0: as the type has it */
  char sign;  /* '+', ' ' or '-' */
  bool alternate;
  char group;    /* ',' or '_' between thousands, or 0 */
  int width;     /* 0: none */
  int precision; /* -1: none */
  char type;     /* 0: none */
};

/* A number at the position; fails if it is unreasonably large. */
static int read_number(struct run *run, const struct text *format, size_t *at) {
  int number = 0;
  for (; *at < format->length && format->bytes[*at] >= '0' && format->bytes[*at] <= '9'; (*at)++) {
    number = number * 10 + (format->bytes[*at] - '0');
    if (number > WIDEST) {
      run_fail(run, "a format asks for more than %d characters", WIDEST);
      return 0;
    }
  }
  return number;
}

static void append_grouped(struct buffer *out, const char *digits, size_t length, char group) {
  size_t whole = strspn(digits, "0123456789");
  for (size_t i = 0; i < length; i++) {
    if (group && i > 0 && i < whole && (whole - i) % 3 == 0) buffer_append(out, &group, 1);
    buffer_append(out, digits + i, 1);
  }
}

/* Puts sign, prefix and digits together and pads them. */
static void append_number(struct run *run, bool negative, const char *prefix, const char *digits,
                          const struct style *style, struct buffer *out) {
  struct buffer head = {0}, number = {0};
  char sign = negative ? '-' : style->sign == '-' ? '\0' : style->sign;
  if (sign) buffer_append(&head, &sign, 1);
  buffer_append_text(&head, prefix);
  append_grouped(&number, digits, strlen(digits), style->group);
  char align = style->align ? style->align : '>';
  if (align == '=') {
    const struct text *padded = text_pad(run, text_make(run, buffer_text(&number), number.length),
                                         style->width - (int64_t)head.length, style->fill, '>');
    buffer_append(out, buffer_text(&head), head.length);
    buffer_append(out, padded->bytes, padded->length);
  } else {
    buffer_append(&head, buffer_text(&number), number.length);
    const struct text *padded =
        text_pad(run, text_make(run, buffer_text(&head), head.length), style->width, style->fill, align);
    buffer_append(out, padded->bytes, padded->length);
  }
  buffer_free(&head);
  buffer_free(&number);
}

static void append_integer(struct run *run, int64_t integer, const struct style *style, struct buffer *out) {
  uint64_t size = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
  char digits[80];
  const char *prefix = "";
  if (style->type == 'x' || style->type == 'X') {
    snprintf(digits, sizeof digits, style->type == 'x' ? "%" PRIx64 : "%" PRIX64, size);
    prefix = style->type == 'x' ? "0x" : "0X";
  } else if (style->type == 'o') {
    snprintf(digits, sizeof digits, "%" PRIo64, size);
    prefix = "0o";
  } else if (style->type == 'b') {
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
      digits[--at] = (char)('0' + (size & 1));
    } while (size >>= 1);
    memmove(digits, digits + at, sizeof digits - at);
    prefix = "0b";
  } else {
    snprintf(digits, sizeof digits, "%" PRIu64, size);
  }
  append_number(run, integer < 0, style->alternate ? prefix : "", digits, style, out);
}

static void append_float(struct run *run, double number, const struct style *style, struct buffer *out) {
  struct buffer digits = {0};
  double size = fabs(number);
  int precision = style->precision < 0 ? 6 : style->precision;
  char type = style->type;
  if (!isfinite(number)) {
    print_float(size, &digits);
  } else if (!type && style->precision < 0) {
    print_float(size, &digits);
  } else if (type == '%') {
    buffer_append_format(&digits, "%.*f%%", precision, size * 100);
  } else if (type == 'e' || type == 'E') {
    buffer_append_format(&digits, type == 'e' ? "%.*e" : "%.*E", precision, size);
  } else if (type == 'f' || type == 'F') {
    buffer_append_format(&digits, "%.*f", precision, size);
  } else {
    buffer_append_format(&digits, type == 'G' ? "%.*G" : "%.*g", precision, size);
    if (!type && !strpbrk(buffer_text(&digits), ".e")) buffer_append_text(&digits, ".0");
  }
  append_number(run, signbit(number) && !isnan(number), "", buffer_text(&digits), style, out);
  buffer_free(&digits);
}

static void append_text(struct run *run, const struct text *text, const struct style *style, struct buffer *out) {
  if (style->precision >= 0) text = text_part(run, text, 0, character_offset(text, (size_t)style->precision));
  text = text_pad(run, text, style->width, style->fill, style->align ? style->align : '<');
  buffer_append(out, text->bytes, text->length);
}

/* Whether the type character is one of these (a missing one is not). */
static bool type_in(const struct style *style, const char *types) {
  return style->type && strchr(types, style->type) != NULL;
}

static void append_styled(struct run *run, struct value value, const struct style *style, struct buffer *out) {
  int64_t integer = 0;
  double number = 0;
  if (value.kind == VALUE_STRING && (!style->type || style->type == 's') && style->align != '=') {
    append_text(run, value.text, style, out);
  } else if (value_is_number(value, &number) && (type_in(style, "eEfFgG%") || value.kind == VALUE_FLOAT) &&
             !type_in(style, "sdxXob")) {
    append_float(run, number, style, out);
  } else if (value_is_integer(value, &integer) && (!style->type || type_in(style, "dxXob"))) {
    append_integer(run, integer, style, out);
  } else {
    run_fail(run, "the format does not suit a value of type '%s'", value_type(value));
  }
}

/* [[fill]align][sign][#][0][width][grouping][.precision][type] */
static bool parse_style(struct run *run, const struct text *spec, struct style *style) {
  size_t at = 0;
  *style = (struct style){.fill = text_view(run, " ", 1), .sign = '-', .precision = -1};
  if (spec->length) {
    size_t first = character_size(spec->bytes);
    if (first < spec->length && strchr("<>^=", spec->bytes[first])) {
      style->fill = text_part(run, spec, 0, first);
      style->align = spec->bytes[first];
      at = first + 1;
    } else if (strchr("<>^=", spec->bytes[0])) {
      style->align = spec->bytes[at++];
    }
  }
  if (at < spec->length && strchr("+- ", spec->bytes[at])) style->sign = spec->bytes[at++];
  if (at < spec->length && spec->bytes[at] == '#') style->alternate = spec->bytes[at++];
  if (at < spec->length && spec->bytes[at] == '0') {
    if (!style->align) {
      style->align = '=';
      style->fill = text_view(run, "0", 1);
    }
    at++;
  }
  style->width = read_number(run, spec, &at);
  if (at < spec->length && (spec->bytes[at] == ',' || spec->bytes[at] == '_')) style->group = spec->bytes[at++];
  if (at < spec->length && spec->bytes[at] == '.') {
    at++;
    style->precision = read_number(run, spec, &at);
  }
  if (at < spec->length) style->type = spec->bytes[at++];
  if (at == spec->length && !run->failed) return true;
  run_fail(run, "the format '%.*s' is not supported", (int)spec->length, spec->bytes);
  return false;
}

/* The value that a field such as "0.name[key]" or "" stands for. */
static struct value field_value(struct run *run, const struct text *field, const struct arguments *arguments,
                                size_t *automatic) {
  size_t end = 0;
  while (end < field->length && field->bytes[end] != '.' && field->bytes[end] != '[') end++;
  const struct text *name = text_part(run, field, 0, end);
  struct value value = {.kind = VALUE_MISSING};
  size_t at = 0, index = end ? (size_t)read_number(run, name, &at) : (*automatic)++;
  if (at == end && index < arguments->count) value = arguments->positional[index];
  for (size_t i = 0; at < end && i < arguments->keyword_count; i++) {
    if (text_equal(arguments->keywords[i].name, name)) value = arguments->keywords[i].value;
  }
  if (value.kind == VALUE_MISSING) {
    run_fail(run, "no argument for the field {%.*s} of a format", (int)field->length, field->bytes);
    return value_none();
  }
  while (end < field->length && !run->failed) {
    bool bracket = field->bytes[end] == '[';
    size_t start = end + 1;
    for (end = start; end < field->length && field->bytes[end] != ']' && (bracket || field->bytes[end] != '.') &&
                      (bracket || field->bytes[end] != '[');) {
      end++;
    }
    const struct text *key = text_part(run, field, start, end);
    at = 0;
    size_t number = (size_t)read_number(run, key, &at);
    bool is_number = bracket && key->length && at == key->length;
    value = !bracket    ? value_attribute(run, value, key)
            : is_number ? value_item(run, value, value_integer((int64_t)number))
                        : value_item(run, value, value_text(key));
    if (bracket) end++;
  }
  return value;
}

static void append_field(struct run *run, const struct text *field, const struct arguments *arguments,
                         size_t *automatic, struct buffer *out) {
  const char *colon = memchr(field->bytes, ':', field->length);
  size_t end = colon ? (size_t)(colon - field->bytes) : field->length;
  const struct text *spec = text_part(run, field, colon ? end + 1 : end, field->length);
  char conversion = '\0';
  if (end >= 2 && field->bytes[end - 2] == '!') {
    conversion = field->bytes[end - 1];
    end -= 2;
  }
  struct style style;
  struct value value = field_value(run, text_part(run, field, 0, end), arguments, automatic);
  if (conversion == 'r') {
    struct buffer text = {0};
    print_repr(run, value, &text);
    value = value_text(text_take(run, &text));
    buffer_free(&text);
  } else if (conversion == 's' || !spec->length) {
    value = value_text(value_to_text(run, value));
  } else if (conversion) {
    run_fail(run, "the conversion !%c is not supported", conversion);
  }
  if (parse_style(run, spec, &style)) append_styled(run, value, &style, out);
}

const struct text *format_braces(struct run *run, const struct text *format, const struct arguments *arguments) {
  struct buffer out = {0};
  size_t automatic = 0;
  for (size_t at = 0; at < format->length && run_step(run, 1) && text_grows(run, &out);) {
    char c = format->bytes[at];
    bool doubled = at + 1 < format->length && format->bytes[at + 1] == c;
    if ((c == '{' || c == '}') && doubled) {
      buffer_append(&out, &c, 1);
      at += 2;
    } else if (c == '{') {
      const char *close = memchr(format->bytes + at, '}', format->length - at);
      size_t end = close ? (size_t)(close - format->bytes) : at;
      if (!close || memchr(format->bytes + at + 1, '{', end - at - 1)) {
        run_fail(run,
                 close ? "fields inside of fields of a format are not supported" : "a field of a format does not end");
        break;
      }
      append_field(run, text_part(run, format, at + 1, end), arguments, &automatic, &out);
      at = end + 1;
    } else if (c == '}') {
      run_fail(run, "a single '}' in a format");
    } else {
      buffer_append(&out, &c, 1);
      at++;
    }
  }
  const struct text *text = text_marked(run, text_take(run, &out), format->safe);
  buffer_free(&out);
  return text;
}

/* Where the next value of a % format comes from. */
struct operands {
  struct value operand;
  size_t next;
};

static struct value next_operand(struct run *run, struct operands *operands) {
  struct value operand = operands->operand;
  bool tuple = operand.kind == VALUE_SEQUENCE && operand.sequence->flavour == SEQUENCE_TUPLE;
  size_t index = operands->next++;
  if (tuple && index < operand.sequence->count) return operand.sequence->items[index];
  if (!tuple && index == 0) return operand;
  run_fail(run, "not enough arguments for a format");
  return value_none();
}

static struct value named_operand(struct run *run, const struct text *name, struct operands *operands) {
  if (operands->operand.kind != VALUE_MAPPING) {
    run_fail(run, "a format with names needs a mapping");
    return value_none();
  }
  operands->next = SIZE_MAX;
  const struct value *found = mapping_find(run, operands->operand.mapping, value_text(name));
  if (found) return *found;
  run_fail(run, "the mapping has no '%.*s' for a format", (int)name->length, name->bytes);
  return value_none();
}

static void append_conversion(struct run *run, struct value value, struct style *style, struct buffer *out) {
  double number = 0;
  int64_t integer = 0;
  if (style->type == 's' || style->type == 'r') {
    struct buffer text = {0};
    if (style->type == 'r') {
      print_repr(run, value, &text);
    } else {
      print_string(run, value, &text);
    }
    if (!style->align || style->align == '=') {
      style->align = '>';
      style->fill = text_view(run, " ", 1);
    }
    append_text(run, text_take(run, &text), style, out);
    buffer_free(&text);
  } else if (type_in(style, "diu") && value_is_number(value, &number)) {
    if (!value_is_integer(value, &integer)) integer = fabs(number) < 9e18 ? (int64_t)number : 0;
    style->type = 'd';
    append_integer(run, integer, style, out);
  } else if (type_in(style, "xXo") && value_is_integer(value, &integer)) {
    append_integer(run, integer, style, out);
  } else if (type_in(style, "eEfFgG") && value_is_number(value, &number)) {
    append_float(run, number, style, out);
  } else if (value.kind == VALUE_UNDEFINED) {
    value_fail_undefined(run, value);
  } else {
    run_fail(run, "the conversion %%%c does not suit a value of type '%s'", style->type ? style->type : ' ',
             value_type(value));
  }
}

/* After a '%' at `at`: one conversion. Returns the byte after it. */
static size_t format_conversion(struct run *run, const struct text *format, size_t at, struct operands *operands,
                                struct buffer *out) {
  struct style style = {.fill = text_view(run, " ", 1), .sign = '-', .precision = -1};
  const char *close = NULL;
  struct value value = {.kind = VALUE_MISSING};
  if (at < format->length && format->bytes[at] == '(' &&
      (close = memchr(format->bytes + at, ')', format->length - at)) != NULL) {
    size_t end = (size_t)(close - format->bytes);
    value = named_operand(run, text_part(run, format, at + 1, end), operands);
    at = end + 1;
  }
  for (; at < format->length && strchr("-+ 0#", format->bytes[at]); at++) {
    char flag = format->bytes[at];
    if (flag == '-') style.align = '<';
    if (flag == '+' || (flag == ' ' && style.sign != '+')) style.sign = flag;
    if (flag == '#') style.alternate = true;
    if (flag == '0' && !style.align) {
      style.align = '=';
      style.fill = text_view(run, "0", 1);
    }
  }
  if (style.align == '<') style.fill = text_view(run, " ", 1);
  style.width = read_number(run, format, &at);
  if (at < format->length && format->bytes[at] == '.') {
    at++;
    style.precision = read_number(run, format, &at);
  }
  if (at >= format->length) {
    run_fail(run, "a format ends in the middle of a conversion");
    return format->length;
  }
  style.type = format->bytes[at];
  if (style.type == '%') {
    buffer_append_text(out, "%");
  } else {
    if (value.kind == VALUE_MISSING) value = next_operand(run, operands);
    if (!run->failed) append_conversion(run, value, &style, out);
  }
  return at + 1;
}

const struct text *format_percent(struct run *run, const struct text *format, struct value operand) {
  struct operands operands = {operand, 0};
  struct buffer out = {0};
  for (size_t at = 0; at < format->length && run_step(run, 1) && text_grows(run, &out);) {
    if (format->bytes[at] == '%') {
      at = format_conversion(run, format, at + 1, &operands, &out);
    } else {
      buffer_append(&out, format->bytes + at++, 1);
    }
  }
  bool tuple = operand.kind == VALUE_SEQUENCE && operand.sequence->flavour == SEQUENCE_TUPLE;
  /* Python lets whatever has subscripts go unused, texts excepted. */
  bool subscripts = operand.kind == VALUE_MAPPING || operand.kind == VALUE_UNDEFINED ||
                    (operand.kind == VALUE_SEQUENCE && operand.sequence->flavour <= SEQUENCE_RANGE);
  bool unused = tuple ? operands.next < operand.sequence->count : operands.next == 0 && !subscripts;
  if (unused) run_fail(run, "not all arguments of a format are used");
  const struct text *text = text_marked(run, text_take(run, &out), format->safe);
  buffer_free(&out);
  return text;
}
